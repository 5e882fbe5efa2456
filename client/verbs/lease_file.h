/* The file of --lease-file: the secret token of a lease that outlives the process, and what was
 * asked of the servers last. It is written before each request is sent, so that a repetition
 * after any failure knows the lease. */
#ifndef RLOCK_CLIENT_VERBS_LEASE_FILE_H
#define RLOCK_CLIENT_VERBS_LEASE_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/lease.h"

enum lease_file_state {
    LEASE_FILE_ACQUIRING, /* the lease may be held */
    LEASE_FILE_HELD,
    LEASE_FILE_RELEASING, /* the lease may have been released */
};

struct lease_file {
    const char *path;
    int fd; /* holds a lock of flock(2) on the file; -1: there is no file */
    char *lock;
    char kind[8]; /* lock, fair, read, write or permit */
    char token[TOKEN_SIZE];
    int64_t ttl_ms;
    enum lease_file_state state;
};

/* Opens and reads the file, if it exists; no other rlock uses it until lease_file_close().
 * Returns 0, or the exit status after a message. */
int lease_file_open(struct lease_file *file, const char *path)
    __attribute__((warn_unused_result));
void lease_file_close(struct lease_file *file);

/* Replaces the file in one step by one that only its owner may read, and waits for the disk.
 * Returns 0, or the exit status after a message. */
int lease_file_write(struct lease_file *file) __attribute__((warn_unused_result));

void lease_file_remove(struct lease_file *file);

/* Reads the text of a file. False: it is none that rlock has written. */
bool lease_file_parse(struct lease_file *file, const char *text, size_t len)
    __attribute__((warn_unused_result));

#endif
