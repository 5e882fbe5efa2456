/* The keys of the simulated Redis, their values and their ends. */
#include "tests/sim/keyspace.h"

#include <stdlib.h>
#include <string.h>

static void free_items(struct value *value)
{
    for (size_t i = 0; i < value->count; i++) {
        free(value->items[i].text.text);
        free(value->items[i].value.text);
    }
    free(value->items);
}

void keyspace_drop(struct keyspace *keyspace, struct value *value)
{
    HASH_DEL(keyspace->values, value);
    free_items(value);
    free(value);
}

/* Redis takes a key as over when its end lies before now, not at that very ms. */
struct value *keyspace_find(struct keyspace *keyspace, struct bytes key, int64_t now_ms)
{
    struct value *value;

    HASH_FIND(hh, keyspace->values, key.text, key.len, value);
    if (value == NULL || value->end_ms == NO_END || value->end_ms >= now_ms)
        return value;
    keyspace_drop(keyspace, value);
    return NULL;
}

struct value *keyspace_make(struct keyspace *keyspace, struct bytes key, enum value_type type)
{
    struct value *value = zalloc(sizeof(*value) + key.len + 1);

    value->type = type;
    value->end_ms = NO_END;
    value->key_len = key.len;
    memcpy(value->key, key.text, key.len);
    HASH_ADD(hh, keyspace->values, key, value->key_len, value);
    return value;
}

void keyspace_move(struct keyspace *from, struct keyspace *to, struct value *value)
{
    HASH_DEL(from->values, value);
    HASH_ADD(hh, to->values, key, value->key_len, value);
}

void keyspace_expire(struct keyspace *keyspace, int64_t now_ms)
{
    struct value *value, *next;

    HASH_ITER(hh, keyspace->values, value, next) {
        if (value->end_ms != NO_END && value->end_ms < now_ms)
            keyspace_drop(keyspace, value);
    }
}

void keyspace_clear(struct keyspace *keyspace)
{
    struct value *value, *next;

    HASH_ITER(hh, keyspace->values, value, next) {
        keyspace_drop(keyspace, value);
    }
}

struct keyspace keyspace_copy(const struct keyspace *keyspace)
{
    struct keyspace copy = {0};

    for (const struct value *from = keyspace->values; from != NULL; from = from->hh.next) {
        struct bytes key = {(char *)from->key, from->key_len};
        struct value *value = keyspace_make(&copy, key, from->type);
        value->end_ms = from->end_ms;
        for (size_t i = 0; i < from->count; i++) {
            struct item *item = value_insert(value, i, from->items[i].text);
            if (from->items[i].value.text != NULL)
                item_set_value(item, from->items[i].value);
            item->score = from->items[i].score;
        }
    }
    return copy;
}

long value_find(const struct value *value, struct bytes text)
{
    for (size_t i = 0; i < value->count; i++)
        if (bytes_equal(value->items[i].text, text))
            return (long)i;
    return -1;
}

struct item *value_insert(struct value *value, size_t at, struct bytes text)
{
    if (value->count == value->size) {
        value->size = value->size ? 2 * value->size : 4;
        value->items = reallocarray(value->items, value->size, sizeof(*value->items));
        if (value->items == NULL)
            abort();
    }
    struct item *item = value->items + at;
    memmove(item + 1, item, (value->count - at) * sizeof(*item));
    value->count++;
    *item = (struct item){.text = bytes_copy(text)};
    return item;
}

void value_remove(struct value *value, size_t at)
{
    struct item *item = value->items + at;

    free(item->text.text);
    free(item->value.text);
    value->count--;
    memmove(item, item + 1, (value->count - at) * sizeof(*item));
}

void item_set_value(struct item *item, struct bytes text)
{
    struct bytes copy = bytes_copy(text); /* may be the old one */

    free(item->value.text);
    item->value = copy;
}

size_t value_place(const struct value *value, struct bytes text, double score)
{
    size_t at = 0;

    while (at < value->count &&
           (value->items[at].score < score || (value->items[at].score == score &&
                                               bytes_compare(value->items[at].text, text) < 0)))
        at++;
    return at;
}
