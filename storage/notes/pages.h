/* Reads the leases of a session from its home: the notes, and the losses that no keep-alive has
 * told its client of yet. */
#ifndef RLOCKD_STORAGE_NOTES_PAGES_H
#define RLOCKD_STORAGE_NOTES_PAGES_H

#include "storage/store/call_outcome.h"
#include "storage/store/lease_ref.h"
#include "storage/store/store.h"
#include "storage/store/turns.h"

/* Of a note: epoch ms and attempts. Of a loss: reason and kind, a newline between; in a quorum
 * epoch ms and a blank before it. */
enum { SESSION_NOTE_SIZE = 40, SESSION_CURSOR_SIZE = 24 };

struct session_note {
    struct lease_ref ref;
    uint32_t hash;                 /* of the ref: session_page_choose() */
    char value[SESSION_NOTE_SIZE]; /* cut off if it is longer */
};

struct session_notes {
    size_t count, room;
    struct session_note *notes; /* each once */
};

enum session_hash { SESSION_HASH_NOTES, SESSION_HASH_LOST, SESSION_HASHES };

/* `outcome`: CALL_DONE, or why some notes were not read. */
typedef void session_notes_done(void *arg, enum call_outcome outcome);

struct session_reading {
    struct store *store;
    struct turns *turns; /* of a session with many notes */
    const char *session_id;
    session_notes_done *done;
    void *arg;
    struct session_notes hashes[SESSION_HASHES];
    /* Of a quorum: losses of which the client was told, while a server that still has them, or
     * the notes of their leases, was away, each with the time of the loss. They are in neither
     * hash. */
    struct session_notes told;
    struct session_notes marks;
    enum session_hash hash;           /* that is being read */
    char cursor[SESSION_CURSOR_SIZE]; /* of its next page */
    size_t pages;
    struct turn turn;
    bool is_large; /* the reading counts as a large look under way */
};

/* The turns of looks at sessions with many leases, or of keep-alives of such sessions. Each
 * takes megabytes of memory and about a thousand scripts: a worker has a few of these large
 * looks under way, of one session one at a time, and the same number of large keep-alives. */
struct turns *session_large_turns(struct store *store, bool for_keep_alives);

/* Reads both hashes into `reading`, of which the caller has filled in the first five members,
 * the rest cleared. `notes` and `lost`: the first page of each, with its cursor. A session with
 * more pages waits for its turn as a large look. `done` may be called at once. */
void session_notes_read(struct session_reading *reading, const struct redis_value *notes,
                        const struct redis_value *lost);
/* Of a lease that is lost, with this time in its note: whether that was told. A request with
 * the token that came after that was refused, but has made the note newer. */
bool session_loss_was_told(const struct session_reading *reading, const struct lease_ref *ref,
                           int64_t noted_ms);
/* Frees the notes and losses, and ends the large look, if it is one. */
void session_notes_release(struct session_reading *reading);

#endif
