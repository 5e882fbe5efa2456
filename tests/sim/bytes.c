/* Operations on texts of any bytes, and the buffer that grows. */
#include "tests/sim/bytes.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void *zalloc(size_t size)
{
    void *block = calloc(1, size);

    if (block == NULL)
        abort();
    return block;
}

struct bytes bytes_of(const char *text)
{
    return (struct bytes){(char *)text, strlen(text)};
}

struct bytes bytes_copy(struct bytes bytes)
{
    char *text = zalloc(bytes.len + 1);

    memcpy(text, bytes.text, bytes.len);
    return (struct bytes){text, bytes.len};
}

bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

int bytes_compare(struct bytes a, struct bytes b)
{
    int order = memcmp(a.text, b.text, a.len < b.len ? a.len : b.len);

    if (order != 0 || a.len == b.len)
        return order;
    return a.len < b.len ? -1 : 1;
}

bool bytes_is_word(struct bytes bytes, const char *word)
{
    return strlen(word) == bytes.len && strncasecmp(bytes.text, word, bytes.len) == 0;
}

/* As Redis reads an integer: no blank, no plus, no zero in front, nothing behind. */
bool bytes_to_integer(struct bytes bytes, int64_t *number)
{
    char again[24];

    if (bytes.len == 0 || bytes.len >= sizeof(again))
        return false;
    errno = 0;
    *number = strtoll(bytes.text, NULL, 10);
    if (errno != 0)
        return false;
    int len = snprintf(again, sizeof(again), "%lld", (long long)*number);
    return (size_t)len == bytes.len && memcmp(again, bytes.text, bytes.len) == 0;
}

static void buffer_reserve(struct buffer *buffer, size_t more)
{
    if (buffer->len + more <= buffer->size)
        return;
    buffer->size = 2 * (buffer->len + more);
    buffer->text = realloc(buffer->text, buffer->size);
    if (buffer->text == NULL)
        abort();
}

void buffer_add(struct buffer *buffer, const void *text, size_t len)
{
    if (len == 0)
        return;
    buffer_reserve(buffer, len);
    memcpy(buffer->text + buffer->len, text, len);
    buffer->len += len;
}

void buffer_format(struct buffer *buffer, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    buffer_reserve(buffer, (size_t)len + 1);
    va_start(args, format);
    vsnprintf(buffer->text + buffer->len, (size_t)len + 1, format, args);
    va_end(args);
    buffer->len += (size_t)len;
}

void buffer_drop(struct buffer *buffer, size_t len)
{
    buffer->len -= len;
    memmove(buffer->text, buffer->text + len, buffer->len);
}

void buffer_release(struct buffer *buffer)
{
    free(buffer->text);
    *buffer = (struct buffer){0};
}
