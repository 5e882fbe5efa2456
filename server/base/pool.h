/* Blocks of one size, for objects that live as long as a request. A block that is given back is
 * kept for the next request: when many requests of one turn take and give back blocks, malloc()
 * would leave its fast path. For one thread. */
#ifndef RLOCKD_SERVER_BASE_POOL_H
#define RLOCKD_SERVER_BASE_POOL_H

#include <stddef.h>

struct pool_block;

struct pool {
    struct pool_block *kept;
    size_t kept_count, block_size;
};

void pool_init(struct pool *pool, size_t block_size);
/* Frees the kept blocks. Every block must have been given back. */
void pool_release(struct pool *pool);
/* A block, not cleared. NULL: out of memory. */
void *pool_take(struct pool *pool);
void pool_give(struct pool *pool, void *block);

#endif
