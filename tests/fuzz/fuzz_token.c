/* server/base/token.c: tokens of requests. The input is a text. */
#include <ctype.h>

#include "server/base/token.h"
#include "tests/fuzz/fuzz.h"

static void check_canonical(const char *text, const char *canonical)
{
    char again[TOKEN_TEXT_SIZE], lease_id[TOKEN_TEXT_SIZE], session_id[TOKEN_TEXT_SIZE];

    CHECK(strlen(text) == TOKEN_TEXT_SIZE - 1 && strlen(canonical) == TOKEN_TEXT_SIZE - 1);
    for (size_t i = 0; canonical[i] != '\0'; i++)
        CHECK(canonical[i] == tolower((unsigned char)text[i]));
    CHECK(strspn(canonical, "0123456789abcdef-") == TOKEN_TEXT_SIZE - 1);
    CHECK(strspn(canonical, "0-") < TOKEN_TEXT_SIZE - 1);
    CHECK(token_parse(canonical, again) && strcmp(again, canonical) == 0);
    token_lease_id(canonical, lease_id);
    token_session_id(canonical, session_id);
    CHECK(token_parse(lease_id, again) && token_is_public_id(lease_id));
    CHECK(token_is_public_id(session_id) && strcmp(lease_id, session_id) != 0);
    (void)token_is_public_id(text);
    (void)token_is_server_made(canonical);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *text = fuzz_rest(&input);
    char canonical[TOKEN_TEXT_SIZE];

    if (token_parse(text, canonical))
        check_canonical(text, canonical);
    free(text);
    return 0;
}
