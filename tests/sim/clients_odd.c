/* Clients that do what the others never would. */
#include "tests/sim/clients.h"

#include <stdlib.h>
#include <string.h>

#define ODD ODD_NAME

enum { CROWD = 70, VISITORS = 12, HOLDS = 4, PATH_SIZE = 160, ARGS_MAX = 8 };

/* --- a release that overtakes its acquire ----------------------------------------------------
 */

struct overtaken {
    struct lease lease;
    struct how how;
    int over;
};

static void ask_slowly(void *arg)
{
    struct overtaken *overtaken = arg;

    ask_acquire(&overtaken->lease, &overtaken->how);
}

void run_overtaker(struct client *client)
{
    static const int64_t after_us[] = {0, 100, 300, 1000, 100000, 900000};

    while (!world.is_stopping) {
        struct overtaken overtaken = {.lease = pick_any(client)};
        struct lease lease = overtaken.lease;
        overtaken.how = (struct how){.ttl_ms = pick_ttl(client), .wait_ms = pick_wait(client)};
        task_start(ask_slowly, &overtaken, &overtaken.over);
        task_sleep(after_us[chance_below(chance_of(client), 6)] * 1000);
        give_back(client, &lease);
        await(&overtaken.over, 1);
        if (overtaken.lease.held_until_ns != 0)
            give_back(client, &overtaken.lease);
        nap(client, 0, 300);
    }
}

/* --- many at once ----------------------------------------------------------------------------
 */

struct one {
    struct client *client;
    struct caller caller;
    struct lease lease;
    struct how how;
};

static void take_turn(void *arg)
{
    struct one *one = arg;

    if (ask_acquire(&one->lease, &one->how) == RESULT_OK || one->lease.status == 0)
        give_back(one->client, &one->lease);
}

/* All wait for one lock at one front end, and each releases it at once. */
static void rush(struct client *client, int number)
{
    static struct one ones[CROWD];
    struct front *front = &world.fronts[chance_below(chance_of(client), FRONTS)];
    int over = 0;

    for (int i = 0; i < CROWD; i++) {
        struct one *one = &ones[i];
        one->client = client;
        caller_init(&one->caller, client->caller.name, CROWD * number + i);
        one->lease = lease_make(&one->caller, "lock", "crowd-a", NULL);
        one->how = (struct how){
            .ttl_ms = 2000 * world.pace, .wait_ms = 3000 * world.pace, .front = front};
        task_start(take_turn, one, &over);
    }
    await(&over, CROWD);
}

/* A session of the first partition of the index, and leases of it that the watchdog keeps, of
 * locks that nobody else wants. */
struct visited {
    struct session session;
    char tokens[HOLDS][TOKEN_TEXT_SIZE];
};

static void ask_for_each(struct client *client, struct visited *visited, int number,
                         const char *method)
{
    for (int i = 0; i < HOLDS; i++) {
        char path[PATH_SIZE];
        struct plain plain = {.method = method,
                              .path = path,
                              .lease_token = visited->tokens[i],
                              .how = {.ttl_ms = -1}};
        if (strcmp(method, "PUT") == 0)
            plain.session_token = visited->session.token;
        snprintf(path, sizeof(path), "locks/many-%d", HOLDS * number + i);
        ask_plain(&client->caller, &plain);
    }
}

static void open_one(struct client *client, struct visited *visited, int number)
{
    struct session *session = &visited->session;

    session->ttl_ms = 2000 * world.pace;
    do {
        make_token(chance_of(client), session->token);
        token_session_id(session->token, session->public_id);
    } while (session->public_id[0] != '0');
    for (int i = 0; i < HOLDS; i++)
        make_token(chance_of(client), visited->tokens[i]);
    if (ask_session_open(&client->caller, session) == RESULT_OK)
        ask_for_each(client, visited, number, "PUT");
}

/* Many sessions that the watchdog visits and that end at one time. At times their leases are
 * released about when the watchdog comes. */
static void open_many(struct client *client)
{
    static struct visited all[VISITORS];

    for (int i = 0; i < VISITORS; i++)
        open_one(client, &all[i], i);
    if (likely(client, 40))
        return;
    nap(client, 1000, 1300);
    for (int i = 0; i < VISITORS; i++)
        ask_for_each(client, &all[i], i, "DELETE");
}

void run_crowd(struct client *client)
{
    for (int number = 0; !world.is_stopping; number++) {
        nap(client, 1000, 8000);
        if (likely(client, 50))
            rush(client, number);
        else
            open_many(client);
    }
}

/* --- a name that is a lock, and then something else ------------------------------------------
 */

static const char *const odd_paths[] = {
    "locks/" ODD "?ttl_ms=600",
    "locks/" ODD "?ttl_ms=600&wait_ms=700",
    "locks/" ODD "?ttl_ms=600&wait_ms=700&kind=fair",
    "locks/" ODD "?ttl_ms=600&wait_ms=700&kind=write",
    "locks/" ODD "?wait_ms=300",
};

/* Of a name that may be a lock: a text. */
static const char *const text_instead[] = {"SET", ODD, "x", "PX", "400", NULL};

void run_odd(struct client *client)
{
    while (!world.is_stopping) {
        char token[TOKEN_TEXT_SIZE];
        struct plain put = {.method = "PUT",
                            .path = one_of(client, odd_paths, 5),
                            .lease_token = token,
                            .how = {.ttl_ms = -1, .wait_ms = 700},
                            .may_conflict = true};
        struct plain drop = {.method = "DELETE",
                             .path = "locks/" ODD,
                             .lease_token = token,
                             .how = {.ttl_ms = -1},
                             .may_conflict = true};
        make_token(chance_of(client), token);
        if (likely(client, 25)) { /* a request that cannot be repeated */
            put.method = "POST";
            put.lease_token = NULL;
            if (likely(client, 50))
                put.path = "semaphores/" ODD "/acquire?wait_ms=700";
        }
        if (likely(client, 30))
            put.how.abandon_ns = chance_between(chance_of(client), 1, 600) * MS;
        enum result result = ask_plain(&client->caller, &put);
        if (result == RESULT_OK && likely(client, 50)) {
            nap(client, 0, 300);
            ask_plain(&client->caller, &put);
        }
        if (result == RESULT_ABANDONED && likely(client, 50))
            tell_redis(text_instead); /* before what was asked for is withdrawn */
        if (put.lease_token != NULL && likely(client, 80))
            ask_plain(&client->caller, &drop);
        nap(client, 0, 300);
    }
}

/* --- whoever has access to Redis -------------------------------------------------------------
 */

static void ignore_output(void *arg)
{
    (void)arg;
}

void tell_redis(const char *const *words)
{
    struct redis_client *client = redis_connect(&world.redis, ignore_output, NULL);
    struct buffer text = {0};
    int count = 0;

    while (words[count] != NULL)
        count++;
    buffer_format(&text, "*%d\r\n", count);
    for (int i = 0; i < count; i++)
        buffer_format(&text, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
    redis_receive(client, text.text, text.len);
    buffer_release(&text);
    redis_disconnect(client);
}

/* One that somebody listens to; NULL: nobody listens. */
static const char *pick_channel(struct client *client)
{
    const struct redis_client *listener;
    size_t count = 0;

    for (listener = world.redis.clients; listener != NULL; listener = listener->next)
        count += listener->channel_count;
    if (count == 0)
        return NULL;
    size_t at = chance_below(chance_of(client), count);
    for (listener = world.redis.clients; at >= listener->channel_count;
         listener = listener->next)
        at -= listener->channel_count;
    return listener->channels[at].text;
}

static void publish_nonsense(struct client *client)
{
    static const char *const texts[] = {"",
                                        "0",
                                        "1",
                                        "2",
                                        ":",
                                        "00",
                                        "5",
                                        "held",
                                        "held ",
                                        "held 0",
                                        "held 700",
                                        "held 9000",
                                        "held -7",
                                        "held 7x",
                                        "hold 700",
                                        "held 99999999999999999999999999",
                                        "not a lease id",
                                        "00000000-0000-0000-0000-000000000000",
                                        "00000000-0000-0000-0000-000000000000 plain-a",
                                        "00000000-0000-0000-0000-000000000000-plain-a"};
    const char *channel = pick_channel(client);

    if (channel == NULL)
        return;
    const char *words[] = {"PUBLISH", channel,
                           one_of(client, texts, sizeof(texts) / sizeof(texts[0])), NULL};
    tell_redis(words);
}

static bool refuses_writes(void)
{
    return world.redis.is_replica || world.redis.lacks_replicas;
}

/* Something else in the place of a lock, or nothing; or a lock without an end, for a while. */
static void spoil_lock(struct client *client)
{
    static const char *const count[] = {"SET", ODD, "3", "PX", "400", NULL};
    static const char *const drop[] = {"DEL", ODD, NULL};
    static const char *const keep[] = {"PERSIST", ODD, NULL};
    static const char *const end[] = {"PEXPIRE", ODD, "300", NULL};

    switch (chance_below(chance_of(client), 5)) {
    case 0:
    case 1:
        tell_redis(text_instead);
        break;
    case 2:
        tell_redis(count);
        break;
    case 3:
        tell_redis(drop);
        break;
    default:
        tell_redis(keep);
        do
            nap(client, 100, 300);
        while (refuses_writes());
        tell_redis(end);
    }
}

/* Something else in the place of what is known of a session of its own. */
static void spoil_session(struct client *client)
{
    struct session session = {.ttl_ms = 2000 * world.pace};
    char token[TOKEN_TEXT_SIZE], id[TOKEN_TEXT_SIZE];
    char key[PATH_SIZE], due[PATH_SIZE], record[PATH_SIZE];
    struct plain put = {.method = "PUT",
                        .path = "locks/" ODD,
                        .lease_token = token,
                        .session_token = session.token,
                        .how = {.ttl_ms = -1},
                        .may_conflict = true};
    const char *const spoil[] = {"SET", key, "x", "PX", "3000", NULL};
    const char *const add[] = {"ZADD", due, "0", "x", NULL};
    const char *const drop_record[] = {"DEL", record, NULL};
    const char *const spoil_record[] = {"HSET", record, "x", "x", NULL};
    const char *const end_record[] = {"PEXPIRE", record, "30000", NULL};

    make_token(chance_of(client), session.token);
    make_token(chance_of(client), token);
    token_lease_id(token, id);
    if (ask_session_open(&client->caller, &session) != RESULT_OK)
        return;
    snprintf(key, sizeof(key), "rlockd:session:{%s}", session.public_id);
    snprintf(due, sizeof(due), "rlockd:session-due:{%s}", session.public_id);
    if (likely(client, 40)) {
        tell_redis(spoil);
    } else if (likely(client, 50)) {
        tell_redis(add);
    } else if (ask_plain(&client->caller, &put) == RESULT_OK) {
        snprintf(record, sizeof(record), "rlockd:lease:{" ODD "}:%s", id);
        tell_redis(drop_record);
        tell_redis(spoil_record);
        tell_redis(end_record);
    }
}

void run_meddler(struct client *client)
{
    while (!world.is_stopping) {
        switch (chance_below(chance_of(client), 8)) {
        case 0:
            spoil_session(client);
            break;
        case 1:
        case 2:
            spoil_lock(client);
            break;
        default:
            publish_nonsense(client);
        }
        nap(client, 20, 400);
    }
}
