/* What a client does in one round of a contest. */
#include "contest.h"

enum {
    WAIT_MS = 20000, /* far more than a turn takes: nobody has to go without */
    HURRY_MS = 3
};

/* One client's use of some objects. */
struct turn {
    struct racer *racer;
    const struct contest *contest;
    const struct way *way;
    enum manner manner;
    int objects[CONTEST_OBJECTS_MAX], count;
    char token[UUID_SIZE];
    long seen[CONTEST_OBJECTS_MAX];
    long asked; /* of a fair contest: when, by the clock of its queue's watch */
};

static struct arena *arena_of(const struct turn *turn, int i)
{
    struct course *course = turn->racer->course;

    return &course->arenas[turn->objects[i]];
}

/* --- requests ----------------------------------------------------------------------------- */

/* `query` begins with '&'; a set's has the names of its locks, too. */
static long ask(struct turn *turn, const char *method, const char *query, int timeout_ms)
{
    const struct contest *contest = turn->contest;
    const char *header = contest->is_counter ? "Idempotency-Key" : "Lease-Token";
    bool is_release = contest->is_counter && query[0] == 'r';
    char path[400], line[80];
    int len;

    snprintf(line, sizeof(line), "%s: %s", header, turn->token);
    if (turn->count == 1) {
        len = snprintf(path, sizeof(path), "%s/%s%d%s?", contest->kind, contest->name,
                       turn->objects[0],
                       is_release              ? "/release"
                       : contest->part != NULL ? contest->part
                                               : "");
    } else {
        len = snprintf(path, sizeof(path), "multi-locks?");
        for (int i = 0; i < turn->count && strcmp(method, "PUT") == 0; i++)
            len += snprintf(path + len, sizeof(path) - (size_t)len, "&locks=%s%d",
                            contest->name, turn->objects[i]);
    }
    snprintf(path + len, sizeof(path) - (size_t)len, "%s", query + is_release);
    return racer_ask(turn->racer, method, path, line, timeout_ms);
}

static long acquire(struct turn *turn, int wait_ms, int timeout_ms)
{
    char query[120];
    const char *ttl = turn->contest->is_counter ? "" : "&ttl_ms=60000";

    _Static_assert(CONTEST_TTL_MS == 60000, "the query above");
    snprintf(query, sizeof(query), "&wait_ms=%d%s%s", wait_ms, ttl, turn->way->query);
    return ask(turn, turn->contest->is_counter ? "POST" : "PUT", query, timeout_ms);
}

static void expect(struct turn *turn, const char *what, long status, long expected)
{
    if (status != expected)
        racer_odd(turn->racer, what, status);
}

static long granted(const struct contest *contest)
{
    return contest->is_counter ? 200 : 201;
}

static void release(struct turn *turn)
{
    int times = turn->manner == REPEATS ? 2 : 1;

    if (turn->contest->is_counter)
        uuid_make(turn->token);
    while (times-- > 0) {
        char query[40];

        snprintf(query, sizeof(query), "r%s", turn->way->query);
        long status = turn->contest->is_counter ? ask(turn, "POST", query, racer_patience())
                                                : ask(turn, "DELETE", "", racer_patience());
        expect(turn, "a release", status, 200);
    }
}

/* The fencing token that the answer gives for an object; 0: a counter has none. */
static json_int_t fence_of_answer(const struct turn *turn, int i)
{
    struct racer *racer = turn->racer;
    char name[24];
    json_int_t fence = 0;
    json_t *answer, *entry;
    size_t n;

    if (turn->count == 1)
        return racer_answered(racer, "fencing_token");
    snprintf(name, sizeof(name), "%s%d", turn->contest->name, turn->objects[i]);
    answer = json_loads(racer->answer, 0, NULL);
    json_array_foreach(json_object_get(answer, "locks"), n, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "lock")), name) == 0)
            fence = json_integer_value(json_object_get(entry, "fencing_token"));
    }
    json_decref(answer);
    return fence;
}

/* --- inside ------------------------------------------------------------------------------- */

static bool is_alone(const struct turn *turn)
{
    return turn->way->takes == turn->contest->capacity;
}

static void enter(struct turn *turn, int i)
{
    struct course *course = turn->racer->course;
    struct arena *arena = arena_of(turn, i);
    json_int_t fence = fence_of_answer(turn, i);
    int before = atomic_fetch_add(&arena->taken, turn->way->takes);

    if (before + turn->way->takes > turn->contest->capacity)
        racer_violation(turn->racer, "%s: %d of %d are taken", turn->contest->name,
                        before + turn->way->takes, turn->contest->capacity);
    if (strcmp(turn->contest->kind, "locks") == 0 && fence < arena->last_fence + is_alone(turn))
        racer_violation(turn->racer, "%s: fencing token %lld after %lld", turn->contest->name,
                        (long long)fence, (long long)arena->last_fence);
    course->together += before > 0;
    turn->seen[i] = arena->first;
    if (!is_alone(turn))
        return;
    arena->last_fence = fence;
    arena->alone++;
    arena->first = turn->seen[i] + 1;
}

static void leave(struct turn *turn, int i)
{
    struct arena *arena = arena_of(turn, i);

    if (is_alone(turn))
        arena->second = turn->seen[i] + 1;
    if (arena->first != arena->second || arena->first != turn->seen[i] + is_alone(turn))
        racer_violation(turn->racer, "%s: %ld, %ld were seen inside, after %ld",
                        turn->contest->name, arena->first, arena->second, turn->seen[i]);
    atomic_fetch_sub(&arena->taken, turn->way->takes);
}

static void enter_all(struct turn *turn)
{
    struct course *course = turn->racer->course;

    course->entries++;
    course->several += turn->count > 1;
    if (turn->contest->is_fair)
        fair_watch_grant(course->queues[turn->objects[0]], turn->racer, turn->asked);
    for (int i = 0; i < turn->count; i++)
        enter(turn, i);
}

/* The last client to leave the objects may release them. */
static void use(struct turn *turn)
{
    enter_all(turn);
    if (turn->manner == REPEATS && !turn->contest->is_counter) {
        json_int_t fence = fence_of_answer(turn, 0);

        expect(turn, "a repeated PUT", acquire(turn, 0, racer_patience()), 200);
        if (fence_of_answer(turn, 0) != fence)
            racer_odd(turn->racer, "a repeated PUT, by another fencing token,", 200);
    }
    racer_dawdle(turn->racer);
    for (int i = 0; i < turn->count; i++)
        leave(turn, i);
}

/* A writer that goes on to read, and may not write again before that is over. */
static void downgrade(struct turn *writer)
{
    static const struct way read = {"&kind=read&owner=me", 1, 0, 0};
    struct turn reader = *writer, upgrade = *writer;

    enter_all(writer);
    racer_dawdle(writer->racer);
    json_int_t fence = arena_of(writer, 0)->last_fence;
    reader.way = &read;
    uuid_make(reader.token);
    expect(&reader, "a read beside a write", acquire(&reader, 0, racer_patience()), 201);
    if (racer_answered(reader.racer, "fencing_token") != fence)
        racer_odd(reader.racer, "a read beside a write, by another fencing token,", 201);
    leave(writer, 0);
    enter_all(&reader);
    release(writer);
    expect(writer, "a spent token", acquire(writer, 0, racer_patience()), 410);
    uuid_make(upgrade.token);
    expect(&upgrade, "a reader that wants to write",
           acquire(&upgrade, WAIT_MS, racer_patience()), 409);
    leave(&reader, 0);
    release(&reader);
}

/* --- rounds ------------------------------------------------------------------------------- */

static void choose(struct turn *turn)
{
    const struct contest *contest = turn->contest;
    int shares = 0, all[CONTEST_OBJECTS_MAX];
    const struct way *way = contest->ways;

    for (int i = 0; i < CONTEST_WAYS_MAX; i++)
        shares += contest->ways[i].share;
    for (int at = racer_random(turn->racer, shares); at >= way->share; way++)
        at -= way->share;
    turn->way = way;
    turn->manner = (enum manner)racer_random(turn->racer, 2 * MANNERS);
    if (turn->manner >= MANNERS || !(way->manners & CAN(turn->manner)))
        turn->manner = way->manners & CAN(DOWNGRADES) ? DOWNGRADES : PATIENT;
    for (int i = 0; i < contest->objects; i++)
        all[i] = i;
    turn->count = 1 + racer_random(turn->racer, contest->most);
    for (int i = 0; i < turn->count; i++) {
        int at = i + racer_random(turn->racer, contest->objects - i), other = all[i];

        turn->objects[i] = all[at];
        all[at] = other;
    }
}

/* After a request without an answer: whether it was granted, as another request finds out. */
static long find_out(struct turn *turn)
{
    long status;

    if (turn->contest->is_counter)
        return acquire(turn, 0, racer_patience());
    status = ask(turn, "DELETE", "", racer_patience());
    if (status != 200 && status != 410)
        racer_odd(turn->racer, "the DELETE of a client that went", status);
    return 423;
}

static long get_in(struct turn *turn)
{
    struct racer *racer = turn->racer;
    long status;

    switch (turn->manner) {
    case TRIES:
        status = acquire(turn, 0, racer_patience());
        return status == 423 ? acquire(turn, WAIT_MS, racer_patience()) : status;
    case HURRIES:
        return acquire(turn, HURRY_MS, racer_patience());
    case LEAVES:
        status = acquire(turn, HURRY_MS, racer_patience());
        if (status == 423)
            expect(turn, "giving up", ask(turn, "DELETE", "", racer_patience()), 200);
        return status;
    case RETURNS:
        status = acquire(turn, HURRY_MS, racer_patience());
        return status == 423 ? acquire(turn, WAIT_MS, racer_patience()) : status;
    case HANGS_UP:
        status = acquire(turn, WAIT_MS, 1 + racer_random(racer, 6));
        return status == 0 ? find_out(turn) : status;
    case PATIENT:
    case REPEATS:
    case DOWNGRADES:
    case MANNERS:
        break;
    }
    return acquire(turn, WAIT_MS, racer_patience());
}

static bool may_go_without(enum manner manner)
{
    return manner == HURRIES || manner == LEAVES || manner == HANGS_UP;
}

static void open_session(struct racer *racer)
{
    struct course *course = racer->course;
    char *token = course->sessions[atomic_fetch_add(&course->session_count, 1)];
    long status;

    uuid_make(token);
    snprintf(racer->session, sizeof(racer->session), "Session-Token: %s", token);
    status = racer_ask(racer, "POST", "sessions?ttl_ms=600000", "Accept: */*",
                       racer_patience());
    if (status != 201)
        racer_odd(racer, "a session", status);
}

void contest_round(struct racer *racer)
{
    struct course *course = racer->course;
    struct turn turn = {.racer = racer, .contest = course->contest};
    int64_t began_ms = now_ms(), took_ms;
    long status;

    if (turn.contest->has_sessions && racer->session[0] == '\0')
        open_session(racer);
    choose(&turn);
    uuid_make(turn.token);
    if (turn.contest->is_fair)
        turn.asked = fair_watch_tick(course->queues[turn.objects[0]]);
    course->manners[turn.manner]++;
    status = get_in(&turn);
    if (status == 423 && may_go_without(turn.manner)) {
        course->refusals++;
        return;
    }
    if (status != granted(turn.contest)) {
        racer_odd(racer, "an acquire", status);
        return;
    }
    took_ms = now_ms() - began_ms;
    if (took_ms > course->longest_ms)
        course->longest_ms = took_ms;
    if (turn.manner == DOWNGRADES) {
        downgrade(&turn);
        return;
    }
    use(&turn);
    release(&turn);
    if (turn.contest->has_sessions)
        nap_ms(racer_random(racer, 4)); /* or readers would let no writer in */
}
