/* The index of sessions: when each session is to be visited. */
#include "storage/notes/notes.h"

/* Who is told of visits that are to come; cleared: nobody is. */
struct index_watcher {
    session_visit_expected *expect;
    void *arg;
};

static const struct store_part index_watchers = {.size = sizeof(struct index_watcher)};

void session_index_watch(struct store *store, session_visit_expected *expect, void *arg)
{
    struct index_watcher *watcher = store_part(store, &index_watchers);

    *watcher = (struct index_watcher){.expect = expect, .arg = arg};
}

/* Each with a NUL of its own. */
static const char partition_names[SESSION_PARTITIONS][2] = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f"};

/* The partition of the index that has this session. */
static size_t partition_of(const char *session_id)
{
    for (size_t i = 0; i < SESSION_PARTITIONS; i++)
        if (partition_names[i][0] == session_id[0])
            return i;
    return 0;
}

struct key_base session_index_base(size_t partition)
{
    return call_base(partition_names[partition]);
}

void session_index_key(struct store_call *call, size_t at, size_t partition)
{
    call_key(call, at, KEY_SESSIONS, session_index_base(partition), NULL);
}

static void on_ignored(void *arg, const struct redis_result *result)
{
    (void)arg;
    (void)result;
}

void session_index_set(struct store *store, const char *session_id, int64_t in_ms,
                       const char *claim, redis_done *done, void *arg)
{
    const struct index_watcher *watcher = store_part(store, &index_watchers);
    struct store_call *call = call_begin(store, SCRIPT_INDEX_SET);

    if (in_ms >= 0 && watcher->expect != NULL)
        watcher->expect(watcher->arg, partition_of(session_id), in_ms);
    session_index_key(call, INDEX_SET_KEY_INDEX, partition_of(session_id));
    call_string(call, INDEX_SET_ARG_SESSION_ID, session_id);
    if (in_ms >= 0)
        call_number(call, INDEX_SET_ARG_IN_MS, in_ms);
    else
        call_string(call, INDEX_SET_ARG_IN_MS, "");
    if (claim != NULL)
        call_string(call, INDEX_SET_ARG_CLAIM, claim);
    call_send(call, done != NULL ? done : on_ignored, arg);
}
