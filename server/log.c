#include "server/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_FLUSH_AT = 32 * 1024 };

static enum log_level lowest_level = LOG_LEVEL_INFO;

static const char *const level_names[] = {
    [LOG_LEVEL_DEBUG] = "debug",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_ERROR] = "error",
};

void log_set_level(enum log_level level)
{
    lowest_level = level;
}

bool log_is_on(enum log_level level)
{
    return level >= lowest_level;
}

/* RFC 3339, UTC, with milliseconds. */
static void format_time(char *out, size_t size)
{
    struct timespec now;
    struct tm utc;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t len = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out + len, size - len, ".%03ldZ", now.tv_nsec / 1000000);
}

/* A line with its newline, to be freed; NULL when memory is short: then the line is dropped. */
static char *format_line(enum log_level level, const char *msg, json_t *fields)
{
    char time_text[40];

    format_time(time_text, sizeof(time_text));
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

static void write_all(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t written = write(STDERR_FILENO, text, len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* nobody to tell */
        text += written;
        len -= (size_t)written;
    }
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
}

static bool buffer_append(struct log_buffer *buffer, const char *text, size_t len)
{
    if (buffer->len + len > buffer->size) {
        size_t size = buffer->len + len + BUFFER_FLUSH_AT;
        char *grown = realloc(buffer->text, size);
        if (grown == NULL)
            return false;
        buffer->text = grown;
        buffer->size = size;
    }
    memcpy(buffer->text + buffer->len, text, len);
    buffer->len += len;
    return true;
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
    size_t len = strlen(line);
    line[len] = '\n'; /* the terminator's place: the line ends by its length from here on */
    buffer_append(buffer, line, len + 1);
    free(line);
    if (buffer->len >= BUFFER_FLUSH_AT)
        log_buffer_flush(buffer);
}

void log_buffer_flush(struct log_buffer *buffer)
{
    if (buffer->len == 0)
        return;
    write_all(buffer->text, buffer->len);
    buffer->len = 0;
}

void log_write(enum log_level level, const char *msg, json_t *fields)
{
    struct log_buffer once;

    /* One write(2) a line, so that the lines of two threads do not mix. */
    log_buffer_init(&once);
    log_buffer_write(&once, level, msg, fields);
    log_buffer_release(&once);
}
