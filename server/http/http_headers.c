/* The request line and the headers: refuses the malformed ones that libmicrohttpd lets pass,
 * and finds the headers that handlers read. */
#include <microhttpd.h>
#include <string.h>
#include <strings.h>

#include "server/auth/auth.h"
#include "server/auth/auth_hash.h"
#include "server/base/text.h"
#include "server/http/http_internal.h"

/* A larger request line with headers is refused with a problem; if they do not even fit the
 * memory of a connection, libmicrohttpd itself refuses them, with an HTML page. 8 KiB of text
 * in 32 headers are served. */
enum {
    HEADERS_MAX = 10 * 1024,
    REQUEST_ID_MAX = 128,
    HEADER_OVERHEAD = 64 /* that libmicrohttpd keeps of each header, besides its text */
};

struct header_name {
    const char *text;
    size_t len;
};

#define HEADER_NAME(text)                                                                      \
    {                                                                                          \
        (text), sizeof(text) - 1                                                               \
    }

static const struct header_name header_names[HTTP_HEADER_COUNT] = {
    [HTTP_LEASE_TOKEN] = HEADER_NAME("Lease-Token"),
    [HTTP_SESSION_TOKEN] = HEADER_NAME("Session-Token"),
    [HTTP_IDEMPOTENCY_KEY] = HEADER_NAME("Idempotency-Key"),
    [HTTP_IF_MATCH] = HEADER_NAME("If-Match"),
    [HTTP_AUTHORIZATION] = HEADER_NAME("Authorization"),
    [HTTP_CONTENT_TYPE] = HEADER_NAME("Content-Type"),
    [HTTP_HOST] = HEADER_NAME("Host"),
    [HTTP_REQUEST_ID] = HEADER_NAME("X-Request-Id"),
    [HTTP_TRACEPARENT] = HEADER_NAME("traceparent"),
    [HTTP_ORIGIN] = HEADER_NAME("Origin"),
    [HTTP_SEC_FETCH_SITE] = HEADER_NAME("Sec-Fetch-Site"),
    [HTTP_SEC_FETCH_DEST] = HEADER_NAME("Sec-Fetch-Dest"),
    [HTTP_FLEET_LOCK_PROTOCOL] = HEADER_NAME("fleet-lock-protocol"),
    [HTTP_PREFER] = HEADER_NAME("Prefer"),
    [HTTP_X_FORWARDED_FOR] = HEADER_NAME("X-Forwarded-For"),
    [HTTP_FORWARDED] = HEADER_NAME("Forwarded"),
    [HTTP_ACCEPT] = HEADER_NAME("Accept"),
    [HTTP_IF_NONE_MATCH] = HEADER_NAME("If-None-Match"),
};

/* The two that say where a request ends. */
static const struct header_name content_length = HEADER_NAME("Content-Length");
static const struct header_name transfer_encoding = HEADER_NAME("Transfer-Encoding");

/* libmicrohttpd copies the first `Cookie` header and keeps a record of each cookie in it, which
 * takes more memory than the header itself. So a `Cookie` header without cookies is put before
 * that of the client. Its blank is the byte that libmicrohttpd 0.9 reads before the end of a
 * cookie's name. */
static const char no_cookies[] = "Cookie";

struct header_scan {
    struct http_request *request;
    size_t count;
    int content_lengths, transfer_encodings;
    bool malformed;
    const char *content_length, *transfer_encoding, *repeated;
    const char *next; /* where libmicrohttpd 0.9 should have found the next header */
    struct {
        size_t count, bytes; /* bytes of the values, with ", " behind each */
    } lines[HTTP_HEADER_COUNT];
};

void http_skip_cookies(struct MHD_Connection *mhd)
{
    /* Without memory for it the request is refused a little later. */
    (void)!MHD_set_connection_value(mhd, MHD_HEADER_KIND, no_cookies, " ");
}

/* RFC 9110 §5.6.2. */
static bool is_token(const char *text, size_t len)
{
    static const bool allowed[256] = {
        ['0' ... '9'] = true,  ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['!'] = true,
        ['#' ... '\''] = true, ['*'] = true,         ['+'] = true,         ['-'] = true,
        ['.'] = true,          ['^' ... '`'] = true, ['|'] = true,         ['~'] = true,
    };

    for (size_t i = 0; i < len; i++)
        if (!allowed[(unsigned char)text[i]])
            return false;
    return len > 0;
}

/* A header that a proxy may read as Content-Length or Transfer-Encoding, which say where a
 * request ends: a folded or otherwise broken form, which libmicrohttpd takes for a header of
 * another name. */
static bool is_near_framing(const char *name, size_t len)
{
    return (len > content_length.len &&
            strncasecmp(name, content_length.text, content_length.len) == 0) ||
           (len > transfer_encoding.len &&
            strncasecmp(name, transfer_encoding.text, transfer_encoding.len) == 0);
}

/* The lengths first: they settle nearly every comparison, as the usual spelling does the rest.
 */
static bool is_header(const struct header_name *header, const char *name, size_t len)
{
    return header->len == len &&
           (memcmp(header->text, name, len) == 0 || strncasecmp(header->text, name, len) == 0);
}

/* libmicrohttpd 0.9 ends a value at a NUL and the headers at an empty name, joins a folded line
 * to the header's name, and takes a bare LF for the end of a line. After each of these, some
 * bytes between two headers belong to neither of them. From version 1.0 on libmicrohttpd
 * refuses all these requests itself. */
static bool is_next_header(struct header_scan *scan, const char *name, const char *value,
                           size_t value_len)
{
    bool is_next = name == scan->next;

    scan->next = value + value_len + 2; /* CR LF */
    return is_next || MHD_VERSION >= 0x01000000;
}

/* Blanks and tabs behind a value are no part of it (RFC 9110 §5.5), though libmicrohttpd 0.9
 * leaves them there. */
static size_t len_without_blanks(const char *value, size_t len)
{
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        len--;
    return len;
}

static const char *without_blanks(struct http_request *request, const char *value, size_t len)
{
    size_t kept = len_without_blanks(value, len);

    return kept == len ? value : memcpy(http_memory(request, kept + 1), value, kept);
}

static enum MHD_Result scan_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                   size_t name_len, const char *value, size_t value_len)
{
    struct header_scan *scan = arg;

    (void)kind;
    if (name == no_cookies)
        return MHD_YES;
    scan->count++;
    if (!is_token(name, name_len) || value == NULL || is_near_framing(name, name_len) ||
        memchr(value, '\r', value_len) != NULL ||
        !is_next_header(scan, name, value, value_len)) {
        scan->malformed = true;
        return MHD_YES;
    }
    /* The framing stays as it came: libmicrohttpd has read it in its own way. */
    if (is_header(&content_length, name, name_len)) {
        scan->content_lengths++;
        scan->content_length = value;
        return MHD_YES;
    }
    if (is_header(&transfer_encoding, name, name_len)) {
        scan->transfer_encodings++;
        scan->transfer_encoding = value;
        return MHD_YES;
    }
    for (enum http_header i = 0; i < HTTP_HEADER_COUNT; i++) {
        if (!is_header(&header_names[i], name, name_len))
            continue;
        if (i <= HTTP_HOST && scan->request->headers[i] != NULL)
            scan->repeated = header_names[i].text;
        scan->request->headers[i] = without_blanks(scan->request, value, value_len);
        scan->lines[i].count++;
        scan->lines[i].bytes += value_len + 2;
        break;
    }
    return MHD_YES;
}

struct list_join {
    enum http_header header;
    char *end;
};

static enum MHD_Result join_line(void *arg, enum MHD_ValueKind kind, const char *name,
                                 size_t name_len, const char *value, size_t value_len)
{
    struct list_join *join = arg;

    (void)kind;
    if (is_header(&header_names[join->header], name, name_len)) {
        join->end = mempcpy(join->end, value, len_without_blanks(value, value_len));
        join->end = mempcpy(join->end, ", ", 2);
    }
    return MHD_YES;
}

/* Makes one value of the lines of each list (RFC 9110 §5.3). Every line was well-formed. */
static void join_lists(struct http_request *request, const struct header_scan *scan)
{
    for (enum http_header i = HTTP_PREFER; i < HTTP_HEADER_COUNT; i++) {
        if (scan->lines[i].count < 2)
            continue;
        struct list_join join = {i, http_memory(request, scan->lines[i].bytes)};
        request->headers[i] = join.end;
        MHD_get_connection_values_n(request->mhd, MHD_HEADER_KIND, join_line, &join);
        join.end[-2] = '\0';
    }
}

/* Bytes of the request line and the headers, with the empty line behind them. */
static size_t head_bytes(const struct http_request *request)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    return info != NULL ? info->header_size : 0;
}

/* `version` is the last word of the request line, in libmicrohttpd's buffer: a target that has
 * a NUL in it, or a space behind it, does not end right before it. */
static bool is_whole_target(const struct http_request *request, const char *version)
{
    static const bool foreign[256] = {[0 ... ' '] = true, [0x7F] = true};
    const char *end = request->uri;

    if (request->target_end == NULL || version != request->target_end + 1)
        return false;
    while (!foreign[(unsigned char)*end])
        end++;
    return *end == '\0';
}

/* A method that has a NUL in it, or two spaces behind it, does not end right before the target;
 * from version 1.0 on libmicrohttpd looks for both itself. */
static bool is_whole_method(const struct http_request *request)
{
    size_t len = strlen(request->method);
    const char *target = request->target_end - strlen(request->uri);

    return is_token(request->method, len) &&
           (request->method + len + 1 == target || MHD_VERSION >= 0x01000000);
}

/* RFC 9110 §7.2: a host and a port, or nothing. */
static bool is_host(const char *host)
{
    static const bool foreign[256] = {
        ['\0'] = true, [' '] = true, ['\t'] = true, ['#'] = true, [','] = true,  ['/'] = true,
        ['<'] = true,  ['>'] = true, ['?'] = true,  ['@'] = true, ['\\'] = true,
    };

    while (!foreign[(unsigned char)*host])
        host++;
    return *host == '\0';
}

/* Two lengths, a length and a transfer coding, or a coding that a proxy may read otherwise: by
 * such requests other requests are smuggled past a proxy. */
static bool check_framing(const struct header_scan *scan, const char *version,
                          struct http_refusal *refusal)
{
    int64_t body_len = 0;

    if (scan->transfer_encodings > 1 ||
        (scan->transfer_encodings == 1 && strcasecmp(scan->transfer_encoding, "chunked") != 0))
        return http_refusal_set(refusal, PROBLEM_MALFORMED_REQUEST,
                                "Transfer-Encoding: only chunked is accepted, and only once");
    if (scan->transfer_encodings == 1 && scan->content_lengths > 0)
        return http_refusal_set(refusal, PROBLEM_MALFORMED_REQUEST,
                                "Content-Length: not together with Transfer-Encoding");
    if (scan->transfer_encodings == 1 && strcmp(version, "HTTP/1.1") != 0)
        return http_refusal_set(
            refusal, PROBLEM_LENGTH_REQUIRED,
            "Transfer-Encoding is part of HTTP/1.1 only: send a Content-Length");
    if (scan->content_lengths > 1)
        return http_refusal_set(refusal, PROBLEM_MALFORMED_REQUEST,
                                "Content-Length occurs more than once");
    if (scan->content_length != NULL && !text_parse_int64(scan->content_length, &body_len))
        return http_refusal_set(refusal, PROBLEM_MALFORMED_REQUEST,
                                "Content-Length is not a number");
    if (body_len > HTTP_BODY_MAX)
        return http_refusal_set(refusal, PROBLEM_TOO_LARGE, "the body has more than %d bytes",
                                HTTP_BODY_MAX);
    return true;
}

static bool check_head(const struct http_request *request, const struct header_scan *scan,
                       const char *version, size_t bytes, struct http_refusal *refusal)
{
    if (bytes + scan->count * HEADER_OVERHEAD > HEADERS_MAX)
        return http_refusal_set(
            refusal, PROBLEM_HEADERS_TOO_LARGE,
            "request line and headers have more than %d bytes, with %d for each header",
            HEADERS_MAX, HEADER_OVERHEAD);
    if (!is_whole_target(request, version))
        return http_refusal_set(
            refusal, PROBLEM_MALFORMED_REQUEST,
            "the target of the request has a space or a control character in it");
    if (!is_whole_method(request))
        return http_refusal_set(refusal, PROBLEM_MALFORMED_REQUEST,
                                "the method of the request is not one word and a space");
    if (scan->malformed)
        return http_refusal_set(refusal, PROBLEM_MALFORMED_REQUEST,
                                "one of the headers is not well-formed");
    if (scan->repeated != NULL)
        return http_refusal_set(refusal, PROBLEM_MALFORMED_REQUEST, "%s occurs more than once",
                                scan->repeated);
    if (request->headers[HTTP_HOST] == NULL && strcmp(version, "HTTP/1.0") != 0)
        return http_refusal_set(refusal, PROBLEM_MALFORMED_REQUEST,
                                "Host: this request needs the header");
    if (request->headers[HTTP_HOST] != NULL && !is_host(request->headers[HTTP_HOST]))
        return http_refusal_set(refusal, PROBLEM_MALFORMED_REQUEST,
                                "Host: not a host with an optional port");
    return check_framing(scan, version, refusal);
}

/* --- for the log -------------------------------------------------------------------------- */

/* Whether the API token of a request, or its form in Basic, is a part of the text. */
static bool has_api_token(const char *authorization, const char *text)
{
    const char *space = strrchr(authorization, ' ');
    const char *credentials = space != NULL ? space + 1 : authorization;
    char password[AUTH_TOKEN_MAX];
    size_t len;

    if (strstr(text, credentials) != NULL)
        return true;
    return strncasecmp(authorization, "Basic ", 6) == 0 &&
           auth_basic_password(credentials, password, &len) && len >= AUTH_TOKEN_MIN &&
           memmem(text, strlen(text), password, len) != NULL;
}

/* Whether a token of the request is a part of the text. */
static bool has_token(const struct http_request *request, const char *text)
{
    const char *authorization = request->headers[HTTP_AUTHORIZATION];

    for (enum http_header i = HTTP_LEASE_TOKEN; i <= HTTP_IDEMPOTENCY_KEY; i++)
        if (request->headers[i] != NULL && strcasestr(text, request->headers[i]) != NULL)
            return true;
    return authorization != NULL && has_api_token(authorization, text);
}

/* Tokens are in no log. */
static bool is_request_id(const struct http_request *request, const char *id)
{
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "-._~:/+=@";
    size_t len = strspn(id, safe);

    return len >= 1 && len <= REQUEST_ID_MAX && id[len] == '\0' && !has_token(request, id);
}

/* W3C Trace Context: version, trace id, parent id and flags. */
static bool is_traceparent(const char *text)
{
    static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";

    if (strlen(text) != sizeof(form) - 1 || strncmp(text, "ff", 2) == 0)
        return false;
    for (size_t i = 0; i < sizeof(form) - 1; i++)
        if (form[i] == 'x' ? strchr("0123456789abcdef", text[i]) == NULL : text[i] != '-')
            return false;
    return true;
}

static void drop_unsafe(struct http_request *request)
{
    const char **id = &request->headers[HTTP_REQUEST_ID];
    const char **traceparent = &request->headers[HTTP_TRACEPARENT];

    if (*id != NULL && !is_request_id(request, *id))
        *id = NULL;
    if (*traceparent != NULL && !is_traceparent(*traceparent))
        *traceparent = NULL;
}

bool http_take_headers(struct http_request *request, const char *version,
                       struct http_refusal *refusal)
{
    struct header_scan scan = {.request = request, .next = version + strlen(version) + 2};
    size_t bytes = head_bytes(request);

    MHD_get_connection_values_n(request->mhd, MHD_HEADER_KIND, scan_header, &scan);
    if (MHD_VERSION < 0x01000000 && scan.next + 2 != request->method + bytes)
        scan.malformed = true;
    if (!scan.malformed && bytes <= HEADERS_MAX) /* so the lists take no more than this */
        join_lists(request, &scan);
    drop_unsafe(request);
    if (!check_head(request, &scan, version, bytes, refusal))
        return false;
    /* Proxies and servers have disagreed about the end of a chunked body before: bytes behind
     * the body are never read. */
    request->close_after |= scan.transfer_encodings > 0;
    return true;
}
