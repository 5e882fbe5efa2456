/* What finished cycles, a grant and a release, leave in Redis' memory. `make test VERBOSE=1
 * ONLY=scripts/test_memory` prints the figures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock_home.h"

/* Hash tables have as many buckets as the next power of two: here 1.3 for each key. */
enum { CYCLES = 100000, AT_ONCE = 100 };

static int64_t info(const char *section, const char *field)
{
    const char *line = strstr(reply_text(command("INFO %s", section)), field);

    assert_non_null(line);
    return strtoll(line + strlen(field), NULL, 10);
}

static void send_cycle(const char *lock, int i)
{
    char id[40], counter[64], queue[64], record[96];
    const char *fresh = "held\n\nw.1\n\n30000\n\n\n\n\n\nlock\n";

    snprintf(id, sizeof(id), "%08x-1111-5111-8111-111111111111", (unsigned)i);
    snprintf(counter, sizeof(counter), "redisson_lock_token:{%s}", lock);
    snprintf(queue, sizeof(queue), "redisson_lock_queue:{%s}", lock);
    snprintf(record, sizeof(record), "rlockd:lease:{%s}:%s", lock, id);
    run_later(SCRIPT_ACQUIRE, KEYS(lock, counter, queue, record),
              ARGS(id, "30000", fresh, "90000", "86400000"));
    run_later(SCRIPT_RELEASE, KEYS(lock, record), ARGS(id, CHANNEL, WINDOW));
}

/* Bytes of Redis' memory that each of CYCLES cycles leaves: of one lock, or of one each. */
static int64_t bytes_a_cycle(bool has_new_names)
{
    ask(.id = A); /* loads the scripts */
    lock_release(A);
    command("FLUSHALL SYNC");
    int64_t before = info("memory", "used_memory:");

    for (int i = 0; i < CYCLES; i += AT_ONCE) {
        for (int j = i; j < i + AT_ONCE; j++) {
            char lock[16];
            snprintf(lock, sizeof(lock), "jobs/%05d", has_new_names ? j : 0);
            send_cycle(lock, j);
        }
        read_replies(2 * AT_ONCE);
    }
    return (info("memory", "used_memory:") - before) / CYCLES;
}

static void finished_cycles(void **state)
{
    (void)state;
    int64_t used_again = bytes_a_cycle(false);
    command("FLUSHALL SYNC");
    int64_t with_new_names = bytes_a_cycle(true);
    int64_t counter = with_new_names - used_again;

    print_message("bytes a finished cycle: %d with a name that is used again, for the retry "
                  "window\n%d with a new name; %d of them stay after the retry window\n",
                  (int)used_again, (int)with_new_names, (int)counter);
    print_message("MEMORY USAGE: record %s, fencing counter %s\n",
                  reply_text(command("MEMORY USAGE rlockd:lease:{jobs/00007}:"
                                     "00000007-1111-5111-8111-111111111111")),
                  reply_text(command("MEMORY USAGE redisson_lock_token:{jobs/00007}")));
    assert_in_range(used_again, 1, 200);
    assert_in_range(counter, 1, 200);
    assert_in_range(with_new_names, 1, 330);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(finished_cycles),
    };

    return cmocka_run_group_tests(tests, redis_set_up, redis_tear_down);
}
