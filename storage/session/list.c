/* Lists open sessions: reads the partitions of the index one after the other, a few members at
 * a time, and asks the home of each session. In a quorum each partition is read at one server
 * after the other, and a session is listed at the first server that has it. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store/look_turns.h"
#include "storage/session/session_internal.h"

enum {
    SCAN_COUNT = 100, /* members that Redis visits in one script */
    SCANS_MAX = 64,   /* a page is bounded work: it may hold few sessions or none */
    BRIEFS_MAX = 10   /* sessions that one turn asks for: some tenths of a millisecond */
};

/* The cursor that clients get: place, the cursor of ZSCAN there, if an earlier page has dealt
 * with some sessions of its reply, the next cursor of that reply and the last of them, and the
 * Redis process: as in lock_list.c, with ids in the place of hashes. A small partition is one
 * reply whatever its size.
 */
struct list_call {
    struct store *store;
    session_list_done *done;
    void *arg;
    struct turn turn; /* for a scan, or for a batch of briefs */
    size_t limit, scans, under_way;
    size_t servers; /* of a quorum; 0: the topology is none */
    /* A partition; in a quorum partition 0 at each server, then partition 1 at each, and so on.
     */
    size_t place;
    size_t server;  /* of a quorum, whose sessions are being dealt with */
    int scan_count; /* members that Redis visits in a script */
    uint64_t cursor, end;
    uint32_t process;            /* that gave `cursor`: see call_process(); 0: any may have */
    char after[SESSION_ID_SIZE]; /* empty: no session of the reply is dealt with */
    bool is_full;                /* the next round is too large for the page */
    char (*found)[SESSION_ID_SIZE]; /* whose homes are to be asked */
    size_t found_count, found_next;
    struct session_list list;
    struct session_list_entry entries[]; /* `limit` of them */
};

/* One session of a page, whose home is asked. */
struct brief_call {
    struct list_call *page;
    char session_id[SESSION_ID_SIZE];
};

static size_t places(const struct list_call *page)
{
    return page->servers > 0 ? INDEX_PARTITIONS * page->servers : INDEX_PARTITIONS;
}

static void finish(struct list_call *page)
{
    if (page->list.outcome == CALL_DONE && page->place < places(page))
        snprintf(page->list.next_cursor, sizeof(page->list.next_cursor),
                 "%zu.%" PRIu64 ".%" PRIu64 ".%s.%" PRIu32, page->place, page->cursor,
                 page->end, page->after, page->process);
    page->list.entries = page->entries;
    page->done(page->arg, &page->list);
    free(page->found);
    free(page);
}

/* Another turn, or the end of the page. */
static void go_on(struct list_call *page)
{
    bool may_scan = !page->is_full && page->list.count < page->limit &&
                    page->place < places(page) && page->scans < SCANS_MAX;

    if (page->list.outcome == CALL_DONE && (page->found_next < page->found_count || may_scan))
        look_turn_start(page->store, &page->turn);
    else
        finish(page);
}

static void on_replied(struct list_call *page)
{
    struct store *store = page->store;

    if (--page->under_way > 0)
        return;
    look_turn_end(store, &page->turn);
    go_on(page);
    look_turns_go_on(store);
}

/* Whether the session belongs to the server whose index is read: it is listed at the first
 * server that has it. */
static bool is_of_server(const struct list_call *page, const struct redis_value *row)
{
    size_t first = (size_t)value_integer(value_at(row, SESSION_BRIEF_REPLY_INDEXED));

    return page->servers == 0 || first == page->server;
}

static void on_brief(void *arg, const struct redis_result *result)
{
    struct brief_call *brief = arg;
    struct list_call *page = brief->page;
    const struct redis_value *reply = result->reply;

    if (result->outcome != REDIS_DONE && result->refusal != REDIS_REFUSED_WRONG_TYPE) {
        page->list.outcome = call_outcome_of(result);
    } else if (result->outcome == REDIS_DONE && value_count(reply) > 0 &&
               is_of_server(page, reply)) {
        struct session_list_entry *entry = &page->entries[page->list.count++];
        memcpy(entry->session_id, brief->session_id, sizeof(entry->session_id));
        entry->remaining_ms = value_integer(value_at(reply, SESSION_BRIEF_REPLY_REMAINING_MS));
        entry->ttl_ms = value_integer(value_at(reply, SESSION_BRIEF_REPLY_TTL_MS));
        entry->age_ms = value_integer(value_at(reply, SESSION_BRIEF_REPLY_AGE_MS));
        lock_copy_text(value_at(reply, SESSION_BRIEF_REPLY_NAME), entry->name,
                       sizeof(entry->name));
        entry->lease_count = value_integer(value_at(reply, SESSION_BRIEF_REPLY_LEASE_COUNT));
    }
    free(brief);
    on_replied(page);
}

static void ask_for_brief(struct list_call *page, const char session_id[SESSION_ID_SIZE])
{
    struct brief_call *brief = malloc(sizeof(*brief));

    assert(brief != NULL);
    brief->page = page;
    memcpy(brief->session_id, session_id, sizeof(brief->session_id));
    struct key_base session = call_base(brief->session_id);
    struct store_call *call = call_begin(page->store, SCRIPT_SESSION_BRIEF);
    call_key(call, SESSION_BRIEF_KEY_SESSION, KEY_SESSION, session, NULL);
    call_key(call, SESSION_BRIEF_KEY_NOTES, KEY_SESSION_LEASES, session, NULL);
    page->under_way++;
    call_send(call, on_brief, brief);
}

static void ask_for_briefs(struct list_call *page)
{
    for (int i = 0; i < BRIEFS_MAX && page->found_next < page->found_count; i++)
        ask_for_brief(page, page->found[page->found_next++]);
}

static int by_text(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void go_to_place(struct list_call *page, size_t place)
{
    page->after[0] = '\0';
    page->end = page->cursor = 0;
    page->process = 0;
    page->scan_count = SCAN_COUNT;
    page->place = place;
}

static void go_to_next_place(struct list_call *page)
{
    go_to_place(page, page->place + 1);
}

/* The ids of a reply of ZSCAN, in order, without those up to `after`, which may be empty. The
 * caller frees them. */
static char (*read_ids(const struct redis_value *members, const char *after,
                       size_t *count))[SESSION_ID_SIZE]
{
    char(*ids)[SESSION_ID_SIZE] = malloc(value_count(members) / 2 * sizeof(ids[0]) + 1);

    assert(ids != NULL);
    *count = 0;
    for (size_t i = 0; i < value_count(members) / 2; i++) {
        lock_copy_text(value_at(members, 2 * i), ids[*count], sizeof(ids[0]));
        *count += strcmp(ids[*count], after) > 0;
    }
    qsort(ids, *count, sizeof(ids[0]), by_text);
    return ids;
}

/* Takes the sessions of one reply of ZSCAN that the page has room for. */
static void take_found(struct list_call *page, uint64_t next_cursor,
                       const struct redis_value *members)
{
    bool is_same = page->end == 0 || page->end == next_cursor;
    size_t room = page->limit - page->list.count;

    free(page->found);
    page->found = read_ids(members, is_same ? page->after : "", &page->found_count);
    page->found_next = 0;
    if (page->found_count <= room) {
        page->after[0] = '\0';
        page->end = 0;
        page->scan_count = SCAN_COUNT;
        page->cursor = next_cursor;
        if (page->cursor == 0)
            go_to_next_place(page);
    } else if (next_cursor == 0 || (page->list.count == 0 && page->scan_count == 1)) {
        page->found_count = room;
        page->end = next_cursor;
        memcpy(page->after, page->found[room - 1], sizeof(page->after));
        page->is_full = true;
    } else { /* it is left to the next page, or asked for again and smaller */
        page->found_count = 0;
        page->is_full = page->list.count > 0;
        page->scan_count = page->scan_count / 4 + 1;
    }
}

/* The server of a quorum at which the index is read next: one that is away is passed over, for
 * the others have what it has. NULL: none is left. */
static struct topology_node *find_server(struct list_call *page)
{
    struct topology *topology = store_topology(page->store);
    struct topology_node *node;

    for (; page->place < places(page); go_to_next_place(page)) {
        page->server = page->place % page->servers;
        node = topology_next_node(topology, NULL);
        for (size_t i = 0; i < page->server; i++)
            node = topology_next_node(topology, node);
        if (topology_node_is_up(node, NULL))
            return node;
    }
    return NULL;
}

/* A reply of ZSCAN: the next cursor, and members with their scores. */
static void on_scanned(void *arg, const struct redis_result *result)
{
    struct list_call *page = arg;
    bool may_go_on = page->servers > 0 && topology_has_majority(store_topology(page->store));
    uint32_t process = call_process(result->server);
    size_t len;

    if (result->outcome != REDIS_DONE && may_go_on) {
        go_to_next_place(page);
    } else if (result->outcome != REDIS_DONE) {
        page->list.outcome = call_outcome_of(result);
    } else if (page->process != 0 && process != 0 && process != page->process) {
        go_to_place(page, page->place);       /* the cursor is that of another process */
        page->is_full = page->list.count > 0; /* no session twice in a page */
    } else {
        page->process = process;
        take_found(page, strtoull(value_text(value_at(result->reply, 0), &len), NULL, 10),
                   value_at(result->reply, 1));
    }
    on_replied(page);
}

static void scan(struct list_call *page)
{
    struct topology *topology = store_topology(page->store);
    bool is_asked = page->servers > 0 && topology_has_majority(topology);
    struct topology_node *server = is_asked ? find_server(page) : NULL;
    char cursor[24], count[8];
    struct key index;

    struct key_base partition = index_partition(
        page->servers > 0 ? page->place / page->servers % INDEX_PARTITIONS : page->place);
    key_make(&index, KEY_SESSIONS, partition.text, partition.len, NULL);
    int cursor_len = snprintf(cursor, sizeof(cursor), "%" PRIu64, page->cursor);
    int count_len = snprintf(count, sizeof(count), "%d", page->scan_count);
    const char *argv[] = {"ZSCAN", index.text, cursor, "COUNT", count};
    const size_t lens[] = {5, index.len, (size_t)cursor_len, 5, (size_t)count_len};
    const struct redis_command command = {.argc = 5, .argv = argv, .lens = lens};
    const struct redis_tag tag = redis_tag_of(index.text, index.len);

    page->scans++;
    page->under_way++;
    if (page->servers > 0) /* refused without a server */
        topology_node_command(topology, server, &command, on_scanned, page);
    else
        topology_command(topology, &tag, &command, on_scanned, page);
}

static void on_turn(void *arg, bool may)
{
    struct list_call *page = arg;

    if (!may) {
        page->list.outcome = CALL_NOT_EXECUTED;
        finish(page);
    } else if (page->found_next < page->found_count) {
        ask_for_briefs(page);
    } else {
        scan(page);
    }
}

static int read_process(struct list_call *page, const char *text)
{
    size_t digits = strspn(text, "0123456789");
    unsigned long long process = strtoull(text, NULL, 10);

    page->process = (uint32_t)process;
    return digits > 0 && text[digits] == '\0' && process <= UINT32_MAX ? 0 : -1;
}

/* Reads a cursor of finish(); "" is the start. Non-zero: it is neither. */
static int find_start(struct list_call *page, const char *cursor)
{
    size_t digits = strspn(cursor, "0123456789");

    if (cursor[0] == '\0')
        return 0;
    if (digits == 0 || digits > 2 || cursor[digits] != '.')
        return -1;
    page->place = strtoul(cursor, NULL, 10);
    if (page->place >= places(page))
        return -1;
    cursor += digits + 1;
    digits = strspn(cursor, "0123456789");
    if (digits == 0 || cursor[digits] != '.')
        return -1;
    errno = 0; /* strtoull() saturates: only errno tells a number that is too large */
    page->cursor = strtoull(cursor, NULL, 10);
    cursor += digits + 1;
    digits = strspn(cursor, "0123456789");
    if (cursor[digits] != '.') /* of version 0.1: from the beginning of the reply */
        return errno == 0 && strlen(cursor) < sizeof(page->after) ? 0 : -1;
    page->end = strtoull(cursor, NULL, 10);
    page->scan_count = page->end != 0 ? 1 : SCAN_COUNT;
    cursor += digits + 1;
    size_t len = strcspn(cursor, ".");
    if (errno != 0 || len >= sizeof(page->after))
        return -1;
    memcpy(page->after, cursor, len); /* the rest is 0 */
    return cursor[len] == '\0' ? 0 : read_process(page, cursor + len + 1);
}

int session_list(struct store *store, size_t limit, const char *cursor, session_list_done *done,
                 void *arg)
{
    struct list_call *page = calloc(1, sizeof(*page) + limit * sizeof(page->entries[0]));

    assert(page != NULL);
    page->store = store;
    page->done = done;
    page->arg = arg;
    page->limit = limit;
    page->servers = topology_quorum_nodes(store_topology(store));
    page->turn = (struct turn){.begin = on_turn, .arg = page, .weight = 1};
    page->list.outcome = CALL_DONE;
    page->scan_count = SCAN_COUNT;
    if (find_start(page, cursor) != 0) {
        free(page);
        return -1;
    }
    look_turn_start(store, &page->turn);
    return 0;
}
