/* Dates as people write them: RFC 3339. */
#ifndef RLOCKD_SERVER_BASE_DATE_H
#define RLOCKD_SERVER_BASE_DATE_H

#include <stdbool.h>
#include <stdint.h>

/* `text` such as 2027-01-31T12:00:00Z or 2027-01-31T12:00:00.5+01:00, with day, time and zone.
 * Gives seconds since 1970, without a fraction. False: no such date. */
bool date_parse(const char *text, int64_t *seconds) __attribute__((warn_unused_result));

enum { DATE_SIZE = 24 };

/* Seconds since 1970, up to the year 9999, as 2027-01-31T12:00:00Z. */
void date_format(char text[DATE_SIZE], int64_t seconds);

#endif
