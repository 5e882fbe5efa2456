/* Reads the command line and the environment by the table of options. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/boottime.h"
#include "client/options.h"
#include "client/say.h"

enum { OPTIONS_ROOM = 64, LONG_ONLY = 256, IN_ORDER = 1 };

static bool set(const struct option_row *row, struct settings *settings, const char *argument,
                const char *called)
{
    const char *problem = row->set(settings, (char *)settings + row->offset, argument);

    if (problem) {
        say("%s %s", called, problem);
    }
    return !problem;
}

static bool read_variables(const struct subcommand *subcommand, struct settings *settings)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_rows[i];
        const char *value = row->variable ? getenv(row->variable) : NULL;
        if (value && *value && row->takers & subcommand->bit &&
            !set(row, settings, value, row->variable)) {
            return false;
        }
    }
    return true;
}

/* getopt_long()'s tables; the value of a row is its index after LONG_ONLY. */
static void make_tables(const struct subcommand *subcommand, struct option *longs, char *shorts)
{
    *shorts++ = subcommand->bit == FOR_RUN ? '+' : '-'; /* '-': operands come as IN_ORDER */
    *shorts++ = ':';
    *shorts++ = 'h';
    *longs++ = (struct option){"help", false, NULL, 'h'};
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (!(row->takers & subcommand->bit)) {
            continue;
        }
        *longs++ = (struct option){row->name, row->argument != NULL, NULL, LONG_ONLY + (int)i};
        if (row->short_name) {
            *shorts++ = row->short_name;
            if (row->argument) {
                *shorts++ = ':';
            }
        }
    }
    *shorts = '\0';
    *longs = (struct option){0};
}

static const struct option_row *row_of(const struct subcommand *subcommand, int value)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->takers & subcommand->bit &&
            (value == LONG_ONLY + (int)i || value == row->short_name)) {
            return row;
        }
    }
    return NULL;
}

/* getopt_long() has returned '?' or ':'. */
static void tell_wrong(const struct subcommand *subcommand, int value, const char *word)
{
    char called[3] = {'-', (char)optopt, '\0'};
    bool is_short = optopt > 0 && optopt < LONG_ONLY;

    say("%s %s; see rlock %s --help", is_short ? called : word,
        value == ':'          ? "needs an argument"
        : optopt >= LONG_ONLY ? "takes no argument"
                              : "is not an option",
        subcommand->name);
}

/* Operands between options move to the front of argv, where getopt_long() has been already. */
static enum options_outcome read_options(const struct subcommand *subcommand, int argc,
                                         char **argv, struct settings *settings, int *operands)
{
    struct option longs[OPTIONS_ROOM];
    char shorts[2 * OPTIONS_ROOM], called[64];
    int value;

    make_tables(subcommand, longs, shorts);
    opterr = 0;
    while ((value = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (value == IN_ORDER) {
            argv[(*operands)++] = optarg;
            continue;
        }
        if (value == 'h') {
            return OPTIONS_HELP;
        }
        const struct option_row *row = row_of(subcommand, value);
        if (!row || value == ':') {
            tell_wrong(subcommand, value, argv[optind - 1]);
            return OPTIONS_WRONG;
        }
        snprintf(called, sizeof(called), "--%s", row->name);
        if (!set(row, settings, optarg, called)) {
            return OPTIONS_WRONG;
        }
    }
    while (optind < argc) {
        argv[(*operands)++] = argv[optind++];
    }
    argv[*operands] = NULL;
    return OPTIONS_READ;
}

static const struct settings defaults = {.name_count = 1,
                                         .wait_ms = BOOTTIME_NEVER,
                                         .busy_status = 75,
                                         .kind = "lock",
                                         .ttl_ms = -1,
                                         .grace_ms = -1,
                                         .max_time_ms = BOOTTIME_NEVER,
                                         .signal = SIGTERM,
                                         .ready_fd = -1,
                                         .connect_timeout_ms = 30000,
                                         .every_ms = 2000};

enum options_outcome options_read(const struct subcommand *subcommand, int argc, char **argv,
                                  struct settings *settings)
{
    int operands = 0;

    *settings = defaults;
    if (!read_variables(subcommand, settings)) {
        return OPTIONS_WRONG;
    }
    enum options_outcome outcome = read_options(subcommand, argc, argv, settings, &operands);
    if (outcome != OPTIONS_READ) {
        return outcome;
    }
    if (operands < subcommand->operands_min || operands > subcommand->operands_max) {
        say("usage: rlock %s [OPTIONS] %s", subcommand->name, subcommand->operands);
        return OPTIONS_WRONG;
    }
    settings->names[0] = operands > 0 ? argv[0] : "";
    settings->argv = argv + (operands > 0);
    if (*settings->argv && strcmp(*settings->argv, "--") == 0) {
        settings->argv++;
    }
    return OPTIONS_READ;
}
