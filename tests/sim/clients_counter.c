/* Clients of semaphores and latches. Permits are lost and won only with Redis' data: so as long
 * as these are there, all of them come back in the end. Only one client counts a latch down, so
 * it knows the count. */
#include "tests/sim/clients.h"

#include <string.h>

#define SEMAPHORE "semaphores/" SEMAPHORE_NAME
#define LATCH "latches/latch-a"
/* A request whose outcome is unknown may be carried out until then. */
#define LATE_NS (RETRY_WINDOW_MS * world.pace * MS)

enum { PATH_SIZE = 128, COUNT_MAX = 3 };

/* What the clients know of a semaphore or latch. */
struct object {
    bool is_in_doubt;      /* the outcome of a request since it was made is unknown */
    int64_t losses;        /* those of the world when it was made */
    int64_t late_until_ns; /* until then a request may still come late */
    int64_t checks;
};

static bool is_known(const struct object *object)
{
    return !object->is_in_doubt && data_is_kept_since(object->losses);
}

static void note_doubt(struct object *object)
{
    object->is_in_doubt = true;
    object->late_until_ns = now_ns() + LATE_NS;
}

/* Of 20 in 100 requests: the client hangs up about when the request is carried out. */
static int64_t hang_up_ns(struct client *client)
{
    static const int64_t after_us[] = {1000, 2000, 50000, 400000};

    return likely(client, 20) ? after_us[chance_below(chance_of(client), 4)] * 1000 : 0;
}

/* Asks with the same key until the outcome is known. Redis knows the effect of a key for the
 * retry window only. */
static enum result ask_for_certain(struct client *client, struct plain *plain,
                                   struct object *object)
{
    int64_t known_until_ns = now_ns() + RETRY_WINDOW_MS * world.pace * MS;
    enum result result = RESULT_UNKNOWN;

    make_token(chance_of(client), plain->idempotency_key);
    for (int i = 0; i < TRIES; i++) {
        if (now_ns() > known_until_ns)
            note_doubt(object);
        result = ask_plain(&client->caller, plain);
        if (result == RESULT_ABANDONED)
            plain->how.abandon_ns = 0;
        else if (result == RESULT_OK || plain->status == 423 || plain->status == 404)
            return result;
        nap(client, 20, 400);
    }
    note_doubt(object);
    return result;
}

/* --- semaphores ------------------------------------------------------------------------------
 */

static struct object semaphore;
static int64_t permits_held;
static int clients_busy; /* each may have permits, or a request under way */
static bool is_closing;  /* until nobody is busy: then the semaphore is made anew */

static void note_held(int64_t permits)
{
    permits_held += permits;
    if (!is_known(&semaphore))
        return;
    semaphore.checks++;
    if (permits_held > SEMAPHORE_PERMITS)
        note_leak("permits held at once", -1, permits_held - SEMAPHORE_PERMITS, "");
}

static void give_permits(struct client *client, int64_t permits)
{
    char path[PATH_SIZE];
    struct plain plain = {.method = "POST", .path = path, .how = {.ttl_ms = -1}};

    note_held(-permits);
    plain.how.abandon_ns = hang_up_ns(client);
    snprintf(path, sizeof(path), SEMAPHORE "/release?permits=%lld", (long long)permits);
    if (ask_for_certain(client, &plain, &semaphore) != RESULT_OK)
        note_doubt(&semaphore);
}

static void take_permits(struct client *client)
{
    int64_t permits = chance_between(chance_of(client), 1, COUNT_MAX);
    char path[PATH_SIZE];
    struct plain plain = {
        .method = "POST", .path = path, .how = {.ttl_ms = -1, .wait_ms = pick_wait(client)}};

    plain.how.abandon_ns = hang_up_ns(client);
    snprintf(path, sizeof(path), SEMAPHORE "/acquire?permits=%lld&wait_ms=%lld",
             (long long)permits, (long long)plain.how.wait_ms);
    if (ask_for_certain(client, &plain, &semaphore) != RESULT_OK)
        return;
    note_held(permits);
    nap(client, 0, 300);
    give_permits(client, permits);
}

/* Takes all that are free, and gives them back. */
static void drain_permits(struct client *client)
{
    struct plain plain = {.method = "POST",
                          .path = SEMAPHORE "/drain",
                          .how = {.ttl_ms = -1},
                          .member = "permits"};

    if (likely(client, 30))
        plain.how.abandon_ns = MS;
    if (ask_for_certain(client, &plain, &semaphore) != RESULT_OK || plain.number == 0)
        return;
    note_held(plain.number);
    nap(client, 0, 100);
    give_permits(client, plain.number);
}

static void be_busy(struct client *client, void (*acquire)(struct client *client))
{
    if (is_closing)
        return;
    clients_busy++;
    acquire(client);
    clients_busy--;
}

void run_semaphore(struct client *client)
{
    while (!world.is_stopping) {
        be_busy(client, take_permits);
        nap(client, 0, 200);
    }
}

void run_drainer(struct client *client)
{
    while (!world.is_stopping) {
        be_busy(client, drain_permits);
        nap(client, 300, 1500);
    }
}

/* Deletes the semaphore when nobody has permits of it and no request can come late any more:
 * all permits of the next one are known. */
static void renew_semaphore(struct client *client)
{
    struct plain drop = {.method = "DELETE", .path = SEMAPHORE, .how = {.ttl_ms = -1}};

    is_closing = true;
    while (clients_busy > 0 || now_ns() < semaphore.late_until_ns || world.losses % 2 != 0) {
        if (world.is_stopping)
            return;
        nap(client, 50, 50);
    }
    int64_t losses = world.losses;
    enum result result = ask_plain(&client->caller, &drop);
    if (result == RESULT_OK) {
        semaphore.is_in_doubt = false;
        semaphore.losses = losses;
    } else if (result == RESULT_UNKNOWN) {
        note_doubt(&semaphore);
    }
    is_closing = false;
}

void run_renewer(struct client *client)
{
    while (!world.is_stopping) {
        nap(client, 200, 1000);
        if (!is_known(&semaphore))
            renew_semaphore(client);
    }
}

/* --- latches ---------------------------------------------------------------------------------
 */

static struct object latch;
static int64_t closed_looks;
/* For certain, since then; 0: perhaps it is open. */
static int64_t closed_since_ns;

static void note_count(int64_t count, int64_t expected)
{
    if (!is_known(&latch))
        return;
    latch.checks++;
    if (count != expected)
        note_leak("counts of a latch that are gone or too many", -1, 1, "");
}

/* `began_ns`: when a client asked; this is the answer. */
static void note_look(int64_t began_ns, int64_t count)
{
    if (closed_since_ns == 0 || closed_since_ns > began_ns || !is_known(&latch))
        return;
    closed_looks++;
    if (count == 0)
        note_leak("latch open before its count is zero", -1, 1, "");
}

void run_latch_waiter(struct client *client)
{
    while (!world.is_stopping) {
        char path[PATH_SIZE];
        struct plain plain = {.method = "GET",
                              .path = path,
                              .how = {.ttl_ms = -1, .wait_ms = pick_wait(client)},
                              .member = "count"};
        snprintf(path, sizeof(path), LATCH "?wait_ms=%lld", (long long)plain.how.wait_ms);
        if (likely(client, 15))
            plain.how.abandon_ns = chance_between(chance_of(client), 1, 500) * MS;
        int64_t began_ns = now_ns();
        if (ask_plain(&client->caller, &plain) == RESULT_OK)
            note_look(began_ns, plain.number);
        nap(client, 0, 200);
    }
}

/* A latch that was there already, or that a late request made, has a count of its own. */
static void close_latch(struct client *client, int64_t count)
{
    char path[PATH_SIZE];
    struct plain close = {.method = "PUT", .path = path, .how = {.ttl_ms = -1}};
    bool is_late = now_ns() < latch.late_until_ns;

    snprintf(path, sizeof(path), LATCH "?count=%lld", (long long)count);
    latch.losses = world.losses;
    enum result result = ask_plain(&client->caller, &close);
    if (result == RESULT_UNKNOWN)
        note_doubt(&latch);
    else
        latch.is_in_doubt = is_late || close.status != 201;
    closed_since_ns = now_ns();
}

/* Closes the latch, and opens it again. */
void run_latch_counter(struct client *client)
{
    while (!world.is_stopping) {
        int64_t left = chance_between(chance_of(client), 1, COUNT_MAX);
        struct plain down = {.method = "POST",
                             .path = LATCH "/count-down",
                             .how = {.ttl_ms = -1},
                             .member = "count"};
        close_latch(client, left);
        while (left-- > 0) {
            nap(client, 100, 800);
            if (left == 0)
                closed_since_ns = 0;
            down.how.abandon_ns = hang_up_ns(client);
            if (ask_for_certain(client, &down, &latch) == RESULT_OK)
                note_count(down.number, left);
            else
                note_doubt(&latch);
        }
        nap(client, 100, 500);
    }
}

/* --- after the faults ------------------------------------------------------------------------
 */

void check_counters(void)
{
    struct caller caller = {.name = "counters"};
    struct plain drop = {.method = "DELETE", .path = LATCH, .how = {.ttl_ms = -1}};
    struct plain plain = {
        .method = "GET", .path = SEMAPHORE, .how = {.ttl_ms = -1}, .member = "available"};

    ask_plain(&caller, &drop);
    if (is_known(&semaphore) && ask_plain(&caller, &plain) == RESULT_OK)
        note_leak("permits gone or too many", -1, plain.number != SEMAPHORE_PERMITS, "");
    if (world.losses % 2 != 0) /* nothing of it was certain */
        return;
    note_checks("permits held at once", semaphore.checks);
    note_checks("counts of a latch", latch.checks);
    note_checks("looks at a closed latch", closed_looks);
}
