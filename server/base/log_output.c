/* Non-blocking writes to standard error, with a backlog of kept lines. */
#include "server/base/log_output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/base/clock.h"

/* The first text that is kept is kept whole, since a part of it may be written: a buffer's
 * worth and one long line fit above the limit. */
enum { KEPT_MAX = 1024 * 1024, KEPT_SIZE = KEPT_MAX + 512 * 1024 };

enum manner {
    WRITE_PLAIN,    /* a file: never waits for a reader */
    WRITE_REOPENED, /* a pipe or terminal under a description of our own, which does not wait */
    WRITE_SOCKET,
    WRITE_POLLED /* an output that cannot be opened again: poll(2) tells how much to write */
};

static struct {
    pthread_mutex_t mutex;
    enum manner manner;
    int fd;
    size_t kept_len;
    bool is_failing;        /* the last write failed: no reader is left, or the disk is full */
    bool is_midline;        /* the last byte that was written ends no line */
    bool is_torn;           /* and the rest of that line was dropped */
    uint64_t dropped_since; /* since a write last took all text */
    atomic_bool is_keeping; /* kept_len > 0 */
    atomic_uint_fast64_t dropped;
    char kept[KEPT_SIZE];
} output = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fd = STDERR_FILENO};

void log_output_open(void)
{
    struct stat info;

    pthread_mutex_lock(&output.mutex);
    if (output.fd != STDERR_FILENO)
        close(output.fd);
    output.fd = STDERR_FILENO;
    output.manner = WRITE_PLAIN;
    output.is_midline = output.is_torn = false;
    if (fstat(STDERR_FILENO, &info) != 0 || S_ISREG(info.st_mode)) {
        pthread_mutex_unlock(&output.mutex);
        return;
    }
    if (S_ISSOCK(info.st_mode)) {
        output.manner = WRITE_SOCKET;
    } else {
        /* O_NONBLOCK on standard error itself would also hold for other processes that share
         * it. */
        int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        output.manner = fd >= 0 ? WRITE_REOPENED : WRITE_POLLED;
        output.fd = fd >= 0 ? fd : STDERR_FILENO;
    }
    pthread_mutex_unlock(&output.mutex);
}

static ssize_t write_polled(const char *text, size_t len)
{
    struct pollfd writable = {.fd = output.fd, .events = POLLOUT};

    if (poll(&writable, 1, 0) <= 0) {
        errno = EAGAIN;
        return -1;
    }
    return write(output.fd, text, len < PIPE_BUF ? len : PIPE_BUF);
}

static ssize_t write_once(const char *text, size_t len)
{
    switch (output.manner) {
    case WRITE_PLAIN:
    case WRITE_REOPENED:
        break;
    case WRITE_SOCKET:
        return send(output.fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    case WRITE_POLLED:
        return write_polled(text, len);
    }
    return write(output.fd, text, len);
}

/* Ends the torn line first: else the text would be a part of it. */
static ssize_t write_next(const char *text, size_t len)
{
    ssize_t written;

    if (output.is_torn) {
        written = write_once("\n", 1);
        if (written <= 0)
            return written;
        output.is_midline = output.is_torn = false;
    }
    written = write_once(text, len);
    if (written > 0)
        output.is_midline = text[written - 1] != '\n';
    return written;
}

static void drop(const char *text, size_t len)
{
    uint64_t lines = 0;

    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    output.dropped_since += lines;
    atomic_fetch_add(&output.dropped, lines);
}

/* How many bytes of the text need no further write: written, or dropped because the write
 * failed. */
static size_t write_some(const char *text, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t written = write_next(text + done, len - done);
        if (written >= 0) {
            done += (size_t)written;
            output.is_failing = false;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return done;
        } else if (errno != EINTR) {
            drop(text + done, len - done);
            output.is_failing = true;
            output.is_torn = output.is_midline;
            return len;
        }
    }
    return done;
}

static void set_kept_len(size_t len)
{
    output.kept_len = len;
    atomic_store(&output.is_keeping, len > 0);
}

static void write_kept(void)
{
    size_t done = write_some(output.kept, output.kept_len);

    if (done == 0)
        return;
    memmove(output.kept, output.kept + done, output.kept_len - done);
    set_kept_len(output.kept_len - done);
}

static void keep(const char *text, size_t len)
{
    size_t max = output.kept_len == 0 ? KEPT_SIZE : KEPT_MAX;

    if (output.kept_len + len > max) {
        drop(text, len);
        return;
    }
    memcpy(output.kept + output.kept_len, text, len);
    set_kept_len(output.kept_len + len);
}

void log_output_write(const char *text, size_t len)
{
    pthread_mutex_lock(&output.mutex);
    if (output.kept_len > 0)
        write_kept();
    size_t done = output.kept_len == 0 ? write_some(text, len) : 0;
    if (done < len)
        keep(text + done, len - done);
    pthread_mutex_unlock(&output.mutex);
}

void log_output_retry(void)
{
    if (!atomic_load_explicit(&output.is_keeping, memory_order_relaxed))
        return;
    pthread_mutex_lock(&output.mutex);
    write_kept();
    pthread_mutex_unlock(&output.mutex);
}

bool log_output_resumed(uint64_t *dropped)
{
    /* Nothing was ever dropped: the usual case, which costs no lock. */
    if (atomic_load_explicit(&output.dropped, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&output.mutex);
    *dropped = output.kept_len == 0 && !output.is_failing ? output.dropped_since : 0;
    if (*dropped > 0)
        output.dropped_since = 0;
    pthread_mutex_unlock(&output.mutex);
    return *dropped > 0;
}

uint64_t log_output_dropped(void)
{
    return atomic_load_explicit(&output.dropped, memory_order_relaxed);
}

void log_output_finish(int timeout_ms)
{
    int64_t end_ns = clock_ns() + timeout_ms * CLOCK_NS_PER_MS, left_ns;

    while (atomic_load(&output.is_keeping) && (left_ns = end_ns - clock_ns()) > 0) {
        struct pollfd writable = {.fd = output.fd, .events = POLLOUT};
        poll(&writable, 1, (int)(left_ns / CLOCK_NS_PER_MS) + 1);
        log_output_retry();
    }
}
