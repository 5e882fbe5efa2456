/* POST /v1/sessions/{session_id}/force-end: an operator ends a session of any client. */
#include <string.h>

#include "handlers/routes.h"
#include "handlers/sessions.h"
#include "server/http/problem.h"
#include "server/http/request.h"
#include "storage/store/lease.h"

struct force_end_fields {
    struct field_text reason;
};

static const struct field force_end_fields[] = {
    {"reason", FIELD_TEXT, offsetof(struct force_end_fields, reason), 0, LOCK_NOTE_SIZE - 1},
};

/* The leases of a session may be of any lock, also of those that are acquired meanwhile. */
static bool may_end(struct http_request *request)
{
    const struct auth_caller *caller = http_caller(request);

    if (caller == NULL || auth_allows(caller, AUTH_OPERATE, ""))
        return true;
    http_forbid(request, AUTH_OPERATE,
                "to end a session of another client this API token needs operate=*");
    return false;
}

void sessions_force_end(struct http_request *request)
{
    char session_id[SESSION_ID_SIZE];
    struct force_end_fields fields = {0};

    if (!sessions_read_id(request, false, session_id) || !may_end(request) ||
        !request_fields(request, force_end_fields, 1, &fields))
        return;
    http_log_audit(request);
    if (fields.reason.given)
        http_log_text(request, "reason", fields.reason.text);
    sessions_end(request, session_id, true);
}
