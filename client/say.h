/* Messages for people: on stderr, each line with the program's name. */
#ifndef RLOCK_CLIENT_SAY_H
#define RLOCK_CLIENT_SAY_H

#include <stdbool.h>
#include <stddef.h>

/* Writes one line "rlock: …" to stderr. Control characters in the text, which may come from a
 * server, become '?'. Clears the status line first. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Replaces control characters by '?'. */
void say_clean(char *text);

/* Cuts the text at so many columns, between two UTF-8 characters. */
void say_cut(char *text, size_t columns);

/* The status line: the last line of a terminal, written over by the next call. Where stderr is
 * no terminal that moves its cursor, nothing is written. */
void say_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool say_has_status(void);

/* Clears the status line, if there is one. */
void say_status_end(void);

#endif
