/* The listing of locks: pages of SCAN, and a look at each key that is found. */
#include "storage/look/locks.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/store/store_call.h"

enum {
    SKIP_MAX = 1000000, /* far more keys than one round of SCAN brings */
    SCAN_COUNT = 50,    /* keys that Redis visits in one go: some ten microseconds */
    SCAN_ROUNDS = 200,  /* a page visits about 10,000 keys */
    LOOKS_MAX = 4,      /* at once: Redis and this worker serve others between them */
    PAGE_MAX_MS = 1000, /* and takes no longer, so that a slow Redis makes pages short */
    PATTERN_SIZE = 2 * KEY_NAME_MAX + 2
};

/* A page under way: rounds of SCAN, and a look at each key that a round found. The
 * cursor for clients has the scanned node, the cursor at the beginning of the round, and the
 * number of its keys that are dealt with: so a page may end in the middle of a round and misses
 * no key. */
struct page {
    struct store *store;
    lock_listed *listed;
    lock_list_done *done;
    void *arg;
    char pattern[PATTERN_SIZE];
    size_t limit;
    struct topology_node *node; /* that is scanned, and its number among them */
    size_t node_number;
    uint64_t round_cursor, next_cursor;
    size_t skip;  /* keys of this round that an earlier page has dealt with */
    char **names; /* of this round; NULL: the key's name cannot be a lock's */
    size_t name_count, next_name;
    size_t rounds;
    int64_t started_ns;
    size_t looks_pending;
    enum call_outcome outcome;
    size_t count;
};

static void scan(struct page *page);

static void drop_names(struct page *page)
{
    for (size_t i = 0; i < page->name_count; i++)
        free(page->names[i]);
    free(page->names);
    page->names = NULL;
    page->name_count = 0;
    page->next_name = 0;
}

static void finish(struct page *page, bool is_last)
{
    struct lock_list list = {.outcome = page->outcome};

    if (!is_last)
        snprintf(list.next_cursor, sizeof(list.next_cursor), "%zu.%" PRIu64 ".%zu",
                 page->node_number, page->round_cursor, page->next_name);
    page->done(page->arg, &list);
    drop_names(page);
    free(page);
}

/* Begins the next round of SCAN, on the next node after the last round of a node. False: there
 * is no further round. */
static bool begin_next_round(struct page *page)
{
    if (page->next_cursor == 0) {
        page->node = topology_next_node(store_topology(page->store), page->node);
        page->node_number++;
    }
    page->round_cursor = page->next_cursor;
    page->skip = 0;
    drop_names(page);
    return page->node != NULL;
}

static void end_round(struct page *page)
{
    bool round_done = page->next_name == page->name_count;

    if (page->outcome != CALL_DONE || (round_done && !begin_next_round(page)))
        finish(page, true);
    else if (page->count == page->limit || ++page->rounds == SCAN_ROUNDS ||
             clock_ns() - page->started_ns > PAGE_MAX_MS * CLOCK_NS_PER_MS)
        finish(page, false);
    else
        scan(page);
}

/* One look: a lock of the page, if it turns out to be held. */
struct candidate {
    struct page *page;
    const char *name; /* of the round, which lasts as long as its looks */
};

static void look_on(struct page *page);

static void on_candidate(void *arg, const struct lock_view *view)
{
    struct candidate *candidate = arg;
    struct page *page = candidate->page;

    if (view->outcome == CALL_DONE && view->locked) {
        page->count++;
        page->listed(page->arg, candidate->name, view);
    } else if (view->outcome != CALL_DONE && view->outcome != CALL_WRONG_TYPE) {
        page->outcome = view->outcome;
    }
    free(candidate);
    page->looks_pending--;
    look_on(page);
}

static void look_at(struct page *page, const char *name)
{
    static const struct lock_query query = {.holders_max = LIST_HOLDERS_SHOWN};
    struct candidate *candidate = malloc(sizeof(*candidate));

    assert(candidate != NULL);
    *candidate = (struct candidate){.page = page, .name = name};
    page->looks_pending++;
    lock_get(page->store, name, &query, on_candidate, candidate);
}

/* As many as there is room for in the page, as if every one were a lock. */
static void look_on(struct page *page)
{
    while (page->outcome == CALL_DONE && page->next_name < page->name_count &&
           page->looks_pending < LOOKS_MAX && page->count + page->looks_pending < page->limit) {
        const char *name = page->names[page->next_name++];
        if (name != NULL)
            look_at(page, name);
    }
    if (page->looks_pending == 0)
        end_round(page);
}

/* A copy of the name that clients say for a key; NULL: it is no lock's. */
static char *name_of(const struct page *page, const struct redis_value *key)
{
    size_t len, prefix_len = strlen(store_config(page->store)->key_prefix);
    const char *text = value_text(key, &len);

    if (len <= prefix_len || len - prefix_len >= LOCK_NAME_SIZE || !text_is_utf8(text, len) ||
        text_has_control(text, len))
        return NULL;
    char *name = strdup(text + prefix_len);
    assert(name != NULL);
    return name;
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
    page->name_count = value_count(keys);
    page->names = calloc(page->name_count + 1, sizeof(*page->names));
    assert(page->names != NULL);
    page->next_name = page->skip < page->name_count ? page->skip : page->name_count;
    for (size_t i = page->next_name; i < page->name_count; i++)
        page->names[i] = name_of(page, value_at(keys, i));
    look_on(page);
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
    topology_node_command(store_topology(page->store), page->node, &command, on_scanned, page);
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

/* Reads "<cursor of SCAN>.<answers to skip>"; "" is the start. Non-zero: it is neither. */
static int parse_cursor(const char *cursor, uint64_t *scan_cursor, size_t *skip)
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
    struct topology *topology = store_topology(page->store);
    char *rest = (char *)cursor;

    if (cursor[0] >= '0' && cursor[0] <= '9') {
        page->node_number = strtoul(cursor, &rest, 10);
        if (rest[0] != '.' || *++rest == '\0')
            return -1;
    }
    if (parse_cursor(rest, &page->round_cursor, &page->skip) != 0)
        return -1;
    page->node = topology_next_node(topology, NULL);
    if (page->node == NULL)
        return 0; /* none is known yet: the first command will say so */
    for (size_t i = 0; i < page->node_number && page->node != NULL; i++)
        page->node = topology_next_node(topology, page->node);
    return page->node != NULL ? 0 : -1;
}

int lock_list(struct store *store, const char *prefix, size_t limit, const char *cursor,
              lock_listed *listed, lock_list_done *done, void *arg)
{
    char key_prefix[KEY_NAME_MAX + 1];
    struct page *page = calloc(1, sizeof(*page));

    assert(page != NULL && limit >= 1);
    page->store = store;
    page->listed = listed;
    page->done = done;
    page->arg = arg;
    page->limit = limit;
    page->started_ns = clock_ns();
    if (find_start(page, cursor) != 0) {
        free(page);
        return -1;
    }
    store_key_name(store, prefix, key_prefix, sizeof(key_prefix));
    make_pattern(page->pattern, key_prefix);
    scan(page);
    return 0;
}
