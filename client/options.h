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
    FOR_SHOW = 1 << 1,
    FOR_LS = 1 << 2,
    FOR_FORCE = 1 << 3,
    FOR_ALL = (1 << 4) - 1,
};

struct subcommand {
    const char *name;
    unsigned bit;
    const char *operands;
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
    /* Returns NULL, or what the argument has to be. */
    const char *(*set)(struct settings *settings, const char *argument);
};

extern const struct option_row option_rows[];
extern const size_t option_count;

/* The end of the table has a row without a name. */
extern const struct subcommand subcommands[];

/* Reads variables, then options, up to the first operand. argv[0] is the subcommand's name.
 * False: a message was written. */
bool options_read(const struct subcommand *subcommand, int argc, char **argv,
                  struct settings *settings) __attribute__((warn_unused_result));

/* --help of one subcommand, or with NULL of rlock. */
void options_print_help(const struct subcommand *subcommand);

/* The man page in mdoc(7). */
void options_print_man(void);

/* False: no such shell. */
bool options_print_completion(const char *shell);

#endif
