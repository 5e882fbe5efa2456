/* Rounds of SCAN over the keys of all nodes. */
#include "storage/look/lock_scan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/text.h"
#include "storage/store/key.h"
#include "storage/store/lease.h"
#include "storage/store/store_call.h"

static void drop_names(struct lock_scan *scan)
{
    for (size_t i = 0; i < scan->name_count; i++)
        free(scan->names[i]);
    free(scan->names);
    scan->names = NULL;
    scan->name_count = 0;
}

bool lock_scan_is_lost(const struct lock_scan *scan)
{
    struct topology *topology = store_topology(scan->store);
    struct topology_node *node = topology_next_node(topology, NULL);

    for (size_t i = 0; i < scan->node_number && node != NULL; i++)
        node = topology_next_node(topology, node);
    return node != scan->node || scan->is_cursor_lost;
}

static void go_to_next_node(struct lock_scan *scan)
{
    scan->process = 0;
    scan->node = topology_next_node(store_topology(scan->store), scan->node);
    scan->node_number++;
}

void lock_scan_pass_over(struct lock_scan *scan)
{
    if (topology_quorum_nodes(store_topology(scan->store)) == 0)
        return;
    while (scan->node != NULL && !topology_node_is_up(scan->node, NULL)) {
        go_to_next_node(scan);
        scan->next_cursor = 0;
    }
}

void lock_scan_repeat(struct lock_scan *scan)
{
    drop_names(scan);
}

uint32_t lock_scan_hash(const char *name)
{
    uint32_t hash = text_hash(name, strlen(name));

    return hash != 0 ? hash : 1;
}

static int by_hash(const void *left, const void *right)
{
    uint32_t a = lock_scan_hash(*(char *const *)left),
             b = lock_scan_hash(*(char *const *)right);

    return (a > b) - (a < b);
}

void lock_scan_cut(struct lock_scan *scan, uint32_t after)
{
    size_t kept = 0;

    qsort(scan->names, scan->name_count, sizeof(*scan->names), by_hash);
    for (size_t i = 0; i < scan->name_count; i++) {
        if (after != 0 && lock_scan_hash(scan->names[i]) <= after)
            free(scan->names[i]);
        else
            scan->names[kept++] = scan->names[i];
    }
    scan->name_count = kept;
}

bool lock_scan_next(struct lock_scan *scan)
{
    if (scan->next_cursor == 0) {
        go_to_next_node(scan);
        lock_scan_pass_over(scan);
    }
    scan->cursor = scan->next_cursor;
    drop_names(scan);
    return scan->node != NULL;
}

/* A copy of the name that clients say for a key; NULL: no client can ask for it. */
static char *name_of(const struct lock_scan *scan, const struct redis_value *key)
{
    const char *key_prefix = store_config(scan->store)->key_prefix;
    size_t len, prefix_len = strlen(key_prefix);
    const char *text = value_text(key, &len), *name = text + prefix_len;

    if (len <= prefix_len || len - prefix_len >= LOCK_NAME_SIZE || !text_is_utf8(text, len) ||
        text_has_control(text, len) || key_is_reserved(key_prefix, name) ||
        store_check_names(scan->store, &name, 1) != NAMES_FIT)
        return NULL;
    char *copy = strdup(name);
    assert(copy != NULL);
    return copy;
}

static void note_process(struct lock_scan *scan, uint32_t process)
{
    scan->is_cursor_lost = scan->process != 0 && process != 0 && process != scan->process;
    scan->process = process;
}

static void on_scanned(void *arg, const struct redis_result *result)
{
    struct lock_scan *scan = arg;
    const struct redis_value *keys = value_at(result->reply, 1);
    enum call_outcome outcome = call_outcome_of(result);
    size_t len;

    if (outcome == CALL_DONE) {
        note_process(scan, call_process(result->server));
        scan->next_cursor = strtoull(value_text(value_at(result->reply, 0), &len), NULL, 10);
        scan->names = calloc(value_count(keys) + 1, sizeof(*scan->names));
        assert(scan->names != NULL);
        for (size_t i = 0; i < value_count(keys); i++)
            if ((scan->names[scan->name_count] = name_of(scan, value_at(keys, i))) != NULL)
                scan->name_count++;
    }
    scan->done(scan->arg, outcome);
}

void lock_scan_round(struct lock_scan *scan, lock_scan_done *done, void *arg)
{
    struct topology *topology = store_topology(scan->store);
    char cursor[24], count[24];

    assert(scan->names == NULL);
    scan->done = done;
    scan->arg = arg;
    snprintf(cursor, sizeof(cursor), "%" PRIu64, scan->cursor);
    snprintf(count, sizeof(count), "%zu", scan->count);
    const char *argv[] = {"SCAN",  cursor, "MATCH", scan->pattern,
                          "COUNT", count,  "TYPE",  scan->type};
    size_t lens[8];
    for (size_t i = 0; i < 8; i++)
        lens[i] = strlen(argv[i]);
    const struct redis_command command = {.argc = 8, .argv = argv, .lens = lens};
    topology_node_command(topology, topology_has_majority(topology) ? scan->node : NULL,
                          &command, on_scanned, scan);
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

void lock_scan_begin(struct lock_scan *scan, struct store *store, const char *type,
                     const char *prefix, size_t count)
{
    char key_prefix[KEY_NAME_MAX + 1];

    *scan = (struct lock_scan){.store = store, .count = count, .type = type};
    store_key_name(store, prefix, key_prefix, sizeof(key_prefix));
    make_pattern(scan->pattern, key_prefix);
    scan->node = topology_next_node(store_topology(store), NULL);
}

void lock_scan_end(struct lock_scan *scan)
{
    drop_names(scan);
}
