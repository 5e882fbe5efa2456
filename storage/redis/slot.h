/* The slots of a Redis Cluster: which part of the key space a tag is in. */
#ifndef RLOCKD_STORAGE_REDIS_SLOT_H
#define RLOCKD_STORAGE_REDIS_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "storage/redis/script_call.h"

enum { REDIS_SLOTS = 16384 };

enum { REDIS_SLOT_TAG_SIZE = 8 };

uint16_t redis_slot_of(const struct redis_tag *tag);

/* Calls `visit` with the slot of the tag "<text>0", then of "<text>1" and so on, until `visit`
 * returns true. False: it did for none of the `count` numbers. */
bool redis_slot_walk(const struct redis_tag *text, unsigned count,
                     bool (*visit)(void *arg, unsigned number, uint16_t slot), void *arg);

/* For each slot the smallest number that is, written in decimal, a tag of the slot. */
struct redis_slot_tags {
    uint32_t numbers[REDIS_SLOTS];
};

void redis_slot_tags_make(struct redis_slot_tags *tags);
/* The tag that is this number, always the same tag of the slot. */
void redis_slot_tag(const struct redis_slot_tags *tags, uint16_t slot,
                    char tag[REDIS_SLOT_TAG_SIZE]);

#endif
