/* Reads a picture of the census; and what the calls and the steps of the census share. */
#include "storage/census/census.h"

#include <assert.h>
#include <stdlib.h>

#include "server/base/loop.h"
#include "storage/census/census_internal.h"
#include "storage/store/store_call.h"

static const char *const names[] = {[CENSUS_HELD] = "held", [CENSUS_WAITED] = "waited"};

const char *census_kind_name(enum census_kind kind)
{
    return names[kind];
}

void census_key(struct store_call *call, struct store *store, size_t at)
{
    call_key(call, at, KEY_CENSUS, call_base(store_config(store)->key_prefix), NULL);
}

void census_rest(struct store *store, struct timer *rest, int64_t step_began_ns)
{
    struct loop *loop = store_loop(store);
    int64_t took_ns = clock_ns() - step_began_ns;

    if (took_ns < CENSUS_STEP_MIN_NS)
        took_ns = CENSUS_STEP_MIN_NS;
    if (took_ns > CENSUS_STEP_MAX_NS)
        took_ns = CENSUS_STEP_MAX_NS;
    timer_arm(loop_timers(loop), rest, loop_now_ns(loop) + CENSUS_REST_FACTOR * took_ns);
}

struct read {
    census_read_done *done;
    void *arg;
    struct census_picture picture;
};

static void on_read(void *arg, const struct redis_result *result)
{
    struct read *read = arg;
    const struct redis_value *reply = result->reply;
    struct census_reading reading = {
        .outcome = call_outcome_of(result), .age_ms = -1, .picture = &read->picture};
    size_t len;

    if (reading.outcome == CALL_DONE) {
        reading.age_ms = value_integer(value_at(reply, CENSUS_READ_REPLY_AGE_MS));
        reading.now_ms = value_integer(value_at(reply, CENSUS_READ_REPLY_NOW_MS));
        picture_parse(&read->picture,
                      value_text(value_at(reply, CENSUS_READ_REPLY_TEXT), &len));
    }
    read->done(read->arg, &reading);
    free(read);
}

void census_read(struct store *store, enum census_kind kind, census_read_done *done, void *arg)
{
    struct store_call *call = call_begin(store, SCRIPT_CENSUS_READ);
    struct read *read = malloc(sizeof(*read));

    assert(read != NULL);
    read->picture.count = 0;
    read->done = done;
    read->arg = arg;
    census_key(call, store, CENSUS_READ_KEY_CENSUS);
    call_string(call, CENSUS_READ_ARG_PICTURE, census_kind_name(kind));
    call_send(call, on_read, read);
}
