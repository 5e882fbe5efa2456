/* The clients of a flood: sockets, and how far the answer of each has come. */
#include "flood.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness_world.h"

enum {
    HEAD_MAX = 2048,
    READ_SIZE = 64 * 1024,
    EVENTS = 256,
    ASKED_MS = 1000,
    STALL_MS = 500, /* half of what rlockd waits for a server of a quorum */
    STALL_SEEN_MS =
        5000, /* rlockd has a connection to Redis again, even if an attempt failed */
    STATUSES = 600
};

struct flooder {
    int fd;
    struct flood_guest *guest; /* NULL: a stranger */
    const char *request;
    int expected;      /* of a guest: the status */
    bool is_repeating; /* that request, as the machine stood still */
    size_t sent_at;
    char head[HEAD_MAX + 1];
    size_t head_len, body_left;
    bool has_head;
};

/* How late the machine was then. */
struct look {
    int64_t at_ms, late_ms;
};

struct flood {
    struct front *front;
    int epoll_fd;
    struct flooder *strangers;
    size_t stranger_count, answers;
    size_t answers_by_status[STATUSES];
    struct look before, last; /* at least STALL_SEEN_MS apart */
};

static void flood_undo(void *thing)
{
    struct flood *flood = thing;

    for (size_t i = 0; i < flood->stranger_count; i++)
        close(flood->strangers[i].fd);
    close(flood->epoll_fd);
}

/* ---- one connection ---- */

static void connect_one(struct flood *flood, struct flooder *flooder)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)flood->front->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = flooder};
    int one = 1;

    flooder->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (flooder->fd < 0 || connect(flooder->fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        FAIL("cannot connect to port %d: %s", flood->front->port, strerror(errno));
    setsockopt(flooder->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (epoll_ctl(flood->epoll_fd, EPOLL_CTL_ADD, flooder->fd, &event) != 0)
        FAIL("epoll_ctl: %s", strerror(errno));
}

static void send_next(struct flood *flood, struct flooder *flooder)
{
    struct flood_guest *guest = flooder->guest;

    if (guest != NULL && !flooder->is_repeating)
        flooder->request = guest->request(flood->front->world, guest, guest->count,
                                          &flooder->expected);
    flooder->head_len = flooder->body_left = 0;
    flooder->has_head = false;
    flooder->sent_at = flood->answers;
    size_t left = strlen(flooder->request);
    for (const char *rest = flooder->request; left > 0;) {
        ssize_t n = send(flooder->fd, rest, left, MSG_NOSIGNAL);
        if (n <= 0)
            FAIL("send to port %d: %s", flood->front->port, strerror(errno));
        rest += n;
        left -= (size_t)n;
    }
}

static size_t body_len(const char *head)
{
    const char *field = strcasestr(head, "\nContent-Length:");

    return field != NULL ? (size_t)atoi(field + strlen("\nContent-Length:")) : 0;
}

/* Takes what came. True: that was the end of the answer. */
static bool take(struct flooder *flooder, const char *data, size_t len)
{
    if (!flooder->has_head) {
        size_t part = len < HEAD_MAX - flooder->head_len ? len : HEAD_MAX - flooder->head_len;
        size_t had = flooder->head_len;
        memcpy(flooder->head + had, data, part);
        flooder->head_len += part;
        flooder->head[flooder->head_len] = '\0';
        const char *end = strstr(flooder->head, "\r\n\r\n");
        if (end == NULL)
            return false;
        flooder->has_head = true;
        flooder->body_left = body_len(flooder->head);
        len -= (size_t)(end + 4 - flooder->head) - had;
    }
    flooder->body_left -= len < flooder->body_left ? len : flooder->body_left;
    return flooder->body_left == 0;
}

static void look_at_machine(struct flood *flood)
{
    int64_t at_ms = now_ms();

    if (at_ms - flood->last.at_ms < STALL_SEEN_MS)
        return;
    flood->before = flood->last;
    flood->last = (struct look){.at_ms = at_ms, .late_ms = late_ms()};
}

/* Without a processor Redis answers nobody in time, and a 503 says nothing of the flood:
 * neither that of the request which waited, nor the next until rlockd is connected again. */
static bool is_of_a_late_machine(const struct flood *flood, int status)
{
    return status == 503 && late_ms() - flood->before.late_ms > STALL_MS;
}

/* What the request did that had no answer is done: a repetition is 200 instead of 201. */
static bool is_expected(const struct flooder *flooder, int status)
{
    return status == flooder->expected || (flooder->is_repeating && status == 200);
}

static void note_answer(struct flood *flood, struct flooder *flooder)
{
    struct flood_guest *guest = flooder->guest;
    int status = atoi(flooder->head + strlen("HTTP/1.1 "));

    if (guest == NULL) {
        if (status <= 0 || status >= STATUSES)
            FAIL("a stranger's answer has no status: %.40s", flooder->head);
        flood->answers++;
        flood->answers_by_status[status]++;
        return;
    }
    if (is_of_a_late_machine(flood, status)) {
        flooder->is_repeating = true;
        return;
    }
    if (!is_expected(flooder, status))
        FAIL("%s: %d instead of %d: %s", guest->name, status, flooder->expected, flooder->head);
    flooder->is_repeating = false;
    if (guest->count < FLOOD_SAMPLES)
        guest->between[guest->count] = flood->answers - flooder->sent_at;
    guest->count++;
}

static void read_one(struct flood *flood, struct flooder *flooder)
{
    static char data[READ_SIZE];
    ssize_t n = recv(flooder->fd, data, sizeof(data), MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        FAIL("%s: closed after %zu answers",
             flooder->guest != NULL ? flooder->guest->name : "a stranger", flood->answers);
    if (!take(flooder, data, (size_t)n))
        return;
    note_answer(flood, flooder);
    send_next(flood, flooder);
}

/* ---- all of them ---- */

struct flood *flood_open(struct front *fe, size_t connections, const char *const *requests,
                         size_t count)
{
    struct flood *flood = world_alloc(fe->world, sizeof(*flood));

    flood->front = fe;
    flood->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    flood->strangers = world_alloc(fe->world, connections * sizeof(*flood->strangers));
    world_defer(fe->world, flood_undo, flood);
    for (size_t i = 0; i < connections; i++) {
        flood->strangers[i].request = requests[i % count];
        connect_one(flood, &flood->strangers[i]);
        flood->stranger_count++;
    }
    return flood;
}

static void poll_once(struct flood *flood)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(flood->epoll_fd, events, EVENTS, 50);

    for (int i = 0; i < count; i++)
        read_one(flood, events[i].data.ptr);
}

static bool have_all(struct flood_guest **guests, size_t guest_count, size_t answers)
{
    for (size_t i = 0; i < guest_count; i++)
        if (guests[i]->count < answers)
            return false;
    return true;
}

void flood_run(struct flood *flood, struct flood_guest **guests, size_t guest_count,
               size_t answers, bool (*is_over)(void *arg), void *arg, int64_t ms)
{
    struct flooder *flooders = world_alloc(flood->front->world,
                                           guest_count * sizeof(*flooders));
    int64_t asked_ms = now_ms();
    struct patience patience = patience_of(ms);
    bool was_over = false;

    flood->last = (struct look){.at_ms = asked_ms, .late_ms = late_ms()};
    flood->before = flood->last;
    for (size_t i = 0; i < flood->stranger_count; i++)
        send_next(flood, &flood->strangers[i]);
    for (size_t i = 0; i < guest_count; i++) {
        flooders[i].guest = guests[i];
        connect_one(flood, &flooders[i]);
        send_next(flood, &flooders[i]);
    }
    while (!was_over || !have_all(guests, guest_count, answers)) {
        look_at_machine(flood);
        poll_once(flood);
        if (!was_over && now_ms() - asked_ms >= ASKED_MS) {
            was_over = is_over(arg);
            asked_ms = now_ms();
        }
        if (patience_ends(&patience))
            FAIL("the guests have not been answered %zu times, or the flood did not end",
                 answers);
    }
    for (size_t i = 0; i < guest_count; i++)
        close(flooders[i].fd);
}

size_t flood_answers(const struct flood *flood, int status)
{
    return flood->answers_by_status[status];
}

void flood_print(const struct flood *flood)
{
    print_message("%zu answers to strangers\n", flood->answers);
    for (int i = 0; i < STATUSES; i++)
        if (flood->answers_by_status[i] > 0)
            print_message("%d: %zu\n", i, flood->answers_by_status[i]);
}

static int compare(const void *a, const void *b)
{
    const size_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

double flood_rounds(const struct flood *flood, struct flood_guest *guest)
{
    size_t count = guest->count < FLOOD_SAMPLES ? guest->count : FLOOD_SAMPLES;

    qsort(guest->between, count, sizeof(guest->between[0]), compare);
    return (double)guest->between[count / 2] / (double)flood->stranger_count;
}
