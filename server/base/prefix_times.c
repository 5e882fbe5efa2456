/* The list of prefixes, and a histogram of each time for each of them. */
#include "server/base/prefix_times.h"

#include <stdlib.h>
#include <string.h>

#include "server/base/histogram.h"
#include "server/base/text.h"

static const char other[] = "other";

struct prefix {
    const char *text;
    size_t len;
    struct histogram_values times[PREFIX_TIME_COUNT];
};

struct prefix_times {
    size_t count;
    struct prefix prefixes[]; /* the last one, of no text, is that of other names */
};

/* Waits last an hour at most, holds up to a year. */
static histogram_bounds_us bounds = {
    1000,      10000,      100000,      250000,      500000,      1000000,
    2500000,   5000000,    10000000,    30000000,    60000000,    300000000,
    900000000, 3600000000, 14400000000, 43200000000, 86400000000, 604800000000};

/* The entries of the list, at most `max`; more: max + 1. */
static size_t split(const char *list, struct prefix *prefixes, size_t max)
{
    size_t count = 0;

    while (*list != '\0' && count <= max) {
        const char *text;
        size_t len = text_next_entry(&list, &text);
        if (count < max) {
            prefixes[count].text = text;
            prefixes[count].len = len;
        }
        count++;
    }
    return count;
}

static bool is_text(const struct prefix *prefix, const char *text, size_t len)
{
    return prefix->len == len && memcmp(prefix->text, text, len) == 0;
}

bool prefix_times_are_valid(const char *list)
{
    struct prefix prefixes[METRICS_PREFIXES_MAX];
    size_t count = split(list, prefixes, METRICS_PREFIXES_MAX);

    if (count > METRICS_PREFIXES_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (prefixes[i].len == 0 || prefixes[i].len > METRICS_PREFIX_LEN_MAX ||
            is_text(&prefixes[i], other, sizeof(other) - 1))
            return false;
        for (size_t before = 0; before < i; before++) {
            if (is_text(&prefixes[before], prefixes[i].text, prefixes[i].len))
                return false;
        }
    }
    return true;
}

struct prefix_times *prefix_times_new(const char *list)
{
    struct prefix_times *times = calloc(1, sizeof(*times) + (METRICS_PREFIXES_MAX + 1) *
                                                                sizeof(times->prefixes[0]));

    if (times == NULL)
        return NULL;
    times->count = split(list, times->prefixes, METRICS_PREFIXES_MAX);
    times->prefixes[times->count].text = "";
    return times;
}

void prefix_times_free(struct prefix_times *times)
{
    free(times);
}

void prefix_times_observe(struct prefix_times *times, enum prefix_time time, const char *name,
                          int64_t duration_ns)
{
    struct prefix *found = &times->prefixes[times->count];

    for (size_t i = 0; i < times->count; i++) {
        struct prefix *prefix = &times->prefixes[i];
        if (prefix->len > found->len && strncmp(name, prefix->text, prefix->len) == 0)
            found = prefix;
    }
    histogram_observe(&found->times[time], bounds, duration_ns);
}

/* prefix="TEXT", escaped as the text format wants it. */
static void write_label(char *label, const struct prefix *prefix)
{
    const char *text = prefix->len > 0 ? prefix->text : other;
    size_t len = prefix->len > 0 ? prefix->len : sizeof(other) - 1;

    memcpy(label, "prefix=\"", sizeof("prefix=\"") - 1);
    label += sizeof("prefix=\"") - 1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"' || text[i] == '\\')
            *label++ = '\\';
        *label++ = text[i];
    }
    memcpy(label, "\"", sizeof("\""));
}

void prefix_times_print(FILE *out, const char *metric, enum prefix_time time,
                        struct prefix_times *const *sets, size_t set_count)
{
    char label[sizeof("prefix=\"\"") + 2 * METRICS_PREFIX_LEN_MAX];

    for (size_t i = 0; i <= sets[0]->count; i++) {
        struct histogram_values sum = {0};
        for (size_t set = 0; set < set_count; set++)
            histogram_add(&sum, &sets[set]->prefixes[i].times[time]);
        write_label(label, &sets[0]->prefixes[i]);
        histogram_print(out, metric, label, bounds, &sum);
    }
}
