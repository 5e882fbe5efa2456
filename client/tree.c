/* Finds the descendants of this process by a walk of /proc, and signals them. A parent-death
 * signal does not reach grandchildren, and a process group does not hold what called setsid().
 */
#include "client/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct entry {
    pid_t pid;
    pid_t parent;
    unsigned long long start; /* in ticks since boot: with pid it names a process for good */
    bool is_descendant;
    bool is_zombie;
};

struct list {
    struct entry *entries;
    size_t count, room;
};

/* proc_pid_stat(5): the name, in parentheses, may hold anything; field 3 comes after the last
 * parenthesis, the number of threads is field 20, and the start time is field 22. A process
 * whose main thread has ended counts as a zombie there, and its other threads may work on. */
static bool read_entry(pid_t pid, struct entry *entry)
{
    char path[64], text[1024];
    char state;
    int parent, threads;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    ssize_t len = read(file, text, sizeof(text) - 1);
    close(file);
    if (len <= 0) {
        return false;
    }
    text[len] = '\0';
    const char *rest = strrchr(text, ')');
    *entry = (struct entry){.pid = pid};
    if (!rest || sscanf(rest + 1,
                        " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                        "%d %*d %llu",
                        &state, &parent, &threads, &entry->start) != 4) {
        return false;
    }
    entry->parent = parent;
    entry->is_zombie = (state == 'Z' || state == 'X') && threads <= 1;
    return true;
}

static bool add(struct list *list, const struct entry *entry)
{
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 256;
        struct entry *entries = realloc(list->entries, room * sizeof(*entries));
        if (!entries) {
            return false;
        }
        list->entries = entries;
        list->room = room;
    }
    list->entries[list->count++] = *entry;
    return true;
}

static void read_all(struct list *list)
{
    DIR *proc = opendir("/proc");
    struct dirent *file;
    struct entry entry;

    while (proc && (file = readdir(proc))) {
        char *end;
        long pid = strtol(file->d_name, &end, 10);
        if (pid > 0 && !*end && read_entry((pid_t)pid, &entry) && !add(list, &entry)) {
            break;
        }
    }
    if (proc) {
        closedir(proc);
    }
}

static int by_pid(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;

    return (left->pid > right->pid) - (left->pid < right->pid);
}

/* Marks children of what is marked until nothing is added; a child mostly has a higher id than
 * its parent, so one round and one that finds nothing are the rule. */
static void mark(struct list *list, pid_t root)
{
    bool changed = true;

    qsort(list->entries, list->count, sizeof(*list->entries), by_pid);
    while (changed) {
        changed = false;
        for (size_t i = 0; i < list->count; i++) {
            struct entry *entry = &list->entries[i];
            if (entry->is_descendant) {
                continue;
            }
            struct entry key = {.pid = entry->parent};
            const struct entry *parent = bsearch(&key, list->entries, list->count, sizeof(key),
                                                 by_pid);
            if (entry->parent == root || (parent && parent->is_descendant)) {
                entry->is_descendant = true;
                changed = true;
            }
        }
    }
}

/* 0, or -1 with errno as kill(2) sets it. */
static int send_signal(const struct entry *entry, int signal)
{
    struct entry again;
    int process = (int)syscall(SYS_pidfd_open, entry->pid, 0);

    if (process < 0) {
        return errno == ENOSYS ? kill(entry->pid, signal) : -1;
    }
    int result = -1;
    errno = ESRCH;
    if (read_entry(entry->pid, &again) && again.start == entry->start) {
        result = (int)syscall(SYS_pidfd_send_signal, process, signal, NULL, 0);
    }
    int error = errno;
    close(process);
    errno = error;
    return result;
}

bool tree_is_visible(void)
{
    struct entry self;

    return read_entry(getpid(), &self);
}

pid_t tree_parent(pid_t pid)
{
    struct entry entry;

    return read_entry(pid, &entry) ? entry.parent : 0;
}

struct tree_count tree_signal(int signal)
{
    struct list list = {0};
    struct tree_count count = {0};

    read_all(&list);
    mark(&list, getpid());
    for (size_t i = 0; i < list.count; i++) {
        const struct entry *entry = &list.entries[i];
        if (!entry->is_descendant || entry->is_zombie) {
            continue;
        }
        if (send_signal(entry, signal) == 0) {
            count.reached++;
        } else if (errno == EPERM) {
            count.refused++;
        }
    }
    free(list.entries);
    return count;
}
