/* One table of options, from which the command line is read and --help, the man page and the
 * completions of shells are printed. */
#ifndef RLOCK_CLIENT_OPTIONS_H
#define RLOCK_CLIENT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "client/settings.h"

/* Subcommands as bits: an option names those that take it. */
enum {
    FOR_RUN = 1 << 0,
    FOR_HOLD = 1 << 1,
    FOR_ACQUIRE = 1 << 2,
    FOR_RENEW = 1 << 3,
    FOR_RELEASE = 1 << 4,
    FOR_WAIT = 1 << 5,
    FOR_SHOW = 1 << 6,
    FOR_LS = 1 << 7,
    FOR_SESSIONS = 1 << 8,
    FOR_WHY = 1 << 9,
    FOR_TOP = 1 << 10,
    FOR_FORCE = 1 << 11,
    FOR_SEMAPHORE = 1 << 12,
    FOR_PERMITS = 1 << 13,
    FOR_LATCH = 1 << 14,
    FOR_READY = 1 << 15,
    FOR_ALL = (1 << 16) - 1,
};

struct subcommand {
    const char *name;
    unsigned bit;
    const char *operands;
    const char *words;   /* the first operands that there are, for completion; NULL: any */
    const char *summary; /* one line */
    int operands_min, operands_max;
    int (*run)(struct settings *settings); /* returns the exit status */
};

struct option_row {
    char short_name; /* 0: none */
    const char *name;
    const char *argument; /* NULL: takes none */
    const char *words;    /* the arguments that there are, for completion; "FILE": a file */
    const char *variable; /* of the environment */
    const char *fallback;
    unsigned takers;
    const char *text;
    /* Returns NULL, or what the argument has to be; `field` is the settings' at `offset`. */
    const char *(*set)(struct settings *settings, void *field, const char *argument);
    size_t offset;
};

/* Two rows may have one name, if no subcommand takes both. */
extern const struct option_row option_rows[];
extern const size_t option_count;

/* The end of the table has a row without a name. */
extern const struct subcommand subcommands[];

enum options_outcome { OPTIONS_READ, OPTIONS_HELP, OPTIONS_WRONG };

/* Reads variables, then options and operands. The options of run end at the first operand, so
 * that none of COMMAND's is taken; those of other subcommands may follow operands. argv[0] is
 * the subcommand's name. OPTIONS_WRONG: a message was written. */
enum options_outcome options_read(const struct subcommand *subcommand, int argc, char **argv,
                                  struct settings *settings)
    __attribute__((warn_unused_result));

/* --help of one subcommand, or with NULL of rlock. */
void options_print_help(const struct subcommand *subcommand);

/* The man page in mdoc(7). */
void options_print_man(void);

/* False: no such shell. */
bool options_print_completion(const char *shell);

#endif
