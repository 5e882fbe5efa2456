/* Messages for people and the status line, each in one write() to stderr. */
#include "client/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_SIZE = 1024, COLUMNS_DEFAULT = 80 };

static bool status_is_shown;

static void put(const char *text, size_t len)
{
    ssize_t written = write(STDERR_FILENO, text, len);

    (void)written; /* nowhere to complain */
}

/* Without a cursor that moves there is no status line. */
bool say_has_status(void)
{
    const char *terminal = getenv("TERM");

    return isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
}

void say_status_end(void)
{
    if (status_is_shown) {
        put("\r\033[K", 4);
    }
    status_is_shown = false;
}

void say_clean(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}

void say(const char *format, ...)
{
    char line[LINE_SIZE] = "rlock: ";
    size_t prefix = strlen(line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line + prefix, sizeof(line) - prefix - 1, format, arguments);
    va_end(arguments);
    say_clean(line);
    say_status_end();
    size_t len = strlen(line);
    line[len] = '\n';
    put(line, len + 1);
}

void say_cut(char *text, size_t columns)
{
    size_t seen = 0;

    for (; *text; text++) {
        bool begins = ((unsigned char)*text & 0xc0) != 0x80;
        if (begins && seen++ == columns) {
            *text = '\0';
            return;
        }
    }
}

void say_status(const char *format, ...)
{
    struct winsize size = {0};
    char text[LINE_SIZE], line[LINE_SIZE + 16];
    va_list arguments;

    if (!say_has_status()) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    say_clean(text);
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) {
        size.ws_col = COLUMNS_DEFAULT;
    }
    /* A line that wraps cannot be cleared. */
    say_cut(text, size.ws_col - 1U);
    int len = snprintf(line, sizeof(line), "\r%s\033[K", text);
    put(line, (size_t)len);
    status_is_shown = true;
}
