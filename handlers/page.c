/* GET / and GET /page/{file}: the web page, whose files (web/) are part of the program. */
#include <string.h>

#include "handlers/context.h"
#include "handlers/routes.h"
#include "server/http/problem.h"
#include "server/http/request.h"

struct page_row {
    const char *name, *media_type;
    const char *etag; /* changes with the text: RFC 9110 §8.8.3 */
    size_t len;
    const char *text;
};

static const struct page_row rows[] = {
#include "page.inc"
};

/* Scripts and styles come from this server only, and no script of the page can turn a text into
 * markup: whatever a name or a note contains, it stays text. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

static const struct page_row *row_find(const char *name)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

/* A browser keeps the files and asks each time whether they are those of this server still. */
static void reply_row(struct http_request *request, const struct page_row *row)
{
    const char *known = http_header(request, HTTP_IF_NONE_MATCH);
    bool is_known = known != NULL && strstr(known, row->etag) != NULL;

    http_reply_header(request, "ETag", row->etag);
    http_reply_header(request, "Cache-Control", "no-cache");
    http_reply_header(request, "Content-Security-Policy", policy);
    http_reply_header(request, "X-Content-Type-Options", "nosniff");
    http_reply_header(request, "Referrer-Policy", "no-referrer");
    http_reply_header(request, "Cross-Origin-Opener-Policy", "same-origin");
    /* Of an answer 304 only the headers are sent, with the length of the text. */
    http_reply_static(request, is_known ? 304 : 200, is_known ? NULL : row->media_type,
                      row->text, row->len);
}

static bool has_page(struct http_request *request)
{
    const struct handler_context *context = http_context(request);

    return !context->config->no_page;
}

/* Browsers ask for text/html by name; other programs ask for JSON, or for anything. */
void page_root(struct http_request *request)
{
    const char *accept = http_header(request, HTTP_ACCEPT);

    if (!request_no_fields(request))
        return;
    http_reply_header(request, "Vary", "Accept");
    if (has_page(request) && accept != NULL && strstr(accept, "text/html") != NULL)
        reply_row(request, row_find("index.html"));
    else
        http_reply_json(request, 200,
                        json_pack("{s:s, s:s, s:s}", "name", "rlockd", "version",
                                  RLOCKD_VERSION, "documentation", "/openapi.yaml"));
}

void page_file(struct http_request *request)
{
    const struct page_row *row = has_page(request) ? row_find(http_param(request, 0)) : NULL;

    if (!request_no_fields(request))
        return;
    if (row != NULL)
        reply_row(request, row);
    else
        problem_reply(request, PROBLEM_NOT_FOUND, NULL, "there is no such file");
}
