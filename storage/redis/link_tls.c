/* A connection with TLS. hiredis 0.14 would read and write its socket in the clear, so it gets
 * a socket without a peer. Received bytes are decrypted and put into hiredis' reader; the
 * commands in hiredis' buffer are taken out and encrypted. */
#include <fcntl.h>
#include <hiredis/sds.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "storage/redis/link_internal.h"

enum {
    RECORD_SIZE = 16384,
    RECORDS_PER_TURN = 8 /* read; a flood of replies must not starve the loop */
};

static void on_socket(void *arg, uint32_t epoll_events);

/* --- the handshake ------------------------------------------------------------------------ */

static void handshake(struct redis_link *link)
{
    switch (tls_session_handshake(link->tls.session)) {
    case TLS_DONE:
        link->tls.is_secure = true;
        link->tls.is_unread = tls_session_has_unread(link->tls.session);
        link->tls.secured(link);
        break;
    case TLS_WAITS_TO_READ:
        redis_link_watch_events(link, EPOLLIN);
        break;
    case TLS_WAITS_TO_WRITE:
        redis_link_watch_events(link, EPOLLOUT);
        break;
    case TLS_FAILED:
        redis_link_reconnect(link, tls_session_fault(link->tls.session));
        break;
    }
}

/* Puts a socket that never has data in the place of `fd`, and returns the socket that was
 * there; -1: no descriptors. A write to the new socket fails, so that no byte can leave in the
 * clear. */
static int replace_socket(int fd)
{
    int stand_in = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int real = stand_in < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (real >= 0 && dup3(stand_in, fd, O_CLOEXEC) < 0) {
        close(real);
        real = -1;
    }
    if (stand_in >= 0)
        close(stand_in);
    return real;
}

void redis_link_begin_tls(struct redis_link *link, void (*secured)(struct redis_link *link))
{
    const struct redis_url *url = link->options.url;
    const char *name = url->tls_files.server_name;
    struct loop *loop = link->options.loop;

    link->tls.secured = secured;
    loop_watch_remove(loop, &link->socket);
    link->socket = (struct loop_watch){
        .fd = replace_socket(link->context->c.fd), .ready = on_socket, .arg = link};
    if (link->socket.fd >= 0)
        link->tls.session = tls_session_new(
            link->socket.fd, redis_prepared(link->attempt.preparation)->trust,
            name != NULL && name[0] != '\0' ? name : url->hosts[0].host);
    /* The handshake begins when the loop finds the socket writable: here hiredis is about to
     * write what it has gathered, which must be nothing. */
    link->watched_events = EPOLLOUT;
    if (link->tls.session != NULL && loop_watch_add(loop, &link->socket, EPOLLOUT) == 0)
        return;
    link->socket.fd = -1; /* closed, or never there */
    redis_link_reconnect(link, "there is no memory or descriptor for TLS to Redis");
}

void redis_link_end_tls(struct redis_link *link)
{
    tls_session_free(link->tls.session);
    link->tls.session = NULL;
    link->tls.is_secure = false;
    link->tls.is_unread = false;
}

/* --- records ------------------------------------------------------------------------------ */

static void read_records(struct redis_link *link)
{
    char data[RECORD_SIZE];
    ssize_t len;
    int records = 0;
    bool is_fed = false;

    /* The loop tells when there are more bytes in the socket. */
    do {
        len = tls_session_receive(link->tls.session, data, sizeof(data));
        if (len > 0)
            is_fed = redisReaderFeed(link->context->c.reader, data, (size_t)len) == REDIS_OK;
    } while (len >= 0 && ++records < RECORDS_PER_TURN &&
             tls_session_has_unread(link->tls.session));
    link->tls.is_unread = len >= 0 && tls_session_has_unread(link->tls.session);
    if (link->tls.is_unread)
        loop_again(link->options.loop);
    if (is_fed)
        redisAsyncHandleRead(
            link->context); /* hiredis finds its socket empty, and runs callbacks */
    if (link->context == NULL)
        return;
    if (len < 0)
        redis_link_reconnect(link, tls_session_fault(link->tls.session));
    else if (redis_guard_is_flooded(&link->guard))
        redis_link_reconnect(link, "Redis sends a reply without an end");
}

static void on_socket(void *arg, uint32_t epoll_events)
{
    struct redis_link *link = arg;

    if (link->context == NULL || link->give_up)
        return;
    if (!link->tls.is_secure)
        handshake(link);
    else if ((epoll_events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0)
        read_records(link);
}

void redis_link_write_records(struct redis_link *link)
{
    redisContext *context = &link->context->c;
    ssize_t sent = tls_session_send(link->tls.session, context->obuf, sdslen(context->obuf));

    if (sent < 0) {
        redis_link_reconnect(link, tls_session_fault(link->tls.session));
        return;
    }
    if (sent > 0)
        redis_link_drop_sent(link, (size_t)sent);
    link->write_wanted = sdslen(context->obuf) > 0;
}

void redis_link_turn_tls(struct redis_link *link)
{
    if (!link->tls.is_secure)
        return;
    if (link->tls.is_unread) {
        read_records(link);
        loop_again(link->options.loop); /* for the hooks that came before this one */
    }
    if (link->context == NULL || link->give_up)
        return;
    if (link->write_wanted)
        redis_link_write_records(link);
    redis_link_note_written(link); /* also what was sent in the midst of the turn */
    redis_link_watch_events(link, link->write_wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}
