/* Where the values stand in the replies about one lease, in the order of the scripts' headers.
 */
#ifndef RLOCKD_STORAGE_LEASE_REPLIES_H
#define RLOCKD_STORAGE_LEASE_REPLIES_H

/* The first value of each reply: the word that says which of the replies below it is. */
enum { LEASE_REPLY_WORD = 0 };

/* granted, held */
enum {
    HOLD_REPLY_TOKEN = LEASE_REPLY_WORD + 1, /* of a set one for each lock, a blank between */
    HOLD_REPLY_REMAINING_MS,
    HOLD_REPLY_RECORD,
    HOLD_REPLY_HOLDS, /* of a set as the tokens */
    HOLD_REPLY_FREE_PERMITS = HOLD_REPLY_HOLDS,
    HOLD_REPLY_NEXT_END_MS /* of a permit */
};

/* busy: see lib/holder.lua */
enum {
    BUSY_REPLY_REMAINING_MS = LEASE_REPLY_WORD + 1,
    BUSY_REPLY_FIELD,
    BUSY_REPLY_HOLDS,
    BUSY_REPLY_TEXT,
    BUSY_REPLY_NUMBER /* of a set */
};

/* ended */
enum { ENDED_REPLY_REASON = LEASE_REPLY_WORD + 1, ENDED_REPLY_SESSION_ID, ENDED_REPLY_KIND };

/* lost, of lease_claim.lua and lease_watch.lua */
enum { LOST_REPLY_REASON = LEASE_REPLY_WORD + 1, LOST_REPLY_KIND };

/* renewed, of lease_watch.lua */
enum { RENEWED_REPLY_KIND = LEASE_REPLY_WORD + 1 };

/* released */
enum { RELEASED_REPLY_HOLDS_LEFT = LEASE_REPLY_WORD + 1, RELEASED_REPLY_SESSION_ID };

/* wrong-kind, upgrade, too-many, many-reads: of a set */
enum { REFUSED_REPLY_NUMBER = LEASE_REPLY_WORD + 1 };

#endif
