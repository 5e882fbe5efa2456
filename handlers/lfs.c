/* /lfs/{repo}/locks: the lock API of Git LFS. The lock of a path is the lock
 * `lfs/<repo>/<path>`, held until its owner releases it. The owner is the caller of the API
 * token, and without API tokens the user name of Basic.
 *
 * The lease has no token. Its note is the owner and a random word, and its id is derived from
 * name and note: so the id proves that this handler wrote the note, and who the owner is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handlers/lease_reply.h"
#include "handlers/locks_operator.h"
#include "handlers/neighbours.h"
#include "handlers/routes.h"
#include "server/base/date.h"
#include "server/base/text.h"
#include "server/http/problem.h"
#include "storage/lease/leases.h"
#include "storage/look/locks.h"

enum {
    PATH_MAX_LEN = 384, /* so that the id of a path is not longer than a parameter may be */
    WORD_LEN = 8,       /* hex digits: no owner has the same note again in the retry window */
    PAGE_MAX = 1000,
    SHOWN_OWNER_SIZE = LOCK_NOTE_SIZE + 32
};

_Static_assert(TEXT_BASE64_SIZE(PATH_MAX_LEN) <= HTTP_NAME_MAX + 1, "an id is a parameter");

/* A lock as the protocol shows it. */
struct lfs_lock {
    char owner[SHOWN_OWNER_SIZE];
    bool is_ours;          /* of the caller, by this protocol */
    bool is_read;          /* perhaps by several clients */
    int64_t fencing_token; /* 0: not known */
};

/* A request, from its arrival until its answer. */
struct lfs_request {
    struct lease_request *lease; /* its name is known once the path is */
    char owner[AUTH_CALLER_SIZE];
    bool force, is_verify;
    struct lfs_lock lock; /* that is unlocked */
    struct json_text locks, theirs;
};

static struct http_request *http_of(const struct lfs_request *lfs)
{
    return lfs->lease->http;
}

/* --- a lock ------------------------------------------------------------------------------- */

static const char *who_else(const struct lock_holder *holder)
{
    if (holder->caller[0] != '\0')
        return holder->caller;
    return holder->note[0] != '\0' ? holder->note : holder->field;
}

/* `holder`: NULL where it is not known. */
static struct lfs_lock lock_of(const struct lfs_request *lfs, const char *name,
                               const struct lock_holder *holder)
{
    struct lfs_lock lock = {.owner = "unknown"};
    char lease_id[LEASE_ID_SIZE], id_of_note[LEASE_ID_SIZE];

    if (holder == NULL)
        return lock;
    if (lock_holder_is_ours(holder->field))
        lock.fencing_token = holder->fencing_token;
    lock.is_read = strcmp(holder->kind, kind_row(KIND_READ)->name) == 0;
    token_id_of_note(name, holder->note, id_of_note);
    if (lock_holder_is_lease(holder->field, lease_id) && strcmp(lease_id, id_of_note) == 0) {
        snprintf(lock.owner, sizeof(lock.owner), "%.*s",
                 (int)(strlen(holder->note) - WORD_LEN - 1), holder->note);
        lock.is_ours = strcmp(lock.owner, lfs->owner) == 0;
    } else {
        snprintf(lock.owner, sizeof(lock.owner), "%s (not by Git LFS)", who_else(holder));
    }
    return lock;
}

/* Behind `lfs/<repo>/`. */
static const char *path_of(const char *name)
{
    return strchr(name + sizeof("lfs/") - 1, '/') + 1;
}

static json_t *lock_json(const char *name, const struct lfs_lock *lock)
{
    char id[TEXT_BASE64_SIZE(HTTP_NAME_MAX)], date[DATE_SIZE];
    const char *path = path_of(name);

    text_base64url(path, strlen(path), id);
    json_t *json = json_pack("{s:s, s:s, s:{s:s}}", "id", id, "path", path, "owner", "name",
                             text_is_utf8(lock->owner, strlen(lock->owner)) ? lock->owner
                                                                            : "unknown");
    if (lock->fencing_token > 0) {
        date_format(date, lock->fencing_token / 1000000);
        json_object_set_new(json, "locked_at", json_string(date));
    }
    return json;
}

static void reply_lock(struct lfs_request *lfs, int status, const struct lfs_lock *lock)
{
    http_reply_json(
        http_of(lfs), status,
        json_pack("{s:o}", "lock", lock_json(lease_name(&lfs->lease->lease), lock)));
}

/* --- reading a request -------------------------------------------------------------------- */

static bool refuse(struct lfs_request *lfs, const char *detail)
{
    problem_reply(http_of(lfs), PROBLEM_MALFORMED_REQUEST, NULL, "%s", detail);
    return false;
}

/* False: refused. */
static bool read_owner(struct lfs_request *lfs)
{
    const struct auth_caller *caller = http_caller(http_of(lfs));

    if (caller != NULL) {
        snprintf(lfs->owner, sizeof(lfs->owner), "%s", auth_caller_name(caller));
        return true;
    }
    if (auth_basic_user(http_header(http_of(lfs), HTTP_AUTHORIZATION), lfs->owner))
        return true;
    http_ask_user(
        http_of(lfs),
        "a lock of Git LFS has an owner: send a user name by Basic, of 1 to 64 bytes");
    return false;
}

/* NULL: refused. */
static struct lfs_request *begin(struct http_request *http)
{
    struct lfs_request *lfs = http_memory(http, sizeof(*lfs));
    const char *repo = http_param(http, 0) + sizeof("lfs/") - 1;

    lfs->lease = lease_request_new(http, KIND_LOCK);
    lfs->lease->own = lfs;
    if (strchr(repo, '/') != NULL) { /* two repositories would share locks */
        refuse(lfs, "repo: has a slash");
        return NULL;
    }
    return read_owner(lfs) ? lfs : NULL;
}

/* Refuses a caller without the right to the name. */
static bool check_right(struct lfs_request *lfs, const char *name)
{
    const struct auth_caller *caller = http_caller(http_of(lfs));
    enum auth_verb verb = http_access(http_of(lfs));

    if (caller == NULL || auth_allows(caller, verb, name))
        return true;
    http_forbid(http_of(lfs), verb, "this API token gives no right to these locks");
    return false;
}

/* The lock of the path. False: refused. */
static bool set_path(struct lfs_request *lfs, const char *path)
{
    const char *repo = http_param(http_of(lfs), 0);
    char name[HTTP_NAME_MAX + 1];
    int len = snprintf(name, sizeof(name), "%s/%s", repo, path);

    if (path[0] == '\0' || strlen(path) > PATH_MAX_LEN || (size_t)len >= sizeof(name))
        return refuse(lfs, "path: not 1 to 384 bytes, or with the repository more than 507");
    http_log_text(http_of(lfs), "lock", name);
    lfs->lease->lease.names = lock_names_of_one(name);
    return lease_request_check_name(http_of(lfs), "path", name) && check_right(lfs, name);
}

/* False: no path has the id. */
static bool path_of_id(const char *id, char path[PATH_MAX_LEN + 1])
{
    size_t len;

    return text_base64url_decode(id, path, PATH_MAX_LEN + 1, &len) == 0 && len > 0 &&
           text_is_utf8(path, len) && !text_has_control(path, len);
}

/* --- lock --------------------------------------------------------------------------------- */

static void on_acquired(struct lease_request *request, const struct acquire_result *result)
{
    struct lfs_request *lfs = request->own;
    const char *name = lease_name(&request->lease);

    if (result->outcome == TRY_GRANTED) {
        struct lfs_lock lock = {.fencing_token = result->lease->holds[0].fencing_token};
        snprintf(lock.owner, sizeof(lock.owner), "%s", lfs->owner);
        lease_log_hold(request, result->lease);
        reply_lock(lfs, 201, &lock);
    } else if (result->outcome == TRY_BUSY) {
        const struct lfs_lock lock = lock_of(lfs, name, result->lease->holder);
        problem_reply(request->http, PROBLEM_LOCK_EXISTS,
                      json_pack("{s:o}", "lock", lock_json(name, &lock)),
                      "the path is locked already, by %s", lock.owner);
    } else {
        lease_reply_acquired(request, result);
    }
}

void lfs_lock(struct http_request *http)
{
    struct lfs_request *lfs = begin(http);
    struct lease_fields fields = {0};
    char word[WORD_LEN + 1], note[LOCK_NOTE_SIZE];

    if (lfs == NULL || !lease_request_query(lfs->lease, &fields))
        return;
    json_t *body = neighbour_body(http);
    const char *path = body != NULL ? neighbour_text(http, body, "path", PATH_MAX_LEN) : NULL;
    bool is_read = path != NULL && set_path(lfs, path);
    json_decref(body);
    if (!is_read)
        return;
    token_random_hex(word, WORD_LEN);
    snprintf(note, sizeof(note), "%s %s", lfs->owner, word);
    lease_request_note(lfs->lease, note);
    neighbour_acquire(lfs->lease, &fields, on_acquired);
}

/* --- list --------------------------------------------------------------------------------- */

struct page_fields {
    struct field_text path, id, cursor, refspec;
    struct field_integer limit;
};

static const struct field page_fields[] = {
    {"path", FIELD_TEXT, offsetof(struct page_fields, path), 0, FIELD_TEXT_SIZE - 1},
    {"id", FIELD_TEXT, offsetof(struct page_fields, id), 0, FIELD_TEXT_SIZE - 1},
    {"cursor", FIELD_TEXT, offsetof(struct page_fields, cursor), 0, LIST_CURSOR_SIZE - 1},
    {"refspec", FIELD_TEXT, offsetof(struct page_fields, refspec), 0, FIELD_TEXT_SIZE - 1},
    {"limit", FIELD_INTEGER, offsetof(struct page_fields, limit), 0, INT64_MAX},
};

static void begin_page(struct lfs_request *lfs)
{
    json_text_begin(&lfs->locks);
    json_text_open_array(&lfs->locks, lfs->is_verify ? "ours" : "locks");
    json_text_begin(&lfs->theirs);
    json_text_open_array(&lfs->theirs, "theirs");
}

static void add_lock(struct lfs_request *lfs, const char *name, const struct lock_view *view)
{
    const struct lfs_lock lock = lock_of(lfs, name,
                                         view->holders_shown > 0 ? &view->holders[0] : NULL);
    json_t *json = lock_json(name, &lock);
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;

    if (text != NULL)
        json_text_element(lfs->is_verify && !lock.is_ours ? &lfs->theirs : &lfs->locks, text,
                          strlen(text));
    free(text);
    json_decref(json);
}

static void reply_page(struct lfs_request *lfs, const char *next_cursor)
{
    json_text_close_array(&lfs->locks);
    json_text_close_array(&lfs->theirs);
    if (lfs->is_verify) { /* the text of `theirs` is `{"theirs":[…]` */
        static const char before[] = "{\"theirs\":";
        json_text_raw(&lfs->locks, "theirs", lfs->theirs.text + sizeof(before) - 1,
                      lfs->theirs.len - (sizeof(before) - 1));
    }
    json_text_drop(&lfs->theirs);
    if (next_cursor[0] != '\0')
        json_text_string(&lfs->locks, "next_cursor", next_cursor);
    http_reply_written(http_of(lfs), 200, &lfs->locks);
}

static void drop_page(struct lfs_request *lfs)
{
    json_text_drop(&lfs->locks);
    json_text_drop(&lfs->theirs);
}

static void on_found(void *arg, const char *name, const struct lock_view *view)
{
    add_lock(arg, name, view);
}

static void on_listed(void *arg, const struct lock_list *list)
{
    struct lfs_request *lfs = arg;

    if (list->outcome == CALL_DONE) {
        reply_page(lfs, list->next_cursor);
    } else {
        drop_page(lfs);
        reply_unavailable(http_of(lfs), list->outcome);
    }
}

static void list(struct lfs_request *lfs, const char *cursor, int64_t limit)
{
    char prefix[HTTP_NAME_MAX + 2];
    size_t page = limit >= 1 && limit < PAGE_MAX ? (size_t)limit : PAGE_MAX;

    snprintf(prefix, sizeof(prefix), "%s/", http_param(http_of(lfs), 0));
    if (!check_right(lfs, prefix))
        return;
    begin_page(lfs);
    if (strlen(prefix) >= HTTP_NAME_MAX) { /* which leaves no room for a path */
        reply_page(lfs, "");
        return;
    }
    if (lock_list(lfs->lease->context->store, prefix, page, cursor, on_found, on_listed, lfs) ==
        0)
        return;
    drop_page(lfs);
    refuse(lfs, "cursor: not a next_cursor of this listing");
}

/* The list of the lock of one path. */
static void on_found_by_path(void *arg, const struct lock_view *view)
{
    struct lfs_request *lfs = arg;

    if (view->outcome != CALL_DONE && view->outcome != CALL_WRONG_TYPE) {
        reply_unavailable(http_of(lfs), view->outcome);
        return;
    }
    begin_page(lfs);
    if (view->outcome == CALL_DONE && view->locked)
        add_lock(lfs, lease_name(&lfs->lease->lease), view);
    reply_page(lfs, "");
}

static void look(struct lfs_request *lfs, lock_get_done *done)
{
    static const struct lock_query query = {.holders_max = 1};

    lock_get(lfs->lease->context->store, lease_name(&lfs->lease->lease), &query, done, lfs);
}

static void list_one(struct lfs_request *lfs, const struct page_fields *fields)
{
    char path[FIELD_TEXT_SIZE];
    bool has_path = !fields->id.given || path_of_id(fields->id.text, path);

    if (has_path && fields->id.given && fields->path.given)
        has_path = strcmp(path, fields->path.text) == 0;
    if (!fields->id.given)
        memcpy(path, fields->path.text, sizeof(path));
    if (!has_path) {
        begin_page(lfs);
        reply_page(lfs, "");
    } else if (set_path(lfs, path)) {
        look(lfs, on_found_by_path);
    }
}

void lfs_list(struct http_request *http)
{
    struct lfs_request *lfs = begin(http);
    struct page_fields fields = {0};

    if (lfs == NULL ||
        !request_query_fields(http, page_fields, sizeof(page_fields) / sizeof(page_fields[0]),
                              &fields))
        return;
    if (fields.path.given || fields.id.given)
        list_one(lfs, &fields);
    else
        list(lfs, fields.cursor.text, fields.limit.value);
}

/* Before a push: which locks are the caller's, and which are not. */
void lfs_verify(struct http_request *http)
{
    struct lfs_request *lfs = begin(http);
    json_t *body = lfs != NULL && request_query_fields(http, NULL, 0, NULL)
                       ? neighbour_body(http)
                       : NULL;
    const json_t *cursor = json_object_get(body, "cursor");
    const char *text = json_string_length(cursor) > 0
                           ? neighbour_text(http, body, "cursor", LIST_CURSOR_SIZE - 1)
                           : "";

    if (body != NULL && text != NULL) {
        lfs->is_verify = true;
        list(lfs, text, json_integer_value(json_object_get(body, "limit")));
    }
    json_decref(body);
}

/* --- unlock ------------------------------------------------------------------------------- */

static void on_released(void *arg, const struct lease_result *result)
{
    struct lfs_request *lfs = arg;

    if (result->outcome == LEASE_RELEASED)
        reply_lock(lfs, 200, &lfs->lock);
    else
        lease_reply_failure(lfs->lease, result);
}

static void on_forced(struct lease_request *request, bool unlocked)
{
    struct lfs_request *lfs = request->own;

    (void)unlocked; /* free either way */
    reply_lock(lfs, 200, &lfs->lock);
}

/* Frees the grant that was looked at, and no later grant. Readers, which only clients of other
 * protocols are, are freed together, and so is whoever has come after them. */
static void force(struct lfs_request *lfs)
{
    struct lease *lease = &lfs->lease->lease;
    const struct auth_caller *caller = http_caller(http_of(lfs));
    char only[TEXT_INT64_SIZE] = "";

    if (caller != NULL && !auth_allows(caller, AUTH_OPERATE, lease_name(lease))) {
        http_forbid(http_of(lfs), AUTH_OPERATE, "force ends the lock of another owner");
        return;
    }
    if (lfs->lock.fencing_token > 0 && !lfs->lock.is_read)
        text_format_int64(only, lfs->lock.fencing_token);
    snprintf(lease->note, sizeof(lease->note), "git lfs unlock --force by %s", lfs->owner);
    locks_force(lfs->lease, only, on_forced);
}

static void unlock(struct lfs_request *lfs, const struct lock_holder *holder)
{
    const char *name = lease_name(&lfs->lease->lease);

    lfs->lock = lock_of(lfs, name, holder);
    if (lfs->lock.is_ours) {
        lease_request_note(lfs->lease, holder->note);
        lease_release(lfs->lease->context->store, &lfs->lease->lease, on_released, lfs);
    } else if (lfs->force) {
        force(lfs);
    } else {
        problem_reply(http_of(lfs), PROBLEM_FORBIDDEN,
                      json_pack("{s:o}", "lock", lock_json(name, &lfs->lock)),
                      "the lock is of %s: only force unlocks it", lfs->lock.owner);
    }
}

static void on_looked(void *arg, const struct lock_view *view)
{
    struct lfs_request *lfs = arg;

    if (view->outcome == CALL_WRONG_TYPE)
        problem_reply(http_of(lfs), PROBLEM_WRONG_KIND, NULL,
                      "this name is in use in Redis as another kind of object");
    else if (view->outcome != CALL_DONE)
        reply_unavailable(http_of(lfs), view->outcome);
    else if (!view->locked)
        problem_reply(http_of(lfs), PROBLEM_NOT_FOUND, NULL, "the path is not locked");
    else
        unlock(lfs, view->holders_shown > 0 ? &view->holders[0] : NULL);
}

void lfs_unlock(struct http_request *http)
{
    struct lfs_request *lfs = begin(http);
    char path[PATH_MAX_LEN + 1];
    json_t *body = lfs != NULL && request_query_fields(http, NULL, 0, NULL)
                       ? neighbour_body(http)
                       : NULL;

    if (body == NULL)
        return;
    lfs->force = json_is_true(json_object_get(body, "force"));
    json_decref(body);
    if (!path_of_id(http_param(http, 1), path))
        problem_reply(http, PROBLEM_NOT_FOUND, NULL, "no lock has this id");
    else if (set_path(lfs, path))
        look(lfs, on_looked);
}
