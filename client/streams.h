/* Standard input, output and error. */
#ifndef RLOCK_CLIENT_STREAMS_H
#define RLOCK_CLIENT_STREAMS_H

/* Opens those that are closed: any other descriptor could take their places. */
void streams_open(void);

/* Leads the streams from `first` to `last` to /dev/null: a pipe of COMMAND ends when COMMAND
 * closes it, although this process lives. */
void streams_leave(int first, int last);

#endif
