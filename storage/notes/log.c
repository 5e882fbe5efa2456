/* The log lines about sessions that expired and leases that sessions lost. */
#include <string.h>

#include "server/base/log.h"
#include "server/base/text.h"
#include "storage/notes/notes.h"

/* Adds the names as clients say them, without the operator's prefix. */
static void add_names(json_t *fields, const struct store *store, const struct lease_ref *ref,
                      const char *kind)
{
    size_t prefix_len = strlen(store_config(store)->key_prefix);
    struct lease_ref_name names[LOCKS_MAX];
    json_t *all = json_array();

    lease_ref_names(ref, names);
    for (size_t i = 0; i < ref->lock_count; i++) {
        size_t skip = names[i].len >= prefix_len ? prefix_len : names[i].len;
        json_array_append_new(all, json_stringn(names[i].text + skip, names[i].len - skip));
    }
    if (lease_ref_is_set(ref))
        json_object_set(fields, "locks", all);
    else
        json_object_set(fields, kind_row_of(kind)->member, json_array_get(all, 0));
    json_decref(all);
}

void session_log_expiry(const char *session_id, const char *name, int64_t lease_count)
{
    /* Redis may hold any bytes. */
    if (!text_is_utf8(name, strlen(name)))
        name = NULL;
    log_write(LOG_LEVEL_WARN, "session expired",
              json_pack("{s:s, s:s*, s:I}", "session_id", session_id, "session_name", name,
                        "leases", (json_int_t)lease_count));
}

void session_log_loss(const struct store *store, const char *session_id,
                      const struct lease_ref *ref, const char *reason, const char *kind)
{
    char lease_id[LEASE_ID_SIZE];

    if (!log_is_on(LOG_LEVEL_WARN))
        return;
    lease_ref_id(ref, lease_id);
    json_t *fields = json_object();
    add_names(fields, store, ref, kind);
    json_object_set_new(fields, "lease_id", json_string(lease_id));
    json_object_set_new(fields, "session_id", json_string(session_id));
    json_object_set_new(fields, "reason", json_string(reason));
    log_write(LOG_LEVEL_WARN, "lease lost", fields);
}
