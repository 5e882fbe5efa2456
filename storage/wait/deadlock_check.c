/* Checks for deadlocks, each a sequence of scripts. */
#include "storage/wait/deadlock_check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "storage/look/locks.h"
#include "storage/notes/waits.h"
#include "storage/wait/cycle_search.h"

enum {
    ANSWER_MS = 50, /* before the answers are read, and again before they are read once more */
    ANSWER_READS = 5
};

struct deadlock_check {
    struct store *store;
    struct turns *turns;
    struct turn turn;
    const struct deadlock_member *self;
    const struct lock_names *names;
    deadlock_check_done *done; /* NULL: cancelled */
    void *arg;
    struct cycle_search *search; /* under way, or NULL */
    struct deadlock *found;      /* NULL: not yet */
    char question[ATTEMPT_ID_SIZE];
    struct timer timer; /* of the answers */
    unsigned reads;     /* of answers */
    size_t next;        /* member whose link is read next */
};

/* Ends the turn; the others of the worker may begin. */
static void leave(struct deadlock_check *check)
{
    struct turns *turns = check->turns;

    turn_end(turns, &check->turn);
    free(check->found);
    free(check);
    turns_go_on(turns);
}

static void finish(struct deadlock_check *check, bool is_proved)
{
    deadlock_check_done *done = check->done;
    void *arg = check->arg;
    struct deadlock *found = NULL;

    if (is_proved) {
        found = check->found;
        check->found = NULL;
    }
    leave(check);
    if (done != NULL)
        done(arg, found);
}

static struct deadlock_member *member_of(struct deadlock_check *check)
{
    return &check->found->members[check->next];
}

/* --- the locks are read again ------------------------------------------------------------- */

static void read_locks(struct deadlock_check *check);

static void on_lock(void *arg, const struct lock_view *view)
{
    struct deadlock_check *check = arg;
    const struct deadlock_member *member = member_of(check);
    bool is_same = false;

    for (size_t i = 0; view->outcome == CALL_DONE && i < view->holders_shown; i++)
        is_same |= strcmp(view->holders[i].field, member->field) == 0 &&
                   view->holders[i].fencing_token == member->fencing_token;
    if (check->done == NULL || !is_same) {
        finish(check, false);
        return;
    }
    check->next++;
    read_locks(check);
}

static void read_locks(struct deadlock_check *check)
{
    static const struct lock_query query = {.holders_max = LOCK_HOLDERS_SHOWN};

    if (check->next == check->found->count)
        finish(check, true);
    else
        lock_get(check->store, member_of(check)->lock, &query, on_lock, check);
}

/* --- the other waits: a question, and its answers ----------------------------------------- */

static void read_answers(struct deadlock_check *check);

static const struct session_wait_view *find_wait(const struct session_waits *waits,
                                                 const char *wait_id)
{
    for (size_t i = 0; waits->outcome == CALL_DONE && i < waits->count; i++)
        if (strcmp(waits->waits[i].wait_id, wait_id) == 0)
            return &waits->waits[i];
    return NULL;
}

static bool has_answered(const struct session_wait_view *wait, const char *question)
{
    size_t len = strlen(question);
    const char *at = wait->answered;

    while ((at = strstr(at, question)) != NULL) {
        if ((at == wait->answered || at[-1] == ' ') && at[len] == ' ')
            return true;
        at += len;
    }
    return false;
}

static void on_answers(void *arg, const struct session_waits *waits)
{
    struct deadlock_check *check = arg;
    const struct session_wait_view *wait = find_wait(waits, member_of(check)->wait_id);

    if (check->done == NULL || wait == NULL) {
        finish(check, false);
    } else if (has_answered(wait, check->question)) {
        check->next++;
        read_answers(check);
    } else if (++check->reads < ANSWER_READS) {
        timer_arm(loop_timers(store_loop(check->store)), &check->timer,
                  loop_now_ns(store_loop(check->store)) +
                      (ANSWER_MS * CLOCK_NS_PER_MS << check->reads));
    } else {
        finish(check, false);
    }
}

/* Of the other waits from `next` on. */
static void read_answers(struct deadlock_check *check)
{
    if (check->next == check->found->count) {
        check->next = 0;
        read_locks(check);
        return;
    }
    const struct deadlock_member *member = member_of(check);
    session_waits_read(check->store, member->session_id, member->owner, NULL, on_answers,
                       check);
}

static void on_timer(void *arg)
{
    read_answers(arg);
}

static void ask(struct deadlock_check *check);

static void on_asked(void *arg, const struct session_waits *waits)
{
    struct deadlock_check *check = arg;

    if (check->done == NULL || find_wait(waits, member_of(check)->wait_id) == NULL) {
        finish(check, false);
        return;
    }
    check->next++;
    ask(check);
}

static void ask(struct deadlock_check *check)
{
    const struct deadlock_member *member;

    if (check->next < check->found->count) {
        member = member_of(check);
        session_waits_read(check->store, member->session_id, member->owner, check->question,
                           on_asked, check);
        return;
    }
    check->next = 1;
    timer_arm(loop_timers(store_loop(check->store)), &check->timer,
              loop_now_ns(store_loop(check->store)) + ANSWER_MS * CLOCK_NS_PER_MS);
}

/* --- the check ---------------------------------------------------------------------------- */

static void on_searched(void *arg, struct deadlock *found)
{
    struct deadlock_check *check = arg;

    check->search = NULL;
    check->found = found;
    if (found == NULL) {
        finish(check, false);
        return;
    }
    store_attempt_id(check->store, check->question);
    check->next = 1; /* the first wait is that of this very worker: it goes on */
    ask(check);
}

static void on_turn(void *arg, bool may)
{
    struct deadlock_check *check = arg;

    assert(may);               /* TURNS_WAIT */
    if (check->done == NULL) { /* the next turn begins without being told */
        turn_end(check->turns, &check->turn);
        free(check);
    } else {
        check->search = cycle_search_start(check->store, check->self, check->names, on_searched,
                                           check);
    }
}

struct deadlock_check *deadlock_check_start(struct store *store, struct turns *turns,
                                            const struct deadlock_member *self,
                                            const struct lock_names *names,
                                            deadlock_check_done *done, void *arg)
{
    struct deadlock_check *check = calloc(1, sizeof(*check));

    assert(check != NULL);
    check->store = store;
    check->turns = turns;
    check->self = self;
    check->names = names;
    check->done = done;
    check->arg = arg;
    check->timer = (struct timer){.fire = on_timer, .arg = check};
    check->turn = (struct turn){.begin = on_turn, .arg = check, .weight = 1};
    turn_start(turns, &check->turn);
    return check;
}

void deadlock_check_cancel(struct deadlock_check *check)
{
    bool is_idle = timer_is_armed(&check->timer);

    check->done = NULL;
    if (check->search != NULL) {
        cycle_search_cancel(check->search);
        is_idle = true;
    }
    timer_cancel(loop_timers(store_loop(check->store)), &check->timer);
    if (is_idle)
        leave(check);
}
