/* A picture of the census: the locks that are held, or waited for, the longest. */
#ifndef RLOCKD_STORAGE_CENSUS_PICTURE_H
#define RLOCKD_STORAGE_CENSUS_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/store/lease.h"

enum {
    /* Locks in a picture, and so the most that one listing names and the most alarms at a time.
     */
    CENSUS_ENTRIES_MAX = 100
};

enum census_kind { CENSUS_HELD, CENSUS_WAITED };

struct census_entry {
    char name[LOCK_NAME_SIZE];  /* as clients say it */
    char who[LOCK_HOLDER_SIZE]; /* holder field of the longest hold; lease id of the longest
                                   wait */
    char kind[KIND_NAME_SIZE];  /* of the lock */
    int64_t since_ms;           /* by Redis' clock */
    bool at_least;              /* the hold is older: since then the walks have seen it */
    bool is_told;               /* the log has the begin of the alarm */
};

struct census_picture {
    size_t count;
    struct census_entry entries[CENSUS_ENTRIES_MAX]; /* the longest first */
};

/* Copies what there is: a whole picture has tens of kilobytes. */
void picture_copy(struct census_picture *to, const struct census_picture *from);
/* Adds an entry, unless as many longer ones are there. The last one falls out where there is no
 * room. False: the lock has an entry already, and nothing was done. */
bool picture_add(struct census_picture *picture, const struct census_entry *entry);
/* The entry about the same hold; of waits, about the same lock. NULL: there is none. */
struct census_entry *picture_find(struct census_picture *picture, enum census_kind kind,
                                  const struct census_entry *entry);
/* The text of a picture, one line for each entry; to be freed. */
char *picture_text(const struct census_picture *picture);
/* Reads the lines up to the first that is not well-formed. */
void picture_parse(struct census_picture *picture, const char *text);

#endif
