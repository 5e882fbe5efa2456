/* A line of the file of API tokens. */
#include <stdlib.h>
#include <string.h>

#include "server/base/date.h"
#include "server/base/text.h"
#include "server/http/auth_internal.h"
#include "server/http/http.h"

enum { LIMIT_MAX = 1000000 };

/* What is wrong with the value of a word, or NULL. */
typedef const char *take_value(struct auth_caller *caller, const char *value);

static const char *add_right(struct auth_caller *caller, enum route_access verb,
                             const char *prefix)
{
    size_t len = strlen(prefix);

    if (len == 0)
        return "a right needs a prefix of names, or * for every name";
    if (len > HTTP_NAME_MAX)
        return "a prefix is longer than any name";
    if (strcmp(prefix, "*") == 0)
        prefix += len--;
    struct auth_right *rights = realloc(caller->rights,
                                        (caller->right_count + 1) * sizeof(*rights));
    if (rights == NULL)
        return "out of memory";
    caller->rights = rights;
    struct auth_right *right = &rights[caller->right_count];
    *right = (struct auth_right){.verb = verb, .len = len, .prefix = strdup(prefix)};
    if (right->prefix == NULL)
        return "out of memory";
    caller->right_count++;
    return NULL;
}

static const char *take_read(struct auth_caller *caller, const char *value)
{
    return add_right(caller, ROUTE_READ, value);
}

static const char *take_lock(struct auth_caller *caller, const char *value)
{
    return add_right(caller, ROUTE_LOCK, value);
}

static const char *take_operate(struct auth_caller *caller, const char *value)
{
    return add_right(caller, ROUTE_OPERATE, value);
}

static const char *take_expires(struct auth_caller *caller, const char *value)
{
    return date_parse(value, &caller->expires_s)
               ? NULL
               : "expires= needs a date with time and zone, as 2027-01-31T00:00:00Z";
}

static bool take_limit(const char *value, int64_t min, int64_t *limit)
{
    return text_parse_int64(value, limit) && *limit >= min && *limit <= LIMIT_MAX;
}

static const char *take_max_waiters(struct auth_caller *caller, const char *value)
{
    return take_limit(value, 0, &caller->max_waiters)
               ? NULL
               : "max-waiters= needs a whole number from 0 to 1000000";
}

static const char *take_max_leases(struct auth_caller *caller, const char *value)
{
    return take_limit(value, 0, &caller->max_leases)
               ? NULL
               : "max-leases= needs a whole number from 0 to 1000000";
}

static const char *take_max_requests(struct auth_caller *caller, const char *value)
{
    return take_limit(value, 1, &caller->max_requests_per_second)
               ? NULL
               : "max-requests-per-second= needs a whole number from 1 to 1000000";
}

static const struct {
    const char *name;
    take_value *take;
} words[] = {
    {"read=", take_read},
    {"lock=", take_lock},
    {"operate=", take_operate},
    {"expires=", take_expires},
    {"max-waiters=", take_max_waiters},
    {"max-leases=", take_max_leases},
    {"max-requests-per-second=", take_max_requests},
};

static const char *take_word(struct auth_caller *caller, const char *word)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t len = strlen(words[i].name);
        if (strncmp(word, words[i].name, len) == 0)
            return words[i].take(caller, word + len);
    }
    return "a word is none of read=, lock=, operate=, expires=, max-waiters=, "
           "max-leases= and max-requests-per-second=";
}

/* A # begins a comment at the start of a line and after a blank; inside of a name it is a part
 * of the name. */
static void cut_comment(char *line)
{
    for (char *c = line; *c != '\0'; c++) {
        if (*c == '#' && (c == line || c[-1] == ' ' || c[-1] == '\t')) {
            *c = '\0';
            return;
        }
    }
}

const char *auth_read_line(char *line, struct auth_caller *caller)
{
    static const char blanks[] = " \t\r\n";
    const char *wrong = NULL;
    char *rest;

    cut_comment(line);
    char *name = strtok_r(line, blanks, &rest);
    if (name == NULL)
        return NULL;
    size_t len = strlen(name);
    if (len >= sizeof(caller->name))
        return "the caller's name is longer than 64 characters";
    memcpy(caller->name, name, len + 1);
    char *hash = strtok_r(NULL, blanks, &rest);
    if (hash == NULL || !auth_hash_parse(hash, caller->hash))
        return "behind the caller's name there is no hash of a token, as `rlockd --hash-token` "
               "prints it";
    for (char *word = strtok_r(NULL, blanks, &rest); wrong == NULL && word != NULL;
         word = strtok_r(NULL, blanks, &rest))
        wrong = take_word(caller, word);
    if (wrong == NULL && caller->right_count == 0)
        wrong = "the caller has no right: needs read=, lock= or operate=";
    return wrong;
}
