/* The generator of random numbers, and the seeds of its streams. */
#include "tests/sim/chance.h"

#include <string.h>

/* splitmix64: each number is a hash of a counter. */
uint64_t chance_next(struct chance *chance)
{
    uint64_t z = chance->state += 0x9E3779B97F4A7C15u;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

struct chance chance_make(uint64_t seed, const char *name)
{
    struct chance chance = {seed * 0xD6E8FEB86659FD93u + 0x2545F4914F6CDD1Du};

    for (; *name != '\0'; name++)
        chance.state = chance_next(&chance) ^ (unsigned char)*name;
    chance_next(&chance);
    return chance;
}

uint64_t chance_below(struct chance *chance, uint64_t limit)
{
    return chance_next(chance) % limit;
}

int64_t chance_between(struct chance *chance, int64_t least, int64_t most)
{
    return least + (int64_t)chance_below(chance, (uint64_t)(most - least) + 1);
}

bool chance_percent(struct chance *chance, unsigned percent)
{
    return chance_below(chance, 100) < percent;
}

void chance_bytes(struct chance *chance, void *out, size_t len)
{
    unsigned char *bytes = out;

    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(chance_next(chance) >> 56);
}
