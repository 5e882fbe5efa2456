#include "server/http/auth.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    AUTH_TOKEN_MIN = 16, /* shorter ones can be guessed over the network */
    AUTH_TOKEN_SIZE = 257,
    AUTH_PREFIX_SIZE = 513
};

/* A line of the file. The lines of one token follow each other through `next_same`. */
struct auth_caller {
    char name[AUTH_CALLER_SIZE];
    char token[AUTH_TOKEN_SIZE];
    char prefix[AUTH_PREFIX_SIZE];
    bool is_operator;
    const struct auth_caller *next_same;
};

struct auth {
    size_t count;
    struct auth_caller *callers;
};

/* What is wrong with the line, or NULL. */
static const char *parse_line(char *line, struct auth_caller *caller)
{
    char right[16], rest[2];

    int fields = sscanf(line, "%64s %15s %256s %512s %1s", caller->name, right, caller->token,
                        caller->prefix, rest);
    if (fields != 4)
        return "needs four fields: caller, lock or operator, token, name prefix";
    if (strcmp(right, "lock") != 0 && strcmp(right, "operator") != 0)
        return "the second field is neither lock nor operator";
    caller->is_operator = right[0] == 'o';
    if (strlen(caller->token) < AUTH_TOKEN_MIN)
        return "the token is shorter than 16 characters";
    if (strcmp(caller->prefix, "*") == 0)
        caller->prefix[0] = '\0';
    return NULL;
}

/* Non-zero: out of memory. */
static int add_caller(struct auth *auth, const struct auth_caller *caller)
{
    struct auth_caller *grown = realloc(auth->callers,
                                        (auth->count + 1) * sizeof(*auth->callers));

    if (grown == NULL)
        return -1;
    auth->callers = grown;
    auth->callers[auth->count++] = *caller;
    return 0;
}

static void link_same_tokens(struct auth *auth)
{
    for (size_t i = 0; i < auth->count; i++)
        for (size_t j = i + 1; j < auth->count && auth->callers[i].next_same == NULL; j++)
            if (strcmp(auth->callers[i].token, auth->callers[j].token) == 0)
                auth->callers[i].next_same = &auth->callers[j];
}

/* A # begins a comment at the start of a line and after a blank; a name may have one inside. */
static void cut_comment(char *line)
{
    for (char *c = line; *c != '\0'; c++) {
        if (*c == '#' && (c == line || c[-1] == ' ' || c[-1] == '\t')) {
            *c = '\0';
            return;
        }
    }
}

/* What is wrong with the line, or NULL. */
static const char *read_line(struct auth *auth, char *line)
{
    struct auth_caller caller = {0};

    line[strcspn(line, "\r\n")] = '\0';
    cut_comment(line);
    if (line[strspn(line, " \t")] == '\0')
        return NULL;
    const char *wrong = parse_line(line, &caller);
    if (wrong == NULL && add_caller(auth, &caller) != 0)
        wrong = "out of memory";
    return wrong;
}

/* Non-zero with `error` set. */
static int read_lines(struct auth *auth, FILE *file, const char *path, char *error,
                      size_t error_size)
{
    char *line = NULL;
    size_t size = 0;
    const char *wrong = NULL;
    int number = 0;

    while (wrong == NULL && getline(&line, &size, file) >= 0) {
        number++;
        wrong = read_line(auth, line);
    }
    free(line);
    if (wrong == NULL && ferror(file))
        wrong = "cannot be read";
    if (wrong == NULL)
        return 0;
    snprintf(error, error_size, "--api-tokens (RLOCKD_API_TOKENS): %s line %d: %s", path,
             number, wrong);
    return -1;
}

struct auth *auth_load(const char *path, char *error, size_t error_size)
{
    struct auth *auth = calloc(1, sizeof(*auth));
    FILE *file = fopen(path, "re");

    if (auth == NULL || file == NULL) {
        snprintf(error, error_size, "--api-tokens (RLOCKD_API_TOKENS): %s: %s", path,
                 strerror(errno));
        goto fail;
    }
    if (read_lines(auth, file, path, error, error_size) != 0)
        goto fail;
    if (auth->count == 0) {
        snprintf(error, error_size, "--api-tokens (RLOCKD_API_TOKENS): %s names no caller",
                 path);
        goto fail;
    }
    fclose(file);
    link_same_tokens(auth);
    return auth;

fail:
    if (file != NULL)
        fclose(file);
    if (auth != NULL)
        auth_free(auth);
    return NULL;
}

void auth_free(struct auth *auth)
{
    free(auth->callers);
    free(auth);
}

static bool equals_in_constant_time(const char *secret, const char *guess, size_t guess_len)
{
    size_t secret_len = strlen(secret);
    unsigned difference = secret_len != guess_len;

    for (size_t i = 0; i < secret_len; i++)
        difference |= (unsigned char)secret[i] ^ (unsigned char)guess[i < guess_len ? i : 0];
    return difference == 0;
}

const struct auth_caller *auth_find(const struct auth *auth, const char *authorization)
{
    const struct auth_caller *found = NULL;

    if (authorization == NULL || strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    const char *guess = authorization + 7;
    guess += strspn(guess, " ");
    size_t guess_len = strlen(guess);
    for (size_t i = auth->count; i-- > 0;)
        if (equals_in_constant_time(auth->callers[i].token, guess, guess_len))
            found = &auth->callers[i];
    return found;
}

bool auth_allows(const struct auth_caller *caller, enum route_access access, const char *name)
{
    for (; caller != NULL; caller = caller->next_same) {
        if (access == ROUTE_OPERATOR && !caller->is_operator)
            continue;
        if (strncmp(name, caller->prefix, strlen(caller->prefix)) == 0)
            return true;
    }
    return false;
}

const char *auth_caller_name(const struct auth_caller *caller)
{
    return caller->name;
}
