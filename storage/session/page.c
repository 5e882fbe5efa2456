/* The pages of a session's notes, for looks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/text.h"
#include "server/base/token.h"
#include "storage/session/keep_alive.h"

static int compare(const char *id, uint32_t hash, const struct session_note *other)
{
    int order = memcmp(id, other->ref.text, LEASE_ID_SIZE - 1);

    return order != 0 ? order : (hash > other->hash) - (hash < other->hash);
}

/* Texts that are no refs come last. */
static int by_order(const void *left, const void *right)
{
    const struct session_note *a = left, *b = right;

    if (a->ref.lock_count == 0 || b->ref.lock_count == 0)
        return (a->ref.lock_count == 0) - (b->ref.lock_count == 0);
    return compare(a->ref.text, a->hash, b);
}

static bool is_in_page(const struct session_cursor *cursor, const struct session_note *note)
{
    return note->ref.lock_count > 0 &&
           (cursor->lease_id[0] == '\0' || compare(cursor->lease_id, cursor->hash, note) < 0);
}

static void swap(struct session_note *one, struct session_note *other)
{
    struct session_note kept = *one;

    *one = *other;
    *other = kept;
}

size_t session_page_choose(const struct session_cursor *cursor, struct session_notes *notes,
                           char next[LIST_CURSOR_SIZE])
{
    size_t count = 0;

    next[0] = '\0';
    for (size_t i = 0; i < notes->count; i++)
        notes->notes[i].hash = text_hash(notes->notes[i].ref.text, notes->notes[i].ref.len);
    if (notes->count > 1)
        qsort(notes->notes, notes->count, sizeof(notes->notes[0]), by_order);
    for (size_t i = 0; i < notes->count; i++) {
        if (!is_in_page(cursor, &notes->notes[i]))
            continue;
        if (count == cursor->limit) {
            const struct session_note *last = &notes->notes[count - 1];
            snprintf(next, LIST_CURSOR_SIZE, "%.*s.%08" PRIx32, LEASE_ID_SIZE - 1,
                     last->ref.text, last->hash);
            break;
        }
        swap(&notes->notes[count++], &notes->notes[i]);
    }
    return count;
}

int session_cursor_parse(struct session_cursor *cursor, const char *text)
{
    enum { ID_LEN = LEASE_ID_SIZE - 1, HASH_LEN = 8 };
    char id[LEASE_ID_SIZE];

    cursor->lease_id[0] = '\0';
    if (text[0] == '\0')
        return 0;
    if (strlen(text) != ID_LEN + 1 + HASH_LEN || text[ID_LEN] != '.' ||
        strspn(text + ID_LEN + 1, "0123456789abcdef") != HASH_LEN)
        return -1;
    snprintf(id, sizeof(id), "%.*s", ID_LEN, text);
    if (!token_parse(id, cursor->lease_id))
        return -1;
    cursor->hash = (uint32_t)strtoul(text + ID_LEN + 1, NULL, 16);
    return 0;
}
