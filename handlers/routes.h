/* The table of operations. Each handler reads the fields of a request, calls a store, and turns
 * the result into an answer. The files of this folder:
 *
 *   routes.c              the rows: method, path, right and handler
 *   lease_request.c       reads requests about leases, and lets them wait
 *   lease_reply.c         writes the answers to them
 *   unavailable.c         the answers 503
 *   leases_acquire.c      PUT and POST of locks, sets of locks, permits
 *   leases_change.c       PATCH and DELETE of them, GET of a set
 *   multi_locks.c         the names of a set of locks
 *   locks_look.c          GET of a lock, of a fencing token
 *   locks_list.c          pages of all locks
 *   locks_longest.c       the longest holds and waits
 *   locks_operator.c      force-unlock
 *   holders.c, deadlock_reply.c   parts of their answers
 *   counters.c            what semaphores and latches share
 *   semaphores.c, latches.c, permit_semaphores.c   the objects of these names
 *   sessions.c            opens, shows, lists and ends sessions
 *   session_keep_alive.c  keep-alives
 *   sessions_operator.c   force-end
 *   me.c                  the caller's rights
 *   operations.c          /livez, /readyz, /metrics, /openapi.yaml, /version
 *   page.c                the web page
 *   neighbours.c          what the next three share
 *   terraform.c, fleetlock.c, lfs.c   locks for other programs
 *
 * server/worker.c gives the table to server/http/, which calls the handlers. */
#ifndef RLOCKD_HANDLERS_ROUTES_H
#define RLOCKD_HANDLERS_ROUTES_H

#include "server/base/metrics.h"
#include "server/http/route.h"

const struct route *routes_table(void);
size_t routes_count(void);

/* Leases of the kind that is the subject of the route, of a lock, a set of locks or a permit:
 * leases_acquire.c, leases_change.c */
void leases_put(struct http_request *request);
void leases_post(struct http_request *request);
void leases_patch(struct http_request *request);
void leases_delete(struct http_request *request);
void permits_put(struct http_request *request);
void multi_locks_get(struct http_request *request);

/* locks_look.c, locks_list.c, locks_operator.c */
void locks_get(struct http_request *request);
void locks_list(struct http_request *request);
void semaphores_list(struct http_request *request);
void locks_force_unlock(struct http_request *request);
void locks_check_fencing_token(struct http_request *request);

/* sessions.c, session_keep_alive.c */
void sessions_post(struct http_request *request);
void sessions_get(struct http_request *request);
void sessions_list(struct http_request *request);
void sessions_delete(struct http_request *request);
void sessions_force_end(struct http_request *request);
void sessions_keep_alive(struct http_request *request);

/* Semaphores, permit semaphores and latches, whichever is the subject: counters.c */
void counters_delete(struct http_request *request);

/* semaphores.c */
void semaphores_put(struct http_request *request);
void semaphores_get(struct http_request *request);
void semaphores_acquire(struct http_request *request);
void semaphores_release(struct http_request *request);
void semaphores_drain(struct http_request *request);

/* permit_semaphores.c */
void permit_semaphores_put(struct http_request *request);
void permit_semaphores_get(struct http_request *request);

/* latches.c */
void latches_put(struct http_request *request);
void latches_get(struct http_request *request);
void latches_count_down(struct http_request *request);

/* The lock protocols of other programs: terraform.c, fleetlock.c, lfs.c */
void terraform_lock(struct http_request *request);
void terraform_unlock(struct http_request *request);
void fleetlock_pre_reboot(struct http_request *request);
void fleetlock_steady_state(struct http_request *request);
void lfs_lock(struct http_request *request);
void lfs_list(struct http_request *request);
void lfs_verify(struct http_request *request);
void lfs_unlock(struct http_request *request);

/* me.c */
void me_get(struct http_request *request);

/* operations.c */
void operations_livez(struct http_request *request);
void operations_readyz(struct http_request *request);
void operations_metrics(struct http_request *request);
void operations_openapi(struct http_request *request);
void operations_version(struct http_request *request);

/* page.c */
void page_root(struct http_request *request);
void page_file(struct http_request *request);

#endif
