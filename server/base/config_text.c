/* The table of settings in words: --help and the man page. */
#include "server/base/config_internal.h"

#include <stdio.h>
#include <string.h>

/* Indents every line of a text of several. */
static void print_indented(FILE *out, const char *text)
{
    while (*text != '\0') {
        int len = (int)strcspn(text, "\n");
        fprintf(out, "      %.*s\n", len, text);
        text += len + (text[len] == '\n');
    }
}

/* A text in mdoc(7): minus signs that can be copied, no line that begins like a request. */
static void print_man_text(FILE *out, const char *text)
{
    static const char ellipsis[] = "…"; /* pages are ASCII */

    fputs("\\&", out);
    while (*text != '\0') {
        if (strncmp(text, ellipsis, sizeof(ellipsis) - 1) == 0) {
            fputs("...", out);
            text += sizeof(ellipsis) - 1;
            continue;
        }
        if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\n') /* lines of --help are too long for a page: it fills its own */
            fputs(text[-1] == ';' ? "\n.br\n\\&" : "\n\\&", out);
        else
            putc(*text, out);
        text++;
    }
    putc('\n', out);
}

void config_man(FILE *out)
{
    fputs(".Dd $Mdocdate$\n.Dt RLOCKD 8\n.Os\n.Sh NAME\n.Nm rlockd\n"
          ".Nd a server of distributed locks over HTTP, kept in Redis\n"
          ".Sh SYNOPSIS\n.Nm rlockd\n.Op Fl \\-flag Ar value ...\n"
          ".Nm rlockd\n.Fl \\-hash\\-token\n.Op Ar NAME\n"
          ".Nm rlockd\n.Fl \\-make\\-token\n"
          ".Sh DESCRIPTION\n"
          "Each setting has a flag and an environment variable; the flag wins.\n"
          ".Fl \\-hash\\-token\n"
          "reads an API token from standard input, and prints a line for\n"
          ".Fl \\-api\\-tokens .\n"
          ".Fl \\-make\\-token\n"
          "prints a fresh API token.\n"
          ".Pp\n"
          "SIGTERM and SIGINT end rlockd: it answers the requests that wait, and exits.\n"
          "SIGHUP makes it read the files of\n"
          ".Fl \\-api\\-tokens ,\n.Fl \\-tls\\-cert\nand\n.Fl \\-tls\\-key\nagain.\n"
          "The log is JSON on standard error.\n"
          ".Bl -tag -width Ds\n",
          out);
    for (size_t i = 0; i < config_setting_count; i++) {
        const struct setting *setting = &config_settings[i];

        fprintf(out, ".It Fl \\-%s%s%s\n", setting->flag,
                setting->placeholder[0] != '\0' ? " Ar " : "", setting->placeholder);
        print_man_text(out, setting->help);
        if (setting->kind == KIND_INT || setting->kind == KIND_INT64)
            fprintf(out, ".br\nFrom %lld to %lld.\n", (long long)setting->min,
                    (long long)setting->max);
        fprintf(out, ".br\n.Ev %s ,\ndefault: ", setting->variable);
        print_man_text(out, setting->default_text[0] != '\0' ? setting->default_text : "empty");
    }
    fputs(".El\n.Sh EXIT STATUS\n"
          "0 after a signal, 2 for a wrong setting, 1 for a start that fails otherwise.\n"
          ".Sh SEE ALSO\n.Xr rlock 1\n",
          out);
}

void config_help(FILE *out)
{
    fputs(
        "Usage: rlockd [FLAG VALUE]...\n"
        "Locks, semaphores and latches over HTTP, kept in Redis. Each setting has a flag and\n"
        "an environment variable; the flag wins. A password in --redis shows in process\n"
        "listings: use RLOCKD_REDIS or --redis-password-file instead.\n"
        "\n",
        out);
    for (size_t i = 0; i < config_setting_count; i++) {
        const struct setting *setting = &config_settings[i];

        fprintf(out, "  --%s%s%s\n", setting->flag, setting->placeholder[0] != '\0' ? " " : "",
                setting->placeholder);
        print_indented(out, setting->help);
        if (setting->kind == KIND_INT || setting->kind == KIND_INT64)
            fprintf(out, "      from %lld to %lld\n", (long long)setting->min,
                    (long long)setting->max);
        fprintf(out, "      %s, default: %s\n", setting->variable,
                setting->default_text[0] != '\0' ? setting->default_text : "empty");
    }
    fputs(
        "  --hash-token [NAME]\n"
        "      read an API token from standard input, print a line for --api-tokens and exit\n"
        "  --make-token\n"
        "      print a fresh API token and exit\n"
        "  -h, --help\n"
        "      print this and exit\n"
        "  -v, -V, --version\n"
        "      print the version and exit\n",
        out);
}
