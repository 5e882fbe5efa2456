/* Standard error, as log lines go there: written without ever waiting for its reader. Lines
 * that a slow reader has not taken yet are kept up to a limit; beyond that lines are dropped
 * and counted. */
#ifndef RLOCKD_SERVER_BASE_LOG_OUTPUT_H
#define RLOCKD_SERVER_BASE_LOG_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds out the type of standard error; before this call a write may block. Other processes
 * that share standard error are not affected. */
void log_output_open(void);

/* `text` is whole lines, each with its newline. From any thread, as are the next two. */
void log_output_write(const char *text, size_t len);
/* Tries once more to write the kept text; cheap when there is none. */
void log_output_retry(void);
/* True, once, when lines were dropped and a later write has succeeded and left nothing kept. */
bool log_output_resumed(uint64_t *dropped);
/* Lines dropped since the start. */
uint64_t log_output_dropped(void);

/* For the end of the process: waits up to that time for the reader to take the kept text. */
void log_output_finish(int timeout_ms);

#endif
