/* storage/topology/cluster_probe.c: the keys that a new connection to a master is tried with,
 * and how often they are looked for. For one test program: storage/redis/slot.c is left out. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "storage/topology/cluster_internal.h"

enum { OWNED = 7, FOREIGN = 8, NUMBER = 42 };

static unsigned searches;

/* The tag with the number NUMBER is in the slot OWNED, and no other tag is. */
bool redis_slot_walk(const struct redis_tag *text, unsigned count,
                     bool (*visit)(void *arg, unsigned number, uint16_t slot), void *arg)
{
    (void)text;
    searches++;
    for (unsigned number = 0; number < count; number++)
        if (visit(arg, number, number == NUMBER ? OWNED : FOREIGN))
            return true;
    return false;
}

uint16_t redis_slot_of(const struct redis_tag *tag)
{
    (void)tag;
    return FOREIGN;
}

void redis_slot_tag(const struct redis_slot_tags *tags, uint16_t slot,
                    char tag[REDIS_SLOT_TAG_SIZE])
{
    (void)tags;
    (void)slot;
    strcpy(tag, "1");
}

static struct cluster cluster;
static struct cluster_node node;

static const char *const lease_keys[] = {"lock-id", "lease:{lock-id}:1"};
static const char *const worker_keys[] = {"worker:{id}"};
static const struct redis_probe_keys homes[] = {{.names = lease_keys, .count = 2},
                                                {.names = worker_keys, .count = 1}};
static const struct redis_probe probe = {.keys = homes, .slot_count = 2};

static int set_up(void **state)
{
    (void)state;
    memset(&cluster, 0, sizeof(cluster));
    memset(&node, 0, sizeof(node));
    cluster.topology.options.probe = &probe;
    cluster.owners[OWNED] = &node;
    node.cluster = &cluster;
    node.slot_count = 1;
    node.has_new_slots = true;
    searches = 0;
    return 0;
}

static void keys_get_a_slot_of_the_node(void **state)
{
    (void)state;
    cluster_probe_make(&node);
    assert_int_equal(node.probe.probe.slot_count, 2);
    assert_string_equal(node.probe.homes[0].names[0], "lock-id:42");
    assert_string_equal(node.probe.homes[0].names[1], "lease:{lock-id:42}:1");
    assert_string_equal(node.probe.homes[1].names[0], "worker:{id:42}");
}

/* A thousand masters that cannot be reached are each connected to every second. */
static void attempts_to_connect_search_no_more(void **state)
{
    (void)state;
    for (int attempt = 0; attempt < 1000; attempt++)
        cluster_probe_make(&node);
    assert_int_equal(searches, 2);
    assert_int_equal(node.probe.probe.slot_count, 2);
}

static void new_slots_bring_new_keys(void **state)
{
    (void)state;
    cluster_probe_make(&node);
    unsigned edition = node.probe.probe.edition;
    cluster.owners[OWNED] = NULL;
    node.slot_count = 0;
    node.has_new_slots = true;
    cluster_probe_make(&node);
    assert_int_equal(node.probe.probe.slot_count, 0);
    assert_int_not_equal(node.probe.probe.edition, edition);
    cluster.owners[OWNED] = &node;
    node.slot_count = 1;
    node.has_new_slots = true;
    cluster_probe_make(&node);
    assert_int_equal(node.probe.probe.slot_count, 2);
}

/* Of a tag with which no number helps. */
static void a_home_that_gets_no_slot_is_left_out(void **state)
{
    (void)state;
    cluster.owners[OWNED] = NULL;
    cluster_probe_make(&node);
    assert_int_equal(searches, 2);
    assert_int_equal(node.probe.probe.slot_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(keys_get_a_slot_of_the_node, set_up),
        cmocka_unit_test_setup(attempts_to_connect_search_no_more, set_up),
        cmocka_unit_test_setup(new_slots_bring_new_keys, set_up),
        cmocka_unit_test_setup(a_home_that_gets_no_slot_is_left_out, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
