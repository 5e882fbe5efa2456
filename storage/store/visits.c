/* The visits of sessions: whose visit is the next, and which leases share its script. */
#include "storage/store/visits.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>
#include <utlist.h>

#include "server/base/text.h"
#include "storage/store/store_internal.h"

/* Scripts under way for all sessions of a worker, a script for several locks counted as many.
 * Of the watchdog and of sessions that end: enough to fill a round trip, and no more than a
 * millisecond or so of Redis' thread that the scripts of others wait for. Of looks and
 * keep-alives, which any client may ask for as often as it likes: a fraction of that. */
static const size_t under_way_max[VISIT_LINES] = {
    [VISIT_DUTIES] = 32, [VISIT_KEEP_ALIVES] = 8, [VISIT_LOOKS] = 8};

/* Leases of one script: about a tenth of a millisecond of Redis' thread. */
enum { SHARED_MAX = 16 };

struct visit {
    struct lease_visits *visits;
    size_t i;         /* of the lease's ref */
    size_t count;     /* of a script's first visit: the visits that share the script */
    struct turn turn; /* of a script's first visit */
};

struct lease_visits {
    struct store *store;
    struct lease_visit_job job;
    const struct lease_ref *refs;
    size_t count, next; /* of the visits */
    size_t under_way;   /* scripts */
    lease_visited *visited;
    lease_visits_done *done;
    void *arg;
    struct lease_visits *prev, *next_behind; /* utlist: in a `behind` */
    /* Of the visits of a session that are in the line: further visits of that session. */
    struct lease_visits *behind;
    UT_hash_handle hh; /* of the sessions in the line */
    struct visit visit[];
};

static void on_reply(void *arg, const struct redis_result *result);

static_assert((int)LEASE_CLAIM_ARG_SESSION == LEASE_WATCH_ARG_SESSION &&
                  (int)LEASE_END_ARG_SESSION == LEASE_WATCH_ARG_SESSION &&
                  (int)WATCH_MANY_ARG_SESSION == LEASE_WATCH_ARG_SESSION,
              "the session id has one place in the ARGV of all scripts of visits");

/* The KEYS of a lease, from number `at` on. Returns the number of the KEYS behind them. */
static size_t fill_keys(struct store_call *call, size_t at, const struct lease_ref *ref,
                        bool has_counter)
{
    enum key_kind record = lease_ref_is_set(ref) ? KEY_MEMBER : KEY_LEASE;
    size_t stride = has_counter ? LEASE_CLAIM_KEYS : LEASE_WATCH_KEYS;
    struct lease_ref_name names[LOCKS_MAX];
    char lease_id[LEASE_ID_SIZE];

    lease_ref_id(ref, lease_id);
    lease_ref_names(ref, names);
    for (size_t i = 0; i < ref->lock_count; i++, at += stride) {
        const struct key_base lock = {names[i].text, names[i].len};
        call_key(call, at + LEASE_WATCH_KEY_LOCK, KEY_OBJECT, lock, NULL);
        call_key(call, at + LEASE_WATCH_KEY_RECORD, record, lock, lease_id);
        if (has_counter)
            call_key(call, at + LEASE_CLAIM_KEY_COUNTER, KEY_COUNTER, lock, NULL);
    }
    return at;
}

static struct visit_line *line_of(const struct lease_visits *visits)
{
    return &visits->store->visit_lines[visits->job.line];
}

static const struct lease_ref *ref_of(const struct visit *visit)
{
    return &visit->visits->refs[visit->i];
}

/* The tag of the first lock of a lease. */
static struct redis_tag tag_of(const struct visit *visit)
{
    struct lease_ref_name names[LOCKS_MAX];

    lease_ref_names(ref_of(visit), names);
    return redis_tag_of(names[0].text, names[0].len);
}

/* Whether the keys of two leases of one lock each may be in one script. */
static bool may_share(const struct visit *one, const struct visit *other)
{
    if (!topology_is_cluster(one->visits->store->options.topology))
        return true;
    const struct redis_tag tag = tag_of(one), own = tag_of(other);
    return own.len == tag.len && memcmp(own.text, tag.text, tag.len) == 0;
}

/* Moves the visits that may share the next script to the first of them. Returns their number.
 */
static size_t gather_next(struct lease_visits *visits)
{
    struct visit *first = &visits->visit[visits->next];
    size_t left = visits->count - visits->next, count = 1;

    if (!visits->job.is_shared)
        return 1;
    for (size_t i = 1; i < left && count < SHARED_MAX; i++) {
        if (!may_share(first, &first[i]))
            continue;
        size_t sharing = first[i].i;
        first[i].i = first[count].i;
        first[count++].i = sharing;
    }
    return count;
}

static void fill_call(struct store_call *call, const struct visit *first,
                      const struct lease_visit_job *job, char lease_id[LEASE_ID_SIZE])
{
    size_t key = 0;

    for (size_t i = 0; i < first->count; i++)
        key = fill_keys(call, key, ref_of(&first[i]), job->has_counter);
    for (size_t i = 0; i < LEASE_VISIT_ARGS; i++)
        if (i < LEASE_WATCH_ARGS || job->arguments[i][0] != '\0')
            call_string(call, i, job->arguments[i]);
    call_string(call, LEASE_WATCH_ARG_SESSION, job->session_id);
    if (job->is_shared)
        return;
    lease_ref_id(ref_of(first), lease_id);
    call_string(call, LEASE_WATCH_ARG_LEASE_ID, lease_id);
}

static size_t count_locks(const struct visit *first)
{
    size_t count = 0;

    for (size_t i = 0; i < first->count; i++)
        count += ref_of(&first[i])->lock_count;
    return count;
}

static void send_script(struct visit *first)
{
    struct lease_visits *visits = first->visits;
    struct store_call *call = call_begin(visits->store, visits->job.script);
    char lease_id[LEASE_ID_SIZE];

    fill_call(call, first, &visits->job, lease_id);
    visits->under_way++;
    call_send(call, on_reply, first);
}

/* --- the line ----------------------------------------------------------------------------- */

static void on_turn(void *arg, bool may);

/* The next script of the visits waits for its turn. */
static void wait_for_turn(struct lease_visits *visits)
{
    struct visit *first = &visits->visit[visits->next];

    first->count = gather_next(visits);
    first->turn = (struct turn){.begin = on_turn, .arg = first, .weight = count_locks(first)};
    turn_start(&line_of(visits)->turns, &first->turn);
}

static void enter(struct visit_line *line, struct lease_visits *visits)
{
    const char *session_id = visits->job.session_id;
    struct lease_visits *first;

    HASH_FIND_STR(line->sessions, session_id, first);
    if (first != NULL) {
        DL_APPEND2(first->behind, visits, prev, next_behind);
        return;
    }
    HASH_ADD_KEYPTR(hh, line->sessions, session_id, strlen(session_id), visits);
    wait_for_turn(visits);
}

/* All scripts of the visits are sent: the next visits of the session come last in the line. */
static void leave(struct visit_line *line, struct lease_visits *visits)
{
    struct lease_visits *next = visits->behind;

    HASH_DEL(line->sessions, visits);
    if (next == NULL)
        return;
    DL_DELETE2(visits->behind, next, prev, next_behind);
    next->behind = visits->behind;
    enter(line, next);
}

/* The next script of a session waits behind those of the other sessions. */
static void on_turn(void *arg, bool may)
{
    struct visit *first = arg;
    struct lease_visits *visits = first->visits;

    assert(may); /* TURNS_WAIT */
    send_script(first);
    visits->next += first->count;
    if (visits->next < visits->count)
        wait_for_turn(visits);
    else
        leave(line_of(visits), visits);
}

/* The replies to the visits of one script. */
static void take_replies(const struct visit *first, const struct redis_result *result)
{
    struct lease_visits *visits = first->visits;
    struct redis_result own = *result;

    for (size_t i = 0; i < first->count; i++) {
        if (visits->job.is_shared && value_count(result->reply) > 0)
            own.reply = value_at(result->reply, i);
        visits->visited(visits->arg, first[i].i, &own);
    }
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct visit *first = arg;
    struct lease_visits *visits = first->visits;
    struct visit_line *line = line_of(visits);

    visits->under_way--;
    turn_end(&line->turns, &first->turn);
    take_replies(first, result);
    if (visits->under_way == 0 && visits->next == visits->count) {
        visits->done(visits->arg);
        free(visits);
    }
    turns_go_on(&line->turns);
}

static void add_visits(struct lease_visits *visits, size_t count, const bool *is_wanted)
{
    for (size_t i = 0; i < count; i++)
        if (visits->refs[i].lock_count > 0 && (is_wanted == NULL || is_wanted[i]))
            visits->visit[visits->count++] = (struct visit){.visits = visits, .i = i};
}

struct lease_visit_job lease_end_job(const struct store *store, enum visit_line_id line,
                                     const char *session_id, const char *reason)
{
    struct lease_visit_job job = {
        .script = SCRIPT_LEASE_END, .line = line, .session_id = session_id};

    snprintf(job.arguments[LEASE_END_ARG_REASON], sizeof(job.arguments[0]), "%s", reason);
    text_format_int64(job.arguments[LEASE_END_ARG_WINDOW_MS],
                      store->options.config->retry_window_ms);
    return job;
}

bool lease_visits_start(struct store *store, const struct lease_visit_job *job,
                        const struct lease_ref *refs, size_t count, const bool *is_wanted,
                        lease_visited *visited, lease_visits_done *done, void *arg)
{
    struct lease_visits *visits = calloc(1, sizeof(*visits) + count * sizeof(visits->visit[0]));

    assert(visits != NULL);
    visits->store = store;
    visits->job = *job;
    visits->refs = refs;
    visits->visited = visited;
    visits->done = done;
    visits->arg = arg;
    add_visits(visits, count, is_wanted);
    if (visits->count == 0) {
        free(visits);
        return false;
    }
    struct visit_line *line = line_of(visits);
    enter(line, visits);
    turns_go_on(&line->turns);
    return true;
}

void visits_init(struct store *store)
{
    for (int line = 0; line < VISIT_LINES; line++)
        turns_init(&store->visit_lines[line].turns, store->options.loop, under_way_max[line],
                   TURNS_WAIT);
}
