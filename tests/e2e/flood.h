/* Floods: many connections of strangers, each of which sends its request again as soon as it is
 * answered, and guests among them. All are driven by the thread of the test, so that the
 * answers to strangers while one request of a guest waits can be counted: a number that hardly
 * depends on how busy the machine is. */
#ifndef E2E_FLOOD_H
#define E2E_FLOOD_H

#include "harness.h"

struct flood;

enum { FLOOD_SAMPLES = 4096 };

/* A client with one connection and one request at a time, which has to be answered as it
 * expects. The caller fills in the first part. */
struct flood_guest {
    const char *name;
    /* The head and body of the n-th request, and the status of its answer; arg is the guest. */
    const char *(*request)(struct world *w, struct flood_guest *guest, size_t n, int *status);
    const void *arg;
    const char *token;

    size_t count;                  /* of its requests that were answered */
    size_t between[FLOOD_SAMPLES]; /* answers to strangers while the request waited */
};

/* So many connections, all of which send `request` (head and body; `count` of them, given in
 * turns). */
struct flood *flood_open(struct front *fe, size_t connections, const char *const *requests,
                         size_t count);
/* Runs the flood until each guest has `answers` and `is_over`, which is asked once a second, is
 * true of arg. The test fails when a guest gets another answer than it expects, or none, or
 * when the flood is not over after `ms` (scaled). A guest repeats its request where the answer
 * is 503 and the machine was late meanwhile. */
void flood_run(struct flood *flood, struct flood_guest **guests, size_t guest_count,
               size_t answers, bool (*is_over)(void *arg), void *arg, int64_t ms);
/* Answers to strangers so far, with this status. */
size_t flood_answers(const struct flood *flood, int status);
/* Prints how many answers of each status strangers got. */
void flood_print(const struct flood *flood);
/* The median of `between`, in rounds: 1 is an answer to every stranger. */
double flood_rounds(const struct flood *flood, struct flood_guest *guest);

#endif
