/* The queues of fair locks that the watchdog visits. Only requests for a lock and these visits
 * remove the places of requests that are gone; Java clients in the queue wait for them. */
#ifndef RLOCKD_STORAGE_NOTES_QUEUES_H
#define RLOCKD_STORAGE_NOTES_QUEUES_H

struct store;

/* The queue of this fair lock, by its name as clients say it, has a place, or may have: the
 * watchdog of some front end visits the queue by the time at which the place may be over. Asks
 * Redis for that only where no such visit is known to come. */
void queue_has_place(struct store *store, const char *name);

#endif
