#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/objects/lock_store_internal.h"

enum {
    LIST_LIMIT_MAX = 1000,
    SKIP_MAX = 1000000, /* far more keys than one round of SCAN brings */
    SCAN_COUNT = 50,    /* keys that Redis visits in one go: some ten microseconds */
    SCAN_ROUNDS = 200,  /* a page visits about 10,000 keys */
    LOOKS_MAX = 50,     /* at once: Redis serves others between two batches */
    PAGE_MAX_MS = 1000, /* and takes no longer, so that a slow Redis makes pages short */
    PATTERN_SIZE = 2 * KEY_NAME_MAX + 2
};

/* A page under way: rounds of SCAN, each followed by a look at the keys that it found. The
 * cursor for clients has the scanned node, the cursor at the beginning of the round, and the
 * number of its keys that are dealt with: so a page may end in the middle of a round and misses
 * no key. */
struct page {
    struct lock_store *store;
    lock_list_done *done;
    void *arg;
    char pattern[PATTERN_SIZE];
    size_t limit;
    struct topology_node *node; /* that is scanned, and its number among them */
    size_t node_number;
    uint64_t round_cursor, next_cursor;
    size_t skip;      /* keys of this round that an earlier page has dealt with */
    size_t looked_at; /* keys of this round that are dealt with, the skipped ones included */
    size_t rounds;
    int64_t started_ns;
    size_t looks_pending;
    enum call_outcome outcome;
    size_t count;
    struct lock_list_entry entries[];
};

static void scan(struct page *page);

static void finish(struct page *page, bool is_last)
{
    struct lock_list list = {
        .outcome = page->outcome, .count = page->count, .entries = page->entries};

    if (!is_last)
        snprintf(list.next_cursor, sizeof(list.next_cursor), "%zu.%" PRIu64 ".%zu",
                 page->node_number, page->round_cursor, page->looked_at);
    page->done(page->arg, &list);
    free(page);
}

/* Begins the next round of SCAN, on the next node after the last round of a node. False: there
 * is no further round. */
static bool begin_next_round(struct page *page)
{
    if (page->next_cursor == 0) {
        page->node = topology_next_node(page->store->options.topology, page->node);
        page->node_number++;
    }
    page->round_cursor = page->next_cursor;
    page->skip = 0;
    page->looked_at = 0;
    return page->node != NULL;
}

static void end_round(struct page *page)
{
    bool round_done = page->looked_at == SIZE_MAX;

    if (page->outcome != CALL_DONE || (round_done && !begin_next_round(page)))
        finish(page, true);
    else if (page->count == page->limit || ++page->rounds == SCAN_ROUNDS ||
             clock_ns() - page->started_ns > PAGE_MAX_MS * CLOCK_NS_PER_MS)
        finish(page, false);
    else {
        page->skip = page->looked_at; /* the rest of a round that has more than one batch */
        scan(page);
    }
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

    if (view->outcome == CALL_DONE && view->locked) {
        struct lock_list_entry *entry = &page->entries[page->count++];
        memcpy(entry->name, candidate->name, sizeof(entry->name));
        entry->view = *view;
        memcpy(entry->holders, view->holders, view->holders_shown * sizeof(view->holders[0]));
        entry->view.holders = entry->holders;
        entry->view.waiters = NULL;
    } else if (view->outcome != CALL_DONE && view->outcome != CALL_WRONG_TYPE) {
        page->outcome = view->outcome;
    }
    free(candidate);
    if (--page->looks_pending == 0)
        end_round(page);
}

/* Looks at a key that may be a lock; false when its name cannot be one. */
static bool look_at(struct page *page, const char *key, size_t len)
{
    static const struct lock_query query = {.holders_max = LIST_HOLDERS_SHOWN};
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
    lock_get(page->store, candidate->name, &query, on_candidate, candidate);
    return true;
}

static void on_scanned(void *arg, const struct redis_result *result)
{
    struct page *page = arg;
    const struct redis_value *keys = value_at(result->reply, 1);
    size_t len;

    page->outcome = call_outcome_of(result);
    if (page->outcome != CALL_DONE) {
        finish(page, true);
        return;
    }
    page->next_cursor = strtoull(value_text(value_at(result->reply, 0), &len), NULL, 10);
    size_t i = page->skip;
    /* The number of keys to look at: as many as fit into the page if every key is a lock. */
    for (; i < value_count(keys) && page->looks_pending < LOOKS_MAX &&
           page->count + page->looks_pending < page->limit;
         i++) {
        const char *key = value_text(value_at(keys, i), &len);
        look_at(page, key, len);
    }
    page->looked_at = i < value_count(keys) ? i : SIZE_MAX;
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
    const struct redis_command command = {.argc = 8, .argv = argv, .lens = lens};
    topology_node_command(page->store->options.topology, page->node, &command, on_scanned,
                          page);
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
    size_t digits = strspn(cursor, "0123456789");
    int64_t skipped;

    *scan_cursor = 0;
    *skip = 0;
    if (cursor[0] == '\0')
        return 0;
    if (digits == 0 || cursor[digits] != '.' ||
        !text_parse_int64(cursor + digits + 1, &skipped) || skipped < 0 || skipped > SKIP_MAX)
        return -1;
    errno = 0; /* strtoull() wraps or saturates: only errno tells a number that is too large */
    *scan_cursor = strtoull(cursor, NULL, 10);
    *skip = (size_t)skipped;
    return errno == 0 ? 0 : -1;
}

/* Reads "<number of the node>.<cursor there>"; "" is the start. Non-zero: it is neither. */
static int find_start(struct page *page, const char *cursor)
{
    struct topology *topology = page->store->options.topology;
    char *rest = (char *)cursor;

    if (cursor[0] >= '0' && cursor[0] <= '9') {
        page->node_number = strtoul(cursor, &rest, 10);
        if (rest[0] != '.' || *++rest == '\0')
            return -1;
    }
    if (lock_parse_cursor(rest, &page->round_cursor, &page->skip) != 0)
        return -1;
    page->looked_at = page->skip;
    page->node = topology_next_node(topology, NULL);
    if (page->node == NULL)
        return 0; /* none is known yet: the first command will say so */
    for (size_t i = 0; i < page->node_number && page->node != NULL; i++)
        page->node = topology_next_node(topology, page->node);
    return page->node != NULL ? 0 : -1;
}

/* When memory is short the page is shorter; the client continues with its cursor. */
static struct page *page_new(size_t limit)
{
    struct page *page;

    do {
        page = calloc(1, sizeof(*page) + limit * sizeof(page->entries[0]));
        if (page != NULL)
            page->limit = limit;
        limit /= 2;
    } while (page == NULL && limit > 0);
    assert(page != NULL);
    return page;
}

int lock_list(struct lock_store *store, const char *prefix, size_t limit, const char *cursor,
              lock_list_done *done, void *arg)
{
    char key_prefix[KEY_NAME_MAX + 1];

    assert(limit >= 1 && limit <= LIST_LIMIT_MAX);
    struct page *page = page_new(limit);
    page->store = store;
    page->done = done;
    page->arg = arg;
    page->started_ns = clock_ns();
    if (find_start(page, cursor) != 0) {
        free(page);
        return -1;
    }
    lock_store_key_name(store, prefix, key_prefix, sizeof(key_prefix));
    make_pattern(page->pattern, key_prefix);
    scan(page);
    return 0;
}
