/* server/http/auth.c: the file of API tokens, and Authorization headers. The input is two
 * lines, an Authorization header and the name of a lock, and then the file. */
#include <sys/mman.h>
#include <unistd.h>

#include "server/http/auth.h"
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

static void check_caller(const struct auth_caller *caller, const char *file,
                         const char *authorization, const char *name)
{
    const char *guess = authorization + 7 + strspn(authorization + 7, " ");

    CHECK(strlen(guess) >= 16 && strstr(file, guess) != NULL);
    CHECK(auth_caller_name(caller)[0] != '\0');
    /* An operator of a name may also lock it. */
    if (auth_allows(caller, ROUTE_OPERATOR, name))
        CHECK(auth_allows(caller, ROUTE_LOCK, name));
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
        if (caller != NULL && memchr(file, '\0', len) == NULL)
            check_caller(caller, file, authorization, name);
        CHECK(auth_find(auth, NULL) == NULL && auth_find(auth, "Bearer ") == NULL);
        auth_free(auth);
    } else {
        CHECK(error[0] != '\0' && strchr(error, '\n') == NULL);
    }
    free(authorization);
    free(name);
    free(file);
    return 0;
}
