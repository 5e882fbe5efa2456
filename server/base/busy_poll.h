/* Busy polling: an event loop looks for events again and again for some microseconds before the
 * loop sleeps, for a processor that sleeps takes long to wake up. The loop polls only while
 * polls have found events lately. Waits with a reply under way and waits without are judged
 * apart. */
#ifndef RLOCKD_SERVER_BASE_BUSY_POLL_H
#define RLOCKD_SERVER_BASE_BUSY_POLL_H

#include <stdbool.h>
#include <stdint.h>

enum busy_poll_wait {
    BUSY_POLL_FOR_ANYTHING, /* no reply is under way */
    BUSY_POLL_FOR_REPLY,    /* one reply of another server is under way */
    BUSY_POLL_WAITS
};

struct busy_poll {
    int64_t limit_ns; /* of one poll; 0: never */
    struct {
        int credit; /* grows with waits that were short, shrinks with long ones */
        bool is_on;
        int64_t paused_until_ns;
    } waits[BUSY_POLL_WAITS];
};

void busy_poll_init(struct busy_poll *poll, int64_t limit_ns);
/* Whether the wait that begins now, `now_ns` as clock_ns(), begins with a poll. */
bool busy_poll_is_on(const struct busy_poll *poll, enum busy_poll_wait wait, int64_t now_ns);
/* A wait without a poll is over after `slept_ns`. */
void busy_poll_slept(struct busy_poll *poll, enum busy_poll_wait wait, int64_t slept_ns);
/* A poll is over. `has_found`: an event; `away_ns`: for how long another thread had the
 * processor before the last look. */
void busy_poll_ended(struct busy_poll *poll, enum busy_poll_wait wait, bool has_found,
                     int64_t away_ns, int64_t now_ns);

#endif
