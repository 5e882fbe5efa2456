/* Log lines: one JSON object a line on standard error. Callers never pass a token. */
#ifndef RLOCKD_SERVER_BASE_LOG_H
#define RLOCKD_SERVER_BASE_LOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "server/base/json_text.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

/* Lines below `level` are dropped. Called once, before the threads start. */
void log_set_level(enum log_level level);
bool log_is_on(enum log_level level);
/* The name of the level in log lines and in --log-level. */
const char *log_level_name(enum log_level level);

/* Writes one line at once. `msg` names the event with a constant text; values stand in
 * `fields`, an object (or NULL), of which log_write() takes ownership. Any thread may call
 * it. */
void log_write(enum log_level level, const char *msg, json_t *fields);

/* Lines gathered by one thread and written together, so that a log line a request costs no
 * system call a request. */
struct log_buffer {
    char *text;
    size_t len, size;
};

void log_buffer_init(struct log_buffer *buffer);
void log_buffer_release(struct log_buffer *buffer);
/* Ends a line that log_line_begin() has begun and json_text…() has added members to: without a
 * tree of jansson's values, for the line of every request. Only if log_is_on(). */
void log_line_begin(struct json_text *line, enum log_level level, const char *msg);
void log_line_end(struct log_buffer *buffer, struct json_text *line);
/* As log_write(), but the line waits for log_buffer_flush() (or for the buffer to fill). */
void log_buffer_write(struct log_buffer *buffer, enum log_level level, const char *msg,
                      json_t *fields);
/* Also tries again to write lines that the reader of the log has not taken yet. */
void log_buffer_flush(struct log_buffer *buffer);

/* From now on abort() writes the lines that its thread has gathered. */
void log_flush_at_abort(void);

#endif
