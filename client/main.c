/* rlock: the table of subcommands. The files of this folder:
 *
 *   run.c            rlock run: from its start to its exit status
 *   run_wait.c       the wait for the lease
 *   run_events.c     signals and the guard's messages meanwhile
 *   guard_main.c     the guard, which runs COMMAND and ends its processes in time
 *   guard_message.c  the messages between rlock and its guard
 *   tree.c           the processes that descend from a process
 *   terminal.c       which process group has the terminal
 *   command.c        finds COMMAND, and makes its environment
 *   lease.c          the requests about one lease
 *   lease_body.c     paths and bodies of these requests
 *   streams.c        standard streams that lead nowhere
 *   token.c          random tokens
 *   options.c        the table of options
 *   options_read.c   reads command line and environment
 *   options_print.c  --help, the man page, completions
 *   values.c         reads durations, numbers, URLs
 *   say.c            messages and the status line
 *   holder.c         words about who holds the lock
 *   notify.c         NOTIFY_SOCKET
 *
 * Requests are in client/http/, the other subcommands in client/verbs/. The server's folders
 * know nothing of this program, nor does it of them: they share the HTTP interface. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "client/options.h"
#include "client/say.h"
#include "client/status.h"
#include "client/streams.h"
#include "client/verbs/verbs.h"

const struct subcommand subcommands[] = {
    {"run", FOR_RUN, "NAME COMMAND [ARG...]", NULL, "run COMMAND while the lock NAME is held",
     1, INT_MAX, verb_run},
    {"hold", FOR_HOLD, "NAME", NULL,
     "hold the lock NAME until standard input or the process of --pid ends", 1, 1, verb_hold},
    {"acquire", FOR_ACQUIRE, "NAME", NULL,
     "take the lock NAME for --ttl, with a file instead of a process", 1, 1, verb_acquire},
    {"renew", FOR_RENEW, "NAME", NULL,
     "renew a lock that was acquired: it lasts for --ttl from now on", 1, 1, verb_renew},
    {"release", FOR_RELEASE, "NAME", NULL,
     "release a lock that was acquired, and remove the file", 1, 1, verb_release},
    {"show", FOR_SHOW, "NAME", NULL, "who holds the lock NAME, and who waits for it", 1, 1,
     verb_show},
    {"wait", FOR_WAIT, "NAME", NULL, "wait until the lock NAME is free; takes nothing", 1, 1,
     verb_wait},
    {"ls", FOR_LS, "[PREFIX]", NULL, "the locks that are held, and their holders", 0, 1,
     verb_ls},
    {"sessions", FOR_SESSIONS, "", NULL, "the sessions that live", 0, 0, verb_sessions},
    {"why", FOR_WHY, "NAME", NULL,
     "who holds the lock NAME, what its holder waits for, and so on", 1, 1, verb_why},
    {"top", FOR_TOP, "[PREFIX]", NULL,
     "a live picture of the locks that are waited for, and held for long", 0, 1, verb_top},
    {"ready", FOR_READY, "", NULL,
     "whether a server is ready; without --url that of RLOCKD_LISTEN in the environment", 0, 0,
     verb_ready},
    {"force-unlock", FOR_FORCE, "NAME", NULL,
     "free the lock NAME, whatever holds it; exactly the grant that was shown", 1, 1,
     verb_force_unlock},
    {"semaphore", FOR_SEMAPHORE, "VERB NAME [N]", "create show acquire release drain delete",
     "a semaphore: create N, show, acquire [N], release [N], drain, delete", 2, 3,
     verb_semaphore},
    {"permits", FOR_PERMITS, "VERB NAME [N]", "create show delete",
     "a permit semaphore, for --permit: create N, show, delete", 2, 3, verb_permits},
    {"latch", FOR_LATCH, "VERB NAME [N]", "create show count-down wait delete",
     "a latch: create N, show, count-down, wait (for zero), delete", 2, 3, verb_latch},
    {0},
};

static const struct subcommand *find(const char *name)
{
    for (const struct subcommand *row = subcommands; row->name; row++) {
        if (strcmp(row->name, name) == 0) {
            return row;
        }
    }
    return NULL;
}

/* For the build, which makes the man page and the completions of this output. */
static int print_generated(int argc, char **argv)
{
    if (strcmp(argv[1], "--print-man") == 0) {
        options_print_man();
        return 0;
    }
    return argc == 3 && options_print_completion(argv[2]) ? 0 : STATUS_USAGE;
}

static int help(const char *name)
{
    const struct subcommand *subcommand = name ? find(name) : NULL;

    if (name && !subcommand) {
        say("no such subcommand: %s", name);
        return STATUS_USAGE;
    }
    options_print_help(subcommand);
    return 0;
}

static int run_subcommand(const struct subcommand *subcommand, struct settings *settings)
{
    int status = subcommand->run(settings);

    say_status_end();
    return status;
}

static int run(const struct subcommand *subcommand, int argc, char **argv)
{
    struct settings settings;

    switch (options_read(subcommand, argc, argv, &settings)) {
    case OPTIONS_READ:
        return run_subcommand(subcommand, &settings);
    case OPTIONS_HELP:
        return help(subcommand->name);
    case OPTIONS_WRONG:
        break;
    }
    return STATUS_USAGE;
}

int main(int argc, char **argv)
{
    streams_open();
    const char *first = argc > 1 ? argv[1] : "";
    const struct subcommand *subcommand = find(first);

    if (subcommand) {
        return run(subcommand, argc - 1, argv + 1);
    }
    if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) {
        printf("rlock %s\n", RLOCKD_VERSION);
        return 0;
    }
    if (strcmp(first, "help") == 0 || strcmp(first, "--help") == 0 ||
        strcmp(first, "-h") == 0) {
        return help(argc > 2 ? argv[2] : NULL);
    }
    if (strcmp(first, "--print-man") == 0 || strcmp(first, "--print-completion") == 0) {
        return print_generated(argc, argv);
    }
    if (!*first) {
        say("usage: rlock SUBCOMMAND [OPTIONS] OPERANDS; see rlock --help");
    } else if (argc > 2 && *first != '-') {
        say("no such subcommand: %s; did you mean rlock run %s %s? See rlock --help", first,
            first, argv[2]);
    } else {
        say("no such subcommand: %s; see rlock --help", first);
    }
    return STATUS_USAGE;
}
