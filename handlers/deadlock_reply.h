/* Deadlocks in answers. */
#ifndef RLOCKD_HANDLERS_DEADLOCK_REPLY_H
#define RLOCKD_HANDLERS_DEADLOCK_REPLY_H

#include "storage/look/deadlock.h"

struct http_request;

/* The member `deadlock` of an answer, without the names of locks that the caller may not look
 * at; NULL for NULL. */
json_t *deadlock_shown(struct http_request *http, const struct deadlock *deadlock);

#endif
