/* The parser and the writer of RFC 3339 dates. */
#include "server/base/date.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

/* Takes `count` digits and the character behind them (0: none) off the front. */
static bool take_number(const char **text, int count, char end, int *number)
{
    *number = 0;
    for (int i = 0; i < count; i++, (*text)++) {
        if (!isdigit((unsigned char)**text))
            return false;
        *number = *number * 10 + (**text - '0');
    }
    if (end == '\0')
        return true;
    return *(*text)++ == end;
}

static bool take_fraction(const char **text)
{
    if (**text != '.')
        return true;
    size_t digits = strspn(*text + 1, "0123456789");
    *text += 1 + digits;
    return digits > 0;
}

/* The seconds by which the zone is ahead of UTC. */
static bool take_zone(const char **text, int *ahead)
{
    char sign = *(*text)++;
    int hours, minutes;

    *ahead = 0;
    if (sign == 'Z' || sign == 'z')
        return true;
    if ((sign != '+' && sign != '-') || !take_number(text, 2, ':', &hours) ||
        !take_number(text, 2, '\0', &minutes) || hours > 23 || minutes > 59)
        return false;
    *ahead = (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

/* timegm() makes the first of March out of the 30th of February. */
static bool is_in_calendar(const struct tm *date)
{
    struct tm same = *date;

    timegm(&same);
    return same.tm_mon == date->tm_mon && same.tm_mday == date->tm_mday;
}

bool date_parse(const char *text, int64_t *seconds)
{
    struct tm date = {0};
    int ahead;

    if (!take_number(&text, 4, '-', &date.tm_year) ||
        !take_number(&text, 2, '-', &date.tm_mon) ||
        !take_number(&text, 2, '\0', &date.tm_mday) || (*text != 'T' && *text != 't'))
        return false;
    text++;
    if (!take_number(&text, 2, ':', &date.tm_hour) ||
        !take_number(&text, 2, ':', &date.tm_min) ||
        !take_number(&text, 2, '\0', &date.tm_sec) || !take_fraction(&text) ||
        !take_zone(&text, &ahead) || *text != '\0')
        return false;
    date.tm_year -= 1900;
    date.tm_mon--;
    if (date.tm_hour > 23 || date.tm_min > 59 || date.tm_sec > 60 || date.tm_mon < 0 ||
        date.tm_mon > 11 || !is_in_calendar(&date))
        return false;
    *seconds = (int64_t)timegm(&date) - ahead;
    return true;
}

void date_format(char text[DATE_SIZE], int64_t seconds)
{
    time_t then = (time_t)seconds;
    struct tm utc;

    gmtime_r(&then, &utc);
    if (strftime(text, DATE_SIZE, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        text[0] = '\0';
}
