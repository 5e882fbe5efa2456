/* Reads hiredis' replies, and sorts the errors of Redis. */
#include "storage/redis/reply.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

/* hiredis' reply under the name that the rest of the storage knows. */
static const redisReply *reply_of(const struct redis_value *value)
{
    return (const redisReply *)value;
}

static bool is_type(const struct redis_value *value, int type)
{
    return value != NULL && reply_of(value)->type == type;
}

size_t value_count(const struct redis_value *value)
{
    return is_type(value, REDIS_REPLY_ARRAY) ? reply_of(value)->elements : 0;
}

const struct redis_value *value_at(const struct redis_value *value, size_t i)
{
    if (i >= value_count(value))
        return NULL;
    return (const struct redis_value *)reply_of(value)->element[i];
}

bool value_is_nil(const struct redis_value *value)
{
    return value == NULL || is_type(value, REDIS_REPLY_NIL);
}

bool value_is_integer(const struct redis_value *value)
{
    return is_type(value, REDIS_REPLY_INTEGER);
}

int64_t value_integer(const struct redis_value *value)
{
    if (value_is_integer(value))
        return reply_of(value)->integer;
    /* A bulk string is how Redis gives the numbers that it keeps as text. */
    return is_type(value, REDIS_REPLY_STRING) ? strtoll(reply_of(value)->str, NULL, 10) : 0;
}

const char *value_text(const struct redis_value *value, size_t *len)
{
    if (!is_type(value, REDIS_REPLY_STRING) && !is_type(value, REDIS_REPLY_STATUS)) {
        *len = 0;
        return "";
    }
    *len = (size_t)reply_of(value)->len;
    return reply_of(value)->str;
}

const char *value_error(const struct redis_value *value)
{
    return is_type(value, REDIS_REPLY_ERROR) ? reply_of(value)->str : "";
}

struct error_row {
    const char *word;
    enum redis_refusal refusal;
};

/* Errors that Redis returns before a command changes any key; for a script, before its first
 * write: Redis lets no later write of the same script fail with them, and behind their first
 * write scripts read by `try` what may be another type of key. */
static const struct error_row error_rows[] = {
    {"WRONGTYPE", REDIS_REFUSED_WRONG_TYPE},   {"OOM", REDIS_REFUSED_OUT_OF_MEMORY},
    {"NOPERM", REDIS_REFUSED_PERMISSION},      {"NOAUTH", REDIS_REFUSED_PERMISSION},
    {"WRONGPASS", REDIS_REFUSED_PERMISSION},   {"LOADING", REDIS_REFUSED_UNAVAILABLE},
    {"BUSY", REDIS_REFUSED_UNAVAILABLE},       {"READONLY", REDIS_REFUSED_UNAVAILABLE},
    {"MASTERDOWN", REDIS_REFUSED_UNAVAILABLE}, {"MISCONF", REDIS_REFUSED_UNAVAILABLE},
    {"NOREPLICAS", REDIS_REFUSED_UNAVAILABLE}, {"NOSCRIPT", REDIS_REFUSED_UNAVAILABLE},
    {"MOVED", REDIS_REFUSED_UNAVAILABLE},      {"ASK", REDIS_REFUSED_UNAVAILABLE},
    {"TRYAGAIN", REDIS_REFUSED_UNAVAILABLE},   {"CLUSTERDOWN", REDIS_REFUSED_UNAVAILABLE},
    {"CROSSSLOT", REDIS_REFUSED_UNAVAILABLE},
};

const char *redis_error_cause(const char *error)
{
    /* Redis 6.2: "ERR Error running script (call to f_…): @user_script:2: WRONGTYPE Operation
     * …", or "@user_script: 2: -OOM …" where the script caught it and gave it as its reply. */
    static const char wrapper[] = "ERR Error running script", place[] = "@user_script:";
    const char *script_line;

    if (strncmp(error, wrapper, sizeof(wrapper) - 1) != 0 &&
        strncmp(error, place, sizeof(place) - 1) != 0)
        return error;
    while ((script_line = strstr(error, "user_script:")) != NULL) {
        error = script_line + strlen("user_script:");
        error += strspn(error, " 0123456789:");
    }
    return error + strspn(error, "-");
}

bool redis_is_wait_of_replica(const char *error)
{
    static const char beginning[] = "ERR WAIT cannot be used with replica";

    return strncmp(error, beginning, sizeof(beginning) - 1) == 0 ||
           strncmp(error, "UNBLOCKED", 9) == 0;
}

enum redis_outcome redis_sort_error(const char *error, enum redis_refusal *refusal)
{
    const char *cause = redis_error_cause(error);
    size_t word_len = strcspn(cause, " \r\n");

    for (size_t i = 0; i < sizeof(error_rows) / sizeof(error_rows[0]); i++) {
        if (strlen(error_rows[i].word) == word_len &&
            memcmp(error_rows[i].word, cause, word_len) == 0) {
            *refusal = error_rows[i].refusal;
            return REDIS_REFUSED;
        }
    }
    if (redis_is_wait_of_replica(cause) || strncmp(cause, "ERR No such master", 18) == 0) {
        *refusal = REDIS_REFUSED_UNAVAILABLE;
        return REDIS_REFUSED;
    }
    /* A script lacks a permission after its first write, in Redis 7 and 8: its earlier writes
     * are done. */
    bool lacks_permission = strstr(error, "The user executing the script can't") != NULL ||
                            strstr(error, "ACL failure in script") != NULL;
    *refusal = lacks_permission ? REDIS_REFUSED_PERMISSION : REDIS_NOT_REFUSED;
    return REDIS_UNKNOWN;
}

bool redis_is_moving(const char *error)
{
    return strstr(error, "cript attempted to access a non local key in a cluster node") != NULL;
}
