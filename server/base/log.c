/* The composition of log lines: time, level, event and fields. */
#include "server/base/log.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/base/log_output.h"

enum { BUFFER_FLUSH_AT = 32 * 1024, TIME_SIZE = sizeof("2026-01-01T00:00:00.000Z") };

static enum log_level lowest_level = LOG_LEVEL_INFO;
/* Which this thread wrote to last: for on_abort(). */
static _Thread_local struct log_buffer *last_buffer;

static const char *const level_names[] = {
    [LOG_LEVEL_DEBUG] = "debug",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_ERROR] = "error",
};

const char *log_level_name(enum log_level level)
{
    return level_names[level];
}

void log_set_level(enum log_level level)
{
    lowest_level = level;
}

bool log_is_on(enum log_level level)
{
    return level >= lowest_level;
}

/* RFC 3339, UTC, with milliseconds. A thread formats each second once. */
static void format_time(char out[TIME_SIZE])
{
    static _Thread_local time_t second = -1;
    static _Thread_local char text[TIME_SIZE];
    struct timespec now;
    struct tm utc;

    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != second) {
        gmtime_r(&now.tv_sec, &utc);
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S.000Z", &utc);
        second = now.tv_sec;
    }
    memcpy(out, text, TIME_SIZE);
    int ms = (int)(now.tv_nsec / 1000000);
    char *digits = out + strlen("2026-01-01T00:00:00.");
    digits[0] = (char)('0' + ms / 100);
    digits[1] = (char)('0' + ms / 10 % 10);
    digits[2] = (char)('0' + ms % 10);
}

/* A line with its newline, to be freed; NULL when memory is short: then the line is dropped. */
static char *format_line(enum log_level level, const char *msg, json_t *fields)
{
    char time_text[TIME_SIZE];

    format_time(time_text);
    json_t *line = json_pack("{s:s, s:s, s:s}", "time", time_text, "level", level_names[level],
                             "msg", msg);
    if (line != NULL && fields != NULL)
        json_object_update(line, fields);
    char *text = line ? json_dumps(line,
                                   JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6))
                      : NULL;
    json_decref(line);
    json_decref(fields);
    return text;
}

void log_buffer_init(struct log_buffer *buffer)
{
    *buffer = (struct log_buffer){0};
}

void log_buffer_release(struct log_buffer *buffer)
{
    log_buffer_flush(buffer);
    free(buffer->text);
    *buffer = (struct log_buffer){0};
    if (last_buffer == buffer)
        last_buffer = NULL;
}

static void buffer_append(struct log_buffer *buffer, const char *text, size_t len)
{
    last_buffer = buffer;
    if (buffer->len + len + 1 > buffer->size) {
        size_t size = buffer->len + len + BUFFER_FLUSH_AT;
        char *grown = realloc(buffer->text, size);
        if (grown == NULL)
            return;
        buffer->text = grown;
        buffer->size = size;
    }
    memcpy(buffer->text + buffer->len, text, len);
    buffer->len += len;
    buffer->text[buffer->len++] = '\n';
    if (buffer->len >= BUFFER_FLUSH_AT)
        log_buffer_flush(buffer);
}

void log_buffer_write(struct log_buffer *buffer, enum log_level level, const char *msg,
                      json_t *fields)
{
    if (!log_is_on(level)) {
        json_decref(fields);
        return;
    }
    char *line = format_line(level, msg, fields);
    if (line == NULL)
        return;
    buffer_append(buffer, line, strlen(line));
    free(line);
}

void log_line_begin(struct json_text *line, enum log_level level, const char *msg)
{
    char time_text[TIME_SIZE];

    format_time(time_text);
    json_text_begin(line);
    json_text_ascii(line, "time", time_text);
    json_text_ascii(line, "level", level_names[level]);
    json_text_ascii(line, "msg", msg);
}

void log_line_end(struct log_buffer *buffer, struct json_text *line)
{
    json_text_end(line);
    buffer_append(buffer, line->text, line->len);
    if (line->text != line->start)
        free(line->text);
}

void log_buffer_flush(struct log_buffer *buffer)
{
    uint64_t dropped;

    if (buffer->len > 0)
        log_output_write(buffer->text, buffer->len);
    else
        log_output_retry();
    buffer->len = 0;
    if (log_output_resumed(&dropped))
        log_write(LOG_LEVEL_WARN,
                  "log lines were dropped: they were not read in time, or not writable",
                  json_pack("{s:I}", "lines", (json_int_t)dropped));
}

void log_write(enum log_level level, const char *msg, json_t *fields)
{
    struct log_buffer once, *before = last_buffer;

    /* One write a line, so that the lines of two threads do not mix. */
    log_buffer_init(&once);
    log_buffer_write(&once, level, msg, fields);
    log_buffer_release(&once);
    last_buffer = before;
}

/* The lines that this thread has gathered often name the reason of its abort. */
static void on_abort(int signal_number)
{
    struct pollfd writable = {.fd = STDERR_FILENO, .events = POLLOUT};

    (void)signal_number;
    if (last_buffer != NULL && last_buffer->len > 0 && poll(&writable, 1, 0) > 0 &&
        write(STDERR_FILENO, last_buffer->text, last_buffer->len) < 0)
        return; /* abort() goes on after this in any case */
}

void log_flush_at_abort(void)
{
    struct sigaction action = {.sa_handler = on_abort, .sa_flags = (int)SA_RESETHAND};

    sigaction(SIGABRT, &action, NULL);
}
