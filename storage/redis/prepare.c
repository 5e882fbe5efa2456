/* The thread that looks up addresses and reads files for a connection. */
#include "storage/redis/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    STACK_SIZE = 512 * 1024, /* the modules of the name service switch take some */
    ERROR_SIZE = 256
};

/* Owned by the connection and by the thread: the last of the two to leave frees it. */
struct redis_preparation {
    atomic_int owners;
    atomic_bool is_done; /* the thread has left, and does not use the fields below any more */
    int done_fd;         /* readable then */
    struct redis_host host;
    enum redis_transport transport;
    bool tls;
    const char *password_file;
    struct redis_tls_files tls_files;
    struct redis_prepared prepared;
    /* The connection's */
    struct loop *loop;
    struct loop_watch watch;
    void (*done)(void *arg);
    void *arg;
};

/* --- the password ------------------------------------------------------------------------- */

static bool fail(char *error, size_t error_size, const char *path, const char *why)
{
    snprintf(error, error_size, "%s: %s", path, why);
    return false;
}

/* At most `size` bytes; -1 with errno. */
static ssize_t read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = 0;

    if (fd < 0)
        return -1;
    do {
        n = read(fd, text + len, size - len);
        if (n > 0)
            len += (size_t)n;
    } while ((n > 0 && len < size) || (n < 0 && errno == EINTR));
    int error = errno;
    close(fd);
    errno = error;
    return n < 0 ? -1 : (ssize_t)len;
}

bool redis_password_read(const char *path, char password[REDIS_URL_PASSWORD_SIZE], char *error,
                         size_t error_size)
{
    char text[REDIS_URL_PASSWORD_SIZE + 2]; /* room for \r\n: a longer file is refused */
    ssize_t got = read_file(path, text, sizeof(text));

    if (got < 0)
        return fail(error, error_size, path, strerror(errno));
    size_t len = (size_t)got;
    if (len > 0 && text[len - 1] == '\n')
        len--;
    if (len > 0 && text[len - 1] == '\r')
        len--;
    bool fits = len < REDIS_URL_PASSWORD_SIZE && memchr(text, '\0', len) == NULL;
    if (len > 0 && fits) {
        memcpy(password, text, len);
        password[len] = '\0';
    }
    explicit_bzero(text, sizeof(text));
    if (len == 0)
        return fail(error, error_size, path, "is empty");
    return fits || fail(error, error_size, path, "is no password of at most 511 bytes");
}

/* --- the thread --------------------------------------------------------------------------- */

static void note_fault(struct redis_preparation *preparation, const char *fault,
                       const char *detail)
{
    preparation->prepared.fault = fault;
    snprintf(preparation->prepared.detail, sizeof(preparation->prepared.detail), "%s", detail);
}

static bool find_addresses(struct redis_preparation *preparation)
{
    struct redis_prepared *prepared = &preparation->prepared;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found;
    int code = getaddrinfo(preparation->host.host, NULL, &hints, &found);

    if (code != 0) {
        note_fault(preparation, "the name of Redis' host is not known", gai_strerror(code));
        return false;
    }
    for (const struct addrinfo *one = found;
         one != NULL && prepared->address_count < REDIS_ADDRESSES_MAX; one = one->ai_next)
        if (getnameinfo(one->ai_addr, one->ai_addrlen,
                        prepared->addresses[prepared->address_count], REDIS_ADDRESS_SIZE, NULL,
                        0, NI_NUMERICHOST) == 0)
            prepared->address_count++;
    freeaddrinfo(found);
    if (prepared->address_count == 0)
        note_fault(preparation, "the name of Redis' host is not known", "no address");
    return prepared->address_count > 0;
}

static bool needs_a_name(const struct redis_preparation *preparation)
{
    return preparation->transport == REDIS_TCP &&
           !redis_host_is_address(preparation->host.host);
}

static void prepare(struct redis_preparation *preparation)
{
    struct redis_prepared *prepared = &preparation->prepared;
    char error[ERROR_SIZE];

    if (preparation->password_file != NULL &&
        !redis_password_read(preparation->password_file, prepared->password, error,
                             sizeof(error))) {
        note_fault(preparation, "the password's file cannot be used", error);
        return;
    }
    if (preparation->tls) {
        prepared->trust = redis_trust_load(&preparation->tls_files, error, sizeof(error));
        if (prepared->trust == NULL) {
            note_fault(preparation, "the certificates for Redis cannot be read", error);
            return;
        }
    }
    if (needs_a_name(preparation)) {
        find_addresses(preparation);
        return;
    }
    prepared->address_count = 1;
    snprintf(prepared->addresses[0], REDIS_ADDRESS_SIZE, "%.*s", REDIS_ADDRESS_SIZE - 1,
             preparation->host.host);
}

/* --- life --------------------------------------------------------------------------------- */

static void leave(struct redis_preparation *preparation)
{
    if (atomic_fetch_sub(&preparation->owners, 1) > 1)
        return;
    close(preparation->done_fd);
    redis_trust_free(preparation->prepared.trust);
    explicit_bzero(preparation->prepared.password, sizeof(preparation->prepared.password));
    free(preparation);
}

static void announce(struct redis_preparation *preparation)
{
    const uint64_t one = 1;

    atomic_store(&preparation->is_done, true);
    while (write(preparation->done_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

static void *run(void *arg)
{
    struct redis_preparation *preparation = arg;

    prepare(preparation);
    announce(preparation);
    leave(preparation);
    return NULL;
}

/* A numeric address without files is there at once. */
static bool is_quick(const struct redis_preparation *preparation)
{
    return preparation->password_file == NULL && !preparation->tls &&
           !needs_a_name(preparation);
}

static bool begin(struct redis_preparation *preparation)
{
    pthread_attr_t attributes;
    pthread_t thread;

    if (is_quick(preparation)) {
        prepare(preparation);
        announce(preparation);
        return true;
    }
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    atomic_fetch_add(&preparation->owners, 1);
    bool ok = pthread_create(&thread, &attributes, run, preparation) == 0;
    if (!ok)
        atomic_fetch_sub(&preparation->owners, 1);
    pthread_attr_destroy(&attributes);
    return ok;
}

static void on_done(void *arg, uint32_t epoll_events)
{
    struct redis_preparation *preparation = arg;

    (void)epoll_events;
    loop_watch_remove(preparation->loop, &preparation->watch);
    preparation->loop = NULL;
    preparation->done(preparation->arg);
}

struct redis_preparation *redis_prepare(const struct redis_url *url, struct loop *loop,
                                        void (*done)(void *arg), void *arg)
{
    struct redis_preparation *preparation = calloc(1, sizeof(*preparation));

    if (preparation == NULL)
        return NULL;
    preparation->owners = 1;
    preparation->host = url->hosts[0];
    preparation->transport = url->transport;
    preparation->tls = url->tls;
    preparation->password_file = url->login.password_file;
    preparation->tls_files = url->tls_files;
    preparation->done = done;
    preparation->arg = arg;
    preparation->done_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    preparation->watch = (struct loop_watch){
        .fd = preparation->done_fd, .ready = on_done, .arg = preparation};
    if (preparation->done_fd >= 0 && loop_watch_add(loop, &preparation->watch, EPOLLIN) == 0) {
        preparation->loop = loop;
        if (begin(preparation))
            return preparation;
    }
    redis_preparation_free(preparation);
    return NULL;
}

const struct redis_prepared *redis_prepared(const struct redis_preparation *preparation)
{
    return atomic_load(&preparation->is_done) && preparation->loop == NULL
               ? &preparation->prepared
               : NULL;
}

bool redis_prepares_for(const struct redis_preparation *preparation,
                        const struct redis_url *url)
{
    return preparation->transport == url->transport && preparation->tls == url->tls &&
           preparation->password_file == url->login.password_file &&
           strcmp(preparation->host.host, url->hosts[0].host) == 0;
}

void redis_preparation_free(struct redis_preparation *preparation)
{
    if (preparation == NULL)
        return;
    if (preparation->loop != NULL)
        loop_watch_remove(preparation->loop, &preparation->watch);
    leave(preparation);
}
