/* The free list of a pool of blocks. */
#include "server/base/pool.h"

#include <assert.h>
#include <stdlib.h>

/* More than the requests of a busy turn. The blocks of thousands of waiters go back. A
 * sanitizer sees the use of a block that was given back only when malloc() has it. */
#ifdef SANITIZED
enum { KEPT_MAX = 0 };
#else
enum { KEPT_MAX = 256 };
#endif

struct pool_block {
    struct pool_block *next;
};

void pool_init(struct pool *pool, size_t block_size)
{
    assert(block_size >= sizeof(struct pool_block));
    *pool = (struct pool){.block_size = block_size};
}

void pool_release(struct pool *pool)
{
    struct pool_block *block;

    while ((block = pool->kept) != NULL) {
        pool->kept = block->next;
        free(block);
    }
    pool->kept_count = 0;
}

void *pool_take(struct pool *pool)
{
    struct pool_block *block = pool->kept;

    if (block == NULL)
        return malloc(pool->block_size);
    pool->kept = block->next;
    pool->kept_count--;
    return block;
}

void pool_give(struct pool *pool, void *block)
{
    struct pool_block *given = block;

    if (pool->kept_count == KEPT_MAX) {
        free(block);
        return;
    }
    given->next = pool->kept;
    pool->kept = given;
    pool->kept_count++;
}
