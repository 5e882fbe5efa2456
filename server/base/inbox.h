/* Messages from other threads to one event loop: a list behind a mutex, and a descriptor that
 * wakes the loop. The sender never waits for more than the mutex. */
#ifndef RLOCKD_SERVER_BASE_INBOX_H
#define RLOCKD_SERVER_BASE_INBOX_H

#include <stdbool.h>

#include "server/base/loop.h"

enum { INBOX_MAX = 1024 };

struct inbox;

/* Embedded in its owner. */
struct inbox_message {
    struct inbox_message *next;
    /* On the thread of the receiver; the message is then the receiver's. */
    void (*deliver)(struct inbox_message *message);
};

/* NULL when the kernel refuses a descriptor. The loop outlives the inbox. */
struct inbox *inbox_new(struct loop *loop);
/* Nothing may be in the inbox. */
void inbox_free(struct inbox *inbox);

/* From any thread. False: the inbox is closed, or INBOX_MAX messages are in it; the message is
 * still the sender's. */
bool inbox_post(struct inbox *inbox, struct inbox_message *message)
    __attribute__((warn_unused_result));
/* From any thread: a message that this receiver has posted elsewhere comes back. Never refused,
 * so that no answer is lost. */
void inbox_return(struct inbox *inbox, struct inbox_message *message);

/* Refuses further messages, but for those that come back; from any thread. */
void inbox_close(struct inbox *inbox);
/* Delivers what is in the inbox; on the thread of the receiver. The loop does so itself while
 * it runs. */
void inbox_deliver(struct inbox *inbox);

#endif
