/* Reads, replaces and removes the file of a lease. */
#include "client/verbs/lease_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/say.h"
#include "client/status.h"
#include "client/values.h"

enum { TEXT_MAX = 8192, OPENS_MAX = 100 };

static const char *const state_words[] = {[LEASE_FILE_ACQUIRING] = "acquiring",
                                          [LEASE_FILE_HELD] = "held",
                                          [LEASE_FILE_RELEASING] = "releasing"};
enum { STATES = sizeof(state_words) / sizeof(*state_words) };

static int fail(const struct lease_file *file, const char *what)
{
    say("cannot %s %s: %s", what, file->path, strerror(errno));
    return STATUS_FAULT;
}

static bool take_members(struct lease_file *file, json_t *body)
{
    const char *lock, *kind, *token, *state;
    json_int_t ttl_ms;

    if (json_unpack(body, "{ss ss ss ss sI}", "lock", &lock, "kind", &kind, "lease_token",
                    &token, "state", &state, "ttl_ms", &ttl_ms) != 0 ||
        strlen(kind) >= sizeof(file->kind) || strlen(token) != TOKEN_SIZE - 1 ||
        token[strspn(token, "0123456789abcdef-")] != '\0' || ttl_ms < 1 ||
        ttl_ms > DURATION_MAX_MS) {
        return false;
    }
    for (int i = 0; i < STATES; i++) {
        if (strcmp(state, state_words[i]) == 0) {
            file->state = (enum lease_file_state)i;
            file->ttl_ms = ttl_ms;
            snprintf(file->kind, sizeof(file->kind), "%s", kind);
            snprintf(file->token, sizeof(file->token), "%s", token);
            free(file->lock);
            file->lock = strdup(lock);
            return file->lock != NULL;
        }
    }
    return false;
}

bool lease_file_parse(struct lease_file *file, const char *text, size_t len)
{
    json_t *body = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    bool is_ours = take_members(file, body);

    json_decref(body);
    return is_ours;
}

static int read_file(struct lease_file *file)
{
    char text[TEXT_MAX];
    ssize_t len = read(file->fd, text, sizeof(text));

    if (len < 0) {
        return fail(file, "read");
    }
    if (!lease_file_parse(file, text, (size_t)len)) {
        say("%s is no lease file of rlock", file->path);
        return STATUS_USAGE;
    }
    return 0;
}

/* Another rlock may have replaced or removed the file before this one had the lock. */
static bool is_current(const struct lease_file *file)
{
    struct stat opened, named;

    return fstat(file->fd, &opened) == 0 && stat(file->path, &named) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

int lease_file_open(struct lease_file *file, const char *path)
{
    *file = (struct lease_file){.path = path, .fd = -1};
    for (int i = 0; i < OPENS_MAX; i++) {
        file->fd = open(path, O_RDWR | O_CLOEXEC); /* NFS locks no other: flock(2) */
        if (file->fd < 0) {
            return errno == ENOENT ? 0 : fail(file, "open");
        }
        if (flock(file->fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK) {
                return fail(file, "lock");
            }
            break;
        }
        if (is_current(file)) {
            return read_file(file);
        }
        close(file->fd);
        file->fd = -1;
    }
    say("%s is in use by another rlock", path);
    return STATUS_BUSY;
}

void lease_file_close(struct lease_file *file)
{
    if (file->fd >= 0) {
        close(file->fd);
    }
    free(file->lock);
    *file = (struct lease_file){.fd = -1};
}

static bool write_text(const struct lease_file *file, int fd)
{
    json_t *body = json_pack("{ss ss ss ss sI}", "lock", file->lock, "kind", file->kind,
                             "lease_token", file->token, "state", state_words[file->state],
                             "ttl_ms", (json_int_t)file->ttl_ms);
    bool written = body && json_dumpfd(body, fd, JSON_INDENT(2)) == 0 && fsync(fd) == 0;

    json_decref(body);
    return written;
}

/* The name is on the disk when its folder is. */
static void sync_folder(const char *path)
{
    char *copy = strdup(path);
    int folder = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
    free(copy);
}

/* A first file must not replace that of an rlock which was faster. */
static bool put_in_place(const struct lease_file *file, const char *temporary)
{
    if (file->fd >= 0) {
        return rename(temporary, file->path) == 0;
    }
    return link(temporary, file->path) == 0 && unlink(temporary) == 0;
}

int lease_file_write(struct lease_file *file)
{
    char *temporary = NULL;

    if (asprintf(&temporary, "%s.XXXXXX", file->path) < 0) {
        return STATUS_FAULT;
    }
    int fd = mkostemp(temporary, O_CLOEXEC); /* mode 600 */
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 || !write_text(file, fd) ||
        !put_in_place(file, temporary)) {
        int status = fail(file, "write");
        if (fd >= 0) {
            unlink(temporary);
            close(fd);
        }
        free(temporary);
        return status;
    }
    free(temporary);
    sync_folder(file->path);
    if (file->fd >= 0) {
        close(file->fd);
    }
    file->fd = fd;
    return 0;
}

void lease_file_remove(struct lease_file *file)
{
    if (file->fd >= 0 && unlink(file->path) != 0) {
        say("cannot remove %s: %s", file->path, strerror(errno));
    }
    lease_file_close(file);
}
