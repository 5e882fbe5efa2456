/* A line of the file of API tokens. */
#include <stdlib.h>
#include <string.h>

#include "server/base/config.h"
#include "server/base/date.h"
#include "server/base/text.h"
#include "server/auth/auth_internal.h"

enum { LIMIT_MAX = 1000000, TTL_MIN_MS = 100 /* of a lease */ };

/* Takes the value of a word. Returns the reason why it is refused, or NULL. */
typedef const char *take_value(struct auth_caller *caller, const char *value);

static const char *add_right(struct auth_caller *caller, enum auth_verb verb,
                             const char *prefix)
{
    size_t len = strlen(prefix);

    if (len == 0)
        return "a right needs a prefix of names, or * for every name";
    if (len > AUTH_PREFIX_MAX)
        return "a prefix is longer than any name";
    if (strcmp(prefix, "*") == 0)
        prefix += len--;
    if (strchr(prefix, '*') != NULL)
        return "a prefix has no *: only a * alone stands for every name";
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
    return add_right(caller, AUTH_READ, value);
}

static const char *take_lock(struct auth_caller *caller, const char *value)
{
    return add_right(caller, AUTH_LOCK, value);
}

static const char *take_operate(struct auth_caller *caller, const char *value)
{
    return add_right(caller, AUTH_OPERATE, value);
}

static const char *take_expires(struct auth_caller *caller, const char *value)
{
    return date_parse(value, &caller->expires_s)
               ? NULL
               : "expires= needs a date with time and zone, as 2027-01-31T00:00:00Z";
}

static bool take_limit(const char *value, int64_t min, int64_t max, int64_t *limit)
{
    return text_parse_int64(value, limit) && *limit >= min && *limit <= max;
}

static const char *take_max_ttl(struct auth_caller *caller, const char *value)
{
    return take_limit(value, TTL_MIN_MS, CONFIG_LEASE_MAX_MS, &caller->limits.max_ttl_ms)
               ? NULL
               : "max-ttl-ms= needs a whole number from 100 to 31622400000";
}

static const char *take_max_waiters(struct auth_caller *caller, const char *value)
{
    return take_limit(value, 0, LIMIT_MAX, &caller->limits.max_waiters)
               ? NULL
               : "max-waiters= needs a whole number from 0 to 1000000";
}

static const char *take_max_requests(struct auth_caller *caller, const char *value)
{
    return take_limit(value, 1, LIMIT_MAX, &caller->limits.max_requests_per_second)
               ? NULL
               : "max-requests-per-second= needs a whole number from 1 to 1000000";
}

/* A word of earlier versions. */
static const char *refuse_max_leases(struct auth_caller *caller, const char *value)
{
    (void)caller;
    (void)value;
    return "max-leases= is no limit any more: max-ttl-ms= and max-requests-per-second= bound "
           "the leases of a caller instead";
}

static const struct {
    const char *name;
    take_value *take;
    bool is_repeatable;
} words[] = {
    {"read=", take_read, true},
    {"lock=", take_lock, true},
    {"operate=", take_operate, true},
    {"expires=", take_expires, false},
    {"max-ttl-ms=", take_max_ttl, false},
    {"max-waiters=", take_max_waiters, false},
    {"max-requests-per-second=", take_max_requests, false},
    {"max-leases=", refuse_max_leases, false},
};

/* `*seen` has a bit for each row of `words` that the line has had. */
static const char *take_word(struct auth_caller *caller, const char *word, unsigned *seen)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t len = strlen(words[i].name);
        if (strncmp(word, words[i].name, len) != 0)
            continue;
        if (!words[i].is_repeatable && (*seen & 1U << i) != 0)
            return "a word that a line may have once is there twice";
        *seen |= 1U << i;
        return words[i].take(caller, word + len);
    }
    return "a word is none of read=, lock=, operate=, expires=, max-ttl-ms=, max-waiters= "
           "and max-requests-per-second=";
}

/* A # begins a comment at the start of a line and after a blank; inside of a name it is a part
 * of the name. */
static void cut_comment(char *line)
{
    for (char *c = line; *c != '\0'; c++) {
        if (*c == '#' && (c == line || c[-1] == ' ')) {
            *c = '\0';
            return;
        }
    }
}

/* Leaves the text of the line: without its end (LF, or CR and LF) and its comment, with spaces
 * for tabs. Returns the reason why the line is refused, or NULL. */
static const char *take_text(char *line, size_t len)
{
    if (strlen(line) != len)
        return "a NUL byte";
    if (line[len - 1] != '\n')
        return "the last line does not end with a newline: the file may have been cut";
    if (strncmp(line, "\xEF\xBB\xBF", 3) == 0)
        return "a byte order mark: save the file as UTF-8 without one";
    line[--len] = '\0';
    if (len > 0 && line[len - 1] == '\r')
        line[--len] = '\0';
    for (char *c = line; *c != '\0'; c++)
        if (*c == '\t')
            *c = ' ';
    cut_comment(line);
    len = strlen(line);
    if (!text_is_utf8(line, len) || text_has_control(line, len))
        return "not UTF-8 without control characters";
    return NULL;
}

static const char *take_words(char *line, struct auth_caller *caller)
{
    static const char blank[] = " ";
    const char *wrong = NULL;
    unsigned seen = 0;
    char *rest;

    char *name = strtok_r(line, blank, &rest);
    if (name == NULL)
        return NULL;
    size_t len = strlen(name);
    if (len >= sizeof(caller->name))
        return "the caller's name is longer than 64 characters";
    memcpy(caller->name, name, len + 1);
    char *hash = strtok_r(NULL, blank, &rest);
    if (hash == NULL || !auth_hash_parse(hash, caller->hash))
        return "behind the caller's name there is no hash of a token, as `rlockd --hash-token` "
               "prints it";
    for (char *word = strtok_r(NULL, blank, &rest); wrong == NULL && word != NULL;
         word = strtok_r(NULL, blank, &rest))
        wrong = take_word(caller, word, &seen);
    if (wrong == NULL && caller->right_count == 0)
        wrong = "the caller has no right: needs read=, lock= or operate=";
    return wrong;
}

const char *auth_read_line(char *line, size_t len, struct auth_caller *caller)
{
    const char *wrong = take_text(line, len);

    return wrong != NULL ? wrong : take_words(line, caller);
}
