/* server/auth/auth.c: the file of API tokens, and Authorization headers. The input is two
 * lines, an Authorization header and the name of a lock, and then the file. */
#include <sys/mman.h>
#include <unistd.h>

#include "server/auth/auth.h"
#include "server/auth/auth_hash.h"
#include "tests/fuzz/fuzz.h"

/* A file in memory with this text. */
static const char *file_with(const char *text, size_t len)
{
    static char path[64];
    static int fd = -1;

    if (fd < 0) {
        fd = memfd_create("tokens", 0);
        CHECK(fd >= 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, text, len, 0) == (ssize_t)len);
    return path;
}

/* Only the hash of a token is in the file. */
static bool has_hash_of(const char *file, const char *token)
{
    unsigned char hash[AUTH_HASH_LEN];
    char text[2 * AUTH_HASH_LEN + 1];

    auth_hash(token, strlen(token), hash);
    for (size_t i = 0; i < AUTH_HASH_LEN; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    return strcasestr(file, text) != NULL;
}

static void check_caller(const struct auth_caller *caller, const char *file,
                         const char *authorization, const char *name)
{
    static const enum auth_verb verbs[] = {AUTH_READ, AUTH_LOCK, AUTH_OPERATE};
    const char *guess = authorization + 7 + strspn(authorization + 7, " ");

    if (strncasecmp(authorization, "Basic ", 6) != 0)
        CHECK(strlen(guess) >= AUTH_TOKEN_MIN && has_hash_of(file, guess));
    CHECK(auth_caller_name(caller)[0] != '\0');
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (auth_allows(caller, verbs[i], name))
            CHECK(auth_allows_some(caller, verbs[i]));
    (void)auth_is_expired(caller);
    CHECK(auth_max_ttl_ms(caller) >= 100);
    if (auth_begin_wait(caller))
        auth_end_wait(caller);
    (void)auth_count_request(caller, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *authorization = fuzz_line(&input), *name = fuzz_line(&input);
    size_t len = input.size;
    char *file = fuzz_rest(&input), error[300] = "";

    struct auth *auth = auth_load(file_with(file, len), error, sizeof(error));
    if (auth != NULL) {
        const struct auth_caller *caller = auth_find(auth, authorization);
        CHECK(memchr(file, '\0', len) == NULL && file[len - 1] == '\n');
        if (caller != NULL)
            check_caller(caller, file, authorization, name);
        CHECK(auth_find(auth, NULL) == NULL && auth_find(auth, "Bearer ") == NULL &&
              auth_find(auth, "Basic ") == NULL);
        auth_free(auth);
    } else {
        CHECK(error[0] != '\0' && strchr(error, '\n') == NULL);
    }
    free(authorization);
    free(name);
    free(file);
    return 0;
}
