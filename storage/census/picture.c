/* A picture of the census, in memory and as text. */
#include "storage/census/picture.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/text.h"

enum { NUMBER_SIZE = 24 };

void picture_copy(struct census_picture *to, const struct census_picture *from)
{
    to->count = from->count;
    memcpy(to->entries, from->entries, from->count * sizeof(from->entries[0]));
}

bool picture_add(struct census_picture *picture, const struct census_entry *entry)
{
    size_t at = picture->count;

    for (size_t i = 0; i < picture->count; i++)
        if (strcmp(picture->entries[i].name, entry->name) == 0)
            return false;
    while (at > 0 && picture->entries[at - 1].since_ms > entry->since_ms)
        at--;
    if (at == CENSUS_ENTRIES_MAX)
        return true;
    if (picture->count < CENSUS_ENTRIES_MAX)
        picture->count++;
    memmove(&picture->entries[at + 1], &picture->entries[at],
            (picture->count - 1 - at) * sizeof(*entry));
    picture->entries[at] = *entry;
    return true;
}

static bool is_same(enum census_kind kind, const struct census_entry *one,
                    const struct census_entry *other)
{
    if (strcmp(one->name, other->name) != 0)
        return false;
    if (kind == CENSUS_WAITED)
        return true;
    return strcmp(one->who, other->who) == 0 && one->at_least == other->at_least &&
           (one->at_least || one->since_ms == other->since_ms);
}

struct census_entry *picture_find(struct census_picture *picture, enum census_kind kind,
                                  const struct census_entry *entry)
{
    for (size_t i = 0; i < picture->count; i++)
        if (is_same(kind, &picture->entries[i], entry))
            return &picture->entries[i];
    return NULL;
}

char *picture_text(const struct census_picture *picture)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    assert(out != NULL);
    for (size_t i = 0; i < picture->count; i++) {
        const struct census_entry *entry = &picture->entries[i];
        fprintf(out, "%" PRId64 " %d %d %s %s %s\n", entry->since_ms, entry->at_least,
                entry->is_told, entry->kind, entry->who, entry->name);
    }
    fclose(out);
    assert(text != NULL);
    return text;
}

/* Copies the text up to `end` and steps over that. False: it is not there, or does not fit. */
static bool take(const char **text, char end, char *out, size_t out_size)
{
    const char *at = strchr(*text, end);
    size_t len = at != NULL ? (size_t)(at - *text) : 0;

    if (len == 0 || len >= out_size)
        return false;
    memcpy(out, *text, len);
    out[len] = '\0';
    *text = at + 1;
    return true;
}

static bool take_flag(const char **text, bool *flag)
{
    char word[2];

    if (!take(text, ' ', word, sizeof(word)))
        return false;
    *flag = word[0] == '1';
    return true;
}

static bool take_entry(const char **text, struct census_entry *entry)
{
    char since[NUMBER_SIZE];

    return take(text, ' ', since, sizeof(since)) && text_parse_int64(since, &entry->since_ms) &&
           entry->since_ms >= 0 && take_flag(text, &entry->at_least) &&
           take_flag(text, &entry->is_told) &&
           take(text, ' ', entry->kind, sizeof(entry->kind)) &&
           take(text, ' ', entry->who, sizeof(entry->who)) &&
           take(text, '\n', entry->name, sizeof(entry->name));
}

void picture_parse(struct census_picture *picture, const char *text)
{
    struct census_entry entry;

    picture->count = 0;
    while (picture->count < CENSUS_ENTRIES_MAX && take_entry(&text, &entry))
        picture->entries[picture->count++] = entry;
}
