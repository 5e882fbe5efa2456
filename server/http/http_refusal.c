/* Why a request is refused, from the check that finds it to the answer. */
#include <stdarg.h>
#include <stdio.h>

#include "server/http/http_internal.h"

bool http_refusal_set(struct http_refusal *refusal, enum problem problem, const char *detail,
                      ...)
{
    va_list args;

    refusal->problem = problem;
    refusal->challenge = refusal->verb = NULL;
    refusal->asks_basic = false;
    va_start(args, detail);
    vsnprintf(refusal->detail, sizeof(refusal->detail), detail, args);
    va_end(args);
    return false;
}

bool http_refusal_forbid(struct http_refusal *refusal, enum auth_verb verb, const char *detail)
{
    const char *name = auth_verb_name(verb);

    http_refusal_set(refusal, PROBLEM_FORBIDDEN, "%s: needs the verb %s", detail, name);
    refusal->challenge = "Bearer error=\"insufficient_scope\"";
    refusal->verb = name;
    return false;
}
