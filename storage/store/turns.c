/* The queue of pieces of work that wait for their turn, and its limit of time. */
#include "storage/store/turns.h"

#include <assert.h>
#include <string.h>

#include <utlist.h>

#include "server/base/clock.h"

#define WAIT_MAX_NS (2 * CLOCK_NS_PER_S)

enum { WAITING_MAX = 1000 };

static void on_pause_over(void *arg)
{
    turns_go_on(arg);
}

void turns_init(struct turns *turns, struct loop *loop, size_t most,
                enum turns_patience patience)
{
    *turns = (struct turns){.loop = loop,
                            .patience = patience,
                            .most = most,
                            .pause = {.fire = on_pause_over, .arg = turns}};
}

void turns_release(struct turns *turns)
{
    timer_cancel(loop_timers(turns->loop), &turns->pause);
}

static bool has_room(const struct turns *turns, size_t weight)
{
    return (turns->under_way == 0 || turns->under_way + weight <= turns->most) &&
           !timer_is_armed(&turns->pause);
}

bool turns_are_free(const struct turns *turns)
{
    return has_room(turns, 1) && turns->waiting == NULL;
}

static bool has_running_piece(const struct turns *turns, const char *owner)
{
    const struct turn *turn;

    if (owner == NULL)
        return false;
    DL_FOREACH(turns->running, turn) {
        if (turn->owner != NULL && strcmp(turn->owner, owner) == 0)
            return true;
    }
    return false;
}

static void begin(struct turns *turns, struct turn *turn)
{
    turns->under_way += turn->weight;
    DL_APPEND(turns->running, turn);
    turn->begin(turn->arg, true);
}

static void leave(struct turns *turns, struct turn *turn)
{
    DL_DELETE(turns->waiting, turn);
    turns->waiting_count--;
}

static bool is_late(const struct turns *turns, const struct turn *turn, int64_t now_ns)
{
    return turns->patience == TURNS_REFUSE && now_ns - turn->since_ns > WAIT_MAX_NS;
}

/* The oldest piece that may begin when there is room, or has waited too long; NULL: there is
 * none. */
static struct turn *find_next(const struct turns *turns, int64_t now_ns)
{
    struct turn *turn;

    DL_FOREACH(turns->waiting, turn) {
        if (!has_running_piece(turns, turn->owner) || is_late(turns, turn, now_ns))
            return turn;
    }
    return NULL;
}

void turn_start(struct turns *turns, struct turn *turn)
{
    assert(turn->weight > 0);
    turn->since_ns = loop_now_ns(turns->loop);
    if (has_room(turns, turn->weight) && find_next(turns, turn->since_ns) == NULL &&
        !has_running_piece(turns, turn->owner)) {
        begin(turns, turn);
        return;
    }
    DL_APPEND(turns->waiting, turn);
    /* The oldest has waited long: with so many behind it, its turn would come too late. */
    if (++turns->waiting_count > WAITING_MAX && turns->patience == TURNS_REFUSE) {
        struct turn *oldest = turns->waiting;
        leave(turns, oldest);
        oldest->begin(oldest->arg, false);
    }
}

void turn_end(struct turns *turns, struct turn *turn)
{
    DL_DELETE(turns->running, turn);
    turns->under_way -= turn->weight;
}

void turns_pause(struct turns *turns, int64_t ns)
{
    timer_arm(loop_timers(turns->loop), &turns->pause, loop_now_ns(turns->loop) + ns);
}

void turns_go_on(struct turns *turns)
{
    int64_t now_ns = loop_now_ns(turns->loop);
    struct turn *turn;

    while (has_room(turns, 1) && (turn = find_next(turns, now_ns)) != NULL &&
           has_room(turns, turn->weight)) {
        leave(turns, turn);
        if (is_late(turns, turn, now_ns))
            turn->begin(turn->arg, false);
        else
            begin(turns, turn);
    }
}
