/* The eventfds by which one thread of a front end wakes another. */
#ifndef RLOCKD_TESTS_SIM_BELLS_H
#define RLOCKD_TESTS_SIM_BELLS_H

#include <stdint.h>

struct bell;

/* Of the thread that runs now. */
struct bell *bell_new(void);
int bell_fd(const struct bell *bell);
/* NULL: the descriptor is none of an eventfd. */
struct bell *bell_of(int fd);
/* As a write to the eventfd does. */
void bell_ring(struct bell *bell);
void bell_close(struct bell *bell);

/* The events that epoll would report for the eventfd, edge-triggered: none after bell_heard(),
 * until the next ring. */
uint32_t bell_events(const struct bell *bell);
void bell_heard(struct bell *bell);

#endif
