/* The inbox of a loop: a list behind a mutex, and the eventfd that wakes its receiver. */
#include "server/base/inbox.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct inbox {
    struct loop *loop;
    struct loop_watch watch;
    pthread_mutex_t mutex;
    /* Behind the mutex. */
    struct inbox_message *first, **end;
    size_t count;
    bool is_closed;
};

static void on_ready(void *arg, uint32_t epoll_events)
{
    (void)epoll_events; /* each write is an event: nothing has to be read */
    inbox_deliver(arg);
}

struct inbox *inbox_new(struct loop *loop)
{
    struct inbox *inbox = calloc(1, sizeof(*inbox));

    if (inbox == NULL)
        return NULL;
    inbox->loop = loop;
    inbox->end = &inbox->first;
    pthread_mutex_init(&inbox->mutex, NULL);
    inbox->watch = (struct loop_watch){
        .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .ready = on_ready, .arg = inbox};
    if (inbox->watch.fd < 0 || loop_watch_add(loop, &inbox->watch, EPOLLIN | EPOLLET) != 0) {
        inbox_free(inbox);
        return NULL;
    }
    return inbox;
}

void inbox_free(struct inbox *inbox)
{
    assert(inbox->first == NULL);
    if (inbox->watch.fd >= 0) {
        loop_watch_remove(inbox->loop, &inbox->watch);
        close(inbox->watch.fd);
    }
    pthread_mutex_destroy(&inbox->mutex);
    free(inbox);
}

/* Nothing reads the counter of the descriptor, and nothing can fill it. */
static void wake(const struct inbox *inbox)
{
    uint64_t one = 1;

    while (write(inbox->watch.fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* Behind the mutex. The receiver that takes the first message takes all: one wake-up is enough.
 */
static bool append(struct inbox *inbox, struct inbox_message *message)
{
    bool was_empty = inbox->first == NULL;

    message->next = NULL;
    *inbox->end = message;
    inbox->end = &message->next;
    inbox->count++;
    return was_empty;
}

bool inbox_post(struct inbox *inbox, struct inbox_message *message)
{
    bool was_empty = false;

    pthread_mutex_lock(&inbox->mutex);
    bool is_taken = !inbox->is_closed && inbox->count < INBOX_MAX;
    if (is_taken)
        was_empty = append(inbox, message);
    pthread_mutex_unlock(&inbox->mutex);
    if (was_empty)
        wake(inbox);
    return is_taken;
}

void inbox_return(struct inbox *inbox, struct inbox_message *message)
{
    pthread_mutex_lock(&inbox->mutex);
    bool was_empty = append(inbox, message);
    pthread_mutex_unlock(&inbox->mutex);
    if (was_empty)
        wake(inbox);
}

void inbox_close(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->mutex);
    inbox->is_closed = true;
    pthread_mutex_unlock(&inbox->mutex);
}

void inbox_deliver(struct inbox *inbox)
{
    struct inbox_message *message, *next;

    pthread_mutex_lock(&inbox->mutex);
    message = inbox->first;
    inbox->first = NULL;
    inbox->end = &inbox->first;
    inbox->count = 0;
    pthread_mutex_unlock(&inbox->mutex);
    for (; message != NULL; message = next) {
        next = message->next;
        message->deliver(message);
    }
}
