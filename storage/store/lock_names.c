/* The allocation, the order and the reference count of a lease's names. */
#include "storage/store/lock_names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store/lease.h"

static int compare(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The texts stand behind the pointers to them. */
static char *text_of(struct lock_names *names)
{
    return (char *)&names->name[names->count];
}

static struct lock_names *with_room_for(size_t count, size_t text_size)
{
    struct lock_names *names = malloc(sizeof(*names) + count * sizeof(names->name[0]) +
                                      text_size);

    assert(names != NULL);
    names->refs = 1;
    names->count = count;
    return names;
}

struct lock_names *lock_names_new(const char *const *given, size_t count)
{
    size_t size = 0;

    assert(count >= 1 && count <= LOCKS_MAX);
    for (size_t i = 0; i < count; i++)
        size += strlen(given[i]) + 1;
    struct lock_names *names = with_room_for(count, size);
    char *text = text_of(names);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(given[i]);
        memcpy(text, given[i], len + 1);
        names->name[i] = text;
        text += len + 1;
    }
    if (count > 1)
        qsort(names->name, count, sizeof(names->name[0]), compare);
    return names;
}

struct lock_names *lock_names_of_one(const char *name)
{
    return lock_names_new(&name, 1);
}

struct lock_names *lock_names_parse(const char *text, size_t prefix_len)
{
    size_t count = 0, len = strlen(text);

    for (const char *at = text; *at != '\0'; at++)
        count += *at == '\n';
    if (count < 1 || count > LOCKS_MAX || text[0] != '\n')
        return NULL;
    struct lock_names *names = with_room_for(count, len + 1);
    char *name = text_of(names);
    memcpy(name, text, len + 1);
    for (size_t i = 0; i < count; i++) {
        *name++ = '\0'; /* the newline */
        size_t name_len = strcspn(name, "\n");
        size_t cut_len = prefix_len <= name_len ? prefix_len : name_len;
        if (name_len - cut_len >= LOCK_NAME_SIZE) {
            lock_names_unref(names); /* a record that no rlockd wrote */
            return NULL;
        }
        names->name[i] = name + cut_len;
        name += name_len;
    }
    return names;
}

struct lock_names *lock_names_ref(struct lock_names *names)
{
    if (names != NULL)
        names->refs++;
    return names;
}

void lock_names_unref(struct lock_names *names)
{
    if (names != NULL && --names->refs == 0)
        free(names);
}

char *lock_names_join(const struct lock_names *names, const char *prefix, size_t *len)
{
    size_t prefix_len = strlen(prefix), size = 1;

    for (size_t i = 0; i < names->count; i++)
        size += 1 + prefix_len + strlen(names->name[i]);
    char *text = malloc(size), *at = text;
    assert(text != NULL);
    for (size_t i = 0; i < names->count; i++) {
        size_t name_len = strlen(names->name[i]);
        *at++ = '\n';
        memcpy(at, prefix, prefix_len);
        memcpy(at + prefix_len, names->name[i], name_len);
        at += prefix_len + name_len;
    }
    *at = '\0';
    *len = size - 1;
    return text;
}

const char *lock_names_duplicate(const struct lock_names *names)
{
    for (size_t i = 1; i < names->count; i++)
        if (strcmp(names->name[i - 1], names->name[i]) == 0)
            return names->name[i];
    return NULL;
}
