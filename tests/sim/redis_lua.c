/* EVAL and EVALSHA: the texts of storage/scripts as they are, in Lua 5.1, with redis.call() and
 * redis.pcall(), the conversions and the error texts of Redis 7.0. */
#include <gnutls/crypto.h>
#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <lua5.1/lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/redis.h"

enum { ARGS_MAX = 1024, NUMBER_SIZE = 40 };

static struct redis *redis_of(lua_State *lua)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, "redis");
    struct redis *redis = lua_touserdata(lua, -1);
    lua_pop(lua, 1);
    return redis;
}

/* --- a reply for the script ----------------------------------------------------------------
 */

/* Pushes the reply that begins at `text`; returns what comes behind. */
static const char *push_reply(lua_State *lua, const char *text)
{
    const char *end = strchr(text, '\r');
    long long number = strtoll(text + 1, NULL, 10);
    const char *next = end + 2;

    luaL_checkstack(lua, 4, "reply");
    switch (text[0]) {
    case ':':
        lua_pushnumber(lua, (lua_Number)number);
        return next;
    case '+':
    case '-':
        lua_newtable(lua);
        lua_pushlstring(lua, text + 1, (size_t)(end - text - 1));
        lua_setfield(lua, -2, text[0] == '+' ? "ok" : "err");
        return next;
    case '$':
        if (number < 0) {
            lua_pushboolean(lua, 0);
            return next;
        }
        lua_pushlstring(lua, next, (size_t)number);
        return next + number + 2;
    default:
        lua_createtable(lua, (int)number, 0);
        for (long long i = 1; i <= number; i++) {
            next = push_reply(lua, next);
            lua_rawseti(lua, -2, (int)i);
        }
        return next;
    }
}

/* --- redis.call ----------------------------------------------------------------------------
 */

/* Numbers as Redis 7.0 writes them. False: no text and no number. */
static bool take_argument(lua_State *lua, int at, struct bytes *argument, char *number)
{
    if (lua_type(lua, at) == LUA_TNUMBER) {
        argument->len = (size_t)snprintf(number, NUMBER_SIZE, "%.17g", lua_tonumber(lua, at));
        argument->text = number;
        return true;
    }
    if (lua_type(lua, at) != LUA_TSTRING)
        return false;
    argument->text = (char *)lua_tolstring(lua, at, &argument->len);
    return true;
}

static void push_error(lua_State *lua, const char *text)
{
    lua_newtable(lua);
    lua_pushstring(lua, text);
    lua_setfield(lua, -2, "err");
}

static void run_for_script(lua_State *lua)
{
    static char numbers[ARGS_MAX][NUMBER_SIZE];
    static struct bytes argv[ARGS_MAX];
    static struct buffer reply;
    struct redis *redis = redis_of(lua);
    int argc = lua_gettop(lua);

    if (argc == 0 || argc > ARGS_MAX) {
        push_error(lua, "ERR Please specify at least one argument for this redis lib call");
        return;
    }
    for (int i = 0; i < argc; i++)
        if (!take_argument(lua, i + 1, &argv[i], numbers[i])) {
            push_error(lua, "ERR Lua redis lib command arguments must be strings or integers");
            return;
        }
    struct call call = {.redis = redis, .argc = (size_t)argc, .argv = argv, .reply = &reply};
    reply.len = 0;
    redis_run(&call);
    buffer_add(&reply, "", 1);
    push_reply(lua, reply.text);
}

static int redis_pcall(lua_State *lua)
{
    run_for_script(lua);
    return 1;
}

static int redis_call(lua_State *lua)
{
    run_for_script(lua);
    if (lua_istable(lua, -1)) {
        lua_getfield(lua, -1, "err");
        bool is_error = lua_isstring(lua, -1);
        lua_pop(lua, 1);
        if (is_error)
            return lua_error(lua);
    }
    return 1;
}

/* --- the reply of a script ------------------------------------------------------------------
 */

static void reply_value(struct call *call, lua_State *lua);

static bool reply_field(struct call *call, lua_State *lua, const char *name, char mark)
{
    lua_getfield(lua, -1, name);
    bool is_there = lua_isstring(lua, -1);
    if (is_there)
        buffer_format(call->reply, "%c%s\r\n", mark, lua_tostring(lua, -1));
    lua_pop(lua, 1);
    return is_there;
}

static void reply_table(struct call *call, lua_State *lua)
{
    struct buffer elements = {0};
    struct call inner = *call;
    size_t count = 0;

    if (reply_field(call, lua, "err", '-') || reply_field(call, lua, "ok", '+'))
        return;
    inner.reply = &elements;
    for (;; count++) {
        lua_rawgeti(lua, -1, (int)count + 1);
        if (lua_isnil(lua, -1))
            break;
        reply_value(&inner, lua);
    }
    lua_pop(lua, 1);
    reply_count(call, count);
    buffer_add(call->reply, elements.text, elements.len);
    buffer_release(&elements);
}

/* Takes it off the stack. */
static void reply_value(struct call *call, lua_State *lua)
{
    struct bytes text;

    luaL_checkstack(lua, 4, "reply");
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        text.text = (char *)lua_tolstring(lua, -1, &text.len);
        reply_bytes(call, text);
        break;
    case LUA_TNUMBER:
        reply_integer(call, (int64_t)lua_tonumber(lua, -1));
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1))
            reply_integer(call, 1);
        else
            reply_nil(call);
        break;
    case LUA_TTABLE:
        reply_table(call, lua);
        break;
    default:
        reply_nil(call);
    }
    lua_pop(lua, 1);
}

/* --- running ---------------------------------------------------------------------------------
 */

/* Adds the line to an error that nobody caught. */
static int note_line(lua_State *lua)
{
    lua_Debug at;
    int level = 1;

    if (!lua_istable(lua, 1)) {
        lua_pushfstring(lua, "ERR %s", lua_tostring(lua, 1));
        lua_newtable(lua);
        lua_insert(lua, -2);
        lua_setfield(lua, -2, "err");
        lua_replace(lua, 1);
    }
    while (lua_getstack(lua, level, &at) && lua_getinfo(lua, "Sl", &at) && at.what[0] == 'C')
        level++;
    lua_pushinteger(lua, at.currentline);
    lua_setfield(lua, 1, "line");
    lua_settop(lua, 1);
    return 1;
}

static void set_table(lua_State *lua, const char *name, const struct bytes *texts, size_t count)
{
    lua_createtable(lua, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(lua, texts[i].text, texts[i].len);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_setglobal(lua, name);
}

/* Pushes the script's function, compiled now or before; its text is NULL with a known sha. */
static bool push_script(struct redis *redis, struct call *call, const char *sha)
{
    struct bytes text = call->argv[1];

    lua_getfield(redis->lua, LUA_REGISTRYINDEX, sha);
    if (lua_isfunction(redis->lua, -1))
        return true;
    lua_pop(redis->lua, 1);
    if (luaL_loadbuffer(redis->lua, text.text, text.len, "@user_script") != 0) {
        reply_error(call, "ERR Error compiling script (new function): %s",
                    lua_tostring(redis->lua, -1));
        lua_pop(redis->lua, 1);
        return false;
    }
    lua_pushvalue(redis->lua, -1);
    lua_setfield(redis->lua, LUA_REGISTRYINDEX, sha);
    return true;
}

static void run_script(struct call *call, const char *sha)
{
    struct redis *redis = call->redis;
    lua_State *lua = redis->lua;
    int64_t key_count;

    if (!read_integer(call, 2, &key_count))
        return;
    if (key_count < 0 || key_count > (int64_t)call->argc - 3) {
        reply_error(call, "ERR Number of keys can't be greater than number of args");
        return;
    }
    lua_settop(lua, 0);
    lua_pushcfunction(lua, note_line);
    if (!push_script(redis, call, sha))
        return;
    set_table(lua, "KEYS", call->argv + 3, (size_t)key_count);
    set_table(lua, "ARGV", call->argv + 3 + key_count, call->argc - 3 - (size_t)key_count);
    redis->counts->scripts++;
    redis->ran++;
    redis->script_ms = redis->clock_us(redis->clock_arg) / 1000;
    redis->script_wrote = false;
    redis->script_client = call->client;
    redis->script_short_of_memory = redis->is_out_of_memory;
    int failed = lua_pcall(lua, 0, 1, 1);
    redis->script_ms = 0;
    if (failed == 0) {
        reply_value(call, lua);
        return;
    }
    lua_getfield(lua, -1, "err");
    lua_getfield(lua, -2, "line");
    redis->counts->errors++;
    buffer_format(call->reply, "-%s script: %s, on @user_script:%d.\r\n", lua_tostring(lua, -2),
                  sha, (int)lua_tointeger(lua, -1));
    lua_settop(lua, 0);
}

static bool is_known(const struct redis *redis, const char *sha)
{
    struct redis_script *script;

    HASH_FIND_STR(redis->scripts, sha, script);
    return script != NULL;
}

static void run_eval(struct call *call)
{
    unsigned char hash[REDIS_ID_LEN / 2];
    char sha[REDIS_ID_LEN + 1];

    if (gnutls_hash_fast(GNUTLS_DIG_SHA1, call->argv[1].text, call->argv[1].len, hash) != 0)
        abort();
    for (size_t i = 0; i < sizeof(hash); i++)
        snprintf(sha + 2 * i, 3, "%02x", hash[i]);
    if (!is_known(call->redis, sha)) {
        struct redis_script *script = zalloc(sizeof(*script));
        memcpy(script->sha, sha, sizeof(sha));
        HASH_ADD_STR(call->redis->scripts, sha, script);
    }
    run_script(call, sha);
}

static void run_evalsha(struct call *call)
{
    if (call->argv[1].len == REDIS_ID_LEN && is_known(call->redis, call->argv[1].text)) {
        run_script(call, call->argv[1].text);
        return;
    }
    call->redis->counts->unknown_scripts++;
    reply_error(call, "NOSCRIPT No matching script. Please use EVAL.");
}

const struct command script_commands[] = {{"eval", -3, COMMAND_NOT_IN_SCRIPT, run_eval},
                                          {"evalsha", -3, COMMAND_NOT_IN_SCRIPT, run_evalsha},
                                          {0}};

/* A script that sets a global by mistake is refused by Redis, and so is reading one. */
static int refuse_global(lua_State *lua)
{
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                      lua_tostring(lua, 2));
}

void redis_lua_start(struct redis *redis)
{
    static const luaL_Reg functions[] = {{"call", redis_call}, {"pcall", redis_pcall}, {0}};
    static const lua_CFunction libraries[] = {luaopen_base, luaopen_table, luaopen_string,
                                              luaopen_math};
    lua_State *lua = luaL_newstate();

    if (lua == NULL)
        abort();
    redis->lua = lua;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        lua_pushcfunction(lua, libraries[i]);
        lua_pushstring(lua, "");
        lua_call(lua, 1, 0);
    }
    luaL_register(lua, "redis", functions);
    lua_pushlightuserdata(lua, redis);
    lua_setfield(lua, LUA_REGISTRYINDEX, "redis");
    set_table(lua, "KEYS", NULL, 0);
    set_table(lua, "ARGV", NULL, 0);
    lua_newtable(lua);
    lua_pushcfunction(lua, refuse_global);
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, LUA_GLOBALSINDEX);
    lua_settop(lua, 0);
}

void redis_lua_stop(struct redis *redis)
{
    lua_close(redis->lua);
}
