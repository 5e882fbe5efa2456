/* What the files of the harness share among themselves; no test includes this. */
#ifndef E2E_HARNESS_WORLD_H
#define E2E_HARNESS_WORLD_H

#include <sys/types.h>

#include "harness.h"

enum { FRONTS_MAX = 64 };

struct undo {
    void (*undo)(void *thing);
    void *thing;
};

struct world_inside {
    const struct e2e_plan *plan;
    struct undo *undos;
    size_t undos_len, undos_max;
    struct front *fronts[FRONTS_MAX]; /* alive or ended, for their logs */
    size_t fronts_len;
    json_t *tokens;    /* every token a test made */
    struct pump *pump; /* drives the requests that take their time; NULL until needed */
    int children_len;
    int complaints; /* found while cleaning up; they fail the test that ends */
    bool started;
    bool skipped; /* the running test asked for that */
};

void world_complain(struct world *w, const char *format, ...) PRINTF_LIKE(2, 3);
void *world_alloc(struct world *w, size_t len);

struct reply *reply_new(struct world *w);
/* Takes ownership of both texts; `body` may be NULL. */
void reply_parse(struct reply *reply, char *head, char *body);

struct front *front_start_plan(struct world *w, const char *const *flags);
void world_show_logs(struct world *w);
/* Complains of a log line that is not JSON, or holds a token. */
void world_check_logs(struct world *w);

/* Around all tests of a program; when a test begins; where it failed: says how late the machine
 * was. What a child waits for a processor counts from late_watch() on. */
void late_start(void);
void late_stop(void);
void late_test_begins(void);
void late_tell(void);
void late_watch(pid_t pid);

void dir_remove(const char *dir);
/* A text file as a whole, "" when it cannot be read; to be freed. */
char *file_read(const char *path);

#endif
