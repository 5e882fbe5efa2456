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

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " \t");
}

/* Behind the preference that begins there, and the comma behind it. */
static const char *skip_preference(const char *text)
{
    bool is_quoted = false;

    for (; *text != '\0' && (is_quoted || *text != ','); text++) {
        if (*text == '"')
            is_quoted = !is_quoted;
        else if (is_quoted && *text == '\\' && text[1] != '\0')
            text++;
    }
    return *text == ',' ? text + 1 : text;
}

/* The number of the preference `wait` that begins there; -1: another preference, or no number.
 */
static int64_t read_wait_s(const char *text)
{
    char *end;

    if (strncasecmp(text, "wait", 4) != 0)
        return -1;
    text = skip_blanks(text + 4);
    if (*text != '=')
        return -1;
    text = skip_blanks(text + 1);
    bool is_quoted = *text == '"';
    text += is_quoted;
    if (!isdigit((unsigned char)*text))
        return -1;
    int64_t wait_s = strtoll(text, &end, 10);
    if (is_quoted && *end++ != '"')
        return -1;
    end += strspn(end, " \t");
    if (*end != '\0' && *end != ',' && *end != ';')
        return -1;
    return wait_s < INT32_MAX ? wait_s : INT32_MAX;
}

int64_t request_prefer_wait_s(const struct http_request *request)
{
    const char *prefer = http_header(request, HTTP_PREFER);

    for (; prefer != NULL && *prefer != '\0'; prefer = skip_preference(prefer)) {
        prefer = skip_blanks(prefer);
        int64_t wait_s = read_wait_s(prefer);
        if (wait_s >= 0)
            return wait_s;
    }
    return -1;
}
