/* The holder fields of a lock's hash, and the clients behind them, from the records of their
 * leases. */
#include "storage/store/holder.h"

#include <string.h>

#include "storage/store/lease_record.h"

bool lock_is_holder(const char *field)
{
    static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx:";

    for (size_t i = 0; shape[i] != '\0'; i++) {
        if (shape[i] == 'x' ? strchr("0123456789abcdefABCDEF", field[i]) == NULL || !field[i]
                            : field[i] != shape[i])
            return false;
    }
    return true;
}

bool lock_holder_is_ours(const char *holder)
{
    enum { VERSION_AT = 14 };

    return lock_is_holder(holder) && holder[VERSION_AT] == '5';
}

size_t lock_holder_len(const char *holder)
{
    static const char writer[] = ":write"; /* Redisson's RedissonWriteLock.getLockName() */
    size_t len = strlen(holder), mark_len = sizeof(writer) - 1;

    return len > mark_len && strcmp(holder + len - mark_len, writer) == 0 ? len - mark_len
                                                                          : len;
}

bool lock_holder_is_lease(const char *holder, char lease_id[LEASE_ID_SIZE])
{
    const char *thread = holder + LEASE_ID_SIZE - 1;

    if (!lock_is_holder(holder) || lock_holder_len(holder) != LEASE_ID_SIZE + 1 ||
        (thread[1] != '0' && thread[1] != 'm'))
        return false;
    memcpy(lease_id, holder, LEASE_ID_SIZE - 1);
    lease_id[LEASE_ID_SIZE - 1] = '\0';
    return true;
}

/* The session and the owner of a holder field <session id>:<owner>. */
static void split_field(struct lock_holder *holder)
{
    size_t len = lock_holder_len(holder->field);

    if (len < SESSION_ID_SIZE || len - SESSION_ID_SIZE >= sizeof(holder->owner))
        return;
    memcpy(holder->session_id, holder->field, SESSION_ID_SIZE - 1);
    memcpy(holder->owner, holder->field + SESSION_ID_SIZE, len - SESSION_ID_SIZE);
}

static void parse_owner(struct lock_holder *holder, const char *text, const char *end)
{
    char field[LOCK_HOLDER_SIZE], name[SESSION_NAME_SIZE + LEASE_CALLER_SIZE];

    lease_record_line(&text, end, field, sizeof(field));
    lease_record_line(&text, end, holder->kind, sizeof(holder->kind));
    if (field[0] == '\0' || strcmp(field, holder->field) != 0)
        return;
    lease_record_line(&text, end, name, sizeof(name));
    lease_record_split(name, holder->caller);
    if (strlen(name) < sizeof(holder->session_name))
        memcpy(holder->session_name, name, strlen(name) + 1);
    split_field(holder);
}

void lock_holder_parse(struct lock_holder *holder, const char *text, size_t len)
{
    static const char held[] = "held\n";
    struct lease_record record;

    if (len < sizeof(held) - 1 || memcmp(text, held, sizeof(held) - 1) != 0) {
        parse_owner(holder, text, text + len);
        return;
    }
    lease_record_parse(&record, text, len);
    memcpy(holder->kind, record.kind, sizeof(holder->kind));
    memcpy(holder->session_id, record.session_id, sizeof(holder->session_id));
    memcpy(holder->session_name, record.session_name, sizeof(holder->session_name));
    memcpy(holder->caller, record.caller, sizeof(holder->caller));
    holder->fencing_token = record.fencing_token;
    if (record.owner[0] != '\0') { /* any of the owner's leases: its note is not the owner's */
        memcpy(holder->owner, record.owner, sizeof(holder->owner));
        return;
    }
    memcpy(holder->note, record.note, sizeof(holder->note));
    holder->watchdog = record.watchdog;
}
