/* The subcommands. Each returns rlock's exit status. The files, none of which another file of
 * the folder calls but look.c and lease_file.c:
 *
 *   hold.c          hold
 *   lease.c         acquire, renew, release
 *   lease_file.c    the file with the token of such a lease
 *   counters.c      semaphore, permits, latch
 *   force_unlock.c  force-unlock
 *   show.c          show, ls, sessions, wait
 *   top.c           top
 *   why.c           why
 *   ready.c         ready
 *   look.c          asks about locks, and prints the answers
 *
 * client/main.c calls them; they call client/. `run` is client/run.c. */
#ifndef RLOCK_CLIENT_VERBS_H
#define RLOCK_CLIENT_VERBS_H

#include "client/settings.h"

int verb_run(struct settings *settings);
int verb_hold(struct settings *settings);
int verb_acquire(struct settings *settings);
int verb_renew(struct settings *settings);
int verb_release(struct settings *settings);
int verb_semaphore(struct settings *settings);
int verb_permits(struct settings *settings);
int verb_latch(struct settings *settings);
int verb_top(struct settings *settings);
int verb_ready(struct settings *settings);
int verb_show(struct settings *settings);
int verb_wait(struct settings *settings);
int verb_sessions(struct settings *settings);
int verb_why(struct settings *settings);
int verb_ls(struct settings *settings);
int verb_force_unlock(struct settings *settings);

#endif
