/* Reads durations, numbers and lists of URLs. */
#include "client/values.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int64_t value_duration(const char *text)
{
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"", 1e3}, {"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}};
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double number = strtod(text, &end);

    if (digits == 0 || end != text + digits) { /* as "0x10", "1e3", "1.2.3" */
        return -1;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        if (strcmp(end, units[i].unit) == 0) {
            double ms = number * units[i].ms;
            return ms <= (double)DURATION_MAX_MS ? (int64_t)(ms + 0.5) : -1;
        }
    }
    return -1;
}

bool value_number(const char *text, int max, int *out)
{
    char *end;

    errno = 0;
    long number = strtol(text, &end, 10);
    *out = (int)number;
    return text[0] >= '0' && text[0] <= '9' && !*end && errno == 0 && number <= max;
}

static bool is_url(const char *url)
{
    return strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
}

bool value_urls(char *list, char **urls, size_t max, size_t *count)
{
    char *url;

    *count = 0;
    while ((url = strsep(&list, ", "))) {
        size_t len = strlen(url);
        if (len == 0) {
            continue;
        }
        if (!is_url(url) || *count == max) {
            return false;
        }
        if (url[len - 1] == '/') {
            url[len - 1] = '\0';
        }
        urls[(*count)++] = url;
    }
    return true;
}

bool value_is_utf8(const char *text)
{
    json_t *string = json_string(text);
    bool is_utf8 = string != NULL;

    json_decref(string);
    return is_utf8;
}
