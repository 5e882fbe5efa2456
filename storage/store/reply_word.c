/* The table of reply words. */
#include "storage/store/reply_word.h"

#include <string.h>

const struct reply_word *reply_word_find(const struct reply_word *words, size_t count,
                                         const struct redis_value *reply)
{
    size_t len;
    const char *word = value_text(value_at(reply, 0), &len);

    for (size_t i = 0; i < count; i++)
        if (strcmp(words[i].word, word) == 0)
            return &words[i];
    return NULL;
}
