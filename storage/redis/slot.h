/* The slots of a Redis Cluster: which part of the key space a tag is in. */
#ifndef RLOCKD_STORAGE_REDIS_SLOT_H
#define RLOCKD_STORAGE_REDIS_SLOT_H

#include <stdint.h>

#include "storage/redis/script_call.h"

enum { REDIS_SLOTS = 16384 };

enum { REDIS_SLOT_TAG_SIZE = 8 };

uint16_t redis_slot_of(const struct redis_tag *tag);
/* A tag that is in this slot, always the same one. */
void redis_slot_tag(uint16_t slot, char tag[REDIS_SLOT_TAG_SIZE]);

#endif
