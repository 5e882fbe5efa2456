/* What the kinds of clients share. */
#ifndef RLOCKD_TESTS_SIM_CLIENTS_H
#define RLOCKD_TESTS_SIM_CLIENTS_H

#include "tests/sim/calls.h"

#define MS CLOCK_NS_PER_MS

/* A client asks again at most so often with one token, before it leaves the lease to its end.
 */
enum { TRIES = 8 };

struct client;

/* A kind of clients: how a lease is chosen, and how one cycle goes. */
struct client_kind {
    const char *name;
    int count;
    struct lease (*pick)(struct client *client);
    void (*run)(struct client *client);
};

struct client {
    struct caller caller;
    const struct client_kind *kind;
};

struct chance *chance_of(struct client *client);
bool likely(struct client *client, unsigned percent);
const char *one_of(struct client *client, const char *const *names, size_t count);
int64_t pick_ttl(struct client *client);
int64_t pick_wait(struct client *client);
/* Sleeps, in a slow run for longer. */
void nap(struct client *client, int64_t least_ms, int64_t most_ms);
/* Until so many tasks have counted themselves as over. */
void await(const int *over, int count);

/* Those of which a client may want several at once. */
enum { PLAIN = 3 };
extern const char *plain_names[PLAIN];

/* So many clients of each kind; returns how many of all. `over` counts those that have ended.
 */
int kinds_start(const struct client_kind *kinds, size_t kind_count, int *over);

struct lease pick_plain(struct client *client);
struct lease pick_fair(struct client *client);
struct lease pick_read_write(struct client *client);
struct lease pick_permit(struct client *client);
struct lease pick_any(struct client *client);
/* Several locks at once. */
struct lease pick_several(struct client *client);
/* Whether it was granted. Asks with the same token until the outcome is known. */
bool get(struct client *client, struct lease *lease, int64_t ttl_ms, int64_t wait_ms);
void give_back(struct client *client, struct lease *lease);
/* Whether a token may be sent again with which a request was sent at that time; 0: there was
 * none. That request may have been granted or have ended the lease, the new request may wait in
 * a front end that is paused, and until then the token must be remembered. */
bool may_repeat(int64_t sent_ns);
/* Whether no fault has undone anything since `losses` was that of the world. */
bool data_is_kept_since(int64_t losses);
void work(struct client *client, struct lease *lease, int64_t ttl_ms);
/* Gets it and works. */
void cycle(struct client *client, struct lease *lease, int64_t ttl_ms);

void run_cycles(struct client *client);
void run_impatient(struct client *client);
void run_stranger(struct client *client);
/* clients_session.c */
void run_sessions(struct client *client);
void run_visitor(struct client *client);
void run_forced(struct client *client);
/* clients_counter.c: semaphores and latches */
void run_semaphore(struct client *client);
void run_drainer(struct client *client);
void run_renewer(struct client *client);
void run_latch_waiter(struct client *client);
void run_latch_counter(struct client *client);
/* clients_crowd.c */
void run_overtaker(struct client *client);
void run_crowd(struct client *client);
/* clients_odd.c */
void run_odd(struct client *client);
void run_meddler(struct client *client);
/* After the faults: a failover may have undone that the meddler gave a lock its end again. */
void end_odd_lock(void);
/* Past all front ends, to the server that has the key; of a quorum to each. The words are
 * counted off by a NULL. */
void tell_redis(const char *const *words);
/* The same, to the server that has the key, and its reply. False: no process is there. */
bool ask_past_fronts(const char *key, const char *const *words, struct buffer *reply);
/* Until redis_disconnect(). NULL: no process is there. */
struct redis_client *listen_past_fronts(const char *key, const char *channel,
                                        void (*on_message)(void *arg), void *arg);
/* clients_visit.c */
void run_visited(struct client *client);
/* clients_throng.c */
void run_throng(struct client *client);
/* clients_ring.c */
void run_ring(struct client *client);
/* clients_bounds.c */
void run_filler(struct client *client);
void run_looker(struct client *client);
void run_bystander(struct client *client);
/* clients_anew.c */
void run_anew(struct client *client);
/* For check_counters(). */
void note_checks_anew(void);
/* clients_late.c */
void run_late(struct client *client);
/* clients_contest.c */
void run_contest(struct client *client);
/* clients_hoard.c */
enum { HOARD = 70 }; /* leases of one session */
void run_hoarder(struct client *client);

#endif
