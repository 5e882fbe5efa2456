/* Five thousand locks of a hundred sessions are renewed without one lapse while requests go on.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "harness_session.h"

enum {
    SESSIONS = 100,
    LOCKS_EACH = 50,
    LOCKS_EACH_SLOW = 5, /* under valgrind */
    THREADS = 4,
    LATE_TRIES = 3, /* on a machine that is late */
    SILENT_TTL_MS = 3000,
    REPEAT_MS = 5000,
    PAUSE_MS = 200,
    STANDSTILL_MS = 1000 /* of Redis; rlockd gives a request more time than that */
};

/* Two processors that others use, too, renew 5,000 locks in a third of that. */
static int timeout_ms(void)
{
    return (int)patience_ms(9000);
}

struct crowd {
    int ports[2];
    int locks_each, ttl_ms;
    char tokens[SESSIONS][UUID_SIZE], ids[SESSIONS][UUID_SIZE];
    _Atomic int next; /* session to be set up */
    _Atomic bool over;
    _Atomic long requests;
    _Atomic int repeats, odd;
    pthread_mutex_t mutex;
    char first_trouble[512];
};

struct hand {
    struct crowd *crowd;
    int number;
    pthread_t thread;
};

static void odd(struct crowd *crowd, const struct rest *rest, const char *what, int status)
{
    pthread_mutex_lock(&crowd->mutex);
    if (crowd->odd++ == 0)
        snprintf(crowd->first_trouble, sizeof(crowd->first_trouble), "%s: %d %.200s%.100s",
                 what, status, rest->answer, rest->error);
    pthread_mutex_unlock(&crowd->mutex);
}

/* As docs/guide.md has it: a request that Redis did not answer is repeated with its token. A
 * busy disk stops Redis for seconds. */
static int ask(struct crowd *crowd, struct rest *rest, int port, const char *method,
               const char *path, const char *lease_token, const char *session_token)
{
    struct patience patience = patience_of(REPEAT_MS);
    int status;

    while ((status = rest_ask(rest, port, method, path, lease_token, session_token, NULL)) ==
               503 &&
           !patience_ends(&patience)) {
        crowd->repeats++;
        nap_ms(20);
    }
    return status;
}

static bool is_done(int status)
{
    return status == 201 || status == 200;
}

static void set_up(struct crowd *crowd, struct rest *rest, int number)
{
    char path[96], token[UUID_SIZE];
    int port = crowd->ports[number % 2];
    int status;

    uuid_make(crowd->tokens[number]);
    snprintf(path, sizeof(path), "/v1/sessions?ttl_ms=%d&name=many-%d", crowd->ttl_ms, number);
    status = ask(crowd, rest, port, "POST", path, NULL, crowd->tokens[number]);
    snprintf(crowd->ids[number], UUID_SIZE, "%s", rest_str(rest, "session_id"));
    if (!is_done(status))
        odd(crowd, rest, "open", status);
    for (int i = 0; i < crowd->locks_each; i++) {
        uuid_make(token);
        snprintf(path, sizeof(path), "/v1/locks/lot-%d", number * crowd->locks_each + i);
        status = ask(crowd, rest, port, "PUT", path, token, crowd->tokens[number]);
        if (!is_done(status))
            odd(crowd, rest, "PUT", status);
    }
}

static int keep_alive_at(struct crowd *crowd, struct rest *rest, int port, int number)
{
    char path[96];

    snprintf(path, sizeof(path), "/v1/sessions/%s/keep-alive", crowd->ids[number]);
    return ask(crowd, rest, port, "POST", path, NULL, crowd->tokens[number]);
}

static void *set_up_run(void *arg)
{
    struct hand *hand = arg;
    struct rest rest;

    rest_init(&rest);
    for (int i; (i = hand->crowd->next++) < SESSIONS;)
        set_up(hand->crowd, &rest, i);
    rest_free(&rest);
    return NULL;
}

/* Other clients, with and without the sessions that hold so much. */
static void *busy_run(void *arg)
{
    struct hand *hand = arg;
    struct crowd *crowd = hand->crowd;
    char path[96], token[UUID_SIZE];
    struct rest rest;

    rest_init(&rest);
    snprintf(path, sizeof(path), "/v1/locks/busy-%d", hand->number);
    for (int i = 0; !crowd->over; i++) {
        int port = crowd->ports[i % 2], number = (i + 7 * hand->number) % SESSIONS, status;

        uuid_make(token);
        status = ask(crowd, &rest, port, "PUT", path, token,
                     i % 3 == 0 ? crowd->tokens[number] : NULL);
        if (!is_done(status))
            odd(crowd, &rest, "a PUT", status);
        status = ask(crowd, &rest, crowd->ports[(i + 1) % 2], "DELETE", path, token, NULL);
        if (status != 200)
            odd(crowd, &rest, "a DELETE", status);
        if (i % 20 == 0) {
            status = keep_alive_at(crowd, &rest, port, number);
            if (status != 200 || rest_len(&rest, "lost") != 0)
                odd(crowd, &rest, "a keep-alive", status);
        }
        crowd->requests += 2;
        nap_ms(1);
    }
    rest_free(&rest);
    return NULL;
}

static void hands_start(struct crowd *crowd, struct hand hands[THREADS], void *(*run)(void *))
{
    for (int i = 0; i < THREADS; i++) {
        hands[i] = (struct hand){.crowd = crowd, .number = i};
        assert_int_equal(pthread_create(&hands[i].thread, NULL, run, &hands[i]), 0);
    }
}

static void hands_join(struct hand hands[THREADS])
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(hands[i].thread, NULL);
}

/* How many are held, the shortest time that one of them has left, and a digest of their
 * holders and grants. */
static const char *const SURVEY =
    "local held, least, all = 0, 1e9, '' "
    "for i = 0, ARGV[1] - 1 do "
    "  local name = 'lot-' .. i "
    "  local ms = redis.call('pttl', name) "
    "  if ms >= 0 then held, least = held + 1, math.min(least, ms) end "
    "  if ARGV[2] == 'digest' then "
    "    all = redis.sha1hex(all .. table.concat(redis.call('hgetall', name), ' ') .. "
    "      (redis.call('get', 'redisson_lock_token:{' .. name .. '}') or '')) end "
    "end "
    "return {held, least, all}";

struct survey {
    long long held, least_ms;
    const char *digest;
};

static struct survey survey(struct redis *redis, int count, const char *how)
{
    redisReply *reply = redis_do(redis, "EVAL %s 0 %d %s", SURVEY, count, how);

    if (reply->type != REDIS_REPLY_ARRAY)
        FAIL("survey: %s", reply->str);
    return (struct survey){reply->element[0]->integer, reply->element[1]->integer,
                           reply->element[2]->str};
}

static double renewals(struct world *w)
{
    return front_metric(w->a, "rlockd_watchdog_renewals_total", NULL) +
           front_metric(w->b, "rlockd_watchdog_renewals_total", NULL);
}

/* Every session holds all that it took, and lost nothing. */
static void check_sessions(struct crowd *crowd)
{
    struct rest rest;

    rest_init(&rest);
    for (int i = 0; i < SESSIONS; i++) {
        int status = keep_alive_at(crowd, &rest, crowd->ports[i % 2], i);

        if (status != 200 || rest_len(&rest, "lost") != 0 ||
            rest_len(&rest, "leases") != (size_t)crowd->locks_each)
            odd(crowd, &rest, "the last keep-alive", status);
    }
    rest_free(&rest);
}

static void end_sessions(struct crowd *crowd)
{
    char path[96];
    struct rest rest;

    rest_init(&rest);
    for (int i = 0; i < SESSIONS; i++) {
        int status;

        snprintf(path, sizeof(path), "/v1/sessions/%s", crowd->ids[i]);
        status = ask(crowd, &rest, crowd->ports[i % 2], "DELETE", path, NULL, crowd->tokens[i]);
        if (status != 200 || rest_int(&rest, "released") != crowd->locks_each)
            odd(crowd, &rest, "the end", status);
    }
    rest_free(&rest);
}

static struct crowd *crowd_new(struct world *w)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));

    assert_non_null(crowd);
    world_defer(w, free, crowd);
    pthread_mutex_init(&crowd->mutex, NULL);
    crowd->ports[0] = w->a->port;
    crowd->ports[1] = w->b->port;
    return crowd;
}

static void test_no_lapse(struct world *w)
{
    skip_on_masters(w); /* surveys all keys in one script */
    struct crowd *crowd = crowd_new(w);
    struct hand hands[THREADS];
    int64_t begin_ms = now_ms(), slowest_ms = 0, end_ms;
    long long least_ms = timeout_ms();
    struct survey first, now;
    double before;

    crowd->ttl_ms = 600000;
    crowd->locks_each = getenv("RLOCKD_WRAP") != NULL ? LOCKS_EACH_SLOW : LOCKS_EACH;
    int count = SESSIONS * crowd->locks_each;
    hands_start(crowd, hands, set_up_run);
    hands_join(hands);
    crowd->repeats = 0; /* until now nobody looked at how long Redis took */
    print_message("%d locks in %d ms\n", count, (int)(now_ms() - begin_ms));
    first = survey(w->redis, count, "digest");
    assert_int_equal(first.held, count);
    hands_start(crowd, hands, busy_run);
    before = renewals(w);
    begin_ms = now_ms();
    do {
        int64_t asked_ms = now_ms();
        now = survey(w->redis, count, "");
        least_ms = now.least_ms < least_ms ? now.least_ms : least_ms;
        nap_ms(PAUSE_MS);
        end_ms = now_ms();
        int64_t took_ms = end_ms - asked_ms - PAUSE_MS; /* the hands go on meanwhile */
        slowest_ms = took_ms > slowest_ms ? took_ms : slowest_ms;
    } while (now.held == count && end_ms < begin_ms + timeout_ms() * 5 / 3 && crowd->odd == 0);
    before = renewals(w) - before;
    crowd->over = true;
    hands_join(hands);
    print_message("%.0f renewals and %ld requests in %d ms, at least %lld ms were left\n",
                  before, (long)crowd->requests, (int)(end_ms - begin_ms), least_ms);
    assert_int_equal(now.held, count);
    now = survey(w->redis, count, "digest");
    assert_string_equal(now.digest, first.digest);
    check_sessions(crowd);
    /* Each third of the timeout, none later than half of it, and none twice. */
    assert_true(before <= count * ((double)(end_ms - begin_ms) / (timeout_ms() / 3.0) + 1));
    assert_true(before >=
                count * ((double)(end_ms - begin_ms - late_ms()) / (timeout_ms() / 2.0) - 1));
    assert_true(least_ms + late_ms() >= timeout_ms() / 2 - 100);
    assert_true(crowd->requests > 200 / patience_ms(1));
    end_sessions(crowd);
    assert_int_equal(survey(w->redis, count, "").held, 0);
    if (crowd->odd > 0)
        FAIL("%d odd answers; the first: %s", crowd->odd, crowd->first_trouble);
    if (crowd->repeats > 0 && slowest_ms < STANDSTILL_MS)
        FAIL("%d requests were repeated, but Redis answered within %d ms", crowd->repeats,
             (int)slowest_ms);
}

static void await_silence(struct world *w, const struct crowd *crowd)
{
    wait_until(survey(w->redis, SESSIONS * crowd->locks_each, "").held == 0,
               crowd->ttl_ms + 1000);
    wait_until(json_array_size(redis_keys(w->redis, "rlockd:sessions:")) == 0, 1000);
}

/* Sets up sessions that all live until about the same time. False: the machine needed so long
 * for it that leases lapsed. */
static bool set_up_short(struct crowd *crowd)
{
    struct hand hands[THREADS];
    int64_t begin_ms = now_ms();

    crowd->locks_each = LOCKS_EACH_SLOW * 5;
    crowd->ttl_ms = (int)patience_ms(SILENT_TTL_MS);
    hands_start(crowd, hands, set_up_run);
    hands_join(hands);
    check_sessions(crowd);
    if (crowd->odd > 0 && now_ms() - begin_ms < SILENT_TTL_MS)
        FAIL("%d odd answers; the first: %s", crowd->odd, crowd->first_trouble);
    return crowd->odd == 0;
}

/* A host with all its sessions falls silent: all end, and what they held is free. */
static void test_silence_of_all(struct world *w)
{
    skip_on_masters(w);
    struct crowd *crowd = crowd_new(w);

    for (int tries = 1; !set_up_short(crowd); tries++) {
        if (tries == LATE_TRIES)
            FAIL("the machine is late: a second's work takes more than %d ms", SILENT_TTL_MS);
        await_silence(w, crowd);
        crowd = crowd_new(w);
    }
    await_silence(w, crowd);
}

int main(void)
{
    char digits[16];
    const char *const flags[] = {"--watchdog-timeout-ms", digits, NULL};
    static const struct e2e_test tests[] = {E2E_TEST(test_no_lapse),
                                            E2E_TEST(test_silence_of_all)};
    struct e2e_plan plan = {
        .name = "sessions-many", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    snprintf(digits, sizeof(digits), "%d", timeout_ms());
    return e2e_run(&plan);
}
