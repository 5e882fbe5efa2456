/* The word with which a script's reply begins, and its meaning. */
#ifndef RLOCKD_STORAGE_STORE_REPLY_WORD_H
#define RLOCKD_STORAGE_STORE_REPLY_WORD_H

#include <stddef.h>

#include "server/base/metrics.h"
#include "storage/redis/reply.h"

struct reply_word {
    const char *word;
    int outcome;
    enum metric metric; /* that counts such replies; METRIC_COUNT: none */
};

/* The word of a reply; "": the reply does not begin with a text. */
const char *reply_word(const struct redis_value *reply);
/* NULL: the word is not in the table. */
const struct reply_word *reply_word_find(const struct reply_word *words, size_t count,
                                         const struct redis_value *reply);
/* The outcome of the word; `otherwise`: the word is not in the table. */
int reply_word_outcome(const struct reply_word *words, size_t count,
                       const struct redis_value *reply, int otherwise);

#endif
