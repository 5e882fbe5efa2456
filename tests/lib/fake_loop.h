/* A loop whose clock stands still until the test moves it: what a file that is tested alone
 * needs of server/base/loop.h. For one program, which is linked without the real loop. */
#ifndef RLOCKD_TESTS_LIB_FAKE_LOOP_H
#define RLOCKD_TESTS_LIB_FAKE_LOOP_H

#include "server/base/loop.h"
#include "server/base/timers.h"

struct loop {
    struct timers timers;
    int64_t now_ns;
};

static struct loop loop;

struct timers *loop_timers(struct loop *asked)
{
    return &asked->timers;
}

int64_t loop_now_ns(const struct loop *asked)
{
    return asked->now_ns;
}

#endif
