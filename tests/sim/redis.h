/* A Redis in memory, on virtual time, that knows what rlockd sends: the commands of
 * redis_table.c, the scripts in Lua 5.1 as Redis 7.0 runs them, and pub/sub. Replies are RESP2,
 * byte for byte. */
#ifndef RLOCKD_TESTS_SIM_REDIS_H
#define RLOCKD_TESTS_SIM_REDIS_H

#include "tests/sim/chance.h"
#include "tests/sim/keyspace.h"

enum { REDIS_ID_LEN = 40 };

struct lua_State;
struct redis;
struct call;

/* `is_shard`: of the shard, in a cluster. */
struct channel {
    struct bytes name;
    bool is_shard;
};

/* A connection, as Redis knows it. */
struct redis_client {
    struct redis_client *prev, *next;
    struct redis *redis;
    int64_t id;
    struct buffer unread, output;
    struct channel *channels;
    size_t channel_count;
    bool is_killed;
    bool is_asking;   /* the last command was ASKING */
    bool is_trusted;  /* no client of a cluster: it is never redirected */
    bool is_blocked;  /* its next command waits until redis_unblock() */
    int64_t wrote_to; /* of its server's replication: what its commands have written */
    void (*has_output)(void *arg);
    void *arg;
};

/* A script that EVALSHA finds. */
struct redis_script {
    UT_hash_handle hh;
    char sha[REDIS_ID_LEN + 1];
};

struct redis_counts {
    int64_t commands, scripts, unknown_scripts, out_of_memory, refused_writes, errors;
};

/* The functions of a server that belongs to a group of servers; NULL: it has no such function.
 */
struct redis_peers {
    const struct command *commands; /* that only such a server has */
    /* A command, maybe of a script, has run that changes keys. */
    void (*wrote)(const struct call *call);
    /* Why the command, maybe of a script, is not for this server; NULL: it is. */
    const char *(*refusal)(const struct call *call);
    /* A message for all servers. */
    void (*published)(const struct redis *redis, struct bytes channel, struct bytes text);
    /* The connection is gone. */
    void (*left)(struct redis_client *client);
};

struct redis {
    struct keyspace keys;
    struct chance chance;
    int64_t (*clock_us)(void *arg);
    void *clock_arg;
    char run_id[REDIS_ID_LEN + 1];
    char replication_id[REDIS_ID_LEN + 1]; /* of its data; a replica has its master's */
    char former_id[REDIS_ID_LEN + 1];      /* before it was promoted; all zeros: it was not */
    struct redis_peers peers;
    void *owner; /* theirs */
    bool is_out_of_memory, is_replica, lacks_replicas, is_cluster;
    struct redis_script *scripts;
    struct redis_client *clients;
    int64_t last_client_id;
    /* Is shown every request and its reply; NULL: nobody is. */
    void (*observer)(const struct call *call, const char *reply, size_t len);
    struct redis_counts *counts; /* of all servers together */
    int64_t ran;                 /* scripts, of this one */
    struct lua_State *lua;

    /* Of the script that runs; 0 for a command outside of a script. */
    int64_t script_ms;
    struct redis_client *script_client; /* that asked for the last script */
    bool script_wrote, script_short_of_memory, script_asks;
};

/* One command that runs. */
struct call {
    struct redis *redis;
    struct redis_client *client; /* NULL: a script asks */
    size_t argc;
    const struct bytes *argv;
    struct buffer *reply;
    int64_t now_ms;
};

enum { COMMAND_WRITES = 1, COMMAND_NEEDS_MEMORY = 2, COMMAND_NOT_IN_SCRIPT = 4 };

struct command {
    const char *name;
    int arity; /* as Redis counts: with the name; negative: or more */
    unsigned flags;
    void (*run)(struct call *call);
};

void redis_init(struct redis *redis, struct redis_counts *counts, struct chance chance,
                int64_t (*clock_us)(void *arg), void *arg);
void redis_release(struct redis *redis);
/* Another process: connections, subscriptions and scripts are gone. */
void redis_restart(struct redis *redis);
/* Closes all connections. */
void redis_kill_clients(struct redis *redis);
/* A replica becomes a master. */
void redis_promote(struct redis *redis);
void redis_forget_scripts(struct redis *redis);

struct redis_client *redis_connect(struct redis *redis, void (*has_output)(void *arg),
                                   void *arg);
void redis_disconnect(struct redis_client *client);
/* Bytes that came; runs what is whole. */
void redis_receive(struct redis_client *client, const char *text, size_t len);
/* Runs what came while the connection was blocked. */
void redis_unblock(struct redis_client *client);
/* Past all connections. */
void redis_publish(struct redis *redis, struct bytes channel, struct bytes text);
/* Ends the subscriptions to channels of the shard for which `is_gone` is true, and says so. */
void redis_leave_shard(struct redis *redis, bool (*is_gone)(struct bytes channel));
size_t redis_channels(const struct redis *redis, const char *prefix);

/* redis_table.c: runs one command, and replies. */
void redis_run(struct call *call);
/* A command that the server's master has run at `now_ms`. */
void redis_apply(struct redis *redis, const struct bytes *argv, size_t argc, int64_t now_ms);
/* redis_lua.c */
void redis_lua_start(struct redis *redis);
void redis_lua_stop(struct redis *redis);

/* Replies. */
void reply_status(struct call *call, const char *status);
void reply_error(struct call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void reply_integer(struct call *call, int64_t number);
void reply_bytes(struct call *call, struct bytes bytes);
void reply_nil(struct call *call);
void reply_count(struct call *call, size_t count);
void reply_number(struct call *call, double number);

/* The value of the first key; false: its type is another, and the error is replied. */
bool find_value(struct call *call, struct bytes key, enum value_type type,
                struct value **value);
/* A key without items is no key. */
void drop_if_empty(struct call *call, struct value *value);
/* HDEL, ZREM. */
void remove_items(struct call *call, enum value_type type);
/* False: no number, and the error is replied. */
bool read_integer(struct call *call, size_t at, int64_t *number);
bool read_score(struct call *call, struct bytes text, double *score);

extern const struct command string_commands[], hash_commands[], list_commands[],
    zset_commands[], key_commands[], server_commands[], script_commands[];

#endif
