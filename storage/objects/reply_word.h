/* The word that a script's reply begins with, and what the word says. */
#ifndef RLOCKD_STORAGE_OBJECTS_REPLY_WORD_H
#define RLOCKD_STORAGE_OBJECTS_REPLY_WORD_H

#include <stddef.h>

#include "server/base/metrics.h"
#include "storage/redis/reply.h"

struct reply_word {
    const char *word;
    int outcome;
    enum metric metric; /* that counts such replies; METRIC_COUNT: none */
};

/* NULL: it is not one of these words. */
const struct reply_word *reply_word_find(const struct reply_word *words, size_t count,
                                         const struct redis_value *reply);

#endif
