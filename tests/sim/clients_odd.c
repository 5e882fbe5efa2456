/* Clients that do what the others never would, some of them past all front ends. */
#include "tests/sim/clients.h"

#include <string.h>

#include "tests/sim/faults.h"

#define ODD ODD_NAME

enum { PATH_SIZE = 160 };

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
                            .how = {.ttl_ms = -1, .wait_ms = 700, .refusal = 409}};
        struct plain drop = {.method = "DELETE",
                             .path = "locks/" ODD,
                             .lease_token = token,
                             .how = {.ttl_ms = -1, .refusal = 409}};
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

static void send_words(struct redis_client *client, const char *const *words)
{
    struct buffer text = {0};
    int count = 0;

    client->is_trusted = true;
    while (words[count] != NULL)
        count++;
    buffer_format(&text, "*%d\r\n", count);
    for (int i = 0; i < count; i++)
        buffer_format(&text, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
    redis_receive(client, text.text, text.len);
    buffer_release(&text);
}

static bool ask_server(struct server *server, const char *const *words, struct buffer *reply)
{
    if (server->is_stopped || server->is_paused)
        return false;
    struct redis_client *client = redis_connect(&server->redis, ignore_output, NULL);
    send_words(client, words);
    if (reply != NULL)
        buffer_add(reply, client->output.text, client->output.len);
    redis_disconnect(client);
    return true;
}

bool ask_past_fronts(const char *key, const char *const *words, struct buffer *reply)
{
    return ask_server(servers_owner(bytes_of(key)), words, reply);
}

void tell_redis(const char *const *words)
{
    if (world.topology != TOPOLOGY_QUORUM) {
        ask_past_fronts(words[1], words, NULL);
        return;
    }
    for (struct server *server = NULL; (server = server_next(server)) != NULL;)
        ask_server(server, words, NULL);
}

struct redis_client *listen_past_fronts(const char *key, const char *channel,
                                        void (*on_message)(void *arg), void *arg)
{
    struct server *server = servers_owner(bytes_of(key));
    const char *const words[] = {"SUBSCRIBE", channel, NULL};

    if (server->is_stopped)
        return NULL;
    struct redis_client *client = redis_connect(&server->redis, ignore_output, NULL);
    send_words(client, words);
    client->has_output = on_message;
    client->arg = arg;
    return client;
}

/* One that somebody listens to; NULL: nobody listens. */
static const char *pick_channel(struct client *client)
{
    const struct server *server = servers_pick_master(chance_of(client));
    const struct redis_client *listener;
    size_t count = 0;

    for (listener = server->redis.clients; listener != NULL; listener = listener->next)
        count += listener->channel_count;
    if (count == 0)
        return NULL;
    size_t at = chance_below(chance_of(client), count);
    for (listener = server->redis.clients; at >= listener->channel_count;
         listener = listener->next)
        at -= listener->channel_count;
    return listener->channels[at].name.text;
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

/* When the lock last got an end again. */
static int64_t ended_ns;

/* False: Redis is away, or refuses to write. */
static bool end_lock(void)
{
    static const char *const end[] = {"PEXPIRE", ODD, "300", NULL};
    struct buffer reply = {0};
    bool is_done = ask_past_fronts(ODD, end, &reply) && reply.text[0] == ':';

    buffer_release(&reply);
    ended_ns = now_ns();
    return is_done;
}

void end_odd_lock(void)
{
    if (faults_undone_until_ns() > ended_ns)
        end_lock();
}

/* Something else in the place of a lock, or nothing; or a lock without an end, for a while. */
static void spoil_lock(struct client *client)
{
    static const char *const count[] = {"SET", ODD, "3", "PX", "400", NULL};
    static const char *const drop[] = {"DEL", ODD, NULL};
    static const char *const keep[] = {"PERSIST", ODD, NULL};

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
        while (!end_lock());
    }
}

/* A script, because of two commands a replica that is promoted may have the first alone. */
static void run_script(const char *script, const char *key)
{
    const char *const words[] = {"EVAL", script, "1", key, NULL};

    ask_past_fronts(key, words, NULL);
}

/* The master may be another one than when the session was opened, and not have the session. */
static const char add_due[] = "if redis.call('exists', KEYS[1]) == 1 then "
                              "redis.call('zadd', KEYS[1], 0, 'x') end";
static const char spoil_record[] = "redis.call('del', KEYS[1]) "
                                   "redis.call('hset', KEYS[1], 'x', 'x') "
                                   "redis.call('pexpire', KEYS[1], 30000)";

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
                        .how = {.ttl_ms = -1, .refusal = 409}};
    const char *const spoil[] = {"SET", key, "x", "PX", "3000", NULL};

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
        run_script(add_due, due);
    } else if (ask_plain(&client->caller, &put) == RESULT_OK) {
        snprintf(record, sizeof(record), "rlockd:lease:{" ODD "}:%s", id);
        run_script(spoil_record, record);
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
