/* A lock as a look and the listings show it. */
#ifndef RLOCKD_HANDLERS_LOCK_VIEW_H
#define RLOCKD_HANDLERS_LOCK_VIEW_H

#include <jansson.h>

#include "handlers/context.h"
#include "storage/look/locks.h"

/* Name, kind, holders and what is known of the hold; NULL: out of memory. */
json_t *lock_view_json(const struct handler_context *context, const char *name,
                       const struct lock_view *view);
/* The waiters that the view names. */
json_t *lock_waiters_json(const struct lock_view *view);

#endif
