/* What the tests of several locks at once share. */
#ifndef E2E_MULTI_LOCKS_H
#define E2E_MULTI_LOCKS_H

#include "harness_session.h"

/* `names` with a blank between; `more`: further members, ", \"ttl_ms\": 1", or NULL; `s` may be
 * NULL. */
struct reply *multi_put(struct front *fe, const struct session *s, const char *token,
                        const char *names, const char *more);
struct call *multi_call(struct front *fe, const struct session *s, const char *token,
                        const char *names, const char *more);
/* PATCH, DELETE, GET; `query` may be NULL. */
struct reply *multi_ask(struct front *fe, const char *method, const char *token,
                        const char *query);
/* Waits for certain: it is listed with the first and the last of its names. */
struct call *multi_park(struct front *fe, const struct session *s, const char *token,
                        const char *names, const char *more);

/* Free, all of them, with nobody waiting. */
#define expect_free(w, names) expect_free_at(w, names, __FILE__, __LINE__)
void expect_free_at(struct world *w, const char *names, const char *file, int line);
/* The entry of `locks` in an answer; NULL: it is not there. */
json_t *multi_lock_of(const struct reply *reply, const char *lock);
json_int_t multi_fence(const struct reply *reply, const char *lock);

#endif
