/* The list of a loop's hooks, and their calls at the end of each turn. */
#include "server/base/loop_hooks.h"

#include <stddef.h>

void loop_hooks_init(struct loop_hooks *hooks)
{
    hooks->first = NULL;
    hooks->end = &hooks->first;
}

void loop_hooks_add(struct loop_hooks *hooks, struct loop_hook *hook)
{
    hook->next = NULL;
    *hooks->end = hook;
    hooks->end = &hook->next;
}

void loop_hooks_remove(struct loop_hooks *hooks, struct loop_hook *hook)
{
    struct loop_hook **place = &hooks->first;

    while (*place != NULL && *place != hook)
        place = &(*place)->next;
    if (*place == NULL)
        return;
    *place = hook->next;
    if (hooks->end == &hook->next)
        hooks->end = place;
}

void loop_hooks_run(const struct loop_hooks *hooks)
{
    for (struct loop_hook *hook = hooks->first; hook != NULL; hook = hook->next)
        hook->run(hook->arg);
}
