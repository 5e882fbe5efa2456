/* The table of reply words. */
#include "storage/store/reply_word.h"

#include <string.h>

const char *reply_word(const struct redis_value *reply)
{
    size_t len;

    return value_text(value_at(reply, 0), &len);
}

const struct reply_word *reply_word_find(const struct reply_word *words, size_t count,
                                         const struct redis_value *reply)
{
    const char *word = reply_word(reply);

    for (size_t i = 0; i < count; i++)
        if (strcmp(words[i].word, word) == 0)
            return &words[i];
    return NULL;
}

int reply_word_outcome(const struct reply_word *words, size_t count,
                       const struct redis_value *reply, int otherwise)
{
    const struct reply_word *row = reply_word_find(words, count, reply);

    return row != NULL ? row->outcome : otherwise;
}
