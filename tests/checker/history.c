/* The reader of a history: its lines become operations, faults, locks, leases and sessions. */
#include "tests/checker/history.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct text {
    UT_hash_handle hh;
    char value[];
};

void list_add(struct list *list, void *item)
{
    if (list->count == list->size) {
        list->size = list->size ? 2 * list->size : 8;
        list->at = reallocarray(list->at, list->size, sizeof *list->at);
        if (!list->at)
            abort();
    }
    list->at[list->count++] = item;
}

static void *zalloc(size_t size)
{
    void *block = calloc(1, size);

    if (!block)
        abort();
    return block;
}

static const char *intern(struct history *history, const char *value)
{
    struct text *text;

    if (!value || !*value)
        return NULL;
    HASH_FIND_STR(history->texts, value, text);
    if (!text) {
        size_t size = strlen(value) + 1;
        text = zalloc(sizeof *text + size);
        memcpy(text->value, value, size);
        HASH_ADD_STR(history->texts, value, text);
    }
    return text->value;
}

static const char *text_of(struct history *history, json_t *line, const char *name)
{
    return intern(history, json_string_value(json_object_get(line, name)));
}

static int64_t number_of(json_t *line, const char *name, int64_t absent)
{
    json_t *value = json_object_get(line, name);

    if (json_is_real(value)) /* 5e6: how a history by hand says 5 ms */
        return (int64_t)json_real_value(value);
    return json_is_integer(value) ? json_integer_value(value) : absent;
}

static bool flag_of(json_t *line, const char *name)
{
    return json_is_true(json_object_get(line, name));
}

static int word_of(json_t *line, const char *name, const char *const *words)
{
    const char *value = json_string_value(json_object_get(line, name));

    for (int i = 0; value && words[i]; i++)
        if (strcmp(words[i], value) == 0)
            return i;
    return -1;
}

static struct lock *lock_of(struct history *history, const char *name)
{
    struct lock *lock;

    HASH_FIND_STR(history->locks, name, lock);
    if (!lock) {
        lock = zalloc(sizeof *lock);
        lock->name = name;
        HASH_ADD_KEYPTR(hh, history->locks, lock->name, strlen(lock->name), lock);
    }
    return lock;
}

struct lease *history_lease(const struct history *history, const char *id)
{
    struct lease *lease;

    HASH_FIND_STR(history->leases, id, lease);
    return lease;
}

struct session *history_session(const struct history *history, const char *id)
{
    struct session *session = NULL;

    if (id)
        HASH_FIND_STR(history->sessions, id, session);
    return session;
}

static struct session *session_of(struct history *history, const char *id)
{
    struct session *session = history_session(history, id);

    if (!session) {
        session = zalloc(sizeof *session);
        session->id = id;
        HASH_ADD_KEYPTR(hh, history->sessions, session->id, strlen(session->id), session);
    }
    return session;
}

static struct lease *lease_of(struct history *history, const struct op *op)
{
    struct lease *lease = history_lease(history, op->lease);

    if (lease)
        return lease;
    lease = zalloc(sizeof *lease);
    lease->id = op->lease;
    lease->first = op;
    HASH_ADD_KEYPTR(hh, history->leases, lease->id, strlen(lease->id), lease);
    for (size_t i = 0; i < op->lock_count; i++)
        list_add(&lock_of(history, op->locks[i])->leases, lease);
    return lease;
}

static void read_locks(struct history *history, json_t *line, struct op *op)
{
    json_t *names = json_object_get(line, "locks"), *tokens = json_object_get(line, "tokens");
    const char *name = text_of(history, line, "lock");

    if (name) {
        op->locks[0] = name;
        op->tokens[0] = number_of(line, "token", 0);
        op->lock_count = 1;
    }
    for (size_t i = 0; i < json_array_size(names) && op->lock_count < LOCKS_MAX; i++) {
        name = intern(history, json_string_value(json_array_get(names, i)));
        if (!name)
            continue;
        op->locks[op->lock_count] = name;
        op->tokens[op->lock_count++] = json_integer_value(json_array_get(tokens, i));
    }
}

static void read_listed(struct history *history, json_t *line, struct op *op)
{
    json_t *listed = json_object_get(line, "listed");
    size_t count = json_array_size(listed);

    if (count == 0)
        return;
    op->listed = calloc(count, sizeof *op->listed);
    if (!op->listed)
        abort();
    for (size_t i = 0; i < count; i++) {
        json_t *one = json_array_get(listed, i);
        op->listed[i].lease = text_of(history, one, "lease");
        op->listed[i].remaining_ms = number_of(one, "remaining_ms", 0);
    }
    op->listed_count = count;
}

static void read_lost(struct history *history, json_t *line, struct op *op)
{
    json_t *lost = json_object_get(line, "lost");

    op->lost_count = json_array_size(lost);
    op->lost = op->lost_count > 0 ? zalloc(op->lost_count * sizeof *op->lost) : NULL;
    for (size_t i = 0; i < op->lost_count; i++) {
        json_t *one = json_array_get(lost, i);
        op->lost[i] = (struct loss){text_of(history, one, "lease"),
                                    text_of(history, one, "reason")};
    }
}

/* Puts the request where the rules look for it. */
static void file_op(struct history *history, struct op *op)
{
    list_add(&history->ops, op);
    if (op->lease)
        list_add(&lease_of(history, op)->ops, op);
    else if (op->session)
        list_add(&session_of(history, op->session)->ops, op);
    if (op->verb == OP_FORCE && op->lock_count)
        list_add(&lock_of(history, op->locks[0])->forces, op);
    if (op->lease && op->kind && op->lock_count == 1)
        lock_of(history, op->locks[0])->kind = op->kind;
}

static bool read_op(struct history *history, json_t *line, size_t number)
{
    static const char *const verbs[] = {"acquire",      "renew",      "release",
                                        "session-open", "keep-alive", "session-end",
                                        "force",        "probe",      NULL};
    static const char *const outcomes[] = {"ok",      "not-done",  "ended",
                                           "unknown", "abandoned", NULL};
    int verb = word_of(line, "op", verbs), outcome = word_of(line, "outcome", outcomes);
    struct op *op;

    if (verb < 0 || outcome < 0)
        return false;
    op = zalloc(sizeof *op);
    *op = (struct op){.line = number, .verb = verb, .outcome = outcome};
    op->t_inv = number_of(line, "t_inv", -1);
    op->t_ret = number_of(line, "t_ret", -1);
    op->status = number_of(line, "status", 0);
    op->front = number_of(line, "front", NO_FRONT);
    op->remaining_ms = number_of(line, "remaining_ms", 0);
    op->ttl_ms = number_of(line, "ttl_ms", 0);
    op->wait_ms = number_of(line, "wait_ms", 0);
    op->hold_count = number_of(line, "hold_count", -1);
    op->client = text_of(history, line, "client");
    op->kind = text_of(history, line, "kind");
    op->lease = text_of(history, line, "lease");
    op->session = text_of(history, line, "session");
    op->owner = text_of(history, line, "owner");
    op->reason = text_of(history, line, "reason");
    op->malformed = text_of(history, line, "malformed");
    op->is_sweep = flag_of(line, "sweep");
    op->is_whole = flag_of(line, "whole");
    op->refuses = flag_of(line, "refuses");
    op->contends = flag_of(line, "contends");
    op->is_bystander = flag_of(line, "bystander");
    op->is_watchdog = op->session && op->ttl_ms == 0;
    read_locks(history, line, op);
    read_listed(history, line, op);
    read_lost(history, line, op);
    file_op(history, op);
    return op->t_inv >= 0 && op->t_ret >= op->t_inv;
}

static bool read_fault(struct history *history, json_t *line, size_t number)
{
    struct fault *fault = zalloc(sizeof *fault);

    fault->line = number;
    fault->kind = text_of(history, line, "kind");
    fault->scope = text_of(history, line, "scope");
    fault->t_begin = number_of(line, "t_begin", -1);
    fault->t_end = number_of(line, "t_end", -1);
    fault->front = number_of(line, "front", -1);
    fault->effect = number_of(line, "effect", 0);
    fault->loses_data = flag_of(line, "loses_data");
    fault->restarts = flag_of(line, "restarts");
    fault->minority = flag_of(line, "minority");
    fault->undoes_until = number_of(line, "undoes_until", 0);
    list_add(&history->faults, fault);
    return fault->kind && fault->t_begin >= 0 && fault->t_end >= fault->t_begin;
}

static bool read_write(struct history *history, json_t *line, size_t number)
{
    struct resource_write *write = zalloc(sizeof *write);

    write->line = number;
    write->lock = text_of(history, line, "lock");
    write->lease = text_of(history, line, "lease");
    write->t = number_of(line, "t", -1);
    write->token = number_of(line, "token", 0);
    write->is_accepted = flag_of(line, "accepted");
    list_add(&history->writes, write);
    if (!write->lock || !write->lease || write->t < 0)
        return false;
    list_add(&lock_of(history, write->lock)->writes, write);
    return true;
}

static bool read_rate(struct history *history, json_t *line, size_t number)
{
    struct rate *rate = zalloc(sizeof *rate);
    const json_t *scripts = json_object_get(line, "scripts");
    bool has_several = json_is_array(scripts);

    rate->line = number;
    rate->t_begin = number_of(line, "t_begin", -1);
    rate->t_end = number_of(line, "t_end", -1);
    rate->servers = has_several ? json_array_size(scripts) : 1;
    for (size_t i = 0; i < rate->servers && i < QUORUM_MAX; i++)
        rate->scripts[i] = json_integer_value(has_several ? json_array_get(scripts, i)
                                                          : scripts);
    rate->requests = number_of(line, "requests", 0);
    rate->waiters = number_of(line, "waiters", 0);
    list_add(&history->rates, rate);
    return rate->t_begin >= 0 && rate->t_end > rate->t_begin && rate->servers <= QUORUM_MAX;
}

static bool read_leak(struct history *history, json_t *line, size_t number)
{
    struct leak *leak = zalloc(sizeof *leak);

    leak->line = number;
    leak->subject = text_of(history, line, "subject");
    leak->detail = text_of(history, line, "detail");
    leak->base = number_of(line, "base", 0);
    leak->now = number_of(line, "now", 0);
    leak->allowed = number_of(line, "allowed", 0);
    leak->checks = number_of(line, "checks", 1);
    list_add(&history->leaks, leak);
    return leak->subject != NULL;
}

static bool read_look(struct history *history, json_t *line, size_t number)
{
    struct look *look = zalloc(sizeof *look);
    json_t *holders = json_object_get(line, "holders");

    look->line = number;
    look->t_inv = number_of(line, "t_inv", -1);
    look->t_ret = number_of(line, "t_ret", -1);
    look->waiters = number_of(line, "waiters", 0);
    look->lock = text_of(history, line, "lock");
    look->holder_count = json_array_size(holders);
    look->holders = zalloc((look->holder_count + 1) * sizeof *look->holders);
    for (size_t i = 0; i < look->holder_count; i++)
        look->holders[i] = intern(history, json_string_value(json_array_get(holders, i)));
    list_add(&history->looks, look);
    return look->lock && look->t_inv >= 0 && look->t_ret >= look->t_inv;
}

static bool read_limit(struct history *history, json_t *line, size_t number)
{
    struct limit *limit = zalloc(sizeof *limit);

    limit->line = number;
    limit->subject = text_of(history, line, "subject");
    limit->t_begin = number_of(line, "t_begin", -1);
    limit->t_end = number_of(line, "t_end", -1);
    limit->had = number_of(line, "had", 0);
    limit->most = number_of(line, "most", 0);
    limit->is_granted = flag_of(line, "granted");
    list_add(&history->limits, limit);
    return limit->subject && limit->t_begin >= 0 && limit->t_end >= limit->t_begin;
}

static bool read_run(struct history *history, json_t *line, size_t number)
{
    const char *name;
    json_t *count;

    (void)number;
    history->is_started = true;
    history->retry_window_ms = number_of(line, "retry_window_ms", 60000);
    history->watchdog_ms = number_of(line, "watchdog_ms", 30000);
    history->max_ttl_ms = number_of(line, "max_ttl_ms", 30000);
    history->place_ms = number_of(line, "place_ms", 15000);
    history->masters = number_of(line, "masters", 1);
    history->quorum = number_of(line, "quorum", 0);
    history->seed = text_of(history, line, "seed");
    json_object_foreach(json_object_get(line, "permits"), name, count) {
        lock_of(history, intern(history, name))->permits = json_integer_value(count);
    }
    return true;
}

static bool read_line(struct history *history, json_t *line, size_t number)
{
    static const struct {
        const char *type;
        bool (*read)(struct history *, json_t *, size_t);
    } types[] = {
        {"run", read_run},        {"op", read_op},       {"fault", read_fault},
        {"resource", read_write}, {"rate", read_rate},   {"leak", read_leak},
        {"look", read_look},      {"limit", read_limit},
    };
    const char *type = json_string_value(json_object_get(line, "type"));

    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, type) == 0)
            return types[i].read(history, line, number);
    return false;
}

static int compare_calls(const void *a, const void *b)
{
    const struct op *left = *(struct op *const *)a, *right = *(struct op *const *)b;

    return left->t_inv < right->t_inv ? -1 : left->t_inv > right->t_inv;
}

static void sort_calls(struct list *ops)
{
    if (ops->count > 1)
        qsort(ops->at, ops->count, sizeof *ops->at, compare_calls);
}

static void note_leases(struct history *history)
{
    for (struct lease *lease = history->leases; lease; lease = lease->hh.next) {
        struct session *session = history_session(history, lease->first->session);
        sort_calls(&lease->ops);
        if (session)
            list_add(&session->leases, lease);
    }
}

static void note_listings(struct history *history)
{
    for (size_t i = 0; i < history->ops.count; i++) {
        struct op *op = history->ops.at[i];
        for (size_t k = 0; k < op->listed_count; k++) {
            struct lease *lease = op->listed[k].lease
                                      ? history_lease(history, op->listed[k].lease)
                                      : NULL;
            if (lease)
                list_add(&lease->listed, op);
        }
    }
}

bool history_read(struct history *history, FILE *file, char *why, size_t why_size)
{
    char *text = NULL;
    size_t size = 0, number = 0;
    bool is_sound = true;

    memset(history, 0, sizeof *history);
    while (is_sound && getline(&text, &size, file) > 0) {
        json_t *line = json_loads(text, 0, NULL);
        is_sound = line && read_line(history, line, ++number);
        json_decref(line);
    }
    free(text);
    if (!is_sound || !history->is_started) {
        snprintf(why, why_size, "line %zu is no history", is_sound ? 1 : number);
        return false;
    }
    note_leases(history);
    for (struct session *session = history->sessions; session; session = session->hh.next)
        sort_calls(&session->ops);
    note_listings(history);
    return true;
}

static void free_list(struct list *list, bool with_items)
{
    for (size_t i = 0; with_items && i < list->count; i++)
        free(list->at[i]);
    free(list->at);
}

static void free_tables(struct history *history)
{
    struct lease *lease, *next_lease;
    struct session *session, *next_session;
    struct lock *lock, *next_lock;
    struct text *text, *next_text;

    HASH_ITER(hh, history->leases, lease, next_lease) {
        HASH_DEL(history->leases, lease);
        free_list(&lease->ops, false);
        free_list(&lease->listed, false);
        free(lease);
    }
    HASH_ITER(hh, history->sessions, session, next_session) {
        HASH_DEL(history->sessions, session);
        free_list(&session->ops, false);
        free_list(&session->leases, false);
        free(session);
    }
    HASH_ITER(hh, history->locks, lock, next_lock) {
        HASH_DEL(history->locks, lock);
        free_list(&lock->leases, false);
        free_list(&lock->forces, false);
        free_list(&lock->writes, false);
        free(lock);
    }
    HASH_ITER(hh, history->texts, text, next_text) {
        HASH_DEL(history->texts, text);
        free(text);
    }
}

void history_free(struct history *history)
{
    free_tables(history);
    for (size_t i = 0; i < history->ops.count; i++) {
        free(((struct op *)history->ops.at[i])->listed);
        free(((struct op *)history->ops.at[i])->lost);
    }
    for (size_t i = 0; i < history->looks.count; i++)
        free(((struct look *)history->looks.at[i])->holders);
    free_list(&history->looks, true);
    free_list(&history->limits, true);
    free_list(&history->ops, true);
    free_list(&history->faults, true);
    free_list(&history->writes, true);
    free_list(&history->rates, true);
    free_list(&history->leaks, true);
}
