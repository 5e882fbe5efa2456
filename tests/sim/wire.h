/* A connection of a front end to the simulated Redis. */
#ifndef RLOCKD_TESTS_SIM_WIRE_H
#define RLOCKD_TESTS_SIM_WIRE_H

#include "tests/sim/sockets.h"

/* Of a chunk: what it says without bytes. */
enum sign { SIGN_BYTES, SIGN_END, SIGN_RESET };

struct chunk {
    struct chunk *next;
    int64_t at_ns;
    enum sign sign;
    size_t len;
    char text[];
};

struct wire;

/* One direction of a connection: what was sent, and has not come. */
struct pipe {
    struct wire *wire;
    struct chunk *chunks;
    struct timer timer;
    int64_t last_ns;
    bool is_lost; /* into a black hole */
};

enum wire_state { WIRE_NEW, WIRE_CONNECTING, WIRE_UP, WIRE_REFUSED, WIRE_ENDED, WIRE_RESET };

struct wire {
    struct wire *prev, *next;
    int fd;
    struct front *front; /* NULL: it has closed its end */
    struct thread *thread;
    struct net *net, *own; /* `own`: of the way to this server alone */
    struct server *server; /* that it connects to */
    enum wire_state state;
    struct redis_client *client; /* NULL: Redis has closed its end */
    struct pipe to_redis, to_front;
    struct timer connect, killed;
    struct buffer inbox; /* of the front end */
};

/* NULL: the descriptor is the kernel's. */
struct wire *wire_of(int fd);
/* Of the thread that runs now. */
struct wire *wire_new(void);
void wire_connect(struct wire *wire, struct server *server);
void wire_send(struct pipe *pipe, enum sign sign, const char *text, size_t len);
/* The front end closes its end. */
void wire_close(struct wire *wire);

#endif
