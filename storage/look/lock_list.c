/* The listings of locks and of semaphores: pages of SCAN, and a look at each key. */
#include "storage/look/locks.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/look/lock_scan.h"
#include "storage/look/permits_get.h"
#include "storage/store/store_call.h"

enum {
    /* Keys that Redis visits in one go: some 25 microseconds. After a round with few names it
     * visits twice as many, for most of a round's time is the way to Redis and back; the most
     * take as long as a script of the watchdog. */
    SCAN_COUNT = 100,
    SCAN_COUNT_MAX = 800,
    KEYS_MAX = 10000,  /* that a page visits */
    LOOKS_MAX = 8,     /* at once: Redis and this worker serve others between them */
    PAGE_MAX_MS = 1000 /* and takes no longer, so that a slow Redis makes pages short */
};

/* A page under way: rounds of SCAN, and a look at each key that a round found. A page ends
 * before a round for whose keys it has no room: when the round is repeated, keys may be gone,
 * and nothing says how far it went the first time. If the page is empty, the round gets
 * smaller. Where even one bucket of Redis' table has more keys than a page may have, the keys
 * are taken in the order of their hashes, and the next page goes on behind the last hash, if
 * the repeated round ends where this one did: if not, Redis has no key of that bucket any more.
 * The last round of a server may be cut like that whatever its size: nothing is behind it. So a
 * key that stays is never missed. The cursor for clients has the scanned node, the cursor at
 * the beginning of the round, in the middle of a bucket the cursor at its end and the last
 * hash, and the Redis process that serves as the node: the cursor of another one says nothing,
 * and a listing with such a cursor begins anew. */
struct page {
    struct store *store;
    lock_listed *listed;                /* of a listing of locks */
    semaphore_listed *semaphore_listed; /* of a listing of semaphores */
    lock_list_done *done;
    void *arg;
    size_t limit;
    struct lock_scan scan;
    uint32_t after; /* in the middle of a bucket: the last hash; else 0 */
    uint64_t end;   /* and the cursor of SCAN behind the bucket */
    bool is_cut;    /* more names of the round are left than the page has room for */
    size_t next_name, names_end;
    size_t keys; /* visited so far */
    int64_t started_ns;
    size_t looks_pending;
    bool is_over; /* no server is left to be scanned */
    enum call_outcome outcome;
    size_t count;
};

static void scan(struct page *page);

/* The process that the next page has to find at the node; 0: any. */
static uint32_t process_of(const struct lock_scan *scan)
{
    if (scan->cursor != 0)
        return scan->process;
    return scan->node_number != 0 ? call_process(topology_node_server(scan->node)) : 0;
}

static void finish(struct page *page, bool is_last)
{
    struct lock_list list = {.outcome = page->outcome};

    if (!is_last)
        snprintf(list.next_cursor, sizeof(list.next_cursor),
                 "%zu.%" PRIu64 ".%" PRIu64 ".%" PRIu32 ".%" PRIu32, page->scan.node_number,
                 page->scan.cursor, page->end, page->after, process_of(&page->scan));
    page->done(page->arg, &list);
    lock_scan_end(&page->scan);
    free(page);
}

/* To the beginning of the node, in a cluster of the first node: elsewhere the nodes stay. */
static void go_back(struct page *page)
{
    struct topology *topology = store_topology(page->store);

    if (topology_is_cluster(topology)) {
        page->scan.node = topology_next_node(topology, NULL);
        page->scan.node_number = 0;
    }
    page->scan.cursor = 0;
    page->scan.process = 0;
    page->scan.count = SCAN_COUNT;
    page->after = 0;
    page->end = 0;
}

/* The next page does, so that a page stays bounded work. */
static void begin_anew(struct page *page)
{
    go_back(page);
    finish(page, false);
}

static bool begin_next_round(struct page *page)
{
    struct lock_scan *scan = &page->scan;
    bool has_few = scan->name_count < LOOKS_MAX && scan->count >= SCAN_COUNT;
    size_t twice = 2 * scan->count;

    scan->count = !has_few ? SCAN_COUNT : twice < SCAN_COUNT_MAX ? twice : SCAN_COUNT_MAX;
    page->after = 0;
    page->end = 0;
    return lock_scan_next(&page->scan);
}

static void end_round(struct page *page)
{
    if (page->outcome == CALL_DONE && lock_scan_is_lost(&page->scan))
        begin_anew(page);
    else if (page->outcome != CALL_DONE || (!page->is_cut && !begin_next_round(page)))
        finish(page, true);
    else if (page->is_cut || page->count == page->limit || page->keys >= KEYS_MAX ||
             clock_ns() - page->started_ns > PAGE_MAX_MS * CLOCK_NS_PER_MS)
        finish(page, false);
    else
        scan(page);
}

/* One look: an entry of the page, if it turns out to be a held lock, or a semaphore. */
struct candidate {
    struct page *page;
    const char *name; /* of the round, which lasts as long as its looks */
};

static void look_on(struct page *page);

static void look_done(struct candidate *candidate)
{
    struct page *page = candidate->page;

    free(candidate);
    if (--page->looks_pending == 0)
        look_on(page);
}

/* Whether the lock belongs to the node that is scanned: in a quorum each lock is at several
 * servers, and is listed at the first of them. */
static bool is_of_node(const struct page *page, const struct lock_view *view)
{
    return view->quorum.nodes == 0 || view->quorum.first == page->scan.node_number;
}

static void on_candidate(void *arg, const struct lock_view *view)
{
    struct candidate *candidate = arg;
    struct page *page = candidate->page;
    struct lock_view shown = *view;

    if (shown.holders_shown > LIST_HOLDERS_SHOWN)
        shown.holders_shown = LIST_HOLDERS_SHOWN;
    if (view->outcome == CALL_DONE && view->locked) {
        if (is_of_node(page, view)) {
            page->count++;
            page->listed(page->arg, candidate->name, &shown);
        }
    } else if (view->outcome != CALL_DONE && view->outcome != CALL_WRONG_TYPE) {
        page->outcome = view->outcome;
    }
    look_done(candidate);
}

static void on_semaphore(void *arg, const struct permits_view *view)
{
    struct candidate *candidate = arg;
    struct page *page = candidate->page;

    if (view->outcome == COUNTER_SHOWN) {
        page->count++;
        page->semaphore_listed(page->arg, candidate->name, view);
    } else if (view->outcome == COUNTER_FAILED) {
        page->outcome = view->failure;
    }
    look_done(candidate);
}

static void look_at(struct page *page, const char *name)
{
    /* The servers of a quorum have to name the same readers. */
    bool is_quorum = topology_quorum_nodes(store_topology(page->store)) > 0;
    const struct lock_query query = {.holders_max = is_quorum ? LOCK_HOLDERS_SHOWN
                                                              : LIST_HOLDERS_SHOWN};
    struct candidate *candidate = malloc(sizeof(*candidate));

    assert(candidate != NULL);
    *candidate = (struct candidate){.page = page, .name = name};
    page->looks_pending++;
    if (page->listed != NULL)
        lock_get(page->store, name, &query, on_candidate, candidate);
    else
        permits_get(page->store, name, 0, on_semaphore, candidate);
}

static void look_on(struct page *page)
{
    while (page->outcome == CALL_DONE && page->next_name < page->names_end &&
           page->looks_pending < LOOKS_MAX)
        look_at(page, page->scan.names[page->next_name++]);
    if (page->looks_pending == 0)
        end_round(page);
}

/* Leaves names of the round to the next page. Names with one hash, which nobody has by chance,
 * stay together. */
static void cut(struct page *page)
{
    struct lock_scan *scan = &page->scan;

    lock_scan_cut(scan, 0);
    page->end = scan->next_cursor;
    page->after = lock_scan_hash(scan->names[page->names_end - 1]);
    while (page->names_end < scan->name_count &&
           lock_scan_hash(scan->names[page->names_end]) == page->after)
        page->names_end++;
    page->is_cut = page->names_end < scan->name_count;
}

/* Takes the names of the round that the page has room for, as if every key belonged into it.
 * False: there is room for none, and the round is to be smaller, or that of another page. */
static bool take_names(struct page *page)
{
    struct lock_scan *scan = &page->scan;
    size_t room = page->limit - page->count;

    if (page->after != 0)
        lock_scan_cut(scan, page->end == 0 || scan->next_cursor == page->end ? page->after : 0);
    page->next_name = 0;
    page->names_end = scan->name_count <= room ? scan->name_count : room;
    page->is_cut = page->names_end < scan->name_count;
    if (page->is_cut && scan->next_cursor != 0 && (page->count > 0 || scan->count > 1))
        return false;
    if (page->is_cut)
        cut(page);
    return true;
}

static void make_room(struct page *page)
{
    if (page->count > 0) {
        finish(page, false);
        return;
    }
    page->scan.count = page->scan.count / 4 + 1;
    lock_scan_repeat(&page->scan);
    scan(page);
}

static void on_scanned(void *arg, enum call_outcome outcome)
{
    struct page *page = arg;
    bool is_known = page->is_over && topology_has_majority(store_topology(page->store));

    page->outcome = is_known ? CALL_DONE : outcome;
    if (outcome != CALL_DONE || page->is_over) {
        finish(page, true);
        return;
    }
    if (lock_scan_is_lost(&page->scan))
        begin_anew(page);
    else if (take_names(page))
        look_on(page);
    else
        make_room(page);
}

static void scan(struct page *page)
{
    page->keys += page->scan.count;
    lock_scan_round(&page->scan, on_scanned, page);
}

/* Reads numbers with dots between them. Returns how many; 0: they are something else. */
static size_t read_numbers(const char *text, uint64_t numbers[], size_t most)
{
    for (size_t i = 0; i < most; i++) {
        size_t digits = strspn(text, "0123456789");
        errno = 0; /* strtoull() saturates: only errno tells a number that is too large */
        numbers[i] = strtoull(text, NULL, 10);
        if (digits == 0 || errno != 0)
            return 0;
        text += digits;
        if (text[0] == '\0')
            return i + 1;
        if (*text++ != '.')
            return 0;
    }
    return 0;
}

/* Reads a cursor of finish(); "" is the start. Non-zero: it is neither. */
static int find_start(struct page *page, const char *cursor)
{
    struct topology *topology = store_topology(page->store);
    struct lock_scan *scan = &page->scan;
    uint64_t numbers[5] = {0};

    /* One of version 0.1 has three, and goes on at the beginning of its round. */
    if (cursor[0] != '\0' && (read_numbers(cursor, numbers, 5) < 3 || numbers[3] > UINT32_MAX ||
                              numbers[4] > UINT32_MAX))
        return -1;
    scan->node_number = (size_t)numbers[0];
    scan->cursor = numbers[1];
    page->end = numbers[2];
    page->after = (uint32_t)numbers[3];
    scan->process = (uint32_t)numbers[4];
    if (page->after != 0) /* a round that is repeated has to end where it did */
        scan->count = page->end != 0 ? 1 : SCAN_COUNT_MAX;
    if (scan->node == NULL)
        return 0; /* none is known yet: the first command will say so */
    for (size_t i = 0; i < scan->node_number && scan->node != NULL; i++)
        scan->node = topology_next_node(topology, scan->node);
    if (scan->node == NULL && topology_is_cluster(topology))
        go_back(page); /* there are fewer nodes than before */
    return scan->node != NULL ? 0 : -1;
}

/* The server of a quorum at which the page begins may be away by now. If all that follow are,
 * the page is the last one, and empty: any server is asked, for its reply is no part of the
 * page. */
static void pass_over(struct page *page)
{
    struct topology_node *node = page->scan.node;

    lock_scan_pass_over(&page->scan);
    if (page->scan.node == node)
        return;
    page->after = 0;
    page->end = 0;
    page->scan.count = SCAN_COUNT;
    page->scan.cursor = 0;
    page->is_over = page->scan.node == NULL;
    if (page->is_over)
        page->scan.node = topology_next_node(store_topology(page->store), NULL);
}

static int list(struct store *store, const char *type, const char *prefix, const char *cursor,
                const struct page *wanted)
{
    struct page *page = malloc(sizeof(*page));

    assert(page != NULL && wanted->limit >= 1);
    *page = *wanted;
    page->store = store;
    page->started_ns = clock_ns();
    lock_scan_begin(&page->scan, store, type, prefix, SCAN_COUNT);
    if (find_start(page, cursor) != 0) {
        free(page);
        return -1;
    }
    pass_over(page);
    scan(page);
    return 0;
}

int lock_list(struct store *store, const char *prefix, size_t limit, const char *cursor,
              lock_listed *listed, lock_list_done *done, void *arg)
{
    return list(store, "hash", prefix, cursor,
                &(struct page){.limit = limit, .listed = listed, .done = done, .arg = arg});
}

int semaphore_list(struct store *store, const char *prefix, size_t limit, const char *cursor,
                   semaphore_listed *listed, lock_list_done *done, void *arg)
{
    return list(
        store, "string", prefix, cursor,
        &(struct page){.limit = limit, .semaphore_listed = listed, .done = done, .arg = arg});
}
