/* The errands that Redis has not confirmed yet. */
#include "storage/store/errand.h"

#include <utlist.h>

#include "server/base/clock.h"
#include "storage/store/store_internal.h"

static struct errand_line *line_of(const struct errand *errand)
{
    return &errand->store->errands[errand->job->rank];
}

static void end(struct errand *errand)
{
    DL_DELETE(line_of(errand)->first, errand);
    errand->job->end(errand->arg);
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct errand *errand = arg;
    struct errand_line *line = line_of(errand);
    struct loop *loop = errand->store->options.loop;

    errand->in_flight = false;
    if (result->outcome == REDIS_DONE || result->refusal == REDIS_REFUSED_WRONG_TYPE) {
        if (errand->job->confirmed != NULL)
            errand->job->confirmed(errand->arg, result);
        end(errand);
    } else if (!timer_is_armed(&line->retry)) {
        timer_arm(loop_timers(loop), &line->retry, loop_now_ns(loop) + REDIS_ASK_AGAIN_NS);
    }
}

static void send(struct errand *errand)
{
    errand->in_flight = true;
    call_send(errand->job->fill(errand->store, errand->arg), on_reply, errand);
}

void errand_start(struct store *store, struct errand *errand, const struct errand_job *job,
                  void *arg, int64_t ttl_ns)
{
    *errand = (struct errand){.job = job,
                              .arg = arg,
                              .store = store,
                              .expires_ns = ttl_ns == INT64_MAX
                                                ? INT64_MAX
                                                : loop_now_ns(store->options.loop) + ttl_ns};
    DL_APPEND(line_of(errand)->first, errand);
    send(errand); /* when Redis is down: store_redis_is_up() does */
}

static void retry(void *arg)
{
    struct errand_line *line = arg;
    struct errand *errand, *next;

    DL_FOREACH_SAFE(line->first, errand, next) {
        if (errand->in_flight)
            continue;
        if (errand->expires_ns < loop_now_ns(errand->store->options.loop))
            end(errand);
        else
            send(errand);
    }
}

void errands_init(struct store *store)
{
    for (int rank = 0; rank < ERRAND_RANKS; rank++) {
        struct errand_line *line = &store->errands[rank];
        line->retry = (struct timer){.fire = retry, .arg = line};
    }
}

void errands_retry(struct store *store)
{
    for (int rank = 0; rank < ERRAND_RANKS; rank++)
        retry(&store->errands[rank]);
}

size_t errands_pending(const struct store *store)
{
    const struct errand *errand;
    size_t count, sum = 0;

    for (int rank = 0; rank < ERRAND_RANKS; rank++) {
        DL_COUNT(store->errands[rank].first, errand, count);
        sum += count;
    }
    return sum;
}

void errands_release(struct store *store)
{
    struct errand *errand, *next;

    for (int rank = 0; rank < ERRAND_RANKS; rank++) {
        timer_cancel(loop_timers(store->options.loop), &store->errands[rank].retry);
        DL_FOREACH_SAFE(store->errands[rank].first, errand, next) {
            end(errand);
        }
    }
}
