/* The table of objects that workers of one process wait for, in shards with a mutex each. */
#include "storage/wait/neighbours.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "server/base/text.h"
#include "storage/store/key.h"

/* A power of two. */
enum { SHARDS = 64 };

struct shared_lock {
    UT_hash_handle hh;
    size_t refs;            /* behind the mutex of the shard */
    _Atomic uint64_t waits; /* one bit for each worker that has waiters */
    _Atomic uint64_t listens;
    _Atomic int64_t taken_ns, taken_until_ns;
    _Atomic int64_t yield_until_ns;
    _Atomic size_t yielding; /* the index of the worker that began this yield */
    _Atomic int64_t rest_until_ns;
    size_t len;
    const char *key; /* a struct table_key's, behind the last of the following */
    /* Of a fair lock, by worker: when the first waiter asked for its place; 0: no waiter. */
    _Atomic int64_t asked_ns[];
};

/* Workers that use different locks seldom meet at one mutex. */
struct shard {
    pthread_mutex_t mutex;
    struct shared_lock *locks;
};

struct neighbours {
    size_t count;
    struct neighbour *each[NEIGHBOURS_MAX];
    atomic_size_t lock_count; /* 0: the shards need not be searched */
    struct shard shards[SHARDS];
};

/* The kind tells the name of a lock from that of a semaphore. */
struct table_key {
    size_t len;
    char text[1 + KEY_NAME_MAX + 1];
};

static void make_key(struct table_key *key, enum wait_kind kind, const char *name, size_t len)
{
    assert(len <= KEY_NAME_MAX);
    key->text[0] = (char)kind;
    memcpy(key->text + 1, name, len);
    key->len = 1 + len;
}

static struct shard *find_shard(struct neighbours *neighbours, const char *key, size_t len)
{
    return &neighbours->shards[text_hash(key, len) & (SHARDS - 1)];
}

/* --- workers ------------------------------------------------------------------------------ */

struct neighbours *neighbours_new(void)
{
    struct neighbours *neighbours = calloc(1, sizeof(*neighbours));

    if (neighbours == NULL)
        return NULL;
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_init(&neighbours->shards[i].mutex, NULL);
    return neighbours;
}

void neighbours_free(struct neighbours *neighbours)
{
    assert(atomic_load(&neighbours->lock_count) == 0);
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_destroy(&neighbours->shards[i].mutex);
    free(neighbours);
}

bool neighbours_add(struct neighbours *neighbours, struct neighbour *neighbour,
                    struct loop *loop)
{
    assert(neighbours->count < NEIGHBOURS_MAX);
    neighbour->inbox = inbox_new(loop);
    if (neighbour->inbox == NULL)
        return false;
    neighbour->all = neighbours;
    neighbour->index = neighbours->count;
    neighbours->each[neighbours->count++] = neighbour;
    return true;
}

void neighbours_remove(struct neighbour *neighbour)
{
    if (neighbour->inbox != NULL)
        inbox_free(neighbour->inbox);
    neighbour->inbox = NULL;
}

static uint64_t bit_of(const struct neighbour *neighbour)
{
    return (uint64_t)1 << neighbour->index;
}

/* --- locks -------------------------------------------------------------------------------- */

static struct shared_lock *make_lock(const struct neighbours *neighbours,
                                     const struct table_key *key)
{
    size_t before_key = sizeof(struct shared_lock) + neighbours->count * sizeof(int64_t);
    struct shared_lock *lock = calloc(1, before_key + key->len);

    assert(lock != NULL);
    lock->len = key->len;
    lock->key = memcpy((char *)lock + before_key, key->text, key->len);
    return lock;
}

struct shared_lock *shared_lock_join(struct neighbours *neighbours, enum wait_kind kind,
                                     const char *name, size_t len)
{
    struct table_key key;

    make_key(&key, kind, name, len);
    struct shard *shard = find_shard(neighbours, key.text, key.len);
    struct shared_lock *lock;
    pthread_mutex_lock(&shard->mutex);
    HASH_FIND(hh, shard->locks, key.text, key.len, lock);
    if (lock == NULL) {
        lock = make_lock(neighbours, &key);
        HASH_ADD_KEYPTR(hh, shard->locks, lock->key, lock->len, lock);
        atomic_fetch_add(&neighbours->lock_count, 1);
    }
    lock->refs++;
    pthread_mutex_unlock(&shard->mutex);
    return lock;
}

void shared_lock_leave(struct neighbours *neighbours, struct shared_lock *lock)
{
    struct shard *shard = find_shard(neighbours, lock->key, lock->len);

    pthread_mutex_lock(&shard->mutex);
    bool is_last = --lock->refs == 0;
    if (is_last)
        HASH_DEL(shard->locks, lock);
    pthread_mutex_unlock(&shard->mutex);
    if (!is_last)
        return;
    atomic_fetch_sub(&neighbours->lock_count, 1);
    free(lock);
}

bool shared_lock_is_shared(struct neighbours *neighbours, const struct shared_lock *lock)
{
    struct shard *shard = find_shard(neighbours, lock->key, lock->len);

    pthread_mutex_lock(&shard->mutex);
    bool is_shared = lock->refs > 1;
    pthread_mutex_unlock(&shard->mutex);
    return is_shared;
}

static void set_bit(_Atomic uint64_t *bits, uint64_t bit, bool value)
{
    if (value)
        atomic_fetch_or(bits, bit);
    else
        atomic_fetch_and(bits, ~bit);
}

void shared_lock_waits(struct shared_lock *lock, const struct neighbour *neighbour, bool waits)
{
    set_bit(&lock->waits, bit_of(neighbour), waits);
}

bool shared_lock_is_waited_for(const struct shared_lock *lock)
{
    return atomic_load(&lock->waits) != 0;
}

void shared_lock_listens(struct shared_lock *lock, const struct neighbour *neighbour,
                         bool listens)
{
    set_bit(&lock->listens, bit_of(neighbour), listens);
}

unsigned shared_lock_listeners(const struct shared_lock *lock)
{
    return (unsigned)__builtin_popcountll(atomic_load(&lock->listens));
}

void shared_lock_asked(struct shared_lock *lock, const struct neighbour *neighbour,
                       int64_t asked_ns)
{
    atomic_store(&lock->asked_ns[neighbour->index], asked_ns);
}

void shared_lock_taken(struct shared_lock *lock, int64_t taken_ns, int64_t until_ns)
{
    atomic_store(&lock->taken_ns, taken_ns);
    atomic_store(&lock->taken_until_ns, until_ns);
}

void shared_lock_released(struct shared_lock *lock)
{
    atomic_store(&lock->taken_until_ns, 0);
}

void shared_lock_yields(struct shared_lock *lock, const struct neighbour *neighbour,
                        int64_t until_ns)
{
    if (until_ns == 0 && atomic_load(&lock->yielding) != neighbour->index)
        return;
    atomic_store(&lock->yielding, neighbour->index);
    atomic_store(&lock->yield_until_ns, until_ns);
}

int64_t shared_lock_yield_of_others(const struct shared_lock *lock,
                                    const struct neighbour *neighbour)
{
    int64_t until_ns = atomic_load(&lock->yield_until_ns);

    return atomic_load(&lock->yielding) != neighbour->index ? until_ns : 0;
}

void shared_lock_read_taken(const struct shared_lock *lock, int64_t *taken_ns,
                            int64_t *until_ns)
{
    int64_t shared_ns = atomic_load(&lock->taken_ns);
    int64_t shared_until_ns = atomic_load(&lock->taken_until_ns);

    *taken_ns = shared_ns > *taken_ns ? shared_ns : *taken_ns;
    *until_ns = shared_until_ns > *until_ns ? shared_until_ns : *until_ns;
}

/* --- the next worker ---------------------------------------------------------------------- */

/* The next worker, after this one and round, with waiters of a plain lock or of permits. */
static struct neighbour *next_in_turn(const struct shared_lock *lock,
                                      const struct neighbour *neighbour)
{
    uint64_t waits = atomic_load(&lock->waits) & ~bit_of(neighbour);
    uint64_t behind = waits & ~(bit_of(neighbour) * 2 - 1);

    if (waits == 0)
        return NULL;
    return neighbour->all->each[__builtin_ctzll(behind != 0 ? behind : waits)];
}

/* The worker whose waiter of a fair lock asked first. */
static struct neighbour *first_that_asked(const struct shared_lock *lock,
                                          const struct neighbours *neighbours)
{
    struct neighbour *first = NULL;
    int64_t first_ns = INT64_MAX;

    for (size_t i = 0; i < neighbours->count; i++) {
        int64_t asked_ns = atomic_load(&lock->asked_ns[i]);
        if (asked_ns == 0 || asked_ns >= first_ns)
            continue;
        first_ns = asked_ns;
        first = neighbours->each[i];
    }
    return first;
}

struct neighbour *shared_lock_next_worker(const struct shared_lock *lock,
                                          const struct neighbour *neighbour, int64_t now_ns)
{
    if (atomic_load(&lock->rest_until_ns) > now_ns)
        return NULL;
    struct neighbour *found = first_that_asked(lock, neighbour->all);
    if (found == NULL)
        found = next_in_turn(lock, neighbour);
    return found != neighbour ? found : NULL;
}

struct neighbour *neighbour_that_waits(const struct neighbour *neighbour, enum wait_kind kind,
                                       const char *name, size_t len, int64_t now_ns)
{
    struct neighbours *neighbours = neighbour->all;
    struct neighbour *found = NULL;
    const struct shared_lock *lock;
    struct table_key key;

    if (atomic_load_explicit(&neighbours->lock_count, memory_order_relaxed) == 0)
        return NULL;
    make_key(&key, kind, name, len);
    struct shard *shard = find_shard(neighbours, key.text, key.len);
    pthread_mutex_lock(&shard->mutex);
    HASH_FIND(hh, shard->locks, key.text, key.len, lock);
    if (lock != NULL)
        found = shared_lock_next_worker(lock, neighbour, now_ns);
    pthread_mutex_unlock(&shard->mutex);
    return found;
}

void neighbours_rest(const struct neighbour *neighbour, enum wait_kind kind, const char *name,
                     size_t len, int64_t until_ns)
{
    struct table_key key;

    make_key(&key, kind, name, len);
    struct shard *shard = find_shard(neighbour->all, key.text, key.len);
    struct shared_lock *lock;
    pthread_mutex_lock(&shard->mutex);
    HASH_FIND(hh, shard->locks, key.text, key.len, lock);
    if (lock != NULL)
        atomic_store(&lock->rest_until_ns, until_ns);
    pthread_mutex_unlock(&shard->mutex);
}
