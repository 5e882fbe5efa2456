/* Prints the table of options: --help, the man page, completions for shells. */
#include "client/options.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 26, HELP_WIDTH = 80, MAN_WIDTH = 60 };

static const struct {
    const char *status, *meaning;
} statuses[] = {
    {"COMMAND's own", "128 and the signal's number if a signal ended COMMAND"},
    {"64",
     "usage; also a request that the server finds wrong, and a run of a name that an outer "
     "run holds"},
    {"69",
     "no server was available: none could be reached, or each was in trouble; or whether a "
     "request was done is unknown"},
    {"70", "a fault of rlock, or its guard was killed"},
    {"71", "no process could be started"},
    {"75", "not acquired in time; --busy-status sets another"},
    {"77", "refused by the server: the API token is missing, unknown, or not enough"},
    {"79", "lost: the lock was lost, or could not be proven, before COMMAND had ended, also if "
           "COMMAND then ended with 0"},
    {"124", "--max-time was over"},
    {"126, 127", "COMMAND cannot be executed, or was not found; the lock is not taken for it, "
                 "unless only the start of COMMAND tells"},
    {"128 and a signal's number", "ended by this signal while it waited"},
};
enum { STATUS_COUNT = sizeof(statuses) / sizeof(*statuses) };

static const struct {
    const char *name, *meaning;
} variables[] = {
    {"RLOCK_NAME", "for COMMAND: the lock's name"},
    {"RLOCK_KIND", "for COMMAND: lock, fair, read, write or permit"},
    {"RLOCK_FENCING_TOKEN", "for COMMAND: the grant's fencing token; a permit has none"},
    {"RLOCK_FENCING_TOKENS", "for COMMAND, with --also: a JSON object of names and tokens"},
    {"RLOCK_LEASE_ID", "for COMMAND: the lease's public id"},
    {"RLOCK_HELD", "for COMMAND: the names that this run and outer runs hold, one a line"},
    {"NOTIFY_SOCKET",
     "rlock tells the service manager STATUS, READY=1 when COMMAND starts, and until then that "
     "the start takes longer"},
    {"RLOCKD_LISTEN, RLOCKD_TLS_CERT",
     "for ready without --url: rlockd's own settings, as in its container; the server is then "
     "not checked"},
    {"TRACEPARENT", "is sent to the server with each request"},
    {"SHELL", "the shell of --shell"},
};
enum { VARIABLE_COUNT = sizeof(variables) / sizeof(*variables) };

/* ---- --help */

/* `column` is where the cursor is; the text goes on in HELP_COLUMN. */
static void print_wrapped(const char *text, size_t column)
{
    if (column >= HELP_COLUMN - 1) {
        putchar('\n');
        column = 0;
    }
    printf("%*s", (int)(HELP_COLUMN - 1 - column), "");
    column = HELP_COLUMN - 1;
    while (*text) {
        size_t len = strcspn(text, " ");
        if (column + 1 + len > HELP_WIDTH && column >= HELP_COLUMN) {
            printf("\n%*s", HELP_COLUMN - 1, "");
            column = HELP_COLUMN - 1;
        }
        column += (size_t)printf(" %.*s", (int)len, text);
        text += len + (text[len] == ' ');
    }
    putchar('\n');
}

static void print_option(const struct option_row *row)
{
    char left[80], text[512];
    int at = row->short_name ? snprintf(left, sizeof(left), "  -%c, ", row->short_name)
                             : snprintf(left, sizeof(left), "      ");

    at += snprintf(left + at, sizeof(left) - (size_t)at, "--%s%s%s", row->name,
                   row->argument ? " " : "", row->argument ? row->argument : "");
    snprintf(text, sizeof(text), "%s%s%s%s%s", row->text, row->variable ? "; " : "",
             row->variable ? row->variable : "", row->fallback ? "; default: " : "",
             row->fallback ? row->fallback : "");
    fputs(left, stdout);
    print_wrapped(text, (size_t)at);
}

static void print_subcommands(void)
{
    fputs("usage: rlock SUBCOMMAND [OPTIONS] OPERANDS\n\n"
          "Locks of rlockd for shells, cron and services.\n\n",
          stdout);
    for (const struct subcommand *row = subcommands; row->name; row++) {
        print_wrapped(row->summary, (size_t)printf("  %s", row->name));
    }
    fputs("\nrlock SUBCOMMAND --help lists the options of a subcommand, man rlock says more.\n",
          stdout);
}

void options_print_help(const struct subcommand *subcommand)
{
    if (!subcommand) {
        print_subcommands();
        return;
    }
    printf("usage: rlock %s [OPTIONS] %s\n\n%s\n\n", subcommand->name, subcommand->operands,
           subcommand->summary);
    for (size_t i = 0; i < option_count; i++) {
        if (option_rows[i].takers & subcommand->bit) {
            print_option(&option_rows[i]);
        }
    }
    fputs("\nDurations D: 500ms, 30, 30s, 5m, 2h, 1d; a bare number is seconds.\n", stdout);
    if (subcommand->bit == FOR_RUN) {
        fputs("\nExit status:\n", stdout);
        for (size_t i = 0; i < STATUS_COUNT; i++) {
            print_wrapped(statuses[i].meaning, (size_t)printf("  %s", statuses[i].status));
        }
    }
}

/* ---- the man page, in mdoc(7) */

/* A sentence in short lines, with minus signs that can be copied. No line begins with a dot. */
static void print_man_text(const char *text)
{
    size_t column = 0;

    for (; *text; text++) {
        if (*text == ' ' && column + 1 + strcspn(text + 1, " ") > MAN_WIDTH) {
            putchar('\n');
            column = 0;
        } else if (*text == '-') {
            column += (size_t)printf("\\-");
        } else {
            putchar(*text);
            column++;
        }
    }
    puts(".");
}

static void print_man_takers(const struct option_row *row)
{
    char text[512] = "Subcommands:";
    size_t at = strlen(text);

    if (row->takers == FOR_ALL) {
        puts("All subcommands.");
        return;
    }
    for (const struct subcommand *taker = subcommands; taker->name; taker++) {
        if (row->takers & taker->bit) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, " %s", taker->name);
        }
    }
    print_man_text(text);
}

static void print_man_option(const struct option_row *row)
{
    fputs(".It", stdout);
    if (row->short_name) {
        printf(" Fl %c ,", row->short_name);
    }
    printf(" Fl \\-%s", row->name);
    if (row->argument) {
        printf(" Ar %s", row->argument);
    }
    putchar('\n');
    print_man_text(row->text);
    if (row->variable) {
        printf("Environment variable:\n.Ev %s .\n", row->variable);
    }
    if (row->fallback) {
        fputs("Default: ", stdout);
        print_man_text(row->fallback);
    }
    print_man_takers(row);
}

static void print_man_synopsis(void)
{
    puts(".Sh SYNOPSIS");
    for (const struct subcommand *row = subcommands; row->name; row++) {
        printf(".Nm rlock\n.Cm %s\n.Op Ar options\n", row->name);
        if (*row->operands) {
            printf(".Ar %s\n", row->operands);
        }
    }
}

static void print_man_description(void)
{
    puts(".Sh DESCRIPTION\n"
         ".Nm\n"
         "uses the locks of\n"
         "rlockd, a server of distributed locks.\n"
         "With\n"
         ".Cm run\n"
         "options end at the first operand; elsewhere they may follow operands.\n"
         ".Bl -tag -width force-unlock");
    for (const struct subcommand *row = subcommands; row->name; row++) {
        printf(".It Cm %s%s%s\n", row->name, *row->operands ? " " : "", row->operands);
        print_man_text(row->summary);
    }
    puts(".El\n"
         ".Pp\n"
         "With\n"
         ".Cm run\n"
         "the command never outlives its lock: when the lock is lost, or cannot be proven\n"
         "any more, everything that the command has started gets a signal, and KILL before\n"
         "the lock can be granted to another client.\n"
         "A second process, the guard, sees to this also when\n"
         ".Nm\n"
         "is killed or stopped.\n"
         ".Pp\n"
         "Durations are written 500ms, 30, 30s, 5m, 2h or 1d; a bare number is seconds.");
}

void options_print_man(void)
{
    puts(".Dd $Mdocdate$\n.Dt RLOCK 1\n.Os\n.Sh NAME\n.Nm rlock\n"
         ".Nd locks of rlockd for shells, cron and services");
    print_man_synopsis();
    print_man_description();
    puts(".Sh OPTIONS\n.Bl -tag -width Ds");
    for (size_t i = 0; i < option_count; i++) {
        print_man_option(&option_rows[i]);
    }
    puts(".El\n.Sh ENVIRONMENT\n.Bl -tag -width Ds");
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        printf(".It Ev %s\n", variables[i].name);
        print_man_text(variables[i].meaning);
    }
    puts(".El\n.Sh EXIT STATUS\n.Bl -tag -width Ds");
    for (size_t i = 0; i < STATUS_COUNT; i++) {
        printf(".It %s\n", statuses[i].status);
        print_man_text(statuses[i].meaning);
    }
    puts(
        ".El\n.Sh EXAMPLES\nA job of cron that runs on one of several machines:\n"
        ".Pp\n.Dl 0 3 * * * rlock run -n -q -E 0 --at-least 1m nightly /usr/local/bin/nightly\n"
        ".Pp\nA deploy that waits for at most ten minutes:\n"
        ".Pp\n.Dl rlock run --wait 10m --note release-2.4 deploy ./deploy.sh\n"
        ".Sh SEE ALSO\n.Xr flock 1 ,\n.Xr timeout 1 ,\n.Xr rlockd 8");
}

/* ---- completions */

static void print_names(unsigned bit)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (!(row->takers & bit)) {
            continue;
        }
        printf("--%s ", row->name);
        if (row->short_name) {
            printf("-%c ", row->short_name);
        }
    }
}

static void print_bash(void)
{
    puts("# bash completion of rlock, from its table of options\n"
         "_rlock() {\n"
         "    local word=$2 before=$3 options words=\n"
         "    case $before in");
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->words && strcmp(row->words, "FILE") == 0) {
            printf("    --%s) mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return ;;\n",
                   row->name);
        } else if (row->words) {
            printf("    --%s) mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$word\"); "
                   "return ;;\n",
                   row->name, row->words);
        }
    }
    fputs("    esac\n    case ${COMP_WORDS[1]} in\n", stdout);
    for (const struct subcommand *taker = subcommands; taker->name; taker++) {
        printf("    %s) options='", taker->name);
        print_names(taker->bit);
        printf("' words='%s' ;;\n", taker->words ? taker->words : "");
    }
    fputs("    esac\n    [ \"$COMP_CWORD\" -gt 1 ] || options='help", stdout);
    for (const struct subcommand *taker = subcommands; taker->name; taker++) {
        printf(" %s", taker->name);
    }
    puts("'\n"
         "    case ${COMP_WORDS[1]}:$word:$COMP_CWORD in\n"
         "    *:-*:* | *:1) mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\") ;;\n"
         "    run:*) mapfile -t COMPREPLY < <(compgen -c -f -- \"$word\") ;;\n"
         "    *) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\") ;;\n"
         "    esac\n"
         "}\n"
         "complete -F _rlock rlock");
}

/* In single quotes, with a backslash before what zsh's _arguments would take for its own. */
static void print_quoted(const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else {
            printf("%s%c", strchr(special, *text) ? "\\" : "", *text);
        }
    }
}

static void print_zsh_option(const struct option_row *row)
{
    for (int form = row->short_name ? 0 : 1; form < 2; form++) {
        if (form == 0) {
            printf(" '*-%c[", row->short_name);
        } else {
            printf(" '*--%s[", row->name);
        }
        print_quoted(row->text, "[]:");
        putchar(']');
        if (row->argument) {
            printf(":%s:", row->argument);
        }
        if (row->words && strcmp(row->words, "FILE") == 0) {
            fputs("_files", stdout);
        } else if (row->words) {
            printf("(%s)", row->words);
        }
        putchar('\'');
    }
}

static void print_zsh(void)
{
    puts("#compdef rlock\n# from rlock's table of options\n_rlock() {\n"
         "    if (( CURRENT == 2 )); then\n        local -a subcommands=(");
    for (const struct subcommand *row = subcommands; row->name; row++) {
        printf("            '%s:", row->name);
        print_quoted(row->summary, ":");
        puts("'");
    }
    puts("        )\n        _describe subcommand subcommands\n        return\n    fi\n"
         "    local subcommand=$words[2]\n"
         "    shift words\n    (( CURRENT-- ))\n    case $subcommand in");
    for (const struct subcommand *taker = subcommands; taker->name; taker++) {
        printf("    %s) _arguments -s -S", taker->name);
        for (size_t i = 0; i < option_count; i++) {
            if (option_rows[i].takers & taker->bit) {
                print_zsh_option(&option_rows[i]);
            }
        }
        if (taker->bit == FOR_RUN) {
            puts(" '1:name:' '*::command:_normal' ;;");
        } else if (taker->words) {
            printf(" '1:verb:(%s)' '2:name:' ;;\n", taker->words);
        } else {
            puts(" '1:name:' ;;");
        }
    }
    puts("    esac\n}\n_rlock \"$@\"");
}

static void print_fish_option(const struct option_row *row)
{
    fputs("complete -c rlock -n '__fish_seen_subcommand_from", stdout);
    for (const struct subcommand *taker = subcommands; taker->name; taker++) {
        if (row->takers & taker->bit) {
            printf(" %s", taker->name);
        }
    }
    printf("' -l %s", row->name);
    if (row->short_name) {
        printf(" -s %c", row->short_name);
    }
    if (row->words && strcmp(row->words, "FILE") == 0) {
        fputs(" -r -F", stdout);
    } else if (row->words) {
        printf(" -x -a '%s'", row->words);
    } else if (row->argument) {
        fputs(" -x", stdout);
    }
    printf(" -d '");
    for (const char *text = row->text; *text; text++) {
        printf(*text == '\'' ? "\\%c" : "%c", *text);
    }
    puts("'");
}

/* fish finds COMMAND after three words, beside options and their arguments. */
static void print_fish_command(void)
{
    fputs("(__fish_complete_subcommand --fcs-skip=3", stdout);
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->takers & FOR_RUN && row->argument) {
            printf(" --%s", row->name);
            if (row->short_name) {
                printf(" -%c", row->short_name);
            }
        }
    }
    putchar(')');
}

static void print_fish_operands(const struct subcommand *row)
{
    printf("complete -c rlock -n '__fish_seen_subcommand_from %s' -f -a '", row->name);
    if (row->bit == FOR_RUN) {
        print_fish_command();
    } else if (row->words) {
        fputs(row->words, stdout);
    }
    puts("'");
}

static void print_fish(void)
{
    puts("# fish completion of rlock, from its table of options");
    for (const struct subcommand *row = subcommands; row->name; row++) {
        printf("complete -c rlock -n __fish_use_subcommand -f -a %s -d '%s'\n", row->name,
               row->summary);
        print_fish_operands(row);
    }
    for (size_t i = 0; i < option_count; i++) {
        print_fish_option(&option_rows[i]);
    }
}

bool options_print_completion(const char *shell)
{
    if (strcmp(shell, "bash") == 0) {
        print_bash();
    } else if (strcmp(shell, "zsh") == 0) {
        print_zsh();
    } else if (strcmp(shell, "fish") == 0) {
        print_fish();
    } else {
        return false;
    }
    return true;
}
