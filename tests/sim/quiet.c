/* In place of server/base/log_output.c: the log of the front ends goes to the trace. */
#include "server/base/log_output.h"
#include "tests/sim/world.h"

void log_output_open(void)
{
}

void log_output_write(const char *text, size_t len)
{
    trace("log of %d/%d: %.*s", running_front != NULL ? running_front->number : -1,
          running_thread != NULL ? running_thread->number : -1, (int)len - 1, text);
}

void log_output_retry(void)
{
}

bool log_output_resumed(uint64_t *dropped)
{
    (void)dropped;
    return false;
}

uint64_t log_output_dropped(void)
{
    return 0;
}

void log_output_finish(int timeout_ms)
{
    (void)timeout_ms;
}
