#include "storage/lease_record.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/text.h"

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

void lease_record_write(struct lease_record_text *record, const struct lease *lease,
                        const struct key *lock)
{
    char ttl[TEXT_INT64_SIZE];

    record->len = 0;
    write_string(record, "held");
    write_string(record, ""); /* why it ended */
    write_string(record, lease->mark);
    write_string(record, ""); /* since when */
    write_line(record, ttl, text_format_int64(ttl, lease->ttl_ms));
    write_string(record, lease->note);
    write_string(record, lease->session_id);
    write_string(record, ""); /* fencing token */
    write_string(record, lease->watchdog ? "1" : "");
    write_string(record, lock_kind_name(lease->kind));
    write_string(record, lease->owner);
    write_line(record, lock->text, lock->len);
    record->len--; /* without the last newline */
}

/* Cuts the next line off [*text, end); "" at the end. */
static void next_line(const char **text, const char *end, char *out, size_t out_size)
{
    const char *newline = memchr(*text, '\n', (size_t)(end - *text));
    size_t len = (size_t)((newline ? newline : end) - *text);

    if (len >= out_size)
        len = 0; /* not ours */
    memcpy(out, *text, len);
    out[len] = '\0';
    *text = newline ? newline + 1 : end;
}

void lease_record_parse(struct lease_record *record, const char *text, size_t len)
{
    char mark[LOCK_MARK_SIZE], since[24], ttl[24], token[24], watchdog[4];
    const char *end = text + len;

    if (len == 0) { /* a new lease: there is nothing to read yet */
        memset(record, 0, sizeof(*record));
        return;
    }
    next_line(&text, end, record->state, sizeof(record->state));
    next_line(&text, end, record->detail, sizeof(record->detail));
    next_line(&text, end, mark, sizeof(mark));
    next_line(&text, end, since, sizeof(since));
    next_line(&text, end, ttl, sizeof(ttl));
    next_line(&text, end, record->note, sizeof(record->note));
    next_line(&text, end, record->session_id, sizeof(record->session_id));
    next_line(&text, end, token, sizeof(token));
    next_line(&text, end, watchdog, sizeof(watchdog));
    next_line(&text, end, record->kind, sizeof(record->kind));
    next_line(&text, end, record->owner, sizeof(record->owner));
    record->since_ms = strtoll(since, NULL, 10);
    record->ttl_ms = strtoll(ttl, NULL, 10);
    record->watchdog = watchdog[0] == '1';
}
