/* The servers of a quorum: the clock of each, and how many of them fail at a time. In some runs
 * the clock of one is an hour off, so that it takes part in no vote. */
#include "tests/sim/world.h"

enum {
    SKEW_MAX_US = 2500000,
    DRIFT_MAX_PPM = 400, /* all the run long: together at most 3 s */
    STRAY_PERCENT = 20,
    RECONNECT_MS = 3000, /* front ends are connected again by then, and have set the marker */
    CLAIM_MS = 5000      /* a front end that dies in a visit keeps others from it for so long */
};

static int nodes;

void quorum_init(int count, uint64_t seed)
{
    struct chance chance = chance_make(seed, "quorum");

    nodes = count;
    for (int i = 0; i < count; i++) {
        struct server *server = server_at_index(i);
        server->skew_us = chance_between(&chance, -SKEW_MAX_US, SKEW_MAX_US);
        server->clock_ppm = chance_between(&chance, -DRIFT_MAX_PPM, DRIFT_MAX_PPM);
    }
    if (!chance_percent(&chance, STRAY_PERCENT))
        return;
    struct server *stray = server_at_index((int)chance_below(&chance, (uint64_t)count));
    stray->skew_us = chance_percent(&chance, 50) ? HOUR_US : -HOUR_US;
    stray->hurt_until_ns = INT64_MAX;
}

struct server *quorum_pick(struct chance *chance)
{
    struct server *able[SERVERS_MAX];
    int hurt = 0, count = 0;

    for (int i = 0; i < nodes; i++)
        hurt += server_at_index(i)->hurt_until_ns > now_ns();
    for (int i = 0; i < nodes; i++)
        if (hurt < (nodes - 1) / 2 || server_at_index(i)->hurt_until_ns > now_ns())
            able[count++] = server_at_index(i);
    return able[chance_below(chance, (uint64_t)count)];
}

/* The server has every lease again when its quarantine is over and the watchdog has visited the
 * leases that were granted without its vote (docs/quorum.md, "A rolling restart"). */
void quorum_note_restart(struct server *server)
{
    int64_t visit_ms = WATCHDOG_MS * world.pace / 3 + CLAIM_MS;
    int64_t until_ns = now_ns() +
                       (QUORUM_QUARANTINE_MS * world.pace + RECONNECT_MS + visit_ms) *
                           CLOCK_NS_PER_MS;

    if (until_ns > server->hurt_until_ns)
        server->hurt_until_ns = until_ns;
}
