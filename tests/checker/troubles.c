/* Which faults lie in a stretch of time, and what they excuse. */
#include "tests/checker/history.h"

#include <string.h>

bool history_is_troubled(const struct history *history, int64_t from, int64_t to, int64_t after)
{
    for (size_t i = 0; i < history->faults.count; i++) {
        const struct fault *fault = history->faults.at[i];
        if (fault->t_begin < to && fault->t_end + after > from)
            return true;
    }
    return false;
}

bool history_is_beyond_minority(const struct history *history, int64_t from, int64_t to,
                                int64_t after)
{
    for (size_t i = 0; i < history->faults.count; i++) {
        const struct fault *fault = history->faults.at[i];
        if (!fault->minority && fault->t_begin < to && fault->t_end + after > from)
            return true;
    }
    return false;
}

bool history_is_front_troubled(const struct history *history, int64_t front, int64_t from,
                               int64_t to, int64_t after)
{
    for (size_t i = 0; i < history->faults.count; i++) {
        const struct fault *fault = history->faults.at[i];
        bool is_of_front = !fault->scope || strcmp(fault->scope, "redis") != 0;
        bool is_here = fault->front < 0 || front < 0 || fault->front == front;
        if (is_of_front && is_here && fault->t_begin < to && fault->t_end + after > from)
            return true;
    }
    return false;
}

bool history_lost_data(const struct history *history, int64_t from, int64_t to)
{
    for (size_t i = 0; i < history->faults.count; i++) {
        const struct fault *fault = history->faults.at[i];
        if (fault->loses_data && fault->t_begin < to && fault->t_end > from)
            return true;
    }
    return false;
}

bool history_restarted(const struct history *history, int64_t from, int64_t to)
{
    for (size_t i = 0; i < history->faults.count; i++) {
        const struct fault *fault = history->faults.at[i];
        if (fault->restarts && fault->t_begin < to && fault->t_end > from)
            return true;
    }
    return false;
}

bool history_is_undone(const struct history *history, int64_t from, int64_t to)
{
    for (size_t i = 0; i < history->faults.count; i++) {
        const struct fault *fault = history->faults.at[i];
        if (fault->t_begin < to && fault->undoes_until > from)
            return true;
    }
    return false;
}
