/* What the parts of the program `live` share. */
#ifndef RLOCKD_TESTS_FAULTS_LIVE_H
#define RLOCKD_TESTS_FAULTS_LIVE_H

/* live.c: a task runs between the two calls. */
void live_enter(void);
void live_leave(void);

/* live_http.c, whose http_ask() tests/sim/http.h declares */
void http_set_ports(int count, char **ports);
/* Ends the connections of the calling thread. */
void http_hang_up(void);

#endif
