/* Standard error, as log lines go there: written without ever waiting for its reader. What a
 * slow reader has not taken yet is kept up to a limit; beyond that lines are dropped and
 * counted. */
#ifndef RLOCKD_SERVER_BASE_LOG_OUTPUT_H
#define RLOCKD_SERVER_BASE_LOG_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Looks at what standard error is; before this, writing may wait. Other processes that share it
 * notice nothing. */
void log_output_open(void);

/* `text` is whole lines, each with its newline. From any thread, as are the next two. */
void log_output_write(const char *text, size_t len);
/* Tries once more to write what is kept; cheap when there is nothing. */
void log_output_retry(void);
/* True, once, when lines were dropped and the reader has taken all that was kept since. */
bool log_output_resumed(uint64_t *dropped);
/* Lines dropped since the start. */
uint64_t log_output_dropped(void);

/* Before the end of the process: waits so long for the reader to take what is kept. */
void log_output_finish(int timeout_ms);

#endif
