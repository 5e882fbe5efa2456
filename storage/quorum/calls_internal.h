/* Shared by the files about calls of a quorum. Each file needs only those above it: call.c,
 * busy.c, merge.c, lost.c, session_words.c, bind.c, repair.c, session_mend.c, session_end.c,
 * session.c, acquire.c, change.c, look.c, claim.c, notes.c, watch.c, calls.c. */
#ifndef RLOCKD_STORAGE_QUORUM_CALLS_INTERNAL_H
#define RLOCKD_STORAGE_QUORUM_CALLS_INTERNAL_H

#include "script_args.h"
#include "storage/quorum/calls.h"
#include "storage/quorum/repeat.h"
#include "storage/quorum/round.h"
#include "storage/quorum/votes.h"

struct quorum_call;

/* Where the keys of each lock stand in the KEYS of a call, whose lock is the first of `stride`.
 * ARGV[1] is the lease. */
struct repair_keys {
    size_t stride, record, counter;
    int64_t window_ms;
};

/* The lease that repair.c gives to servers which lack it. */
struct lease_repair {
    struct repair_keys keys;
    int64_t token, until_ms;
    node_set done;
};

struct quorum_calls {
    struct quorum_calls_options options;
    unsigned nodes;
    struct quorum_call *live;         /* utlist */
    const struct quorum_call *ending; /* its callback is running; NULL: none is */
    struct repeat_line *repeats;
    struct pool pool, asks; /* of calls, and of their rounds */
    int64_t rounds;         /* of votes, of all attempts: so each has a number of its own */
};

/* The operation that a round is part of, as /metrics names it. */
enum round_operation {
    ROUND_VOTE,
    ROUND_CLAIM,
    ROUND_RENEW,
    ROUND_RELEASE,
    ROUND_END,
    ROUND_FORCE,
    ROUND_SPEND,
    ROUND_LOOK,
    ROUND_CHECK,
    /* of sessions */
    ROUND_OPEN,
    ROUND_KEEP_ALIVE,
    ROUND_SESSION, /* a look at it */
    ROUND_DUE,
    ROUND_SHUT,
    ROUND_CLOSE,
    ROUND_WATCH, /* each lease of a batch by itself */
    ROUND_OPERATIONS
};

/* A phase of a call: it looks at the round, and waits or goes on. */
typedef void call_decide(struct quorum_call *call);

/* The texts of most calls are shorter. */
enum { ARGS_ROOM = 1024 };

/* One call of a store, until its answer. */
struct quorum_call {
    struct quorum_call *prev, *next;
    struct quorum_calls *calls;
    enum script script;
    /* Owned, in `room` if there is room: those of `script`, and for a vote a few more. */
    struct script_args *args;
    struct script_args *bind; /* owned: of session_bind.lua, which goes before each vote or
                                 repair of a lease with a session; NULL: it has none */
    redis_done *done;
    void *arg;
    struct round round;
    call_decide *decide;
    struct quorum_ask ask;
    struct timer pause;
    bool was_sent;      /* some server may have run something */
    node_set voted;     /* servers that may have a vote of this attempt */
    int64_t last_round; /* the number of the last vote */
    int64_t last_token; /* the highest token of the locks that was seen */
    int64_t begun_ns;   /* of votes */
    unsigned tries;     /* of an attempt whose votes were split */
    unsigned asked_again;
    uint64_t blockers;        /* what blocked the last try */
    unsigned blocked;         /* how often in a row the same has blocked a try again */
    struct redis_value *kept; /* a reply that the answer is made of */
    int64_t kept_sent_ns;     /* when the round with that reply began */
    bool claims;              /* the lease that lease_claim.lua is about */
    unsigned claimed;         /* servers that have claimed it before */
    struct script_args *made; /* owned: those of another script than `script` */
    /* The phase after the answer, at each reply; it frees the call. NULL: there is none. */
    call_decide *after;
    /* See quorum_call_insist(). */
    const struct script_args *tail;
    enum script tail_script;
    int64_t tail_ms;
    struct lease_repair repair;
    /* For `args`, if there is room. Neither this nor what follows is cleared. */
    _Alignas(struct script_args) char room[sizeof(struct script_args) + ARGS_ROOM];
};

/* A reply that is a number has this word, and the number as its value. */
#define CALL_WORD_NUMBER "0"

/* A word that a reply begins with, and which value of the reply counts; 0: none. */
struct call_word {
    const char *text;
    enum node_word word;
    size_t value_at;
};

/* call.c */
struct quorum_call *quorum_call_new(struct quorum_calls *calls, enum script script,
                                    const struct script_args *args, redis_done *done,
                                    void *arg);
/* The clocks of the servers, as far as they are known, in µs: at least one. Returns how many.
 */
size_t quorum_clocks_us(const struct quorum_calls *calls, int64_t clocks_us[QUORUM_NODES_MAX]);
/* The middle one of them, in epoch ms. */
int64_t quorum_clock_ms(const struct quorum_calls *calls);
/* The token to propose (A1): above every token that the call has seen, and near the clocks of
 * the servers. */
int64_t quorum_propose(const struct quorum_call *call);
/* By how much the clock of a server is ahead of the middle one; 0 also if it is not known. */
int64_t quorum_ahead_ms(const struct quorum_calls *calls, size_t number);
/* Asks all servers, or nobody if so few are connected that no majority can answer. */
void quorum_call_ask(struct quorum_call *call, enum script script,
                     const struct script_args *args, call_decide *decide);
/* The same, however few are connected. */
void quorum_call_ask_any(struct quorum_call *call, enum script script,
                         const struct script_args *args, call_decide *decide);
/* Asks some servers, in a further round. */
void quorum_call_ask_of(struct quorum_call *call, enum script script,
                        const struct script_args *args, node_set to, call_decide *decide);
/* Asks nobody: `decide` comes in the next turn of the loop, for no answer may come before a
 * call returns. */
void quorum_call_later(struct quorum_call *call, call_decide *decide);
/* All servers. */
node_set quorum_call_all(const struct quorum_call *call);
/* The replies as votes.h has them. A name that is another type of key is NODE_REFUSED. */
void quorum_call_words(const struct quorum_call *call, const struct call_word *words,
                       size_t count, struct node_reply replies[QUORUM_NODES_MAX]);
/* A table of words, and its length. */
#define WORDS(rows) (rows), sizeof(rows) / sizeof((rows)[0])
/* The conclusion from the replies, by a function of votes.h, now. */
struct conclusion quorum_conclude(const struct quorum_call *call, conclude *how,
                                  const struct node_reply *replies);
/* The same, and counts the conclusion unless it is CONCLUDE_WAIT. */
struct conclusion quorum_call_conclude(const struct quorum_call *call,
                                       enum round_operation operation, conclude *how,
                                       const struct node_reply *replies);
/* Counts what was concluded without the function above. */
void quorum_call_count(const struct quorum_call *call, enum round_operation operation,
                       enum conclusion_word word);
/* The first server with this word, and this value unless it is negative; `nodes`: none has. */
size_t quorum_call_find(const struct quorum_call *call, const struct node_reply *replies,
                        enum node_word word, int64_t value);
const char *quorum_arg(const struct quorum_call *call, size_t at);
/* Of the record that an attempt brings (lib/record.lua): a line, from 0 on, as text of this
 * length. */
enum { LINE_ATTEMPT = 2, LINE_SESSION = 6, LINE_WATCHDOG = 9, LINE_KIND = 10, LINE_OWNER = 11 };
/* The same of any record. */
const char *quorum_line(const char *record, size_t number, size_t *len);
const char *quorum_record_line(const struct quorum_call *call, size_t number, size_t *len);
int64_t quorum_arg_ms(const struct quorum_call *call, size_t at);
/* The length of a lease for which votes.h reckons. */
void quorum_call_reckon(struct quorum_call *call, int64_t ttl_ms);

/* Each of these ends the call. `value` is taken over. */
void quorum_call_answer(struct quorum_call *call, struct redis_value *value);
/* `node` as quorum_call_find() returns it: where no server has said so, the call fails. */
void quorum_call_answer_reply(struct quorum_call *call, size_t node);
void quorum_call_answer_kept(struct quorum_call *call);
/* Nothing is known for sure; or, where no server may have run anything, nothing was done. */
void quorum_call_fail(struct quorum_call *call);
void quorum_call_refuse(struct quorum_call *call, enum redis_refusal refusal);
/* The topology has stopped: no reply is to come. */
void quorum_call_end(struct quorum_call *call);
/* Of a call that was answered. */
void quorum_call_free(struct quorum_call *call);

/* Sends to the servers of `to` until each has confirmed, for `ttl_ms` at most. */
void quorum_call_repeat(struct quorum_call *call, enum script script,
                        const struct script_args *args, node_set to, int64_t ttl_ms);
/* The script of this round, with `call->args` or `call->made`, is to be confirmed by every
 * server, also after the answer, within `ttl_ms` of the round's begin. */
void quorum_call_insist(struct quorum_call *call, enum script script,
                        const struct script_args *args, int64_t ttl_ms);
/* For how long the end of a lease may be repeated: as long as each server that has confirmed
 * the end remembers it. After that the token may be used for another lease. */
int64_t quorum_memory_ms(int64_t window_ms);
/* Empty ARGV and KEYS, which stay with the call. */
struct script_args *quorum_call_make_args(struct quorum_call *call);

/* A call of the room's own, without a client. */
struct quorum_call *quorum_call_inside(const struct quorum_call *call, enum script script,
                                       const struct script_args *args);
/* Sends such a call, a repair, to this server alone, behind its `bind` if it has one. */
void quorum_call_mend(struct quorum_call *call, size_t node);

/* busy.c */
int64_t quorum_random_ms(int64_t most); /* from 1 on */
/* Whether no other lease has a majority of the servers. */
bool quorum_is_split(const struct quorum_call *call, const struct node_reply *replies);
/* Whether the votes of this attempt have a lower token than every lease that blocks it. */
bool quorum_is_oldest(const struct quorum_call *call, const struct node_reply *replies);
/* A number for the leases that block this attempt, and their tokens; 0: there are none. */
uint64_t quorum_blockers(const struct quorum_call *call, const struct node_reply *replies);
/* The reply about the lease that has a majority, with the time for which it has one. */
struct redis_value *quorum_make_busy(const struct quorum_call *call,
                                     const struct node_reply *replies);
/* No lease has a majority, and this one was withdrawn: the request tries again soon. */
struct redis_value *quorum_make_split(int64_t pause_ms);

/* lost.c */
/* E1: ends the lease of this call at all servers, then answers `kept`, made by the next
 * function. The lock of each group of `stride` KEYS is the first one, its record at `record`;
 * ARGV[1] is the lease. `attempt`: whose votes are removed, which stays with the call; empty:
 * none. */
void quorum_end_lost(struct quorum_call *call, size_t stride, size_t record, int64_t window_ms,
                     struct script_text attempt);
/* The answer to lease_claim.lua or lease_watch.lua about a lease that no majority holds: a
 * lease that was lost is ended first (E1). `keys`: as above, without a counter. No answer where
 * replies that are still to come decide whether it is the lease of another session. */
void quorum_answer_unheld(struct quorum_call *call, const struct node_reply *replies,
                          const struct repair_keys *keys);
/* The reply of acquire.lua that a lease has ended. It names no session. */
struct redis_value *quorum_make_ended(const char *reason);

/* bind.c */
enum { SESSION_KEY_SIZE = 96 }; /* "rlockd:session-leases:{<id>}" and a NUL */
/* Fills in the first KEYS of a script: these keys of a session, whose texts stay in `texts`. */
void quorum_put_session_keys(const struct quorum_calls *calls, struct script_args *args,
                             const enum quorum_key *keys, size_t count, struct redis_tag id,
                             char texts[][SESSION_KEY_SIZE]);
/* KEYS and ARGV of session_bind.lua for a lease with this record, or NULL if the record names
 * no session. The lock of each group of `stride` KEYS is the first one, its record at `record`.
 * ARGV[1] is the lease. `attempt`: "*" stands for every request. The caller frees them. */
struct script_args *quorum_bind_args(const struct quorum_call *call, size_t stride,
                                     size_t record, const char *record_text,
                                     struct script_text attempt, int64_t ttl_ms);
/* So many servers refuse the note, or have an ended session, that no majority has the session
 * open; the best reason. */
bool quorum_is_session_over(const struct quorum_call *call, const struct node_reply *replies,
                            const char **reason);
/* The conclusion from the servers that say nothing of the session. */
enum conclusion_word quorum_conclude_bound(const struct quorum_call *call,
                                           const struct node_reply *replies);
/* Session_bind.lua by itself: nothing is asked, for the note goes with each vote. */
void quorum_bind(struct quorum_call *call);

/* repair.c */
/* To be called before the answer: gives the lease with this record to the servers that say in
 * this round, then or later, that they lack it. */
void quorum_repair(struct quorum_call *call, const struct repair_keys *keys,
                   const struct conclusion *found, const struct redis_value *record);

/* merge.c */
/* How many servers have this word. */
unsigned quorum_count(const struct quorum_call *call, const struct node_reply *replies,
                      enum node_word word);
/* The value at `at` of the reply of a server; NULL: none has come. */
const struct redis_value *quorum_value(const struct quorum_call *call, size_t node, size_t at);
const char *quorum_value_text(const struct quorum_call *call, size_t node, size_t at);
/* The value that a majority has at least, of those with this word; 0: no majority has it. */
int64_t quorum_majority_value(const struct quorum_call *call, const struct node_reply *replies,
                              enum node_word word);
/* Entries of `stride` values, the first of them a text that tells the entry from others. */
struct value_union {
    size_t stride, room;
    struct redis_value *list;
    size_t count; /* of values */
};
/* For entries of all replies, whose lists stand at `at`; each entry comes once. Ends with
 * quorum_union_end(). */
void quorum_union_begin(struct value_union *all, size_t stride, size_t entries);
void quorum_union_add(struct value_union *all, const struct redis_value *entries);
struct redis_value *quorum_union_end(struct value_union *all);
/* The union of the lists at `at` of the servers with this word. */
struct redis_value *quorum_union(const struct quorum_call *call,
                                 const struct node_reply *replies, enum node_word word,
                                 size_t at, size_t stride);

/* session_words.c */
/* The words of replies about a session: a session that has ended is NODE_PASSED or
 * NODE_UNKNOWN, if that is the reason. */
void quorum_session_words(const struct quorum_call *call, const struct call_word *words,
                          size_t count, struct node_reply replies[QUORUM_NODES_MAX]);
/* How many servers say that the session is over, or do not know it. */
unsigned quorum_count_over(const struct quorum_call *call, const struct node_reply *replies);
/* The same as quorum_call_conclude(). CONCLUDE_GONE also where no server alone decides, and a
 * majority has it no more. */
struct conclusion quorum_session_conclude(const struct quorum_call *call,
                                          enum round_operation operation, conclude *how,
                                          const struct node_reply *replies);
/* Why a session has ended, of the servers that have ended it or where it is past its deadline:
 * how it was ended by a request, if one server knows that. */
const char *quorum_end_reason(const struct quorum_call *call, const struct node_reply *replies);
void quorum_session_answer_ended(struct quorum_call *call, const char *reason);

/* session_mend.c */
/* After the answer, once the round is over: gives the session to servers that lack it, or its
 * deadline (S2, S3). */
void quorum_session_mend_later(struct quorum_call *call);

/* session_end.c */
/* S2: the deadline has passed at a majority. Ends the session where it has still passed, and
 * everywhere if that is a majority; then answers `kept`. */
void quorum_session_close(struct quorum_call *call, struct redis_tag id);
void quorum_session_end(struct quorum_call *call);

/* session.c */
void quorum_session_open(struct quorum_call *call);
void quorum_session_keep_alive(struct quorum_call *call);
void quorum_session_get(struct quorum_call *call);
void quorum_session_brief(struct quorum_call *call);

/* acquire.c */
void quorum_acquire(struct quorum_call *call);

/* change.c */
void quorum_renew(struct quorum_call *call);
void quorum_release(struct quorum_call *call);
void quorum_withdraw(struct quorum_call *call);
void quorum_force(struct quorum_call *call);
void quorum_end(struct quorum_call *call);
void quorum_set_names(struct quorum_call *call);

/* look.c */
void quorum_look(struct quorum_call *call);
void quorum_grant_find(struct quorum_call *call);
void quorum_forced_by(struct quorum_call *call);

/* claim.c */
void quorum_claim(struct quorum_call *call);

/* notes.c */
/* Takes what a server's clock is ahead off the epoch ms that begin values of entries: of those
 * from `from` to `to` of a list that was made. */
void quorum_put_back(struct redis_value *entries, size_t from, size_t to, int64_t ahead_ms);
void quorum_unbind(struct quorum_call *call);
void quorum_settle(struct quorum_call *call);
void quorum_page(struct quorum_call *call);
/* HDEL of losses. */
void quorum_told(struct quorum_call *call, const struct redis_command *command);

/* watch.c */
void quorum_due(struct quorum_call *call);
void quorum_index_set(struct quorum_call *call);
void quorum_index_claim(struct quorum_call *call);
void quorum_watch_many(struct quorum_call *call);
void quorum_watch(struct quorum_call *call);

#endif
