/* The queue of pieces of work that wait for their turn, and its limit of time. */
#include "storage/store/turns.h"

#include <string.h>

#include <utlist.h>

#include "server/base/clock.h"

#define WAIT_MAX_NS (2 * CLOCK_NS_PER_S)

enum { WAITING_MAX = 1000 };

static void on_pause_over(void *arg)
{
    turns_go_on(arg);
}

void turns_init(struct turns *turns, struct loop *loop, size_t most)
{
    *turns = (struct turns){
        .loop = loop, .most = most, .pause = {.fire = on_pause_over, .arg = turns}};
}

void turns_release(struct turns *turns)
{
    timer_cancel(loop_timers(turns->loop), &turns->pause);
}

static bool may_begin(const struct turns *turns)
{
    return turns->under_way < turns->most && !timer_is_armed(&turns->pause);
}

bool turns_are_free(const struct turns *turns)
{
    return may_begin(turns) && turns->waiting == NULL;
}

static bool has_running_piece(const struct turns *turns, const char *owner)
{
    const struct turn *turn;

    DL_FOREACH(turns->running, turn) {
        if (owner != NULL && turn->owner != NULL && strcmp(turn->owner, owner) == 0)
            return true;
    }
    return false;
}

static void begin(struct turns *turns, struct turn *turn)
{
    turns->under_way++;
    DL_APPEND(turns->running, turn);
    turn->begin(turn->arg, true);
}

static void leave(struct turns *turns, struct turn *turn)
{
    DL_DELETE(turns->waiting, turn);
    turns->waiting_count--;
}

/* The oldest piece that may begin now, or has waited too long; NULL: there is none. */
static struct turn *find_next(const struct turns *turns, int64_t now_ns)
{
    struct turn *turn;

    DL_FOREACH(turns->waiting, turn) {
        if (!has_running_piece(turns, turn->owner) || now_ns - turn->since_ns > WAIT_MAX_NS)
            return turn;
    }
    return NULL;
}

void turn_start(struct turns *turns, struct turn *turn)
{
    turn->since_ns = loop_now_ns(turns->loop);
    if (may_begin(turns) && find_next(turns, turn->since_ns) == NULL &&
        !has_running_piece(turns, turn->owner)) {
        begin(turns, turn);
        return;
    }
    DL_APPEND(turns->waiting, turn);
    /* The oldest has waited long: with so many behind it, its turn would come too late. */
    if (++turns->waiting_count > WAITING_MAX) {
        struct turn *oldest = turns->waiting;
        leave(turns, oldest);
        oldest->begin(oldest->arg, false);
    }
}

void turn_end(struct turns *turns, struct turn *turn)
{
    DL_DELETE(turns->running, turn);
    turns->under_way--;
}

void turns_pause(struct turns *turns, int64_t ns)
{
    timer_arm(loop_timers(turns->loop), &turns->pause, loop_now_ns(turns->loop) + ns);
}

void turns_go_on(struct turns *turns)
{
    int64_t now_ns = loop_now_ns(turns->loop);
    struct turn *turn;

    while (may_begin(turns) && (turn = find_next(turns, now_ns)) != NULL) {
        leave(turns, turn);
        if (now_ns - turn->since_ns > WAIT_MAX_NS)
            turn->begin(turn->arg, false);
        else
            begin(turns, turn);
    }
}
