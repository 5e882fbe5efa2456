/* Attempts that are refused without asking Redis, which may have lost leases that still run. */
#ifndef RLOCKD_STORAGE_LEASE_QUARANTINE_H
#define RLOCKD_STORAGE_LEASE_QUARANTINE_H

#include "storage/lease/attempt.h"
#include "storage/store/lease.h"

/* TRY_NOT_EXECUTED, later. */
void attempt_hold_back(struct store *store, const struct lease *lease, attempt_done *done,
                       void *arg);
/* COUNTER_FAILED with CALL_QUARANTINE, later. */
void drain_hold_back(struct store *store, counter_done *drained, void *arg);

#endif
