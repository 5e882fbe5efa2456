/* storage/topology/cluster_calls.c: the order of the calls of a slot that moves from one master
 * to another. The masters are made up: each notes what it is sent, and answers when the test
 * says so. For one test program, which is linked without the real connections and loop. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "storage/topology/cluster_internal.h"
#include "tests/lib/fake_loop.h"

enum { MASTERS = 2, SENT_MAX = 16, FIRST_PORT = 7000 };

struct redis_link {
    int number; /* of its master */
};

struct sent {
    struct redis_link *link;
    char word[16];
    redis_done *done;
    void *arg;
};

static struct metrics metrics;
static struct cluster cluster;
static struct cluster_node masters[MASTERS];
static struct redis_link links[MASTERS];
static struct sent sent[SENT_MAX];
static size_t sent_count, maps; /* that were asked for */
static char ended[64];          /* the words of the calls that have ended */
static const struct cluster_node *quarantined;
static enum redis_refusal refusal; /* of the last call that has ended */
static const struct redis_server server;

/* --- what the calls need ------------------------------------------------------------------ */

void redis_link_command(struct redis_link *link, const struct redis_command *command,
                        redis_done *done, void *arg)
{
    assert_true(sent_count < SENT_MAX);
    sent[sent_count] = (struct sent){.link = link, .done = done, .arg = arg};
    snprintf(sent[sent_count++].word, sizeof(sent[0].word), "%.*s", (int)command->lens[0],
             command->argv[0]);
}

void redis_link_script(struct redis_link *link, const struct script_call *call,
                       redis_done *done, void *arg)
{
    (void)call;
    assert_true(sent_count < SENT_MAX);
    sent[sent_count++] = (struct sent){
        .link = link, .word = "script", .done = done, .arg = arg};
}

const struct redis_server *redis_link_server(const struct redis_link *link)
{
    (void)link;
    return &server;
}

void cluster_scout_ask(struct cluster *asked)
{
    (void)asked;
    maps++;
}

void cluster_scout_moved(struct cluster *asked, uint16_t slot, const struct redis_host *to)
{
    (void)asked;
    (void)slot;
    (void)to;
}

void cluster_scout_down(struct cluster *asked, uint16_t slot, const struct redis_host *at)
{
    (void)asked;
    (void)slot;
    (void)at;
}

void cluster_node_says_down(struct cluster_node *node)
{
    (void)node;
}

bool cluster_node_is_up(const struct cluster_node *node)
{
    (void)node;
    return true;
}

struct cluster_node *cluster_node_at(struct cluster *asked, const struct redis_host *at)
{
    (void)asked;
    return &masters[at->port - FIRST_PORT];
}

void cluster_slot_moved(struct cluster *asked, uint16_t slot, struct cluster_node *owner)
{
    if (asked->owners[slot] != owner)
        cluster_calls_hold(asked, slot);
    asked->owners[slot] = owner;
}

/* --- the tests ---------------------------------------------------------------------------- */

static bool may_grant(void *arg, const struct topology_node *node)
{
    (void)arg;
    return quarantined == NULL || node != &quarantined->node;
}

static const struct redis_tag tag = {"lock", 4};

static int set_up(void **state)
{
    (void)state;
    memset(&cluster, 0, sizeof(cluster));
    memset(masters, 0, sizeof(masters));
    timers_init(&loop.timers);
    loop.now_ns = clock_ns();
    cluster.topology.options.loop = &loop;
    cluster.topology.options.metrics = &metrics;
    cluster.topology.options.may_grant = may_grant;
    quarantined = NULL;
    cluster_calls_init(&cluster);
    for (int i = 0; i < MASTERS; i++) {
        links[i].number = i;
        masters[i].cluster = &cluster;
        masters[i].node.commands = &links[i];
        masters[i].at.port = (uint16_t)(FIRST_PORT + i);
    }
    cluster.owners[redis_slot_of(&tag)] = &masters[0];
    sent_count = maps = 0;
    ended[0] = '\0';
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cluster.is_stopped = true;
    cluster_calls_stop(&cluster);
    timers_release(&loop.timers);
    return 0;
}

static void on_end(void *arg, const struct redis_result *result)
{
    refusal = result->refusal;
    snprintf(ended + strlen(ended), sizeof(ended) - strlen(ended), "%s%s ",
             result->outcome == REDIS_DONE ? "" : "no ", (const char *)arg);
}

/* The call of this word asks the cluster. */
static void ask(const char *word)
{
    const size_t len = strlen(word);
    const struct redis_command command = {.argc = 1, .argv = &word, .lens = &len};

    cluster_command(&cluster.topology, &tag, &command, on_end, (void *)word);
}

static void ask_script_of(enum script script, const char *word)
{
    struct script_args args;

    args_init(&args);
    args_key(&args, 0, tag.text, tag.len);
    const struct script_call call = script_call_make(script, &args);
    cluster_script(&cluster.topology, &call, on_end, (void *)word);
}

static void ask_script(void)
{
    ask_script_of(SCRIPT_RELEASE, "script");
}

/* The call that was sent as this one of all is answered. `error` NULL: it is done. */
static void answer(size_t i, const char *error)
{
    char text[128] = "OK";
    redisReply reply = {.type = REDIS_REPLY_STATUS, .str = text, .len = 2};
    struct redis_result result = {.reply = (const struct redis_value *)&reply,
                                  .server = &server};

    assert_true(i < sent_count);
    if (error != NULL) {
        reply.type = REDIS_REPLY_ERROR;
        reply.len = (size_t)snprintf(text, sizeof(text), "%s", error);
        result.outcome = redis_sort_error(text, &result.refusal);
    }
    sent[i].done(sent[i].arg, &result);
}

/* `word`: MOVED or ASK. To the second master. */
static void answer_redirected(size_t i, const char *word)
{
    char text[64];

    snprintf(text, sizeof(text), "%s %u h:%d", word, (unsigned)redis_slot_of(&tag),
             FIRST_PORT + 1);
    answer(i, text);
}

/* The slot is at the second master by now. */
static void answer_moved(size_t i)
{
    answer_redirected(i, "MOVED");
}

/* Until the calls that wait are tried again. */
static void pass_time(void)
{
    for (int i = 0; i < 10; i++) {
        loop.now_ns += 10 * CLOCK_NS_PER_MS;
        timers_run(&loop.timers, loop.now_ns);
    }
}

static void expect_sent(size_t i, int master, const char *word)
{
    assert_int_equal(sent_count, i + 1);
    assert_int_equal(sent[i].link->number, master);
    assert_string_equal(sent[i].word, word);
}

static void calls_of_a_slot_at_rest_are_sent_at_once(void **state)
{
    (void)state;
    ask("attempt");
    ask("withdraw");
    expect_sent(1, 0, "withdraw");
    answer(0, NULL);
    answer(1, NULL);
    assert_string_equal(ended, "attempt withdraw ");
}

/* A withdrawal that is asked for while its attempt tries the new master must not overtake the
 * attempt, which the new master may refuse once more. */
static void later_calls_wait_while_the_first_tries_the_new_master(void **state)
{
    (void)state;
    ask("attempt");
    answer_moved(0);
    expect_sent(1, 1, "attempt");
    ask("withdraw");
    expect_sent(1, 1, "attempt");
    answer(1, "TRYAGAIN Multiple keys request during rehashing of slot");
    pass_time();
    expect_sent(2, 1, "attempt");
    answer(2, NULL);
    expect_sent(3, 1, "withdraw");
    answer(3, NULL);
    assert_string_equal(ended, "attempt withdraw ");
}

/* Both were sent to the former master. The attempt tries the new master alone, and comes back
 * to the place before its withdrawal. */
static void the_first_call_stays_the_first_when_it_is_refused_again(void **state)
{
    (void)state;
    ask("attempt");
    ask("withdraw");
    answer_moved(0);
    answer_moved(1);
    expect_sent(2, 1, "attempt");
    answer(2, "TRYAGAIN Multiple keys request during rehashing of slot");
    pass_time();
    expect_sent(3, 1, "attempt");
    answer(3, NULL);
    expect_sent(4, 1, "withdraw");
    answer(4, NULL);
    assert_string_equal(ended, "attempt withdraw ");
}

/* What was sent before the slot moved comes before what was asked for after that. */
static void redirected_calls_come_before_later_calls(void **state)
{
    (void)state;
    ask("attempt");
    ask("withdraw");
    answer_moved(0);
    ask("later");
    answer_moved(1);
    expect_sent(2, 1, "attempt");
    answer(2, NULL);
    assert_int_equal(sent_count, 5);
    assert_string_equal(sent[3].word, "withdraw");
    assert_string_equal(sent[4].word, "later");
    answer(3, NULL);
    answer(4, NULL);
    assert_string_equal(ended, "attempt withdraw later ");
}

/* All keys of the slot are at the second master before the slot is. */
static void a_script_that_waits_for_its_slot_follows_the_slot(void **state)
{
    enum { LOOKS = 9 };

    (void)state;
    ask_script();
    for (size_t i = 0; i < LOOKS; i++) {
        expect_sent(i, 0, "script");
        answer_redirected(i, "ASK");
        assert_string_equal(ended, "");
        pass_time();
    }
    expect_sent(LOOKS, 0, "script");
    answer_moved(LOOKS);
    expect_sent(LOOKS + 1, 1, "script");
    answer(LOOKS + 1, NULL);
    assert_string_equal(ended, "script ");
}

/* As after a failover, where the new master may lack the last leases of the former one. */
static void no_lease_is_granted_at_a_new_master_in_quarantine(void **state)
{
    (void)state;
    quarantined = &masters[1];
    ask_script_of(SCRIPT_ACQUIRE, "first");
    ask_script_of(SCRIPT_ACQUIRE, "second");
    ask_script();
    answer_moved(0);
    answer_moved(1);
    ask_script_of(SCRIPT_HAND_OVER, "third");
    answer_moved(2);
    pass_time();
    assert_string_equal(ended, "no first no second ");
    assert_int_equal(refusal, REDIS_QUARANTINED);
    expect_sent(3, 1, "script");
    answer(3, NULL);
    pass_time();
    assert_string_equal(ended, "no first no second script no third ");
    ask_script_of(SCRIPT_ACQUIRE, "later"); /* its caller has asked */
    expect_sent(4, 1, "script");
    answer(4, NULL);
}

static void a_call_that_is_moved_on_and_on_ends(void **state)
{
    enum { MOVES = 5 };

    (void)state;
    ask("attempt");
    for (size_t i = 0; i < MOVES; i++) {
        answer_moved(i);
        pass_time();
        expect_sent(i + 1, 1, "attempt");
    }
    answer_moved(MOVES);
    assert_string_equal(ended, "no attempt ");
}

/* Not of a name that is in use as another kind of key: any client can have that error. */
static void errors_that_ask_for_the_map(void **state)
{
    static const struct {
        const char *error;
        bool asks;
    } rows[] = {
        {"LOADING Redis is loading the dataset in memory", true},
        {"MASTERDOWN Link with MASTER is down", true},
        {"READONLY You can't write against a read only replica.", true},
        {"CLUSTERDOWN The cluster is down", true},
        {"WRONGTYPE Operation against a key", false},
        {"OOM command not allowed when used memory > 'maxmemory'.", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        maps = 0;
        ask("x");
        answer(i, rows[i].error);
        assert_int_equal(maps, rows[i].asks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_of_a_slot_at_rest_are_sent_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(later_calls_wait_while_the_first_tries_the_new_master,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_call_stays_the_first_when_it_is_refused_again,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(redirected_calls_come_before_later_calls, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_script_that_waits_for_its_slot_follows_the_slot,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_lease_is_granted_at_a_new_master_in_quarantine,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_call_that_is_moved_on_and_on_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(errors_that_ask_for_the_map, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
