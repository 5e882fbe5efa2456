/* server/http/request.c: the body of a request, alone and with a query that says something
 * already. The input is a line, the query, and then the body. */
#include "tests/fuzz/fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_values alone, both;
    struct fuzz_input input = {data, size};
    char *query = fuzz_line(&input);
    size_t len = input.size;
    char *body = fuzz_rest(&input);

    bool is_alone = read_values(&alone, "", body, len);
    bool is_both = read_values(&both, query, body, len);
    /* What the body says stands, with whatever query. */
    if (is_alone && is_both && alone.ttl_ms.given)
        CHECK(both.ttl_ms.given && both.ttl_ms.value == alone.ttl_ms.value);
    if (is_alone && is_both && alone.note.given)
        CHECK(strcmp(both.note.text, alone.note.text) == 0);
    free(body);
    free(query);
    return 0;
}
