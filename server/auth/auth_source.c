/* The current table of API tokens, its references, and the reload of the file. */
#include "server/auth/auth_source.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct auth_snapshot {
    struct auth *auth;
    atomic_size_t refs;
};

struct auth_source {
    pthread_mutex_t mutex; /* between reading `current` and counting one more reference to it */
    struct auth_snapshot *current;
};

/* Takes `auth` over. NULL: out of memory. */
static struct auth_snapshot *snapshot_new(struct auth *auth)
{
    struct auth_snapshot *snapshot = malloc(sizeof(*snapshot));

    if (snapshot == NULL) {
        auth_free(auth);
        return NULL;
    }
    snapshot->auth = auth;
    atomic_init(&snapshot->refs, 1);
    return snapshot;
}

void auth_snapshot_drop(struct auth_snapshot *snapshot)
{
    if (snapshot == NULL || atomic_fetch_sub(&snapshot->refs, 1) > 1)
        return;
    auth_free(snapshot->auth);
    free(snapshot);
}

const struct auth *auth_snapshot_auth(const struct auth_snapshot *snapshot)
{
    return snapshot->auth;
}

struct auth_source *auth_source_new(struct auth *auth)
{
    struct auth_source *source = malloc(sizeof(*source));

    if (source == NULL) {
        auth_free(auth);
        return NULL;
    }
    pthread_mutex_init(&source->mutex, NULL);
    source->current = snapshot_new(auth);
    if (source->current != NULL)
        return source;
    auth_source_free(source);
    return NULL;
}

void auth_source_free(struct auth_source *source)
{
    auth_snapshot_drop(source->current);
    pthread_mutex_destroy(&source->mutex);
    free(source);
}

bool auth_source_replace(struct auth_source *source, struct auth *auth)
{
    auth_inherit(auth, source->current->auth);
    struct auth_snapshot *fresh = snapshot_new(auth), *old;

    if (fresh == NULL)
        return false;
    pthread_mutex_lock(&source->mutex);
    old = source->current;
    source->current = fresh;
    pthread_mutex_unlock(&source->mutex);
    auth_snapshot_drop(old);
    return true;
}

struct auth_snapshot *auth_source_take(struct auth_source *source)
{
    pthread_mutex_lock(&source->mutex);
    struct auth_snapshot *snapshot = source->current;
    atomic_fetch_add(&snapshot->refs, 1);
    pthread_mutex_unlock(&source->mutex);
    return snapshot;
}
