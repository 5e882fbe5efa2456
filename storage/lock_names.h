/* The names of several locks that one lease is of: sorted, and shared by whoever needs them. */
#ifndef RLOCKD_STORAGE_LOCK_NAMES_H
#define RLOCKD_STORAGE_LOCK_NAMES_H

#include <stddef.h>

enum { LOCKS_MAX = 32 };

struct lock_names {
    size_t refs, count;
    size_t in_the_way; /* number, from 1 on, of the one that somebody else held; 0: none yet */
    const char *name[LOCKS_MAX]; /* as clients say them, in the order of their bytes */
    char text[];
};

/* Copies the names, 1 to LOCKS_MAX. Whoever has it drops it. */
struct lock_names *lock_names_new(const char *const *names, size_t count);
/* Of a text with a newline before each name (lib/record.lua's names_of()), each of which begins
 * with a key prefix of `prefix_len` bytes. NULL: it has none, or too many. */
struct lock_names *lock_names_parse(const char *text, size_t prefix_len);
/* Another one to have it; NULL stays NULL. */
struct lock_names *lock_names_share(struct lock_names *names);
void lock_names_drop(struct lock_names *names);

/* The text that lock_names_parse() reads, to be freed. */
char *lock_names_join(const struct lock_names *names, const char *prefix, size_t *len);
/* The first name that is there twice, or NULL. */
const char *lock_names_twin(const struct lock_names *names);

#endif
