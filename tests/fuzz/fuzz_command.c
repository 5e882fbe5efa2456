/* client/values.c and client/verbs/lease_file.c: durations, numbers and lists of URLs of the
 * command line, and the file of a lease. The input is a line of a text for each of the first
 * three, then the file. */
#include "client/values.h"
#include "client/verbs/lease_file.h"
#include "tests/fuzz/fuzz.h"

enum { URLS_MAX = 4 };

static void check_urls(char *list)
{
    char *urls[URLS_MAX];
    size_t count;

    if (!value_urls(list, urls, URLS_MAX, &count))
        return;
    CHECK(count <= URLS_MAX);
    for (size_t i = 0; i < count; i++)
        CHECK(strncmp(urls[i], "http", 4) == 0 && !strpbrk(urls[i], ", "));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct lease_file file = {.fd = -1};
    char *text = fuzz_line(&input);
    int number;

    int64_t ms = value_duration(text);
    CHECK(ms >= -1 && ms <= DURATION_MAX_MS);
    free(text);
    text = fuzz_line(&input);
    CHECK(!value_number(text, 255, &number) || (number >= 0 && number <= 255));
    free(text);
    text = fuzz_line(&input);
    check_urls(text);
    free(text);
    if (lease_file_parse(&file, (const char *)input.data, input.size)) {
        CHECK(file.lock && strlen(file.token) == TOKEN_SIZE - 1);
        CHECK(file.ttl_ms > 0 && file.ttl_ms <= DURATION_MAX_MS);
        CHECK((unsigned)file.state <= LEASE_FILE_RELEASING);
    }
    lease_file_close(&file);
    return 0;
}
