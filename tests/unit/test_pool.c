/* server/base/pool.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "server/base/pool.h"

enum { BLOCK_SIZE = 64, MANY = 1000 };

static void blocks_do_not_overlap(void **state)
{
    struct pool pool;
    char *blocks[MANY];

    (void)state;
    pool_init(&pool, BLOCK_SIZE);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            blocks[i] = pool_take(&pool);
            memset(blocks[i], i % 128, BLOCK_SIZE);
        }
        for (int i = 0; i < MANY; i++) {
            for (int at = 0; at < BLOCK_SIZE; at++)
                assert_int_equal(blocks[i][at], i % 128);
            pool_give(&pool, blocks[i]);
        }
    }
    pool_release(&pool);
}

static void only_so_many_are_kept(void **state)
{
    struct pool pool;
    void *blocks[MANY];

    (void)state;
    pool_init(&pool, BLOCK_SIZE);
    for (int i = 0; i < MANY; i++)
        blocks[i] = pool_take(&pool);
    for (int i = 0; i < MANY; i++)
        pool_give(&pool, blocks[i]);
    assert_in_range(pool.kept_count, 0, MANY / 2);
    pool_release(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_do_not_overlap),
        cmocka_unit_test(only_so_many_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
