/* The subcommands. Each returns rlock's exit status. */
#ifndef RLOCK_CLIENT_VERBS_H
#define RLOCK_CLIENT_VERBS_H

#include "client/settings.h"

int verb_run(struct settings *settings);
int verb_show(struct settings *settings);
int verb_ls(struct settings *settings);
int verb_force_unlock(struct settings *settings);

#endif
