/* Checks and conversions of numbers, names, UTF-8 and percent encoding. */
#include "server/base/text.h"

#include <string.h>

/* The length of the well-formed UTF-8 sequence at `p`, 0 if there is none. */
static size_t utf8_sequence(const unsigned char *p, size_t left)
{
    /* The second byte's range is narrower after E0 and F0 (overlong forms), ED (surrogates) and
     * F4 (above U+10FFFF): RFC 3629 §4. */
    unsigned char low = 0x80, high = 0xBF;
    size_t len;

    if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        len = 2;
    } else if ((p[0] & 0xF0) == 0xE0) {
        len = 3;
        low = p[0] == 0xE0 ? 0xA0 : low;
        high = p[0] == 0xED ? 0x9F : high;
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        len = 4;
        low = p[0] == 0xF0 ? 0x90 : low;
        high = p[0] == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }
    if (left < len || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return len;
}

bool text_is_utf8(const char *text, size_t len)
{
    const unsigned char *bytes = (const unsigned char *)text;

    for (size_t i = 0; i < len;) {
        size_t step = bytes[i] < 0x80 ? 1 : utf8_sequence(bytes + i, len - i);
        if (step == 0)
            return false;
        i += step;
    }
    return true;
}

bool text_has_control(const char *text, size_t len)
{
    const unsigned char *bytes = (const unsigned char *)text;

    for (size_t i = 0; i < len; i++) {
        size_t left = len - i;
        if (bytes[i] >= 0x20 && bytes[i] < 0x7F)
            continue;
        if (bytes[i] < 0x20 || bytes[i] == 0x7F)
            return true;
        if (left >= 2 && bytes[i] == 0xC2 && bytes[i + 1] >= 0x80 && bytes[i + 1] <= 0x9F)
            return true;
        if (left >= 3 && bytes[i] == 0xE2 && bytes[i + 1] == 0x80 &&
            (bytes[i + 2] == 0xA8 || bytes[i + 2] == 0xA9))
            return true;
    }
    return false;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static int decode(const char *in, size_t in_len, bool plus_is_space, char *out, size_t out_size,
                  size_t *out_len)
{
    size_t len = 0;

    if (memchr(in, '%', in_len) == NULL &&
        (!plus_is_space || memchr(in, '+', in_len) == NULL)) {
        if (in_len >= out_size)
            return -1;
        memmove(out, in, in_len);
        out[in_len] = '\0';
        *out_len = in_len;
        return 0;
    }
    for (size_t i = 0; i < in_len; i++) {
        char c = in[i];
        if (c == '%') {
            int high = in_len - i > 2 ? hex_value(in[i + 1]) : -1;
            int low = in_len - i > 2 ? hex_value(in[i + 2]) : -1;
            if (high < 0 || low < 0)
                return -1;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (len + 1 >= out_size)
            return -1;
        out[len++] = c;
    }
    if (len >= out_size)
        return -1;
    out[len] = '\0';
    *out_len = len;
    return 0;
}

int text_percent_decode(const char *in, size_t in_len, char *out, size_t out_size,
                        size_t *out_len)
{
    return decode(in, in_len, false, out, out_size, out_len);
}

int text_query_decode(const char *in, size_t in_len, char *out, size_t out_size,
                      size_t *out_len)
{
    return decode(in, in_len, true, out, out_size, out_len);
}

static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-_";

void text_base64url(const char *in, size_t len, char *out)
{
    uint32_t bits = 0;
    int count = 0; /* of the bits that are not written yet */

    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | (unsigned char)in[i];
        for (count += 8; count >= 6; count -= 6)
            *out++ = base64url[bits >> (count - 6) & 63];
    }
    if (count > 0)
        *out++ = base64url[bits << (6 - count) & 63];
    *out = '\0';
}

int text_base64url_decode(const char *in, char *out, size_t out_size, size_t *out_len)
{
    uint32_t bits = 0;
    int count = 0; /* of the bits that are not written yet */
    size_t len = 0;

    for (; *in != '\0'; in++) {
        const char *digit = strchr(base64url, *in);
        if (digit == NULL || len + 1 >= out_size)
            return -1;
        bits = bits << 6 | (uint32_t)(digit - base64url);
        count += 6;
        if (count >= 8) {
            count -= 8;
            out[len++] = (char)(bits >> count);
        }
    }
    if (count >= 6 || len >= out_size)
        return -1;
    out[len] = '\0';
    *out_len = len;
    return 0;
}

bool text_parse_int64(const char *text, int64_t *out)
{
    bool negative = *text == '-';
    const char *p = text + negative;
    int64_t value = 0;

    if (*p == '\0' || (*p == '0' && (p[1] != '\0' || negative)))
        return false;
    /* Counted downwards: INT64_MIN has no positive twin. */
    for (; *p != '\0'; p++) {
        if (*p < '0' || *p > '9')
            return false;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, *p - '0', &value))
            return false;
    }
    if (!negative && __builtin_sub_overflow((int64_t)0, value, &value))
        return false;
    *out = value;
    return true;
}

size_t text_format_int64(char out[TEXT_INT64_SIZE], int64_t number)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    char *end = out + TEXT_INT64_SIZE - 1, *digit = end;

    for (; left >= 10; left /= 100) {
        const char *pair = &pairs[left % 100 * 2];
        *--digit = pair[1];
        *--digit = pair[0];
    }
    if (left > 0 || digit == end)
        *--digit = (char)('0' + left);
    if (number < 0)
        *--digit = '-';
    size_t len = (size_t)(end - digit);
    memmove(out, digit, len);
    out[len] = '\0';
    return len;
}

size_t text_next_entry(const char **list, const char **entry)
{
    size_t len = strcspn(*list, ",");

    *entry = *list;
    *list += len + ((*list)[len] == ',');
    while (len > 0 && **entry == ' ') {
        (*entry)++;
        len--;
    }
    while (len > 0 && (*entry)[len - 1] == ' ')
        len--;
    return len;
}

uint32_t text_hash(const char *text, size_t len)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}
