/* The writer and the parser of a lease's record. */
#include "storage/store/lease_record.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/text.h"

static void write_line(struct lease_record_text *record, const char *text, size_t len)
{
    assert(record->len + len < sizeof(record->text));
    memcpy(record->text + record->len, text, len);
    record->len += len;
    record->text[record->len++] = '\n';
}

static void write_string(struct lease_record_text *record, const char *text)
{
    write_line(record, text, strlen(text));
}

/* The note, and the caller if there is one. */
static void write_note(struct lease_record_text *record, const struct lease *lease)
{
    write_string(record, lease->note);
    if (lease->caller[0] == '\0')
        return;
    record->text[record->len - 1] = LEASE_CALLER_MARK; /* where the line ended */
    write_string(record, lease->caller);
}

void lease_record_write(struct lease_record_text *record, const struct lease *lease,
                        const char *session_name)
{
    char ttl[TEXT_INT64_SIZE];

    record->len = 0;
    write_string(record, "held");
    write_string(record, ""); /* why it ended */
    write_string(record, lease->attempt);
    write_string(record, ""); /* since when */
    write_line(record, ttl, text_format_int64(ttl, lease->ttl_ms));
    write_note(record, lease);
    write_string(record, lease->session_id);
    write_string(record, session_name);
    write_string(record, ""); /* fencing token */
    write_string(record, lease->watchdog ? "1" : "");
    write_string(record, kind_row(lease->kind)->name);
    write_string(record, lease->owner);
    record->len--; /* without the last newline */
}

/* Cuts the next line off [*text, end); "" at the end. */
void lease_record_line(const char **text, const char *end, char *out, size_t out_size)
{
    const char *newline = memchr(*text, '\n', (size_t)(end - *text));
    size_t len = (size_t)((newline ? newline : end) - *text);

    if (len >= out_size)
        len = 0; /* not a record of rlockd */
    memcpy(out, *text, len);
    out[len] = '\0';
    *text = newline ? newline + 1 : end;
}

void lease_record_split(char *line, char caller[LEASE_CALLER_SIZE])
{
    char *mark = strchr(line, LEASE_CALLER_MARK);

    caller[0] = '\0';
    if (mark == NULL)
        return;
    *mark = '\0';
    if (strlen(mark + 1) < LEASE_CALLER_SIZE)
        memcpy(caller, mark + 1, strlen(mark + 1) + 1);
}

static void read_note(struct lease_record *record, const char **text, const char *end)
{
    char line[LOCK_NOTE_SIZE + LEASE_CALLER_SIZE];

    lease_record_line(text, end, line, sizeof(line));
    lease_record_split(line, record->caller);
    record->note[0] = '\0';
    if (strlen(line) < sizeof(record->note))
        memcpy(record->note, line, strlen(line) + 1);
}

void lease_record_parse(struct lease_record *record, const char *text, size_t len)
{
    char attempt[ATTEMPT_ID_SIZE], since[24], ttl[24], token[24], watchdog[4];
    const char *end = text + len;

    if (len == 0) { /* a new lease: it has no record to read */
        memset(record, 0, sizeof(*record));
        return;
    }
    lease_record_line(&text, end, record->state, sizeof(record->state));
    lease_record_line(&text, end, record->detail, sizeof(record->detail));
    lease_record_line(&text, end, attempt, sizeof(attempt));
    lease_record_line(&text, end, since, sizeof(since));
    lease_record_line(&text, end, ttl, sizeof(ttl));
    read_note(record, &text, end);
    lease_record_line(&text, end, record->session_id, sizeof(record->session_id));
    lease_record_line(&text, end, record->session_name, sizeof(record->session_name));
    lease_record_line(&text, end, token, sizeof(token));
    lease_record_line(&text, end, watchdog, sizeof(watchdog));
    lease_record_line(&text, end, record->kind, sizeof(record->kind));
    lease_record_line(&text, end, record->owner, sizeof(record->owner));
    record->since_ms = strtoll(since, NULL, 10);
    record->ttl_ms = strtoll(ttl, NULL, 10);
    record->fencing_token = strtoll(token, NULL, 10);
    record->watchdog = watchdog[0] == '1';
}

int64_t lease_granted_us(int64_t fencing_token, const struct lease_record *record)
{
    if (fencing_token > 0)
        return fencing_token;
    /* Any client of Redis may write a record. */
    return record->since_ms > 0 && record->since_ms < INT64_MAX / 1000 ? record->since_ms * 1000
                                                                       : 0;
}
