/* The clients of a simulated run, and the locks that they leave free. */
#include <string.h>

#include "tests/sim/clients.h"

/* The first are those of `plain_names`. */
const struct lock_name lock_names[LOCK_COUNT] = {
    {"lock", "plain-a"}, {"lock", "plain-b"},      {"lock", "plain-c"}, {"lock", "owned-a"},
    {"lock", "owned-b"}, {"fair", "fair-a"},       {"fair", "fair-b"},  {"write", "rw-a"},
    {"write", "rw-b"},   {"permit", PERMITS_NAME}, {"lock", "crowd-a"}, {"permit", LATE_NAME}};

static const struct client_kind kinds[] = {
    {"Client", 5, pick_plain, run_cycles},
    {"FairClient", 3, pick_fair, run_cycles},
    {"ReadWriteClient", 6, pick_read_write, run_cycles},
    {"PermitClient", 3, pick_permit, run_cycles},
    {"MultiClient", 2, pick_several, run_cycles},
    {"ImpatientClient", 4, pick_any, run_impatient},
    {"SessionClient", 4, pick_any, run_sessions},
    {"Visitor", 2, pick_any, run_visitor},
    {"Stranger", 1, pick_any, run_stranger},
    {"Overtaker", 2, pick_any, run_overtaker},
    {"SemaphoreClient", 4, pick_any, run_semaphore},
    {"Drainer", 1, pick_any, run_drainer},
    {"LatchWaiter", 3, pick_any, run_latch_waiter},
    {"LatchCounter", 1, pick_any, run_latch_counter},
    {"Crowd", 1, pick_any, run_crowd},
    {"OddClient", 2, pick_any, run_odd},
    {"Meddler", 1, pick_any, run_meddler},
    {"Visited", 1, pick_any, run_visited},
    {"Forced", 1, pick_any, run_forced},
    {"Hoarder", 1, pick_any, run_hoarder},
    {"Throng", 1, pick_any, run_throng},
    {"Ring", 1, pick_any, run_ring},
    {"Filler", 1, pick_any, run_filler},
    {"Looker", 2, pick_any, run_looker},
    {"Bystander", 1, pick_any, run_bystander},
    {"Late", 1, pick_any, run_late},
    {"Contest", 1, pick_any, run_contest},
    {"Renewer", 1, pick_any, run_renewer},
    {"Anew", 1, pick_any, run_anew},
};

/* The kinds of clients for what a quorum offers. */
static const struct client_kind quorum_kinds[] = {
    {"Client", 6, pick_plain, run_cycles},
    {"ReadWriteClient", 6, pick_read_write, run_cycles},
    {"MultiClient", 3, pick_several, run_cycles},
    {"ImpatientClient", 5, pick_any, run_impatient},
    {"SessionClient", 5, pick_any, run_sessions},
    {"Visitor", 2, pick_any, run_visitor},
    {"Stranger", 1, pick_any, run_stranger},
    {"Overtaker", 3, pick_any, run_overtaker},
    {"Crowd", 1, pick_any, run_crowd},
    {"Hoarder", 1, pick_any, run_hoarder},
    {"Throng", 1, pick_any, run_throng},
    {"Filler", 1, pick_any, run_filler},
    {"Looker", 2, pick_any, run_looker},
    {"Bystander", 1, pick_any, run_bystander},
};

int clients_start(int *over)
{
    /* Of a cluster all locks of a set have to be in one slot. */
    static const char *const in_one_slot[PLAIN] = {"{plain}-a", "{plain}-b", "{plain}-c"};

    if (world.topology == TOPOLOGY_CLUSTER)
        memcpy(plain_names, in_one_slot, sizeof(plain_names));
    if (world.topology == TOPOLOGY_QUORUM)
        return kinds_start(quorum_kinds, sizeof(quorum_kinds) / sizeof(quorum_kinds[0]), over);
    return kinds_start(kinds, sizeof(kinds) / sizeof(kinds[0]), over);
}
