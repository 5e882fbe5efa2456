/* What Sentinels say, true or hostile. */
#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/topology/sentinels.h"

/* The reply that these bytes are. */
static redisReply *reply_of(const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

static bool reads_master(const char *bytes, struct redis_host *master)
{
    redisReply *reply = reply_of(bytes);
    bool ok = sentinel_read_master((const struct redis_value *)reply, master);

    freeReplyObject(reply);
    return ok;
}

static void expect_host(const struct redis_host *host, const char *name, int port)
{
    assert_string_equal(host->host, name);
    assert_int_equal(host->port, port);
}

static void test_master(void **state)
{
    struct redis_host master;

    (void)state;
    assert_true(reads_master("*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n", &master));
    expect_host(&master, "127.0.0.1", 6379);
    assert_true(reads_master("*2\r\n$3\r\n::1\r\n$5\r\n65535\r\n", &master));
    expect_host(&master, "::1", 65535);
    assert_true(reads_master("*2\r\n$10\r\nredis-1.lo\r\n$1\r\n1\r\n", &master));
    expect_host(&master, "redis-1.lo", 1);
}

static void test_no_master(void **state)
{
    static const char *const replies[] = {
        "*-1\r\n",
        "$-1\r\n",
        "*0\r\n",
        ":6379\r\n",
        "-IDONTKNOW\r\n",
        "*1\r\n$9\r\n127.0.0.1\r\n",
        "*3\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n$1\r\n0\r\n",
        "*2\r\n$0\r\n\r\n$4\r\n6379\r\n",
        "*2\r\n:1\r\n:2\r\n",
        "*2\r\n*1\r\n:1\r\n$4\r\n6379\r\n",
        "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n0\r\n",
        "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n65536\r\n",
        "*2\r\n$9\r\n127.0.0.1\r\n$2\r\n-1\r\n",
        "*2\r\n$9\r\n127.0.0.1\r\n$3\r\n6x9\r\n",
        "*2\r\n$9\r\n127.0.0.1\r\n$21\r\n000000000000000006379\r\n",
        "*2\r\n$9\r\n127.0.0 1\r\n$4\r\n6379\r\n",
        "*2\r\n$9\r\n127.0.0\n1\r\n$4\r\n6379\r\n",
        "*2\r\n$6\r\na@b/c?\r\n$4\r\n6379\r\n",
        "*2\r\n$7\r\n::1::2:\r\n$4\r\n6379\r\n",
    };
    struct redis_host master;

    (void)state;
    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++)
        assert_false(reads_master(replies[i], &master));
}

static void test_long_host(void **state)
{
    char bytes[400], name[REDIS_URL_HOST_SIZE + 1];
    struct redis_host master;

    (void)state;
    memset(name, 'a', sizeof(name));
    name[REDIS_URL_HOST_SIZE] = '\0';
    snprintf(bytes, sizeof(bytes), "*2\r\n$256\r\n%s\r\n$4\r\n6379\r\n", name);
    assert_false(reads_master(bytes, &master));
    snprintf(bytes, sizeof(bytes), "*2\r\n$255\r\n%s\r\n$4\r\n6379\r\n", name + 1);
    assert_true(reads_master(bytes, &master));
}

static bool reads_sentinel(const char *bytes, struct redis_host *host)
{
    redisReply *reply = reply_of(bytes);
    bool ok = sentinel_read_sentinel((const struct redis_value *)reply, host);

    freeReplyObject(reply);
    return ok;
}

static void test_sentinel(void **state)
{
    struct redis_host host;

    (void)state;
    assert_true(reads_sentinel("*6\r\n$4\r\nname\r\n$1\r\nx\r\n$2\r\nip\r\n$7\r\n1.2.3.4\r\n"
                               "$4\r\nport\r\n$5\r\n26379\r\n",
                               &host));
    expect_host(&host, "1.2.3.4", 26379);
    assert_false(reads_sentinel("*2\r\n$2\r\nip\r\n$7\r\n1.2.3.4\r\n", &host));
    assert_false(reads_sentinel("*3\r\n$4\r\nport\r\n$1\r\n1\r\n$2\r\nip\r\n", &host));
    assert_false(reads_sentinel("*4\r\n$2\r\nip\r\n*0\r\n$4\r\nport\r\n:5\r\n", &host));
    assert_false(reads_sentinel("*0\r\n", &host));
    assert_false(reads_sentinel("+OK\r\n", &host));
}

static int64_t epoch_of(const char *bytes)
{
    redisReply *reply = reply_of(bytes);
    int64_t epoch = sentinel_read_epoch((const struct redis_value *)reply);

    freeReplyObject(reply);
    return epoch;
}

#define EPOCH "$12\r\nconfig-epoch\r\n"

static void test_epoch(void **state)
{
    static const char *const others[] = {
        "*0\r\n",
        "-ERR No such master with that name\r\n",
        "*2\r\n$4\r\nport\r\n$1\r\n1\r\n",
        "*1\r\n" EPOCH,
        "*2\r\n" EPOCH "$0\r\n\r\n",
        "*2\r\n" EPOCH "$2\r\n-1\r\n",
        "*2\r\n" EPOCH "$2\r\n7x\r\n",
        "*2\r\n" EPOCH "*1\r\n$1\r\n7\r\n",
        "*2\r\n" EPOCH "$19\r\n9223372036854775807\r\n",
        "*2\r\n" EPOCH "$20\r\n18446744073709551615\r\n",
    };

    (void)state;
    assert_int_equal(epoch_of("*2\r\n" EPOCH "$1\r\n0\r\n"), 0);
    assert_int_equal(epoch_of("*4\r\n$2\r\nip\r\n$7\r\n1.2.3.4\r\n" EPOCH "$2\r\n17\r\n"), 17);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(epoch_of(others[i]), SENTINEL_NO_EPOCH);
}

static bool reads_switch(const char *message, struct redis_host *master)
{
    return sentinel_read_switch(message, strlen(message), "mymaster", master);
}

static void test_switch(void **state)
{
    static const char *const others[] = {
        "",
        " ",
        "mymaster",
        "mymaster 10.0.0.1 6379 10.0.0.2",
        "mymaster 10.0.0.1 6379 10.0.0.2 ",
        "mymaster 10.0.0.1 6379 10.0.0.2 6380 6381",
        "mymaster 10.0.0.1 6379  6380",
        "mymaster 10.0.0.1 6379 10.0.0.2 0",
        "mymaster2 10.0.0.1 6379 10.0.0.2 6380",
        "mymaste 10.0.0.1 6379 10.0.0.2 6380",
        " 10.0.0.1 6379 10.0.0.2 6380",
    };
    struct redis_host master;

    (void)state;
    assert_true(reads_switch("mymaster 10.0.0.1 6379 10.0.0.2 6380", &master));
    expect_host(&master, "10.0.0.2", 6380);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(reads_switch(others[i], &master));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_master),    cmocka_unit_test(test_no_master),
        cmocka_unit_test(test_long_host), cmocka_unit_test(test_sentinel),
        cmocka_unit_test(test_epoch),     cmocka_unit_test(test_switch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
