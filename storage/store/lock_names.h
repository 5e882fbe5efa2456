/* The names of the objects of a lease: of one object, or of all locks of a set, sorted. One
 * copy is shared by reference counts. */
#ifndef RLOCKD_STORAGE_STORE_LOCK_NAMES_H
#define RLOCKD_STORAGE_STORE_LOCK_NAMES_H

#include <stddef.h>

enum { LOCKS_MAX = 32 };

struct lock_names {
    size_t refs, count;
    const char *name[]; /* as clients say them, in the order of their bytes */
};

/* Copies the names, 1 to LOCKS_MAX. The caller owns one reference. */
struct lock_names *lock_names_new(const char *const *names, size_t count);
struct lock_names *lock_names_of_one(const char *name);
/* Reads a text with a newline before each name (set_names.lua keeps it); each name begins with
 * a key prefix of `prefix_len` bytes. NULL: the text has no name, too many names, or a
 * name that is too long. */
struct lock_names *lock_names_parse(const char *text, size_t prefix_len);
/* One more reference; NULL stays NULL. */
struct lock_names *lock_names_ref(struct lock_names *names);
/* One reference less; without any the names are freed. */
void lock_names_unref(struct lock_names *names);

/* The text that lock_names_parse() reads, to be freed. */
char *lock_names_join(const struct lock_names *names, const char *prefix, size_t *len);
/* The first name that is there twice, or NULL. */
const char *lock_names_duplicate(const struct lock_names *names);

#endif
