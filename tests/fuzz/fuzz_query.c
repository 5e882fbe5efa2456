/* server/http/request.c: the query of a request. The input is a text. */
#include "tests/fuzz/fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_values values, again;
    struct fuzz_input input = {data, size};
    char *query = fuzz_rest(&input), *pairs;
    size_t len = strlen(query);

    bool is_taken = read_values(&values, query, "", 0);
    /* An empty pair says nothing. */
    pairs = malloc(len + 3);
    CHECK(pairs != NULL);
    snprintf(pairs, len + 3, "&%s&", query);
    CHECK(read_values(&again, pairs, "", 0) == is_taken);
    free(pairs);
    free(query);
    return 0;
}
