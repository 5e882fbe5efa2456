/* The indices: when each session, and the queue of each fair lock, is to be visited. */
#include <string.h>

#include "server/base/text.h"
#include "storage/notes/notes.h"

/* Who is told of visits that are to come; cleared: nobody is. */
struct index_watcher {
    index_visit_expected *expect;
    void *arg;
};

static const struct store_part index_watchers = {.size = sizeof(struct index_watcher)};

void index_watch(struct store *store, index_visit_expected *expect, void *arg)
{
    struct index_watcher *watcher = store_part(store, &index_watchers);

    *watcher = (struct index_watcher){.expect = expect, .arg = arg};
}

/* Each with a NUL of its own. */
static const char partition_names[INDEX_PARTITIONS][2] = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f"};

static const enum key_kind index_keys[INDICES] = {
    [INDEX_SESSIONS] = KEY_SESSIONS, [INDEX_QUEUES] = KEY_QUEUES};

/* The partition of the index that has this member. Every front end has to find the same one. */
static size_t partition_of(enum visit_index index, const char *member)
{
    if (index == INDEX_QUEUES)
        return text_hash(member, strlen(member)) % INDEX_PARTITIONS;
    for (size_t i = 0; i < INDEX_PARTITIONS; i++)
        if (partition_names[i][0] == member[0])
            return i;
    return 0;
}

struct key_base index_partition(size_t partition)
{
    return call_base(partition_names[partition]);
}

void index_key(struct store_call *call, size_t at, enum visit_index index, size_t partition)
{
    call_key(call, at, index_keys[index], index_partition(partition), NULL);
}

void session_index_key(struct store_call *call, size_t at, const char *session_id)
{
    index_key(call, at, INDEX_SESSIONS, partition_of(INDEX_SESSIONS, session_id));
}

static void on_ignored(void *arg, const struct redis_result *result)
{
    (void)arg;
    (void)result;
}

void index_expect(struct store *store, enum visit_index index, const char *member,
                  int64_t in_ms)
{
    const struct index_watcher *watcher = store_part(store, &index_watchers);

    if (watcher->expect != NULL)
        watcher->expect(watcher->arg, index, partition_of(index, member), in_ms);
}

void index_set(struct store *store, enum visit_index index, const char *member, int64_t in_ms,
               const char *claim, redis_done *done, void *arg)
{
    struct store_call *call = call_begin(store, SCRIPT_INDEX_SET);

    if (in_ms >= 0)
        index_expect(store, index, member, in_ms);
    index_key(call, INDEX_SET_KEY_INDEX, index, partition_of(index, member));
    call_string(call, INDEX_SET_ARG_MEMBER, member);
    if (in_ms >= 0)
        call_number(call, INDEX_SET_ARG_IN_MS, in_ms);
    else
        call_string(call, INDEX_SET_ARG_IN_MS, "");
    if (claim != NULL)
        call_string(call, INDEX_SET_ARG_CLAIM, claim);
    call_send(call, done != NULL ? done : on_ignored, arg);
}

void session_index_set(struct store *store, const char *session_id, int64_t in_ms,
                       const char *claim, redis_done *done, void *arg)
{
    index_set(store, INDEX_SESSIONS, session_id, in_ms, claim, done, arg);
}
