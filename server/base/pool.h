/* Blocks of one size, for what comes and goes with every request. What is given back is kept
 * for the next taker: where many requests of one turn each take some and then give them back,
 * malloc() leaves its fast path. For one thread. */
#ifndef RLOCKD_SERVER_BASE_POOL_H
#define RLOCKD_SERVER_BASE_POOL_H

#include <stddef.h>

struct pool_block;

struct pool {
    struct pool_block *kept;
    size_t kept_count, block_size;
};

void pool_init(struct pool *pool, size_t block_size);
/* Frees what is kept. Every block must have been given back. */
void pool_release(struct pool *pool);
/* A block with whatever it held before. NULL: out of memory. */
void *pool_take(struct pool *pool);
void pool_give(struct pool *pool, void *block);

#endif
