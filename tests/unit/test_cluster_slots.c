/* storage/topology/cluster_slots.c and storage/redis/slot.c: what a node of a cluster says. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "storage/topology/cluster_slots.h"

#define ASKED "10.9.9.9"

static struct cluster_slots slots;

/* Reads one reply as Redis sends it. */
static bool reads(const char *text)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    bool is_map = cluster_slots_read(&slots, reply, ASKED);
    freeReplyObject(reply);
    redisReaderFree(reader);
    return is_map;
}

static void expect_master(uint16_t slot, const char *host, uint16_t port)
{
    uint16_t master = slots.master_of[slot];

    assert_true(master < slots.master_count);
    assert_string_equal(slots.masters[master].host, host);
    assert_int_equal(slots.masters[master].port, port);
}

#define MASTER(host, len, port) "*3\r\n$" len "\r\n" host "\r\n:" port "\r\n$2\r\nid\r\n"

static void slots_of_tags_are_those_of_redis(void **state)
{
    static const struct {
        const char *key;
        uint16_t slot; /* as CLUSTER KEYSLOT says */
    } known[] = {{"123456789", 0x31c3 % REDIS_SLOTS},
                 {"foo", 12182},
                 {"bar", 5061},
                 {"{foo}bar", 12182},
                 {"x{bar}{foo}", 5061},
                 {"foo{}{bar}", 8363},
                 {"foo{{bar}}zap", 4015}};

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const struct redis_tag tag = redis_tag_of(known[i].key, strlen(known[i].key));
        assert_int_equal(redis_slot_of(&tag), known[i].slot);
    }
}

static void every_slot_has_the_tag_that_it_had_before(void **state)
{
    static const struct {
        uint16_t slot;
        const char *tag; /* the smallest number, as CLUSTER KEYSLOT says of each */
    } known[] = {{0, "3560"},     {1, "22179"},    {1469, "109757"}, {5460, "41402"},
                 {10922, "5405"}, {12345, "1770"}, {16383, "39296"}};
    static struct redis_slot_tags tags;
    char text[REDIS_SLOT_TAG_SIZE];

    (void)state;
    redis_slot_tags_make(&tags);
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++) {
        redis_slot_tag(&tags, (uint16_t)slot, text);
        const struct redis_tag tag = {text, strlen(text)};
        assert_int_equal(redis_slot_of(&tag), slot);
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        redis_slot_tag(&tags, known[i].slot, text);
        assert_string_equal(text, known[i].tag);
    }
}

struct walk {
    const char *text;
    unsigned next, last;
};

static bool check_slot(void *arg, unsigned number, uint16_t slot)
{
    struct walk *walk = arg;
    char text[64];

    assert_int_equal(number, walk->next++);
    snprintf(text, sizeof(text), "%s%u", walk->text, number);
    const struct redis_tag tag = {text, strlen(text)};
    assert_int_equal(slot, redis_slot_of(&tag));
    return number == walk->last;
}

static void a_walk_gives_the_slot_of_each_number(void **state)
{
    struct walk walk = {.text = "worker:", .last = 123456};
    const struct redis_tag text = {walk.text, strlen(walk.text)};

    (void)state;
    assert_true(redis_slot_walk(&text, 200000, check_slot, &walk));
    assert_int_equal(walk.next, 123457);
    walk.next = 0;
    assert_false(redis_slot_walk(&text, 1000, check_slot, &walk));
    assert_int_equal(walk.next, 1000);
}

static void ranges_are_read(void **state)
{
    (void)state;
    assert_true(
        reads("*3\r\n"
              "*4\r\n:0\r\n:5460\r\n" MASTER("10.0.0.1", "8", "7001")
                  MASTER("10.0.0.2", "8", "7002") "*3\r\n:5461\r\n:5461\r\n" MASTER(
                      "::1", "3", "7003") "*3\r\n:6000\r\n:16383\r\n" MASTER("10.0.0.1", "8",
                                                                             "7001")));
    assert_int_equal(slots.master_count, 2);
    assert_int_equal(slots.replica_count, 1);
    expect_master(0, "10.0.0.1", 7001);
    expect_master(5460, "10.0.0.1", 7001);
    expect_master(5461, "::1", 7003);
    assert_int_equal(slots.master_of[5462], CLUSTER_NO_MASTER);
    assert_int_equal(slots.master_of[5999], CLUSTER_NO_MASTER);
    expect_master(16383, "10.0.0.1", 7001);
}

/* Redis says NULL or nothing for its own host when it does not know it, and "?" when it is told
 * to give names and has none. */
static void hosts_may_be_unknown(void **state)
{
    (void)state;
    assert_true(reads("*2\r\n*3\r\n:0\r\n:9\r\n" MASTER(
        "", "0", "7001") "*3\r\n:10\r\n:19\r\n" MASTER("?", "1", "7001")));
    expect_master(0, ASKED, 7001);
    assert_int_equal(slots.master_of[10], CLUSTER_NO_MASTER);
    assert_true(reads("*1\r\n*3\r\n:0\r\n:9\r\n*3\r\n$-1\r\n:7001\r\n$2\r\nid\r\n"));
    expect_master(0, ASKED, 7001);
}

static void garbage_is_no_map(void **state)
{
    static const char *const garbage[] = {
        "+OK\r\n",
        ":7\r\n",
        "$-1\r\n",
        "*0\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*0\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n:2\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*0\r\n",
        /* slots that are none */
        "*1\r\n*3\r\n:-1\r\n:1\r\n" MASTER("h", "1", "1"),
        "*1\r\n*3\r\n:0\r\n:16384\r\n" MASTER("h", "1", "1"),
        "*1\r\n*3\r\n:2\r\n:1\r\n" MASTER("h", "1", "1"),
        "*1\r\n*3\r\n:0\r\n:9223372036854775807\r\n" MASTER("h", "1", "1"),
        "*1\r\n*3\r\n$1\r\n0\r\n$1\r\n9\r\n" MASTER("h", "1", "1"),
        /* two masters of one slot */
        "*2\r\n*3\r\n:0\r\n:9\r\n" MASTER("h", "1", "1") "*3\r\n:9\r\n:9\r\n" MASTER("g", "1",
                                                                                     "1"),
        /* no master that can be connected to */
        "*1\r\n*3\r\n:0\r\n:9\r\n" MASTER("h", "1", "0"),
        "*1\r\n*3\r\n:0\r\n:9\r\n" MASTER("h", "1", "65536"),
        "*1\r\n*3\r\n:0\r\n:9\r\n" MASTER("?", "1", "1"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++)
        if (reads(garbage[i]))
            fail_msg("is taken for a map: %s", garbage[i]);
}

static void expect_redirection(const char *error, enum cluster_redirection redirection,
                               uint16_t slot, const char *host, uint16_t port)
{
    struct redis_host to = {.port = 0};
    uint16_t read_slot = 0;

    assert_int_equal(cluster_redirection_read(error, ASKED, &read_slot, &to), redirection);
    if (redirection == CLUSTER_NOT_REDIRECTED)
        return;
    assert_int_equal(read_slot, slot);
    assert_string_equal(to.host, host);
    assert_int_equal(to.port, port);
}

static void redirections_are_read(void **state)
{
    static const char *const others[] = {
        "",
        "MOVED",
        "MOVED ",
        "MOVED 1",
        "MOVED 1 ",
        "MOVED 1 h",
        "MOVED x h:1",
        "MOVED 16384 h:1",
        "MOVED 99999999999999999999 h:1",
        "MOVED 1 h:",
        "MOVED 1 h:0",
        "MOVED 1 h:65536",
        "MOVED 1 h:99999999999999999999999",
        "MOVED 1 h:-1",
        "MOVED 1 ?:1",
        "MOVED -1 h:1",
        "ASKING 1 h:1",
        "ERR MOVED 1 h:1",
        "TRYAGAIN Multiple keys request during rehashing of slot",
    };

    (void)state;
    expect_redirection("MOVED 3999 127.0.0.1:6381", CLUSTER_MOVED, 3999, "127.0.0.1", 6381);
    expect_redirection("ASK 16383 node-2.example:1", CLUSTER_ASK, 16383, "node-2.example", 1);
    expect_redirection("MOVED 0 ::1:65535", CLUSTER_MOVED, 0, "::1", 65535);
    expect_redirection("MOVED 7 :6381", CLUSTER_MOVED, 7, ASKED, 6381);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        expect_redirection(others[i], CLUSTER_NOT_REDIRECTED, 0, "", 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_of_tags_are_those_of_redis),
        cmocka_unit_test(every_slot_has_the_tag_that_it_had_before),
        cmocka_unit_test(a_walk_gives_the_slot_of_each_number),
        cmocka_unit_test(ranges_are_read),
        cmocka_unit_test(hosts_may_be_unknown),
        cmocka_unit_test(garbage_is_no_map),
        cmocka_unit_test(redirections_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
