#include <stdlib.h>
#include <string.h>

#include "storage/redis_internal.h"

size_t redis_reply_count(const struct redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
}

const struct redisReply *redis_reply_at(const struct redisReply *reply, size_t i)
{
    return i < redis_reply_count(reply) ? reply->element[i] : NULL;
}

bool redis_reply_is_nil(const struct redisReply *reply)
{
    return reply == NULL || reply->type == REDIS_REPLY_NIL;
}

bool redis_reply_is_integer(const struct redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_INTEGER;
}

int64_t redis_reply_integer(const struct redisReply *reply)
{
    if (reply == NULL)
        return 0;
    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer;
    /* A bulk string is how Redis gives the numbers that it keeps as text. */
    return reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : 0;
}

const char *redis_reply_text(const struct redisReply *reply, size_t *len)
{
    if (reply == NULL ||
        (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS)) {
        *len = 0;
        return "";
    }
    *len = (size_t)reply->len;
    return reply->str;
}

struct error_row {
    const char *word;
    enum redis_refusal refusal;
};

/* Errors that Redis gives before a command changes anything; for a script, before its first
 * write: Redis lets no later write of the same script fail for them. */
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
    /* A permission that a script lacks in its midst, Redis 7 and 8: what went before is done.
     */
    bool lacks_permission = strstr(error, "The user executing the script can't") != NULL ||
                            strstr(error, "ACL failure in script") != NULL;
    *refusal = lacks_permission ? REDIS_REFUSED_PERMISSION : REDIS_NOT_REFUSED;
    return REDIS_UNKNOWN;
}
