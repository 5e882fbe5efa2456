/* What the end-to-end tests share: a private Redis, real rlockd processes, HTTP and faults.
 *
 * Everything that a function here hands out belongs to the world and is freed, stopped or
 * removed when the running test ends; what the plan starts lives until the last test ended.
 * Every wait has a deadline; a deadline that passes fails the running test. */
#ifndef E2E_HARNESS_H
#define E2E_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>
#include <jansson.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

struct redis;

struct world {
    char dir[64];        /* private, removed at the end unless E2E_KEEP is set */
    struct redis *redis; /* NULL when the plan has none */
    struct front *a, *b; /* the front ends of the plan */
    struct world_inside *inside;
};

/* ---- running tests: harness.c ---- */

struct e2e_test {
    const char *name;
    void (*run)(struct world *w);
};

struct e2e_plan {
    const char *name;
    const struct e2e_test *tests;
    size_t tests_len;
    int front_ends;           /* 0 to 2 */
    bool without_redis;       /* then front_ends has to be 0 */
    const char *const *flags; /* of the front ends, NULL-terminated; may be NULL */
    bool needs_one_server; /* locks names at once that a cluster keeps apart: not run there */
};

/* A compound literal, because clang-format 14 and 19 break bare braces differently. */
#define E2E_TEST(function) ((struct e2e_test){#function, function})
#define E2E_TESTS(array) .tests = (array), .tests_len = COUNT_OF(array)

/* Runs the tests of a plan; returns what main() has to return. E2E_FILTER picks tests by name.
 */
int e2e_run(const struct e2e_plan *plan);

/* `undo(thing)` runs when the test ends, last come, first served. */
void world_defer(struct world *w, void (*undo)(void *thing), void *thing);
const char *text(struct world *w, const char *format, ...) PRINTF_LIKE(2, 3);
/* Leaves a test that makes no sense on a Redis Cluster; does nothing elsewhere. */
void skip_on_cluster(struct world *w);
/* The same for a cluster of several masters: the test is about one connection or one server. */
void skip_on_masters(struct world *w);
/* Leaves a test for which this machine lacks something. */
void skip_where(struct world *w, bool is_so);
/* Leaves a test where redis-server was built without TLS. */
void skip_without_tls(struct redis *redis);
/* Leaves a test of channels of a shard, which Redis 6.2 does not know. */
void skip_without_shards(struct redis *redis);
/* Leaves a test of a server that connects from an address of its own, which Redis 6.2 cannot do
 * beside its listening address. */
void skip_without_source_address(struct redis *redis);
/* Leaves a test of a Redis without memory where scripts begin with `#!lua` (make test-cluster):
 * such a script Redis refuses as a whole, and not only its first write. */
void skip_with_slots(struct world *w);
/* A fresh random token. No log of a front end may ever hold it: checked after every test. */
const char *token_new(struct world *w);

/* ---- time: harness.c ---- */

int64_t now_ms(void);
void nap_ms(int ms);
/* A deadline as the machine at hand needs it: E2E_PATIENCE times `ms`. */
int64_t patience_ms(int64_t ms);
/* "ttl_ms=…" of so many ms, scaled: of a session or a lease that is to outlive what comes next.
 */
const char *ttl_of(struct world *w, int ms);
/* By how many ms the machine was late since the running test began, any thread may ask: by how
 * much naps of 20 ms were too long, and how long the test and each process that it started were
 * ready to run and had no processor; all added up, but at most the time that passed. */
int64_t late_ms(void);
/* The most that may have passed where an idle machine takes `ms`: with late_ms(). */
int64_t allowed_ms(int64_t ms);
void fail_at(const char *file, int line, const char *format, ...) PRINTF_LIKE(3, 4)
    __attribute__((noreturn));

#define FAIL(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)

/* How long a test still waits, in ms. Between two looks at what the test waits for, at most
 * LOOK_MS of the time count: a machine, a disk or a Redis that stands still for seconds stops
 * the test and what it waits for alike. */
struct patience {
    int64_t left_ms, looked_ms, excused_ms;
};

enum { LOOK_MS = 250, EXCUSED_MAX_MS = 20000 };

struct patience patience_of(int64_t ms); /* scaled */
/* To be called after each look in vain. `fails`: where the end fails the test, late_ms() comes
 * on top, up to EXCUSED_MAX_MS. */
bool patience_ends(struct patience *patience);
bool patience_fails(struct patience *patience);

/* Waits for a condition; the test fails when it does not come true within `ms` (scaled). */
#define wait_until(condition, ms)                                                              \
    do {                                                                                       \
        struct patience patience_ = patience_of(ms);                                           \
        while (!(condition)) {                                                                 \
            if (patience_fails(&patience_))                                                    \
                FAIL("waited %d ms in vain for: %s", (int)patience_ms(ms), #condition);        \
            nap_ms(5);                                                                         \
        }                                                                                      \
    } while (0)

/* Fails when a condition stops being true within `ms` (not scaled). */
#define stays_true(condition, ms)                                                              \
    do {                                                                                       \
        int64_t enough_ = now_ms() + (ms);                                                     \
        do {                                                                                   \
            if (!(condition))                                                                  \
                FAIL("should have stayed true: %s", #condition);                               \
            nap_ms(10);                                                                        \
        } while (now_ms() < enough_);                                                          \
    } while (0)

/* ---- child processes: harness_process.c ---- */

struct child;

/* Starts argv[0] with stdout and stderr in files of the world's directory. `env` holds further
 * NAME=VALUE entries (NULL-terminated, may be NULL); the test's own RLOCKD_* are not inherited.
 */
struct child *child_start(struct world *w, const char *name, const char *const *argv,
                          const char *const *env);
int child_pid(const struct child *child);
/* After SIGSTOP the child stands still when this returns. */
void child_signal(struct child *child, int signo);
/* Exit code, 128 + n after signal n, -1 when it still runs after `ms` (scaled). */
int child_wait(struct child *child, int64_t ms);
const char *child_stdout(struct child *child);
const char *child_stderr(struct child *child);
/* The path of the real rlockd: RLOCKD_BIN, or where `make` builds it. */
const char *rlockd_binary(void);
/* The real rlockd with these arguments, under RLOCKD_WRAP where that is set. */
struct child *rlockd_start(struct world *w, const char *const *args, const char *const *env);

/* ---- front ends: harness_server.c ---- */

struct front {
    struct world *world;
    struct child *child;
    int port;
    int reserved_fd; /* bound to that port, never listening */
    bool ended;      /* stopped or killed by the test */
    size_t log_checked_len;
};

/* Starts rlockd on a port of 127.0.0.1 that stays its own until the test ends, with the name
 * `x` for Host, and with these flags (NULL at the end). `launch` returns when it listens,
 * `start` when /readyz says ready. */
struct front *front_launch(struct world *w, ...) __attribute__((sentinel));
/* Where it listens, by its log; 0: not yet. */
int front_port(struct front *fe);
struct front *front_start(struct world *w, ...) __attribute__((sentinel));
/* It reaches every Redis that it needs. */
bool front_ready(struct front *fe);
/* SIGTERM; the exit code has to be 0 within a few seconds. */
void front_stop(struct front *fe);
void front_kill(struct front *fe);
/* Its log: one JSON object a line; front_log_find gives the last one whose `msg` is this. */
const char *front_log(struct front *fe);
json_t *front_log_find(struct front *fe, const char *msg);
/* One sample of /metrics, labels as they stand there; the sum of all when `labels` is NULL. Of
 * a page that was made after the call: so it may take a second. */
double front_metric(struct front *fe, const char *family, const char *labels);

/* ---- Redis: harness_redis.c ---- */

/* Runs a command of the shell in the world's folder and returns what it printed; its exit
 * status in `code`, which may be NULL: then it must be 0. */
const char *shell_run(struct world *w, int *code, const char *command);

/* NAME.pem and NAME.key in the world's folder. `names` as in "IP:127.0.0.1,DNS:localhost". */
void authority_make(struct world *w, const char *name);
void certificate_make(struct world *w, const char *name, const char *authority,
                      const char *names);
/* `key`: for `openssl req -newkey`; `purpose`: as openssl's extendedKeyUsage, or NULL. */
void certificate_make_as(struct world *w, const char *name, const char *authority,
                         const char *names, const char *key, const char *purpose);
/* Copies both to AS.pem and AS.key. */
void certificate_use(struct world *w, const char *name, const char *as);

struct redis {
    struct world *world;
    struct child *child;
    int number;    /* no other of this world has it */
    bool on_tcp;   /* also for other servers; else for this test's rlockd alone */
    char host[16]; /* of TCP; with TLS where E2E_REDIS has that */
    int port;
    int tls_port; /* at redis_address(); 0: none */
    int ahead_s;  /* its clock */
    char dir[80];
    char socket[96];
    char url[128];
    redisContext *db;
    struct cluster *cluster; /* its nodes, where it is a cluster of several; else NULL */
};

/* A private redis-server on a unix socket, append-only file on; pairs of setting and value for
 * CONFIG SET, NULL at the end. */
struct redis *redis_start(struct world *w, ...) __attribute__((sentinel));
/* E2E_REDIS=sentinel: every private Redis has a Sentinel, and its URL names that. */
bool redis_is_sentinel(void);
/* E2E_REDIS_CLUSTER=1: every private Redis is a cluster of one server that owns all slots. It
 * has only database 0, and refuses a command or a script whose keys are in different slots.
 * E2E_REDIS=cluster3: a cluster of three masters. A command goes to the master of its key, and
 * to all masters when it has none. */
bool redis_is_cluster(void);
bool redis_has_masters(void);
/* E2E_REDIS=tls: every private Redis has a TLS port, and rlockd uses that; so do replicas,
 * nodes of clusters and Sentinels. E2E_REDIS=sentinel,tls and cluster3,tls are both. */
bool redis_is_tls(void);
/* Flags of a server are added to `argv`; `len` and what is returned count them. One that others
 * reach by TCP, which gets its host and port; one with a socket, and a TLS port where E2E_REDIS
 * wants that; one of a cluster. */
size_t redis_tcp_flags(struct redis *redis, const char **argv, size_t len);
size_t redis_socket_flags(struct redis *redis, const char **argv, size_t len);
size_t redis_cluster_flags(const char **argv, size_t len);
/* The flags of every test server: its socket, its folder, its log, and data that outlive a
 * kill. */
size_t redis_data_flags(struct redis *redis, const char **argv, size_t len);
/* The authority "redis-ca" and a certificate "redis-NUMBER" of it for redis_address(),
 * 127.0.0.1 and localhost, each made when it is missing: the path, without .pem and .key. */
const char *redis_certificate(struct world *w, int number);
/* The flags for a TLS port at redis_address(), with its redis_certificate(). */
size_t redis_tls_flags(struct redis *redis, const char **argv, size_t len);
/* A TCP address of 127.0.0.0/8 that no other test program has, and its first port: a server has
 * that and its number. */
const char *redis_address(struct world *w);
enum { REDIS_FIRST_PORT = 7000 };
/* kill -9: what it answered survives in the file. Not for the Redis of the plan. */
void redis_kill(struct redis *redis);
void redis_return(struct redis *redis); /* and back again, same directory and socket */
/* The same with further flags (NULL-terminated), and without waiting for it. */
void redis_relaunch(struct redis *redis, const char *const *flags);
/* Between kill and return: everything it ever stored is gone. */
void redis_lose_data(struct redis *redis);
void redis_freeze(struct redis *redis);
void redis_thaw(struct redis *redis);
/* Opens the connection again, e.g. after CLIENT KILL or a restart. */
void redis_connect(struct redis *redis);
/* Gives a server of a cluster the slots from `first` to below `end`, as Redis 6.2 takes them:
 * not as a range. */
void redis_take_slots(struct redis *redis, int first, int end);

/* One command; an error reply comes back as such, a lost connection fails the test. */
redisReply *redis_do(struct redis *redis, const char *format, ...);
long long redis_int(struct redis *redis, const char *format, ...);
const char *redis_str(struct redis *redis, const char *format, ...); /* NULL: nil */
/* How often this Redis has run a command since its start, in scripts, too. In lower case. */
long long redis_calls(struct redis *redis, const char *command);
/* NULL is no text's equal. */
static inline bool is_text(const char *text, const char *other)
{
    return text != NULL && strcmp(text, other) == 0;
}
void redis_ok(struct redis *redis, const char *format, ...);
bool redis_has(struct redis *redis, const char *key);

/* Scripts that Redis ran since scripts_count_from_now() and whose first key is this; NULL:
 * about any object or session, without the rounds of watchdogs. Of the client of Redis with
 * this address; NULL: of all clients; without those of the census. `last`: the address of the
 * client of the last one; may be NULL. Nobody else may use SLOWLOG meanwhile. */
void scripts_count_from_now(struct redis *redis);
int scripts_of(struct redis *redis, const char *address, const char *key, const char **last);
int scripts_about(struct redis *redis, const char *key);
/* Every key that begins with `prefix`, literally, but markers and the census; an array
 * of strings. */
json_t *redis_keys(struct redis *redis, const char *prefix);

/* A holder as Java clients write it: UUID of the client, number of the thread. */
#define JAVA_HOLDER "0b7dd2f4-6d7b-4d2f-9b39-4a0f9a6a2f4e:17"

/* What a Java client does to the key of a lock. Both return false when somebody else holds it.
 */
bool redisson_lock(struct redis *redis, const char *key, const char *holder, int lease_ms);
bool redisson_fenced_lock(struct redis *redis, const char *key, const char *holder,
                          int lease_ms);
/* False: not the holder. Sends the message and leaves an unlock latch, as Redisson does. */
bool redisson_unlock(struct redis *redis, const char *key, const char *holder);

struct listener;
struct listener *listener_start(struct redis *redis, const char *channel);
/* The next message, NULL when none came within `ms` (scaled). */
const char *listener_next(struct listener *listener, int64_t ms);

/* ---- HTTP: harness_http.c ---- */

struct request {
    const char *method, *path;
    const char *token; /* Lease-Token */
    const char *body;  /* with Content-Type: application/json unless `type` says otherwise */
    const char *type;
    const char *headers[6];
    int timeout_ms; /* 0: 20 seconds */
};

struct reply {
    int status;        /* 0: no answer */
    const char *head;  /* the header lines */
    const char *text;  /* the body */
    json_t *json;      /* the body; NULL when it is not JSON */
    const char *error; /* why there is no answer */
    int64_t sent_ms, done_ms;
};

struct reply *http(struct front *fe, const char *method, const char *path, const char *token);
struct reply *http_send(struct front *fe, const struct request *request);
#define HTTP(fe, ...) http_send(fe, &(struct request){__VA_ARGS__})

/* The value of a header, NULL when it is absent. */
const char *reply_header(struct world *w, const struct reply *reply, const char *name);
/* `path` like "holder.lease_id" or "holders.0.note"; NULL when absent. */
json_t *reply_get(const struct reply *reply, const char *path);
const char *reply_str(const struct reply *reply, const char *path);
json_int_t reply_int(const struct reply *reply, const char *path); /* -1 when absent */

const char *url_encode(struct world *w, const char *name);
/* A path below /v1/locks/, the name percent-encoded, `rest` appended as it is. */
const char *lock_path(struct world *w, const char *name, const char *rest);
/* PUT, PATCH, DELETE and GET; `query` without its question mark, may be NULL. */
struct reply *lock_put(struct front *fe, const char *name, const char *token,
                       const char *query);
struct reply *lock_renew(struct front *fe, const char *name, const char *token,
                         const char *query);
struct reply *lock_release(struct front *fe, const char *name, const char *token);
struct reply *lock_look(struct front *fe, const char *name);
int waiter_count(struct front *fe, const char *name);

/* ---- requests that take their time: harness_async.c ---- */

struct call;
struct call *call_start(struct front *fe, const struct request *request);
#define CALL(fe, ...) call_start(fe, &(struct request){__VA_ARGS__})
struct call *call_put(struct front *fe, const char *name, const char *token, const char *query);
bool call_done(struct call *call);
struct reply *call_await(struct call *call, int64_t ms);
void call_hang_up(struct call *call);

/* ---- API tokens: harness_tokens.c ---- */

/* A new or overwritten file for --api-tokens in the world's directory. A token in braces stands
 * for its hash: "ci {secret} lock=*\n". */
const char *tokens_write(struct world *w, const char *name, const char *lines);
/* An Authorization header. */
const char *bearer(struct world *w, const char *token);

/* ---- bytes on a socket: harness_raw.c ---- */

struct raw;
struct raw *raw_open(struct front *fe);
/* `from`: a local address; NULL: any. `receive_buffer`: bytes; 0: the system's default. */
struct raw *raw_open_as(struct front *fe, const char *from, int receive_buffer);
void raw_send(struct raw *raw, const char *bytes, size_t len);
void raw_text(struct raw *raw, const char *format, ...) PRINTF_LIKE(2, 3);
/* The next answer; status 0 when the server closed without one. */
struct reply *raw_reply(struct raw *raw, int64_t ms);
/* Has the server closed within `ms` (scaled)? */
bool raw_closed(struct raw *raw, int64_t ms);
void raw_shut_write(struct raw *raw);
void raw_close(struct raw *raw);
void raw_reset(struct raw *raw); /* closes with RST */

/* ---- a bad network between rlockd and Redis: harness_proxy.c ---- */

#define PARTED_ADDRESS "127.0.0.2"

enum proxy_mode {
    PROXY_PASS,
    PROXY_BLACKHOLE,      /* connections stay, nothing comes through */
    PROXY_CUT,            /* the next answer of a connection comes by half, and ends it */
    PROXY_RESET,          /* every connection is reset, the new ones too */
    PROXY_PART,           /* the same for connections from PARTED_ADDRESS; the others pass */
    PROXY_DROP_REPLIES,   /* Redis gets the commands, its answers are lost */
    PROXY_HOLD,           /* answers wait for another mode; messages, and NOSCRIPT, come */
    PROXY_DELAY,          /* answers come 300 ms late */
    PROXY_DELAY_COMMANDS, /* the same, but messages of subscriptions come at once */
    PROXY_DEAF            /* answers and messages of subscriptions are lost, all else passes */
};

struct proxy;
struct proxy *proxy_start(struct redis *redis);
/* The same at this address, also before a node of a cluster. */
struct proxy *proxy_start_at(struct redis *redis, const char *address);
/* The same before this port of the server; 0: before its socket. */
struct proxy *proxy_start_before(struct redis *redis, const char *address, int server_port);
int proxy_port(const struct proxy *proxy);
/* Returns when the mode holds. A front end gives an answer up after 2 s. */
void proxy_set(struct proxy *proxy, enum proxy_mode mode);
/* Resets every connection; new ones are to this Redis, at its socket. */
void proxy_turn_to(struct proxy *proxy, struct redis *redis);
/* Lets go of the answers that PROXY_HOLD holds by now. */
void proxy_pass_held(struct proxy *proxy);
/* Connections made until now stay, and are silent for good, as behind a firewall that forgot
 * them; new connections work. */
void proxy_silence(struct proxy *proxy);
/* Returns when every command was answered and none came for a while: what a front end began, a
 * subscription and the attempt after it, is over. */
void proxy_settle(struct proxy *proxy);
/* Bytes of commands that have come from rlockd, and bytes of answers that were lost. */
size_t proxy_commands_len(struct proxy *proxy);
size_t proxy_dropped_len(struct proxy *proxy);
/* redis://<userinfo>127.0.0.1:port<path> */
const char *proxy_url(struct proxy *proxy, const char *userinfo, const char *path);

/* ---- expectations: harness_expect.c ---- */

#define expect_status(reply, status) expect_status_at(reply, status, __FILE__, __LINE__)
/* An error as the contract wants it: status, code, media type, members, Retry-After. */
#define expect_problem(reply, status, code)                                                    \
    expect_problem_at(reply, status, code, __FILE__, __LINE__)
#define expect_str(reply, path, value) expect_str_at(reply, path, value, __FILE__, __LINE__)
#define expect_int(reply, path, value)                                                         \
    expect_between_at(reply, path, value, value, __FILE__, __LINE__)
#define expect_between(reply, path, low, high)                                                 \
    expect_between_at(reply, path, low, high, __FILE__, __LINE__)
#define expect_bool(reply, path, value) expect_bool_at(reply, path, value, __FILE__, __LINE__)
#define expect_absent(reply, path) expect_absent_at(reply, path, __FILE__, __LINE__)
#define expect_detail(reply, word) expect_detail_at(reply, word, __FILE__, __LINE__)
#define expect_true(reply, condition)                                                          \
    do {                                                                                       \
        if (!(condition))                                                                      \
            fail_at(__FILE__, __LINE__, "not so: %s in %d %s", #condition, (reply)->status,    \
                    (reply)->text);                                                            \
    } while (0)

void expect_status_at(const struct reply *reply, int status, const char *file, int line);
void expect_problem_at(const struct reply *reply, int status, const char *code,
                       const char *file, int line);
void expect_str_at(const struct reply *reply, const char *path, const char *value,
                   const char *file, int line);
void expect_between_at(const struct reply *reply, const char *path, json_int_t low,
                       json_int_t high, const char *file, int line);
void expect_bool_at(const struct reply *reply, const char *path, bool value, const char *file,
                    int line);
void expect_absent_at(const struct reply *reply, const char *path, const char *file, int line);
void expect_detail_at(const struct reply *reply, const char *word, const char *file, int line);

#endif
