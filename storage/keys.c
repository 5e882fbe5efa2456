#include "storage/keys.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void append(struct key *key, const char *text, size_t len)
{
    assert(key->len + len < sizeof(key->text));
    memcpy(key->text + key->len, text, len);
    key->len += len;
    key->text[key->len] = '\0';
}

void key_for_lock(struct key *key, const char *prefix, const char *name, size_t name_len)
{
    /* Only the opening brace counts, as in Redisson. */
    bool braced = memchr(name, '{', name_len) != NULL;

    key->len = 0;
    append(key, prefix, strlen(prefix));
    append(key, ":{", braced ? 1 : 2);
    append(key, name, name_len);
    append(key, "}", braced ? 0 : 1);
}

void key_for_latch_channel(struct key *key, const char *name, size_t name_len)
{
    int len = snprintf(key->text, sizeof(key->text), "redisson_countdownlatch__channel__{%.*s}",
                       (int)name_len, name);

    assert(len > 0 && (size_t)len < sizeof(key->text));
    key->len = (size_t)len;
}

void key_for_fair_channel(struct key *key, const char *name, size_t name_len,
                          const char *lease_id)
{
    key_for_lock(key, KEY_CHANNEL, name, name_len);
    append(key, ":", 1);
    append(key, lease_id, strlen(lease_id));
    append(key, ":0", 2);
}

void key_for_timeouts(struct key *key, const char *name, size_t name_len)
{
    const char *form = memchr(name, '{', name_len) ? "%.*s:timeout" : "{%.*s}:timeout";
    int len = snprintf(key->text, sizeof(key->text), form, (int)name_len, name);

    assert(len > 0 && (size_t)len < sizeof(key->text));
    key->len = (size_t)len;
}

void key_for_id(struct key *key, const char *prefix, const char *id)
{
    key->len = 0;
    append(key, prefix, strlen(prefix));
    append(key, ":", 1);
    append(key, id, strlen(id));
}
