/* Requests that take their time: one thread drives them all, the test looks at them. */
#include <pthread.h>

#include "harness_curl.h"

enum { POLL_MS = 1000 };

struct call {
    struct pump *pump;
    struct call *next; /* in the list of orders */
    struct exchange ex;
    struct reply *reply;
    CURLcode code;
    bool finished;  /* the answer, or the hang-up, is there */
    bool hang_up;   /* asked for */
    bool collected; /* the exchange was freed */
};

struct pump {
    pthread_t thread;
    pthread_mutex_t mutex;
    CURLM *multi;
    struct call *orders; /* to be started or hung up */
    bool stop;
};

static void order_carry_out(struct pump *pump, struct call *call)
{
    if (!call->hang_up) {
        curl_multi_add_handle(pump->multi, call->ex.curl);
        return;
    }
    if (call->finished)
        return;
    curl_multi_remove_handle(pump->multi, call->ex.curl);
    call->code = CURLE_ABORTED_BY_CALLBACK;
    call->finished = true;
}

static void pump_orders(struct pump *pump)
{
    struct call *call = pump->orders;

    pump->orders = NULL;
    while (call != NULL) {
        struct call *next = call->next;

        order_carry_out(pump, call);
        call = next;
    }
}

static void pump_answers(struct pump *pump)
{
    CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(pump->multi, &left)) != NULL) {
        CURLcode code = msg->data.result;
        struct call *call = NULL;

        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &call);
        curl_multi_remove_handle(pump->multi, msg->easy_handle);
        call->code = code;
        call->reply->done_ms = now_ms();
        call->finished = true;
    }
}

static void *pump_run(void *arg)
{
    struct pump *pump = arg;
    bool stop = false;

    while (!stop) {
        int running;

        curl_multi_poll(pump->multi, NULL, 0, POLL_MS, NULL);
        pthread_mutex_lock(&pump->mutex);
        pump_orders(pump);
        curl_multi_perform(pump->multi, &running);
        pump_answers(pump);
        stop = pump->stop;
        pthread_mutex_unlock(&pump->mutex);
    }
    return NULL;
}

static void pump_undo(void *thing)
{
    struct pump *pump = thing;

    pthread_mutex_lock(&pump->mutex);
    pump->stop = true;
    pthread_mutex_unlock(&pump->mutex);
    curl_multi_wakeup(pump->multi);
    pthread_join(pump->thread, NULL);
    curl_multi_cleanup(pump->multi);
    pthread_mutex_destroy(&pump->mutex);
    free(pump);
}

static void pump_forget(void *thing)
{
    struct world *w = thing;

    pump_undo(w->inside->pump);
    w->inside->pump = NULL;
}

static struct pump *pump_of(struct world *w)
{
    struct pump *pump = w->inside->pump;

    if (pump != NULL)
        return pump;
    pump = calloc(1, sizeof(*pump));
    if (pump == NULL)
        abort();
    pthread_mutex_init(&pump->mutex, NULL);
    pump->multi = curl_multi_init();
    if (pthread_create(&pump->thread, NULL, pump_run, pump) != 0)
        abort();
    w->inside->pump = pump;
    world_defer(w, pump_forget, w);
    return pump;
}

static void call_order(struct call *call)
{
    struct pump *pump = call->pump;
    struct call **last = &pump->orders;

    pthread_mutex_lock(&pump->mutex);
    while (*last != NULL && *last != call)
        last = &(*last)->next;
    /* A hang-up that overtakes its start: the start finds it done already. */
    if (*last == NULL) {
        *last = call;
        call->next = NULL;
    }
    pthread_mutex_unlock(&pump->mutex);
    curl_multi_wakeup(pump->multi);
}

static void call_collect(struct call *call)
{
    int64_t done_ms = call->reply->done_ms;

    if (call->collected)
        return;
    call->collected = true;
    exchange_finish(&call->ex, call->code, call->reply);
    if (done_ms != 0)
        call->reply->done_ms = done_ms;
}

static void call_undo(void *thing)
{
    struct call *call = thing;

    call_hang_up(call);
    call_collect(call);
    free(call);
}

struct call *call_start(struct front *fe, const struct request *request)
{
    struct call *call = calloc(1, sizeof(*call));

    if (call == NULL)
        abort();
    call->pump = pump_of(fe->world);
    call->reply = reply_new(fe->world);
    exchange_init(&call->ex, fe, request);
    curl_easy_setopt(call->ex.curl, CURLOPT_PRIVATE, call);
    world_defer(fe->world, call_undo, call);
    call_order(call);
    return call;
}

bool call_done(struct call *call)
{
    bool finished;

    pthread_mutex_lock(&call->pump->mutex);
    finished = call->finished;
    pthread_mutex_unlock(&call->pump->mutex);
    return finished;
}

struct reply *call_await(struct call *call, int64_t ms)
{
    wait_until(call_done(call), ms);
    call_collect(call);
    return call->reply;
}

void call_hang_up(struct call *call)
{
    if (call_done(call))
        return;
    pthread_mutex_lock(&call->pump->mutex);
    call->hang_up = true;
    pthread_mutex_unlock(&call->pump->mutex);
    call_order(call);
    while (!call_done(call))
        nap_ms(1);
}
