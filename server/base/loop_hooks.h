/* The hooks of a loop, in the order in which they were added. */
#ifndef RLOCKD_SERVER_BASE_LOOP_HOOKS_H
#define RLOCKD_SERVER_BASE_LOOP_HOOKS_H

#include "server/base/loop.h"

struct loop_hooks {
    struct loop_hook *first, **end;
};

void loop_hooks_init(struct loop_hooks *hooks);
/* The hook stays its caller's. */
void loop_hooks_add(struct loop_hooks *hooks, struct loop_hook *hook);
/* A hook that is not among them is left alone. */
void loop_hooks_remove(struct loop_hooks *hooks, struct loop_hook *hook);
void loop_hooks_run(const struct loop_hooks *hooks);

#endif
