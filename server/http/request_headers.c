/* The reader of tokens and preferences from the headers of a request. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http/http.h"
#include "server/http/problem.h"
#include "server/http/request.h"

bool request_token(struct http_request *request, enum http_header header,
                   const char *header_name, bool required, char canonical[TOKEN_TEXT_SIZE])
{
    const char *text = http_header(request, header);

    canonical[0] = '\0';
    if (text == NULL && !required)
        return true;
    if (text == NULL) {
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                      "%s: this request needs the header: %s", header_name,
                      header == HTTP_LEASE_TOKEN
                          ? "a UUID that you make, e.g. from uuidgen"
                          : "the token that the session was opened with");
        return false;
    }
    if (!token_parse(text, canonical)) {
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                      "%s: must be a UUID, as 36 characters of text, and not nil", header_name);
        return false;
    }
    return true;
}

int64_t request_prefer_wait_s(const struct http_request *request)
{
    const char *prefer = http_header(request, HTTP_PREFER);

    for (; prefer != NULL && *prefer != '\0'; prefer += strcspn(prefer, ",") + 1) {
        prefer += strspn(prefer, " \t");
        if (strncasecmp(prefer, "wait=", 5) == 0 && isdigit((unsigned char)prefer[5])) {
            int64_t wait_s = strtoll(prefer + 5, NULL, 10);
            return wait_s < INT32_MAX ? wait_s : INT32_MAX;
        }
        if (prefer[strcspn(prefer, ",")] == '\0')
            break;
    }
    return -1;
}
