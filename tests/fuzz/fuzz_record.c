/* What Redis keeps as text and C reads: the record of a lease, the marker of an owner, the refs
 * of a session's notes, the names of a set. The input is a byte that chooses, and a text. */
#include "server/base/text.h"
#include "storage/store/holder.h"
#include "storage/store/lease_record.h"
#include "storage/store/lease_ref.h"
#include "tests/fuzz/fuzz.h"

#define CHECK_TEXT(field) CHECK(memchr((field), '\0', sizeof(field)) != NULL)

static void check_record(const struct lease_record *record)
{
    CHECK_TEXT(record->state);
    CHECK_TEXT(record->detail);
    CHECK_TEXT(record->note);
    CHECK_TEXT(record->caller);
    CHECK_TEXT(record->session_id);
    CHECK_TEXT(record->session_name);
    CHECK_TEXT(record->owner);
    CHECK_TEXT(record->kind);
}

/* A lease as a request may have made it comes back from its record as it was. */
static void check_round_trip(const struct lease_record *from)
{
    static const enum object_kind kinds[] = {KIND_LOCK, KIND_FAIR, KIND_READ, KIND_WRITE};
    struct lease lease = {.kind = kinds[from->since_ms & 3],
                          .watchdog = from->watchdog,
                          .ttl_ms = from->ttl_ms,
                          .attempt = "abcd.1"};
    struct lease_record_text text;
    struct lease_record again;

    memcpy(lease.note, from->note, sizeof(lease.note));
    memcpy(lease.caller, from->caller, sizeof(lease.caller));
    memcpy(lease.session_id, from->session_id, sizeof(lease.session_id));
    memcpy(lease.owner, from->owner, sizeof(lease.owner));
    lease_record_write(&text, &lease, from->session_name);
    lease_record_parse(&again, text.text, text.len);
    CHECK(strcmp(again.state, "held") == 0 && strcmp(again.note, from->note) == 0);
    /* A mark in a caller is Redis' own text, and ends the caller of no request. */
    CHECK(strchr(from->caller, LEASE_CALLER_MARK) != NULL ||
          strcmp(again.caller, from->caller) == 0);
    CHECK(strcmp(again.session_id, from->session_id) == 0 &&
          strcmp(again.session_name, from->session_name) == 0);
    CHECK(strcmp(again.owner, from->owner) == 0 && again.ttl_ms == from->ttl_ms);
    CHECK(strcmp(again.kind, kind_row(lease.kind)->name) == 0 &&
          again.watchdog == from->watchdog);
}

static void read_record(const char *text, size_t len)
{
    struct lease_record record;

    lease_record_parse(&record, text, len);
    check_record(&record);
    check_round_trip(&record);
}

static void read_holder(const char *text, size_t len)
{
    struct lock_holder holder = {.hold_count = 1};
    char lease_id[LEASE_ID_SIZE] = "";

    snprintf(holder.field, sizeof(holder.field), "%s", text);
    lock_holder_parse(&holder, text, len);
    CHECK_TEXT(holder.note);
    CHECK_TEXT(holder.session_id);
    CHECK_TEXT(holder.session_name);
    CHECK_TEXT(holder.owner);
    CHECK_TEXT(holder.caller);
    CHECK_TEXT(holder.kind);
    CHECK(lock_holder_len(holder.field) <= strlen(holder.field));
    if (lock_holder_is_lease(holder.field, lease_id))
        CHECK(strlen(lease_id) == LEASE_ID_SIZE - 1 && lock_is_holder(holder.field));
}

static void read_ref(const char *text, size_t len)
{
    struct lease_ref_name names[LOCKS_MAX];
    char lease_id[LEASE_ID_SIZE];
    struct lease_ref ref;

    lease_ref_copy(&ref, text, len);
    CHECK(ref.lock_count <= LOCKS_MAX);
    if (ref.lock_count > 0) {
        lease_ref_id(&ref, lease_id);
        CHECK_TEXT(lease_id);
        (void)lease_ref_is_set(&ref);
        lease_ref_names(&ref, names);
        for (size_t i = 0; i < ref.lock_count; i++)
            CHECK(names[i].text >= ref.text && names[i].text + names[i].len <= ref.text + len);
    }
    lease_ref_release(&ref);
}

static void read_names(const char *text, size_t prefix_len)
{
    struct lock_names *names = lock_names_parse(text, prefix_len);

    if (names == NULL)
        return;
    CHECK(names->count >= 1 && names->count <= LOCKS_MAX);
    for (size_t i = 0; i < names->count; i++)
        CHECK(strlen(names->name[i]) < LOCK_NAME_SIZE);
    (void)lock_names_duplicate(names);
    size_t len;
    char *joined = lock_names_join(names, "", &len);
    struct lock_names *again = lock_names_parse(joined, 0);
    CHECK(again != NULL && again->count == names->count);
    lock_names_unref(again);
    free(joined);
    lock_names_unref(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t which = fuzz_byte(&input);
    size_t len = input.size;
    char *text = fuzz_rest(&input);

    switch (which & 3) {
    case 0:
        read_record(text, len);
        break;
    case 1:
        read_holder(text, len);
        break;
    case 2:
        read_ref(text, len);
        break;
    default:
        read_names(text, which >> 6);
        break;
    }
    free(text);
    return 0;
}
