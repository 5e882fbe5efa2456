/* The reader of the file of API tokens, and the search for a caller by a token's hash. */
#include "server/auth/auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "server/auth/auth_internal.h"
#include "server/base/text.h"

/* Why a file is not taken. */
struct refusal {
    const char *path;
    char *error;
    size_t error_size;
};

static void refuse(const struct refusal *refusal, int line, const char *wrong)
{
    snprintf(refusal->error, refusal->error_size,
             "--api-tokens (RLOCKD_API_TOKENS): %s line %d: %s", refusal->path, line, wrong);
}

static void caller_release(struct auth_caller *caller)
{
    for (size_t i = 0; i < caller->right_count; i++)
        free(caller->rights[i].prefix);
    free(caller->rights);
    auth_usage_drop(caller->usage);
}

/* Takes ownership of the memory of `caller`. Non-zero: out of memory. */
static int add_caller(struct auth *auth, struct auth_caller *caller)
{
    struct auth_caller *grown = realloc(auth->callers,
                                        (auth->count + 1) * sizeof(*auth->callers));

    if (grown != NULL)
        auth->callers = grown;
    caller->usage = auth_usage_new();
    if (grown == NULL || caller->usage == NULL)
        return -1;
    auth->callers[auth->count++] = *caller;
    return 0;
}

/* Returns the reason why the line is refused, or NULL. */
static const char *read_line(struct auth *auth, char *line, size_t len, int number)
{
    struct auth_caller caller = {.line = number,
                                 .expires_s = INT64_MAX,
                                 .limits = {AUTH_NO_LIMIT, AUTH_NO_LIMIT, AUTH_NO_LIMIT}};
    const char *wrong = auth_read_line(line, len, &caller);

    if (wrong == NULL && caller.name[0] == '\0')
        return NULL;
    if (wrong == NULL && add_caller(auth, &caller) != 0)
        wrong = "out of memory";
    if (wrong != NULL)
        caller_release(&caller);
    return wrong;
}

/* Non-zero after a refusal. */
static int read_lines(struct auth *auth, FILE *file, const struct refusal *refusal)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t len;
    const char *wrong = NULL;
    int number = 0;

    while (wrong == NULL && (len = getline(&line, &size, file)) >= 0) {
        number++;
        wrong = read_line(auth, line, (size_t)len, number);
    }
    if (wrong == NULL && !feof(file)) { /* ferror() tells nothing of memory that is short */
        number++;
        wrong = strerror(errno);
    }
    if (wrong != NULL)
        refuse(refusal, number, wrong);
    free(line);
    return wrong != NULL;
}

const struct auth_caller **auth_slot(const struct auth *auth,
                                     const unsigned char hash[AUTH_HASH_LEN])
{
    size_t i;

    memcpy(&i, hash, sizeof(i)); /* as good as random */
    for (i &= auth->slot_count - 1; auth->slots[i] != NULL;
         i = (i + 1) & (auth->slot_count - 1))
        if (auth_hash_equals(auth->slots[i]->hash, hash))
            break;
    return &auth->slots[i];
}

/* Non-zero after a refusal. */
static int fill_slots(struct auth *auth, const struct refusal *refusal)
{
    for (auth->slot_count = 4; auth->slot_count < 2 * auth->count;)
        auth->slot_count *= 2;
    auth->slots = calloc(auth->slot_count, sizeof(*auth->slots));
    if (auth->slots == NULL) {
        refuse(refusal, 1, "out of memory");
        return -1;
    }
    for (size_t i = 0; i < auth->count; i++) {
        const struct auth_caller **slot = auth_slot(auth, auth->callers[i].hash);
        if (*slot != NULL) {
            refuse(refusal, auth->callers[i].line, "an earlier line has the same token");
            return -1;
        }
        *slot = &auth->callers[i];
    }
    return 0;
}

/* Non-zero after a refusal. */
static int read_file(struct auth *auth, FILE *file, const struct refusal *refusal)
{
    if (read_lines(auth, file, refusal) != 0)
        return -1;
    if (auth->count > 0)
        return fill_slots(auth, refusal);
    snprintf(refusal->error, refusal->error_size,
             "--api-tokens (RLOCKD_API_TOKENS): %s names no caller", refusal->path);
    return -1;
}

struct auth *auth_load(const char *path, char *error, size_t error_size)
{
    const struct refusal refusal = {path, error, error_size};
    struct auth *auth = calloc(1, sizeof(*auth));
    FILE *file = fopen(path, "re");
    int failed = -1;

    if (auth == NULL || file == NULL)
        snprintf(error, error_size, "--api-tokens (RLOCKD_API_TOKENS): %s: %s", path,
                 strerror(errno));
    else
        failed = read_file(auth, file, &refusal);
    if (file != NULL)
        fclose(file);
    if (failed == 0)
        return auth;
    if (auth != NULL)
        auth_free(auth);
    return NULL;
}

void auth_free(struct auth *auth)
{
    for (size_t i = 0; i < auth->count; i++)
        caller_release(&auth->callers[i]);
    free(auth->callers);
    free(auth->slots);
    free(auth);
}

void auth_inherit(struct auth *auth, const struct auth *old)
{
    for (size_t i = 0; i < auth->count; i++) {
        struct auth_caller *caller = &auth->callers[i];
        const struct auth_caller *before = *auth_slot(old, caller->hash);
        if (before == NULL)
            continue;
        auth_usage_drop(caller->usage);
        caller->usage = auth_usage_keep(before->usage);
    }
}

static const struct auth_caller *find_token(const struct auth *auth, const char *token,
                                            size_t len)
{
    unsigned char hash[AUTH_HASH_LEN];

    if (len < AUTH_TOKEN_MIN || len > AUTH_TOKEN_MAX)
        return NULL;
    auth_hash(token, len, hash);
    return *auth_slot(auth, hash);
}

/* NULL: the header has another scheme. */
static const char *credentials_of(const char *authorization, const char *scheme)
{
    size_t len = strlen(scheme);

    if (strncasecmp(authorization, scheme, len) != 0)
        return NULL;
    return authorization + len + strspn(authorization + len, " ");
}

const struct auth_caller *auth_find(const struct auth *auth, const char *authorization)
{
    const char *credentials;
    char password[AUTH_TOKEN_MAX];
    size_t len;

    if (authorization == NULL)
        return NULL;
    if ((credentials = credentials_of(authorization, "Bearer ")) != NULL)
        return find_token(auth, credentials, strlen(credentials));
    if ((credentials = credentials_of(authorization, "Basic ")) != NULL &&
        auth_basic_password(credentials, password, &len))
        return find_token(auth, password, len);
    return NULL;
}

bool auth_basic_user(const char *authorization, char user[AUTH_CALLER_SIZE])
{
    const char *credentials = authorization != NULL ? credentials_of(authorization, "Basic ")
                                                    : NULL;

    return credentials != NULL && auth_basic_name(credentials, user) &&
           text_is_utf8(user, strlen(user)) && !text_has_control(user, strlen(user));
}

bool auth_is_expired(const struct auth_caller *caller)
{
    return caller->expires_s <= (int64_t)time(NULL);
}

bool auth_allows(const struct auth_caller *caller, enum auth_verb verb, const char *name)
{
    for (size_t i = 0; i < caller->right_count; i++) {
        const struct auth_right *right = &caller->rights[i];
        if (right->verb == verb && strncmp(name, right->prefix, right->len) == 0)
            return true;
    }
    return false;
}

bool auth_allows_some(const struct auth_caller *caller, enum auth_verb verb)
{
    for (size_t i = 0; i < caller->right_count; i++)
        if (caller->rights[i].verb == verb)
            return true;
    return false;
}

const char *auth_caller_name(const struct auth_caller *caller)
{
    return caller->name;
}

const struct auth_right *auth_right_at(const struct auth_caller *caller, size_t i)
{
    return i < caller->right_count ? &caller->rights[i] : NULL;
}

const struct auth_limits *auth_limits(const struct auth_caller *caller)
{
    return &caller->limits;
}

int64_t auth_expires_s(const struct auth_caller *caller)
{
    return caller->expires_s;
}

const char *auth_verb_name(enum auth_verb verb)
{
    switch (verb) {
    case AUTH_READ:
        return "read";
    case AUTH_LOCK:
        return "lock";
    case AUTH_OPERATE:
        return "operate";
    case AUTH_OPEN:
    case AUTH_KNOWN:
        break;
    }
    return "";
}

bool auth_begin_wait(const struct auth_caller *caller)
{
    int64_t max = caller->limits.max_waiters;

    return auth_usage_begin_wait(caller->usage, max == AUTH_NO_LIMIT ? INT64_MAX : max);
}

void auth_end_wait(const struct auth_caller *caller)
{
    auth_usage_end_wait(caller->usage);
}

int64_t auth_max_ttl_ms(const struct auth_caller *caller)
{
    int64_t max = caller->limits.max_ttl_ms;

    return max == AUTH_NO_LIMIT ? INT64_MAX : max;
}

bool auth_count_request(const struct auth_caller *caller, int64_t now_ns)
{
    int64_t per_second = caller->limits.max_requests_per_second;

    return per_second == AUTH_NO_LIMIT || auth_usage_request(caller->usage, per_second, now_ns);
}
