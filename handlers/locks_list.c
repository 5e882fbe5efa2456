/* GET /v1/locks: pages of all that is held, and the longest holds and waits.
 * GET /v1/semaphores: pages of semaphores and latches. */
#include <stdlib.h>
#include <string.h>

#include "handlers/lease_reply.h"
#include "handlers/lock_view.h"
#include "handlers/locks_longest.h"
#include "handlers/routes.h"
#include "server/base/text.h"
#include "server/http/problem.h"
#include "server/http/request.h"
#include "storage/look/locks.h"
#include "storage/look/permits_get.h"

struct list_fields {
    struct field_text prefix, cursor, order;
    struct field_integer limit, held_longer_than_ms, waited_longer_than_ms;
};

enum { COMMON_FIELDS = 3 }; /* at the front of the table: those of both listings */

static const struct field list_fields[] = {
    {"prefix", FIELD_TEXT, offsetof(struct list_fields, prefix), 0, HTTP_NAME_MAX},
    {"limit", FIELD_INTEGER, offsetof(struct list_fields, limit), 1, 1000},
    {"cursor", FIELD_TEXT, offsetof(struct list_fields, cursor), 0, LIST_CURSOR_SIZE - 1},
    {"order", FIELD_TEXT, offsetof(struct list_fields, order), 1, 16},
    {"held_longer_than_ms", FIELD_INTEGER, offsetof(struct list_fields, held_longer_than_ms), 0,
     LONGER_THAN_MAX_MS},
    {"waited_longer_than_ms", FIELD_INTEGER,
     offsetof(struct list_fields, waited_longer_than_ms), 0, LONGER_THAN_MAX_MS},
};

/* A listing under way: the answer grows with each lock that is found. */
struct listing {
    struct http_request *request;
    struct json_text body;
};

/* Takes over the reference. */
static void add(struct listing *listing, json_t *json)
{
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;

    if (text != NULL)
        json_text_element(&listing->body, text, strlen(text));
    free(text);
    json_decref(json);
}

static void on_found(void *arg, const char *name, const struct lock_view *view)
{
    struct listing *listing = arg;

    add(listing, lock_view_json(http_context(listing->request), name, view));
}

static void on_semaphore(void *arg, const char *name, const struct permits_view *view)
{
    add(arg,
        json_pack("{s:s, s:I, s:I, s:I}", "semaphore", name, "available",
                  (json_int_t)view->free_count, "holder_count", (json_int_t)view->held_count,
                  "waiter_count", (json_int_t)view->waiter_count));
}

static void on_listed(void *arg, const struct lock_list *list)
{
    struct listing *listing = arg;

    if (list->outcome != CALL_DONE) {
        json_text_drop(&listing->body);
        reply_unavailable(listing->request, list->outcome);
    } else {
        json_text_close_array(&listing->body);
        if (list->next_cursor[0] != '\0')
            json_text_string(&listing->body, "next_cursor", list->next_cursor);
        else
            json_text_raw(&listing->body, "next_cursor", "null", 4);
        http_reply_written(listing->request, 200, &listing->body);
    }
}

static struct listing *listing_new(struct http_request *request, const char *member)
{
    struct listing *listing = http_memory(request, sizeof(*listing));

    listing->request = request;
    json_text_begin(&listing->body);
    json_text_open_array(&listing->body, member);
    return listing;
}

static bool refuse_field(struct http_request *request, const char *detail)
{
    problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL, "%s", detail);
    return false;
}

/* Reads `order` and the fields that belong to it; false: the request is refused. */
static bool read_order(struct http_request *request, const struct list_fields *fields,
                       enum census_kind *kind)
{
    bool is_held = strcmp(fields->order.text, "held") == 0;

    if (fields->order.given && !is_held && strcmp(fields->order.text, "waited") != 0)
        return refuse_field(request, "order: must be held or waited");
    if (fields->held_longer_than_ms.given && !is_held)
        return refuse_field(request, "held_longer_than_ms: only with order=held");
    if (fields->waited_longer_than_ms.given && (is_held || !fields->order.given))
        return refuse_field(request, "waited_longer_than_ms: only with order=waited");
    if (fields->cursor.given && fields->order.given)
        return refuse_field(request, "cursor: not with order, which has one page");
    *kind = is_held ? CENSUS_HELD : CENSUS_WAITED;
    return true;
}

static bool may_list(struct http_request *request, const char *prefix)
{
    if (http_caller(request) == NULL || auth_allows(http_caller(request), AUTH_READ, prefix))
        return true;
    http_forbid(request, AUTH_READ,
                "prefix: this API token gives no right to list these names");
    return false;
}

void locks_list(struct http_request *request)
{
    struct handler_context *context = http_context(request);
    struct list_fields fields = {0};
    enum census_kind kind;

    fields.limit.value = 100;
    if (!request_fields(request, list_fields, sizeof(list_fields) / sizeof(list_fields[0]),
                        &fields) ||
        !read_order(request, &fields, &kind) || !may_list(request, fields.prefix.text))
        return;
    if (fields.order.given && context->is_quorum) {
        problem_reply(request, PROBLEM_NOT_SUPPORTED, NULL,
                      "order: a quorum takes no census: list the locks without order");
        return;
    }
    if (fields.order.given) {
        locks_list_longest(request, kind, fields.prefix.text, (size_t)fields.limit.value,
                           kind == CENSUS_HELD ? fields.held_longer_than_ms.value
                                               : fields.waited_longer_than_ms.value);
        return;
    }
    struct listing *listing = listing_new(request, "locks");
    if (lock_list(context->store, fields.prefix.text, (size_t)fields.limit.value,
                  fields.cursor.text, on_found, on_listed, listing) != 0)
        refuse_field(request, "cursor: not a next_cursor of this listing");
}

void semaphores_list(struct http_request *request)
{
    struct handler_context *context = http_context(request);
    struct list_fields fields = {0};

    fields.limit.value = 100;
    if (!request_fields(request, list_fields, COMMON_FIELDS, &fields) ||
        !may_list(request, fields.prefix.text))
        return;
    struct listing *listing = listing_new(request, "semaphores");
    if (semaphore_list(context->store, fields.prefix.text, (size_t)fields.limit.value,
                       fields.cursor.text, on_semaphore, on_listed, listing) != 0)
        refuse_field(request, "cursor: not a next_cursor of this listing");
}
