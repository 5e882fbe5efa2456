/* The locks that are held, or waited for, the longest: a listing from the picture of the
 * census. */
#ifndef RLOCKD_HANDLERS_LOCKS_LONGEST_H
#define RLOCKD_HANDLERS_LOCKS_LONGEST_H

#include <stddef.h>
#include <stdint.h>

#include "server/http/http.h"
#include "storage/census/census.h"

#define LONGER_THAN_MAX_MS INT64_C(31622400000) /* 366 days: no lease is longer */

/* Answers with at most `limit` locks of the picture whose names begin with `prefix`, and that
 * are held (waited for) for at least `longer_than_ms`. Each is looked at now. */
void locks_list_longest(struct http_request *request, enum census_kind kind, const char *prefix,
                        size_t limit, int64_t longer_than_ms);

#endif
