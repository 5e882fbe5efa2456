/* Writes a picture of the census for all front ends, and tells the log which long holds or
 * waits have begun or ended since the last picture, whichever front end wrote that. */
#ifndef RLOCKD_STORAGE_CENSUS_PUBLISH_H
#define RLOCKD_STORAGE_CENSUS_PUBLISH_H

#include <stddef.h>
#include <stdint.h>

#include "storage/census/picture.h"

struct store;

/* What is written; copied. The log learns of a change only after Redis has confirmed the
 * picture, so a change is logged once, and not at all where the worker ends in between. */
struct publication {
    enum census_kind kind;
    const struct census_picture *picture;
    const char *counts;    /* numbers, as census.c reads them */
    const char *worker_id; /* that has the claim; must stay until `done` */
    int64_t long_ms;       /* a hold or wait that lasts as long is an alarm; 0: none is */
};

typedef void publish_done(void *arg);

/* `done` comes once, and later. */
void census_publish(struct store *store, const struct publication *publication,
                    publish_done *done, void *arg);

#endif
