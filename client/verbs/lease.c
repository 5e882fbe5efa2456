/* rlock acquire, renew and release: a lock that outlives the process, for CI jobs and freezes.
 * The lease has no session; its token is in the file of --lease-file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/boottime.h"
#include "client/run.h"
#include "client/say.h"
#include "client/status.h"
#include "client/values.h"
#include "client/verbs/lease_file.h"
#include "client/verbs/verbs.h"

enum {
    TTL_DEFAULT_MS = 8 * 3600000,
    TTL_MIN_MS = 100, /* openapi.yaml */
    TOKENS_MAX = 3,   /* of an acquire whose leases end again and again */
};

struct filed {
    struct run run;
    struct lease_file file;
};

static const char *kind_of(const struct settings *settings)
{
    return settings->permit ? "permit" : settings->kind;
}

static int open_file(struct filed *filed, const struct settings *settings)
{
    struct lease_file *file = &filed->file;

    if (!settings->lease_file) {
        say("--lease-file is missing: the file that keeps the lease's token");
        return STATUS_USAGE;
    }
    if (settings->ttl_ms >= 0 && settings->ttl_ms < TTL_MIN_MS) {
        say("--ttl has to be at least 100ms");
        return STATUS_USAGE;
    }
    int status = lease_file_open(file, settings->lease_file);
    if (status == 0 && file->fd >= 0 && strcmp(file->lock, settings->names[0]) != 0) {
        say("%s is for the lock %s", file->path, file->lock);
        return STATUS_USAGE;
    }
    return status;
}

/* `act` gets the file and a way to the servers. */
static int with_file(struct settings *settings, const char *name, int (*act)(struct filed *))
{
    struct filed filed = {.run = {.settings = settings}};
    int status = open_file(&filed, settings);

    if (status == 0 && run_open(&filed.run, name, &status)) {
        status = act(&filed);
    }
    run_close(&filed.run);
    lease_file_close(&filed.file);
    return status;
}

/* The lease of the file. */
static bool begin(struct filed *filed)
{
    struct run *run = &filed->run;
    struct settings *settings = run->settings;

    settings->permit = strcmp(filed->file.kind, "permit") == 0;
    lease_release_memory(&run->lease);
    if (!lease_init(&run->lease, run->http, settings, KEEPER_RENEWAL)) {
        return false;
    }
    snprintf(run->lease.token, sizeof(run->lease.token), "%s", filed->file.token);
    return true;
}

static int write_state(struct lease_file *file, enum lease_file_state state)
{
    file->state = state;
    return lease_file_write(file);
}

static void print_grant(const struct run *run)
{
    json_dumpf(run->lease.grant, stdout, JSON_COMPACT);
    putchar('\n');
}

/* The exit status of an outcome other than LEASE_HELD and LEASE_LOST. */
static int refused(struct filed *filed, enum lease_outcome outcome)
{
    int status = run_end_of_wait(&filed->run, outcome);

    if (filed->file.fd >= 0) {
        say("%s keeps the lease's token: repeat the command, or release the lease",
            filed->file.path);
    }
    return status;
}

/* ---- acquire */

static int begin_file(struct filed *filed)
{
    struct settings *settings = filed->run.settings;
    struct lease_file *file = &filed->file;

    free(file->lock);
    file->lock = strdup(settings->names[0]);
    file->ttl_ms = settings->ttl_ms;
    snprintf(file->kind, sizeof(file->kind), "%s", kind_of(settings));
    if (!file->lock || !token_make(file->token)) {
        return STATUS_FAULT;
    }
    return write_state(file, LEASE_FILE_ACQUIRING);
}

/* Repeats a release whose answer was not heard. */
static enum lease_outcome finish_release(struct filed *filed)
{
    enum lease_outcome outcome = begin(filed) ? lease_release(&filed->run.lease, BOOTTIME_NEVER)
                                              : LEASE_INVALID;

    return outcome == LEASE_LOST ? LEASE_HELD : outcome;
}

/* Withdraws the request of this call. A lease of an earlier call may be held, and stays. */
static int not_acquired(struct filed *filed, enum lease_outcome outcome, bool is_new)
{
    filed->run.phase = RUN_ENDS;
    if (is_new && outcome != LEASE_UNREACHABLE &&
        (lease_give_up(&filed->run.lease) || outcome == LEASE_REFUSED ||
         outcome == LEASE_INVALID)) {
        lease_file_remove(&filed->file);
    }
    return refused(filed, outcome);
}

static int acquire(struct filed *filed)
{
    bool is_new = filed->file.fd < 0;
    enum lease_outcome outcome = LEASE_LOST;

    if (!is_new && filed->file.state == LEASE_FILE_RELEASING) {
        outcome = finish_release(filed);
        if (outcome != LEASE_HELD) {
            return refused(filed, outcome);
        }
        is_new = true;
    }
    for (int i = 0; i < TOKENS_MAX; i++) {
        int status = is_new ? begin_file(filed) : 0;
        if (status != 0) {
            return status;
        }
        filed->run.token = filed->file.token;
        lease_release_memory(&filed->run.lease);
        outcome = run_wait(&filed->run);
        if (outcome != LEASE_LOST) {
            break;
        }
        is_new = true; /* the lease of the file has ended */
    }
    if (outcome != LEASE_HELD) {
        return not_acquired(filed, outcome, is_new);
    }
    say_status_end();
    print_grant(&filed->run);
    return write_state(&filed->file, LEASE_FILE_HELD);
}

static int acquire_checked(struct filed *filed)
{
    const struct settings *settings = filed->run.settings;

    if (filed->file.fd >= 0 && strcmp(filed->file.kind, kind_of(settings)) != 0) {
        say("%s is for a %s, not a %s", filed->file.path, filed->file.kind, kind_of(settings));
        return STATUS_USAGE;
    }
    return acquire(filed);
}

int verb_acquire(struct settings *settings)
{
    if (settings->ttl_ms < 0) {
        settings->ttl_ms = TTL_DEFAULT_MS;
    }
    return with_file(settings, "acquire", acquire_checked);
}

/* ---- renew and release */

static int lost(const struct filed *filed)
{
    say("%s: the lock was lost: %s", filed->run.settings->names[0], filed->run.lease.detail);
    return STATUS_LOST;
}

static int renew(struct filed *filed)
{
    struct run *run = &filed->run;
    struct settings *settings = run->settings;

    if (filed->file.fd < 0) {
        say("there is no %s: rlock acquire makes it", filed->file.path);
        return STATUS_USAGE;
    }
    settings->ttl_ms = settings->ttl_ms < 0 ? filed->file.ttl_ms : settings->ttl_ms;
    enum lease_outcome outcome = begin(filed) ? lease_extend(&run->lease, settings->ttl_ms,
                                                             BOOTTIME_NEVER)
                                              : LEASE_INVALID;
    if (outcome == LEASE_HELD) {
        print_grant(run);
        return 0;
    }
    return outcome == LEASE_LOST ? lost(filed) : refused(filed, outcome);
}

int verb_renew(struct settings *settings)
{
    return with_file(settings, "renew", renew);
}

static int release(struct filed *filed)
{
    struct lease_file *file = &filed->file;

    if (file->fd < 0) {
        say("%s: there is no %s, so nothing is released", filed->run.settings->names[0],
            file->path);
        return 0;
    }
    bool was_held = file->state == LEASE_FILE_HELD;
    int status = write_state(file, LEASE_FILE_RELEASING);
    if (status != 0) {
        return status;
    }
    enum lease_outcome outcome = begin(filed) ? lease_release(&filed->run.lease, BOOTTIME_NEVER)
                                              : LEASE_INVALID;
    if (outcome != LEASE_HELD && outcome != LEASE_LOST) {
        return refused(filed, outcome);
    }
    lease_file_remove(file);
    return outcome == LEASE_HELD || !was_held ? 0 : lost(filed);
}

int verb_release(struct settings *settings)
{
    return with_file(settings, "release", release);
}
