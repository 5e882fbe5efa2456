/* Faults of a cluster: slots that move while calls are under way, and a master that is alone.
 */
#include <stdio.h>
#include <string.h>

#include "tests/sim/faults.h"

#define MS CLOCK_NS_PER_MS

enum { SLOTS_AT_ONCE = 4, NODE_TIMEOUT_MS = 1000, KEY_SIZE = 160 };

static struct chance chance;

void cluster_faults_init(uint64_t seed)
{
    chance = chance_make(seed, "cluster faults");
}

static void pause_for(int64_t least_ms, int64_t most_ms)
{
    task_sleep(chance_between(&chance, least_ms, most_ms) * MS);
}

/* A key, or the name of a lock. */
static struct bytes pick_key(char text[KEY_SIZE])
{
    const struct server *server = servers_pick_master(&chance);
    size_t count = HASH_COUNT(server->redis.keys.values);
    const struct value *value = server->redis.keys.values;

    snprintf(text, KEY_SIZE, "%s", lock_names[chance_below(&chance, LOCK_COUNT)].name);
    if (count > 0 && chance_percent(&chance, 50)) {
        for (size_t at = chance_below(&chance, count); at > 0; at--)
            value = value->hh.next;
        snprintf(text, KEY_SIZE, "%s", value->key);
    }
    return (struct bytes){text, strlen(text)};
}

/* Moves some slots to other masters, one key or a few keys at a time. */
int64_t move_slots(const struct fault *fault, struct front *front)
{
    int64_t wanted = chance_between(&chance, 1, SLOTS_AT_ONCE), count = 0;
    uint16_t slots[SLOTS_AT_ONCE];
    char key[KEY_SIZE];

    (void)front;
    for (int64_t i = 0; i < wanted; i++)
        count += cluster_begin_move(pick_key(key), &slots[count]);
    for (int64_t i = 0; i < count; i++) {
        pause_for(fault->least_ms, fault->most_ms);
        while (cluster_move_key(slots[i]))
            if (chance_percent(&chance, 60))
                pause_for(fault->least_ms, fault->most_ms);
        cluster_end_move(slots[i]);
    }
    return count;
}

/* The others do not hear of it, nor it of them; after a while it serves no longer, and of two
 * masters neither does. */
int64_t cut_master_off(const struct fault *fault, struct front *front)
{
    struct server *alone = servers_pick_master(&chance);

    (void)front;
    alone->is_cut_off = true;
    pause_for(NODE_TIMEOUT_MS / 2, NODE_TIMEOUT_MS);
    for (struct server *server = server_next(NULL); server; server = server_next(server))
        server->is_down = server == alone || world.masters == 2;
    pause_for(fault->least_ms, fault->most_ms);
    alone->is_cut_off = false;
    pause_for(0, NODE_TIMEOUT_MS / 2);
    for (struct server *server = server_next(NULL); server; server = server_next(server))
        server->is_down = false;
    return 1;
}
