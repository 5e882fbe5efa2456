#include "storage/keys.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void key_for_lock(struct key *key, const char *prefix, const char *name, size_t name_len)
{
    /* Only the opening brace counts, as in Redisson. */
    const char *form = memchr(name, '{', name_len) ? "%s:%.*s" : "%s:{%.*s}";
    int len = snprintf(key->text, sizeof(key->text), form, prefix, (int)name_len, name);

    assert(len > 0 && (size_t)len < sizeof(key->text));
    key->len = (size_t)len;
}

void key_for_id(struct key *key, const char *prefix, const char *id)
{
    int len = snprintf(key->text, sizeof(key->text), "%s:%s", prefix, id);

    assert(len > 0 && (size_t)len < sizeof(key->text));
    key->len = (size_t)len;
}
