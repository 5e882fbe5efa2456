/* The writer of RESP2 commands. */
#include "storage/redis/format.h"

#include <string.h>

#include "server/base/text.h"

/* "<mark><number>\r\n" */
static char *format_line(char *out, char mark, size_t number)
{
    *out++ = mark;
    out += text_format_int64(out, (int64_t)number);
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

char *redis_format_count(char *out, size_t argument_count)
{
    return format_line(out, '*', argument_count);
}

char *redis_format_argument(char *out, const char *text, size_t len)
{
    out = format_line(out, '$', len);
    memcpy(out, text, len);
    out += len;
    *out++ = '\r';
    *out++ = '\n';
    return out;
}
