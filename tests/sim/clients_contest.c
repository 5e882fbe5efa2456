/* Contenders of one lock, none of whom holds it for long: several that wait at one front end,
 * which hands the lock on among them; and beside them some that wait at another front end, a
 * client that polls there, or a client of Redisson. Each must get its turn. Times are real,
 * also in a slow run: so are those of the product that bound a turn. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/clients.h"
#include "tests/sim/clients_visit.h"
#include "tests/sim/sockets.h"

#define CONTESTED "contested-a"
#define CHANNEL "redisson_lock__channel:{" CONTESTED "}"

enum {
    CONTENDERS_MAX = 16,
    POLLS = 4,
    CONTEST_MS = 3000,
    WAIT_MS = 1500,
    TTL_MS = 5000,
    LISTEN_MS = 300,
    POLL_MS = 100,
    POLL_AFTER_NS = 30000
};

struct contender {
    struct caller caller;
    struct front *front; /* NULL: a client of Redisson */
    const char *kind;
    int64_t wait_ms; /* 0: polls */
    int number;      /* of the requests of the client that polls */
    int64_t until_ns;
};

static void pause_us(struct contender *contender, int64_t least, int64_t most)
{
    task_sleep(chance_between(&contender->caller.chance, least, most) * CLOCK_NS_PER_US);
}

static bool goes_on(const struct contender *contender)
{
    return !world.is_stopping && now_ns() < contender->until_ns;
}

/* The requests of the client that polls; NULL: the request does not wait for a release now. */
static struct task *polls[POLLS];

void contest_see(const char *script, struct bytes key)
{
    for (int i = 0; i < POLLS; i++) {
        if (polls[i] == NULL || strcmp(script, "release") != 0 ||
            !bytes_equal(key, bytes_of(CONTESTED)))
            continue;
        task_wake(polls[i]);
        polls[i] = NULL;
    }
}

/* The lock is free until the next waiter hears of the release. A client that sends several
 * requests just after a release is as lucky as one that polls all the time can be. */
static void await_release(int number)
{
    polls[number] = task_current();
    task_wait(POLL_MS * MS);
    polls[number] = NULL;
    task_sleep(number * POLL_AFTER_NS);
}

static void contend(void *arg)
{
    struct contender *contender = arg;
    const struct how how = {.ttl_ms = TTL_MS,
                            .wait_ms = contender->wait_ms,
                            .contends = true,
                            .front = contender->front};

    while (goes_on(contender)) {
        struct lease lease = lease_make(&contender->caller, contender->kind, CONTESTED, NULL);
        if (contender->wait_ms == 0)
            await_release(contender->number);
        enum result result = ask_acquire(&lease, &how);
        lease.front = contender->front;
        if (result == RESULT_OK || contender->wait_ms > 0)
            pause_us(contender, 1000, 10000);
        while (result != RESULT_NOT_DONE && ask_release(&lease) == RESULT_UNKNOWN)
            pause_us(contender, 50000, 500000);
    }
}

/* --- a client of Redisson --------------------------------------------------------------------
 */

struct java {
    struct contender *contender;
    struct task *task; /* that waits for a message; NULL: none does */
    char id[TOKEN_TEXT_SIZE], holder[TOKEN_TEXT_SIZE + 4];
};

/* As RLock does: nil, or the ms for which another holder has the lock. */
static const char take_script[] =
    "if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[2]) == 0 "
    "then return redis.call('pttl', KEYS[1]) end "
    "redis.call('hincrby', KEYS[1], ARGV[2], 1) "
    "redis.call('pexpire', KEYS[1], ARGV[1]) return nil";
static const char give_script[] =
    "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end "
    "redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], '0') return 1";

static void on_message(void *arg)
{
    struct java *java = arg;

    if (java->task != NULL)
        task_wake(java->task);
    java->task = NULL;
}

/* The reply, if it is a number; -1: nil. False: Redis does not answer. */
static bool ask_redis(struct java *java, const char *const *words, int64_t *number)
{
    struct buffer reply = {0};

    task_sleep(latency_ns(&java->contender->caller.chance));
    bool is_answered = ask_past_fronts(CONTESTED, words, &reply) &&
                       (reply.text[0] == ':' || reply.text[0] == '$');
    if (is_answered)
        *number = strtoll(reply.text + 1, NULL, 10);
    buffer_release(&reply);
    world.requests++;
    task_sleep(latency_ns(&java->contender->caller.chance));
    return is_answered;
}

static void record_java(const struct java *java, const char *verb, int64_t began_ns,
                        const char *outcome)
{
    record("op",
           "\"client\":\"%s\",\"op\":\"%s\",\"t_inv\":%lld,\"t_ret\":%lld,"
           "\"status\":%d,\"outcome\":\"%s\",\"kind\":\"lock\",\"lock\":\"" CONTESTED
           "\",\"lease\":\"%s\",\"ttl_ms\":%d,\"remaining_ms\":%d,\"contends\":true",
           java->contender->caller.name, verb, (long long)began_ns, (long long)now_ns(),
           strcmp(outcome, "not-done") == 0 ? 423 : 200, outcome, java->id, TTL_MS, TTL_MS);
}

/* Tries, listens until a message comes, and tries again. True: it has the lock. */
static bool take(struct java *java)
{
    const char *const words[] = {"EVAL", take_script,  "1", CONTESTED,
                                 "5000", java->holder, NULL};
    int64_t left_ms = 0, began_ns = now_ns();

    while (goes_on(java->contender)) {
        struct redis_client *listener = listen_past_fronts(CONTESTED, CHANNEL, on_message,
                                                           java);
        java->task = task_current();
        bool is_answered = ask_redis(java, words, &left_ms);
        bool has_it = is_answered && left_ms == -1;
        if (has_it || !is_answered)
            java->task = NULL;
        if (java->task != NULL)
            task_wait(LISTEN_MS * MS);
        java->task = NULL;
        if (listener != NULL)
            redis_disconnect(listener);
        if (has_it || !is_answered)
            record_java(java, "acquire", began_ns, has_it ? "ok" : "unknown");
        if (has_it)
            return true;
        if (!is_answered) {
            pause_us(java->contender, 50000, 100000);
            return false;
        }
    }
    record_java(java, "acquire", began_ns, "not-done");
    return false;
}

static void give(struct java *java)
{
    const char *const words[] = {"EVAL",  give_script,  "2", CONTESTED,
                                 CHANNEL, java->holder, NULL};
    int64_t number = 0, began_ns = now_ns();

    bool is_answered = ask_redis(java, words, &number);
    record_java(java, "release", began_ns,
                !is_answered  ? "unknown"
                : number == 1 ? "ok"
                              : "ended");
}

static void contend_as_java(void *arg)
{
    struct java java = {.contender = arg};

    while (goes_on(java.contender)) {
        make_token(&java.contender->caller.chance, java.id);
        snprintf(java.holder, sizeof(java.holder), "%s:1", java.id);
        if (take(&java)) {
            pause_us(java.contender, 1000, 5000);
            give(&java);
        }
    }
}

/* --- a contest -------------------------------------------------------------------------------
 */

/* Those of one contest. */
struct contest {
    struct contender contenders[CONTENDERS_MAX];
    int count;
};

static struct contender *add_contender(struct contest *contest, struct front *front,
                                       const char *kind, int64_t wait_ms)
{
    struct contender *contender = &contest->contenders[contest->count++];

    *contender = (struct contender){.front = front, .kind = kind, .wait_ms = wait_ms};
    return contender;
}

/* Redisson's grants are not confirmed by replicas. */
static void invite(struct client *client, struct contest *contest)
{
    size_t home = chance_below(chance_of(client), FRONTS);
    struct front *away = &world.fronts[(home + 1) % FRONTS];
    int64_t at_home = chance_between(chance_of(client), 2, 5);
    bool is_polled = likely(client, 40);
    bool java = !is_polled && world.topology != TOPOLOGY_SENTINEL && likely(client, 50);
    const char *kind = !java && likely(client, 30) ? "write" : "lock";

    contest->count = 0;
    while (contest->count < at_home)
        add_contender(contest, &world.fronts[home], kind, WAIT_MS);
    for (int i = 0; is_polled && i < POLLS; i++)
        add_contender(contest, away, kind, 0)->number = i;
    if (!is_polled && (!java || likely(client, 50)))
        add_contender(contest, away, kind, WAIT_MS);
    if (java)
        add_contender(contest, NULL, kind, 0);
}

static void hold_contest(struct client *client, struct contest *contest, int number)
{
    int over = 0;

    for (int i = 0; i < contest->count; i++) {
        struct contender *contender = &contest->contenders[i];
        caller_init(&contender->caller, client->caller.name, CONTENDERS_MAX * number + i);
        if (contender->number > 0) /* of the same client as the one before */
            memcpy(contender->caller.name, contender[-1].caller.name,
                   sizeof(contender->caller.name));
        contender->until_ns = now_ns() + CONTEST_MS * MS;
        task_start(contender->front != NULL ? contend : contend_as_java, contender, &over);
    }
    await(&over, contest->count);
}

void run_contest(struct client *client)
{
    static struct contest contest;

    for (int number = 0; !world.is_stopping; number++) {
        nap(client, 8000, 24000);
        invite(client, &contest);
        hold_contest(client, &contest, number);
    }
}
