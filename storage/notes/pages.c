/* The pages of a session's notes and losses. */
#include "storage/notes/pages.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store/call_outcome.h"
#include "storage/store/store.h"
#include "storage/store/store_call.h"
#include "storage/store/look_turns.h"

/* Far more pages than the leases of a session fill. */
enum { PAGES_MAX = 200 };
enum { LARGE_LOOKS_MAX = 2 };

static const char *as_text(const struct redis_value *value)
{
    size_t len;

    return value_text(value, &len);
}

static struct session_note *add(struct session_notes *notes)
{
    if (notes->count == notes->room) {
        notes->room = notes->room * 2 + 16;
        notes->notes = realloc(notes->notes, notes->room * sizeof(notes->notes[0]));
        assert(notes->notes != NULL);
    }
    return &notes->notes[notes->count++];
}

/* The mark of a loss that was told is a field that begins with a blank. */
static void add_entry(struct session_reading *reading, enum session_hash hash,
                      const struct redis_value *ref, const struct redis_value *value)
{
    size_t len;
    const char *text = value_text(ref, &len);
    bool is_mark = hash == SESSION_HASH_LOST && len > 0 && text[0] == ' ';

    if (len == 0)
        return; /* the sentinel */
    struct session_note *note = add(is_mark ? &reading->marks : &reading->hashes[hash]);
    lease_ref_copy(&note->ref, text + is_mark, len - is_mark);
    snprintf(note->value, sizeof(note->value), "%s", as_text(value));
}

static void add_page(struct session_reading *reading, enum session_hash hash,
                     const struct redis_value *entries)
{
    enum { VALUES = SESSION_PAGE_REPLY_ENTRY_VALUES };

    for (size_t i = 0; i < value_count(entries) / VALUES; i++)
        add_entry(reading, hash, value_at(entries, i * VALUES + SESSION_PAGE_REPLY_ENTRY_REF),
                  value_at(entries, i * VALUES + SESSION_PAGE_REPLY_ENTRY_VALUE));
}

static int compare(const void *left, const void *right)
{
    const struct lease_ref *a = &((const struct session_note *)left)->ref;
    const struct lease_ref *b = &((const struct session_note *)right)->ref;
    int order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);

    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

static void sort(struct session_notes *notes)
{
    if (notes->count > 1)
        qsort(notes->notes, notes->count, sizeof(notes->notes[0]), compare);
}

/* A hash that shrinks while it is read may tell a field twice. */
static void drop_repeated(struct session_notes *notes)
{
    size_t kept = 0;

    sort(notes);
    for (size_t i = 0; i < notes->count; i++) {
        if (kept > 0 && compare(&notes->notes[kept - 1], &notes->notes[i]) == 0)
            lease_ref_release(&notes->notes[i].ref);
        else
            notes->notes[kept++] = notes->notes[i];
    }
    notes->count = kept;
}

static const struct session_note *mark_of(const struct session_reading *reading,
                                          const struct session_note *note)
{
    const struct session_notes *marks = &reading->marks;

    if (marks->count == 0)
        return NULL;
    return bsearch(note, marks->notes, marks->count, sizeof(*note), compare);
}

/* Whether the note is older than a loss that was told, or is that of the loss. A token that has
 * ended may be used anew when the retry window is over. The time of the loss, with which it is
 * forgotten, takes the place of the value. */
static bool was_told(const struct session_reading *reading, enum session_hash hash,
                     struct session_note *note)
{
    const struct session_note *mark = mark_of(reading, note);

    if (mark == NULL || (hash == SESSION_HASH_NOTES &&
                         strtoll(note->value, NULL, 10) >= strtoll(mark->value, NULL, 10)))
        return false;
    memcpy(note->value, mark->value, sizeof(note->value));
    return true;
}

static void drop_told(struct session_reading *reading, enum session_hash hash)
{
    struct session_notes *notes = &reading->hashes[hash];
    size_t kept = 0;

    for (size_t i = 0; i < notes->count; i++) {
        if (was_told(reading, hash, &notes->notes[i]))
            *add(&reading->told) = notes->notes[i];
        else
            notes->notes[kept++] = notes->notes[i];
    }
    notes->count = kept;
}

static void finish(struct session_reading *reading)
{
    sort(&reading->marks);
    for (int hash = 0; hash < SESSION_HASHES && reading->marks.count > 0; hash++)
        drop_told(reading, hash);
    reading->done(reading->arg, CALL_DONE);
}

bool session_loss_was_told(const struct session_reading *reading, const struct lease_ref *ref,
                           int64_t noted_ms)
{
    const struct session_note note = {.ref = *ref};
    const struct session_note *mark = mark_of(reading, &note);
    int64_t slack_ms = store_config(reading->store)->retry_window_ms / 2;

    return mark != NULL && noted_ms <= strtoll(mark->value, NULL, 10) + slack_ms;
}

static bool is_last(const struct redis_value *page)
{
    return strcmp(as_text(value_at(page, SESSION_PAGE_REPLY_CURSOR)), "0") == 0;
}

/* --- more than a page --------------------------------------------------------------------- */

static void ask_for_page(struct session_reading *reading);

static void begin_hash(struct session_reading *reading)
{
    memcpy(reading->cursor, "0", 2);
    ask_for_page(reading);
}

static void on_page(void *arg, const struct redis_result *result)
{
    struct session_reading *reading = arg;

    if (result->outcome != REDIS_DONE || ++reading->pages == PAGES_MAX) {
        reading->done(reading->arg, result->outcome != REDIS_DONE ? call_outcome_of(result)
                                                                  : CALL_NOT_EXECUTED);
        return;
    }
    add_page(reading, reading->hash, value_at(result->reply, SESSION_PAGE_REPLY_ENTRIES));
    if (!is_last(result->reply)) {
        lock_copy_text(value_at(result->reply, SESSION_PAGE_REPLY_CURSOR), reading->cursor,
                       sizeof(reading->cursor));
        ask_for_page(reading);
        return;
    }
    drop_repeated(&reading->hashes[reading->hash]);
    if (++reading->hash < SESSION_HASHES)
        begin_hash(reading);
    else
        finish(reading);
}

static void ask_for_page(struct session_reading *reading)
{
    struct store_call *call = call_begin(reading->store, SCRIPT_SESSION_PAGE);
    enum key_kind kind = reading->hash == SESSION_HASH_NOTES ? KEY_SESSION_LEASES
                                                             : KEY_SESSION_LOST;

    call_key(call, SESSION_PAGE_KEY_HASH, kind, call_base(reading->session_id), NULL);
    call_string(call, SESSION_PAGE_ARG_CURSOR, reading->cursor);
    call_send_in_turn(call, on_page, reading);
}

static void on_turn(void *arg, bool may)
{
    struct session_reading *reading = arg;

    reading->is_large = may;
    if (may)
        begin_hash(reading);
    else
        reading->done(reading->arg, CALL_NOT_EXECUTED);
}

/* --- all ---------------------------------------------------------------------------------- */

void session_notes_read(struct session_reading *reading, const struct redis_value *notes,
                        const struct redis_value *lost)
{
    if (!is_last(notes) || !is_last(lost)) {
        /* The first page is read again later, so that a look that waits keeps no reply. */
        reading->turn = (struct turn){
            .begin = on_turn, .arg = reading, .owner = reading->session_id, .weight = 1};
        turn_start(reading->turns, &reading->turn);
        return;
    }
    add_page(reading, SESSION_HASH_NOTES, value_at(notes, SESSION_PAGE_REPLY_ENTRIES));
    add_page(reading, SESSION_HASH_LOST, value_at(lost, SESSION_PAGE_REPLY_ENTRIES));
    finish(reading);
}

static void release(struct session_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        lease_ref_release(&notes->notes[i].ref);
    free(notes->notes);
}

void session_notes_release(struct session_reading *reading)
{
    for (int hash = 0; hash < SESSION_HASHES; hash++)
        release(&reading->hashes[hash]);
    release(&reading->told);
    release(&reading->marks);
    if (!reading->is_large)
        return;
    turn_end(reading->turns, &reading->turn);
    turns_go_on(reading->turns);
}

/* --- turns -------------------------------------------------------------------------------- */

struct large_turns {
    struct turns keep_alives, looks;
};

static void large_turns_init(void *part, struct store *store)
{
    struct large_turns *large = part;

    turns_init(&large->keep_alives, store_loop(store), LARGE_LOOKS_MAX, TURNS_REFUSE);
    turns_init(&large->looks, store_loop(store), LARGE_LOOKS_MAX, TURNS_REFUSE);
}

static void large_turns_release(void *part)
{
    struct large_turns *large = part;

    turns_release(&large->keep_alives);
    turns_release(&large->looks);
}

static const struct store_part large_turns = {.size = sizeof(struct large_turns),
                                              .init = large_turns_init,
                                              .release = large_turns_release};

struct turns *session_large_turns(struct store *store, bool for_keep_alives)
{
    struct large_turns *large = store_part(store, &large_turns);

    return for_keep_alives ? &large->keep_alives : &large->looks;
}
