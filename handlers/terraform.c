/* /terraform/{name}: the lock half of the `http` backend of Terraform and OpenTofu. The lock of
 * a state is the lock `terraform/{name}`. Terraform describes a lock by its LockInfo, a JSON
 * object of texts, of which `ID` names the lease; the lease keeps the LockInfo as its note. */
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

enum { LOCK_ID_MAX = 64 };

/* The members of a LockInfo that Terraform shows, the most wanted first. */
static const char *const info_members[] = {"ID",      "Operation", "Who", "Created",
                                           "Version", "Path",      "Info"};

/* JSON has escapes for the control characters that a note may not have; jansson leaves DEL as
 * it is. NULL: there is no such text. */
static char *info_text(const json_t *info)
{
    static const size_t flags[] = {JSON_COMPACT, JSON_COMPACT | JSON_ENSURE_ASCII};

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        char *text = json_dumps(info, flags[i]);
        if (text == NULL || !text_has_control(text, strlen(text)))
            return text;
        free(text);
    }
    return NULL;
}

/* A member with which the note would be too long, or have a DEL, is left out. An absent member
 * counts as an empty text. */
static void set_note(struct lease *lease, const json_t *info)
{
    json_t *kept = json_object();

    for (size_t i = 0; i < sizeof(info_members) / sizeof(info_members[0]); i++) {
        json_t *value = json_object_get(info, info_members[i]);
        if (json_string_length(value) == 0)
            continue;
        json_object_set(kept, info_members[i], value);
        char *text = info_text(kept);
        if (text != NULL && strlen(text) < sizeof(lease->note))
            memcpy(lease->note, text, strlen(text) + 1);
        else
            json_object_del(kept, info_members[i]);
        free(text);
    }
    json_decref(kept);
}

static void set_text(json_t *json, const char *member, const char *text)
{
    if (text[0] != '\0')
        json_object_set_new(json, member, json_string(text));
}

/* Whether Go takes the text for a time: it knows neither small letters nor leap seconds, and at
 * any other text gives up the whole answer. */
static bool is_time(const char *text)
{
    enum { SECOND = sizeof("2027-01-31T12:00:") - 1 };
    int64_t seconds;

    return date_parse(text, &seconds) && strpbrk(text, "tz") == NULL && text[SECOND] != '6';
}

static bool is_shown(const char *member, const json_t *value)
{
    return json_is_string(value) &&
           (strcmp(member, "Created") != 0 || is_time(json_string_value(value)));
}

/* The LockInfo in a note. Any client may write a note: only the texts of a LockInfo are taken,
 * since they become members of the answer. NULL: there is none. */
static json_t *info_in(const char *note)
{
    json_t *found = json_loads(note, 0, NULL), *info = NULL;

    if (json_is_string(json_object_get(found, "ID")))
        info = json_object();
    for (size_t i = 0; i < sizeof(info_members) / sizeof(info_members[0]); i++) {
        json_t *value = json_object_get(found, info_members[i]);
        if (info != NULL && is_shown(info_members[i], value))
            json_object_set(info, info_members[i], value);
    }
    json_decref(found);
    return info;
}

/* The LockInfo of the holder; of a holder that is no Terraform, a LockInfo that says so. */
static json_t *info_of(const struct lock_holder *holder)
{
    char lease_id[LEASE_ID_SIZE];
    json_t *info = holder != NULL ? info_in(holder->note) : NULL;

    if (info != NULL)
        return info;
    info = json_pack("{s:s, s:s}", "ID", "unknown", "Operation", "not by Terraform");
    if (holder != NULL) {
        set_text(info, "ID",
                 lock_holder_is_lease(holder->field, lease_id) ? lease_id : holder->field);
        set_text(info, "Who", holder->caller);
        set_text(info, "Info", holder->note);
    }
    return info;
}

static void on_acquired(struct lease_request *request, const struct acquire_result *result)
{
    if (result->outcome == TRY_GRANTED) {
        lease_reply_hold(request, 200, result->lease); /* Terraform takes no 201 */
    } else if (result->outcome == TRY_BUSY) {
        json_t *info = info_of(result->lease->holder);
        reply_retry_after(request->http, info, result->lease->remaining_ms);
        problem_reply(request->http, PROBLEM_LOCKED, info, "another holder has the lock");
    } else if (result->outcome == TRY_REFUSED && result->lease->outcome == LEASE_WRONG_KIND) {
        problem_reply(request->http, PROBLEM_STATE_OF_WRONG_KIND, NULL,
                      "this name is in use in Redis as another kind of object");
    } else {
        lease_reply_acquired(request, result);
    }
}

/* NULL: refused. */
static struct lease_request *begin(struct http_request *http, struct lease_fields *fields)
{
    struct lease_request *request = lease_request_new(http, KIND_LOCK);

    return lease_request_name(request) && lease_request_query(request, fields) ? request : NULL;
}

/* The ID of the LockInfo in the body, with which the request goes on. False: refused. */
static bool read_info(struct lease_request *request)
{
    json_t *info = neighbour_body(request->http);
    const char *id = info != NULL ? neighbour_text(request->http, info, "ID", LOCK_ID_MAX)
                                  : NULL;

    if (id != NULL) {
        lease_request_client(request, id);
        set_note(&request->lease, info);
    }
    json_decref(info);
    return id != NULL;
}

void terraform_lock(struct http_request *http)
{
    struct lease_fields fields = {0};
    struct lease_request *request = begin(http, &fields);

    if (request != NULL && read_info(request))
        neighbour_acquire(request, &fields, on_acquired);
}

/* --- unlock ------------------------------------------------------------------------------- */

/* `terraform force-unlock` sends no body, so nothing says whose lease is meant. */
static void force(struct lease_request *request)
{
    const struct auth_caller *caller = http_caller(request->http);

    if (caller != NULL && !auth_allows(caller, AUTH_OPERATE, lease_name(&request->lease))) {
        http_forbid(request->http, AUTH_OPERATE,
                    "an unlock without a LockInfo ends the lease of any client");
        return;
    }
    snprintf(request->lease.note, sizeof(request->lease.note), "terraform force-unlock");
    locks_force(request, "", locks_reply_forced);
}

void terraform_unlock(struct http_request *http)
{
    struct lease_fields fields = {0}; /* of the LOCK, which may have the same address */
    struct lease_request *request = begin(http, &fields);
    size_t len;

    if (request == NULL)
        return;
    http_body(http, &len);
    if (len == 0)
        force(request);
    else if (read_info(request))
        lease_request_release(request);
}
