/* The table of operations. */
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

/* The lock protocols of other programs: terraform.c, fleetlock.c */
void terraform_lock(struct http_request *request);
void terraform_unlock(struct http_request *request);
void fleetlock_pre_reboot(struct http_request *request);
void fleetlock_steady_state(struct http_request *request);

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
