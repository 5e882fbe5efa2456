#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/text.h"
#include "storage/lock_store_internal.h"

enum {
    LIST_LIMIT_MAX = 1000,
    SCAN_COUNT = 200,   /* keys that Redis visits in one go: well below a millisecond */
    SCAN_ROUNDS = 50,   /* a page visits no more than 10,000 keys */
    PAGE_MAX_MS = 1000, /* and takes no longer, so that a slow Redis makes pages short */
    PATTERN_SIZE = 2 * KEY_NAME_MAX + 2
};

/* A page under way: rounds of SCAN, each followed by a look at what it found. The cursor that
 * clients get is the one that a round began with and how many of its keys are done with, so
 * that a page ends anywhere in a round and loses nothing. */
struct page {
    struct lock_store *store;
    lock_list_done *done;
    void *arg;
    char pattern[PATTERN_SIZE];
    size_t limit;
    uint64_t round_cursor, next_cursor;
    size_t skip;      /* keys of this round that an earlier page has dealt with */
    size_t looked_at; /* keys of this round that are dealt with, the skipped ones included */
    size_t rounds;
    int64_t started_ns;
    size_t looks_pending;
    enum lock_outcome outcome;
    size_t count;
    struct lock_list_entry entries[];
};

static void scan(struct page *page);

static void finish(struct page *page)
{
    struct lock_list list = {
        .outcome = page->outcome, .count = page->count, .entries = page->entries};
    bool round_done = page->looked_at == SIZE_MAX;

    if (!round_done)
        snprintf(list.next_cursor, sizeof(list.next_cursor), "%" PRIu64 ".%zu",
                 page->round_cursor, page->looked_at);
    else if (page->next_cursor != 0)
        snprintf(list.next_cursor, sizeof(list.next_cursor), "%" PRIu64 ".0",
                 page->next_cursor);
    page->done(page->arg, &list);
    free(page);
}

static void end_round(struct page *page)
{
    if (page->outcome != LOCK_LOOKED || page->looked_at != SIZE_MAX || page->next_cursor == 0 ||
        page->count == page->limit || ++page->rounds == SCAN_ROUNDS ||
        clock_ns() - page->started_ns > PAGE_MAX_MS * CLOCK_NS_PER_MS) {
        finish(page);
        return;
    }
    page->round_cursor = page->next_cursor;
    page->skip = 0;
    scan(page);
}

/* One candidate: an entry of the page, kept only if it turns out to be a held lock. */
struct candidate {
    struct page *page;
    char name[LOCK_NAME_SIZE];
};

static void on_candidate(void *arg, const struct lock_view *view)
{
    struct candidate *candidate = arg;
    struct page *page = candidate->page;

    if (view->outcome == LOCK_LOOKED && view->locked) {
        struct lock_list_entry *entry = &page->entries[page->count++];
        memcpy(entry->name, candidate->name, sizeof(entry->name));
        entry->view = *view;
        memcpy(entry->holders, view->holders, view->holders_shown * sizeof(view->holders[0]));
        entry->view.holders = entry->holders;
        entry->view.waiters = NULL;
    } else if (view->outcome != LOCK_LOOKED && view->outcome != LOCK_WRONG_KIND) {
        page->outcome = view->outcome;
    }
    free(candidate);
    if (--page->looks_pending == 0)
        end_round(page);
}

/* Looks at a key that may be a lock; false when its name cannot be one. */
static bool look_at(struct page *page, const char *key, size_t len)
{
    static const struct lock_look_wish wish = {.holders_max = LIST_HOLDERS_SHOWN};
    const char *prefix = page->store->options.config->key_prefix;
    size_t prefix_len = strlen(prefix);

    if (len <= prefix_len || len - prefix_len >= LOCK_NAME_SIZE || !text_is_utf8(key, len) ||
        text_has_control(key, len))
        return false;
    struct candidate *candidate = malloc(sizeof(*candidate));
    assert(candidate != NULL);
    candidate->page = page;
    memcpy(candidate->name, key + prefix_len, len - prefix_len);
    candidate->name[len - prefix_len] = '\0';
    page->looks_pending++;
    lock_look(page->store, candidate->name, &wish, on_candidate, candidate);
    return true;
}

static void on_scanned(void *arg, const struct redis_result *result)
{
    struct page *page = arg;
    const struct redisReply *keys = redis_reply_at(result->reply, 1);
    size_t len;

    page->outcome = lock_outcome_of(result);
    if (page->outcome != LOCK_LOOKED) {
        page->looked_at = SIZE_MAX;
        finish(page);
        return;
    }
    page->next_cursor = strtoull(redis_reply_text(redis_reply_at(result->reply, 0), &len), NULL,
                                 10);
    size_t i = page->skip;
    /* As many as there is room for, as if every one were a lock. */
    for (; i < redis_reply_count(keys) && page->count + page->looks_pending < page->limit;
         i++) {
        const char *key = redis_reply_text(redis_reply_at(keys, i), &len);
        look_at(page, key, len);
    }
    page->looked_at = i < redis_reply_count(keys) ? i : SIZE_MAX;
    if (page->looks_pending == 0)
        end_round(page);
}

static void scan(struct page *page)
{
    char cursor[24], count[24];

    snprintf(cursor, sizeof(cursor), "%" PRIu64, page->round_cursor);
    snprintf(count, sizeof(count), "%d", SCAN_COUNT);
    const char *argv[] = {"SCAN",  cursor, "MATCH", page->pattern,
                          "COUNT", count,  "TYPE",  "hash"};
    size_t lens[8];
    for (size_t i = 0; i < 8; i++)
        lens[i] = strlen(argv[i]);
    redis_command(page->store->options.redis, 8, argv, lens, on_scanned, page);
}

/* Every character of the prefix stands for itself. */
static void make_pattern(char *out, const char *prefix)
{
    for (; *prefix != '\0'; prefix++) {
        if (strchr("*?[]\\^-", *prefix) != NULL)
            *out++ = '\\';
        *out++ = *prefix;
    }
    memcpy(out, "*", 2);
}

int lock_parse_cursor(const char *cursor, uint64_t *scan_cursor, size_t *skip)
{
    char rest;

    *scan_cursor = 0;
    *skip = 0;
    if (cursor[0] == '\0')
        return 0;
    if (strspn(cursor, "0123456789.") != strlen(cursor) ||
        sscanf(cursor, "%" SCNu64 ".%zu%c", scan_cursor, skip, &rest) != 2)
        return -1;
    return 0;
}

int lock_list(struct lock_store *store, const char *prefix, size_t limit, const char *cursor,
              lock_list_done *done, void *arg)
{
    uint64_t round_cursor;
    size_t skip;
    char key_prefix[KEY_NAME_MAX + 1];

    if (lock_parse_cursor(cursor, &round_cursor, &skip) != 0)
        return -1;
    assert(limit >= 1 && limit <= LIST_LIMIT_MAX);
    struct page *page = calloc(1, sizeof(*page) + limit * sizeof(page->entries[0]));
    assert(page != NULL);
    page->store = store;
    page->done = done;
    page->arg = arg;
    page->limit = limit;
    page->started_ns = clock_ns();
    page->round_cursor = round_cursor;
    page->skip = skip;
    page->looked_at = skip;
    lock_store_key_name(store, prefix, key_prefix, sizeof(key_prefix));
    make_pattern(page->pattern, key_prefix);
    scan(page);
    return 0;
}
