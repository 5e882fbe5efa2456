/* The calls under way over a connection: their memory, their deadline, and their end. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hiredis/sds.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/redis/link_internal.h"

enum {
    GATHER_MAX = 8,         /* commands in one write */
    CALL_BLOCK = 1024,      /* most calls are smaller */
    KEPT_BUFFER = 64 * 1024 /* a larger buffer is freed when all of it is sent */
};

void redis_link_calls_init(struct redis_link *link)
{
    pool_init(&link->calls.pool, CALL_BLOCK);
    link->calls.refuse = (struct timer){.fire = redis_link_refuse_calls, .arg = link};
}

void redis_link_calls_release(struct redis_link *link)
{
    timer_cancel(loop_timers(link->options.loop), &link->calls.refuse);
    pool_release(&link->calls.pool);
}

/* --- their text --------------------------------------------------------------------------- */

/* "<mark><number>\r\n" */
static char *format_line(char *out, char mark, size_t number)
{
    *out++ = mark;
    if (number < 100) {
        *out = (char)('0' + number / 10);
        out += number >= 10;
        *out++ = (char)('0' + number % 10);
    } else {
        out += text_format_int64(out, (int64_t)number);
    }
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

char *redis_format_count(char *out, size_t argument_count)
{
    return format_line(out, '*', argument_count);
}

char *redis_format_argument(char *out, const char *text, size_t len)
{
    out = format_line(out, '$', len);
    memcpy(out, text, len);
    out += len;
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

static size_t size_of(const struct script_text *texts, size_t count)
{
    size_t size = 0;

    for (size_t i = 0; i < count; i++)
        size += texts[i].len + REDIS_ARGUMENT_EXTRA;
    return size;
}

static char *format_texts(char *end, const struct script_text *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        end = redis_format_argument(end, texts[i].text, texts[i].len);
    return end;
}

static size_t formatted_max(const struct script_args *args)
{
    return size_of(args->keys, args->key_count) + size_of(args->args, args->count);
}

static size_t format_args(char *out, const struct script_args *args)
{
    char *end = format_texts(out, args->keys, args->key_count);

    return (size_t)(format_texts(end, args->args, args->count) - out);
}

void redis_link_share(struct script_call *script, char *room, size_t size)
{
    if (formatted_max(script->args) > size)
        return;
    script->formatted = room;
    script->formatted_len = format_args(room, script->args);
}

/* --- their memory ------------------------------------------------------------------------- */

struct redis_call *redis_call_new(struct redis_link *link, const struct script_call *script,
                                  redis_done *done, void *arg)
{
    const struct script_args *args = script != NULL ? script->args : NULL;
    size_t key_count = args != NULL ? args->key_count : 0;
    size_t arg_count = args != NULL ? args->count : 0;
    size_t args_size = 0;

    if (args != NULL)
        args_size = script->formatted != NULL ? script->formatted_len : formatted_max(args);
    bool pooled = sizeof(struct redis_call) + args_size <= CALL_BLOCK;
    struct redis_call *call = pooled ? pool_take(&link->calls.pool)
                                     : malloc(sizeof(*call) + args_size);
    bool is_unsendable = call == NULL && !pooled;
    if (is_unsendable)
        call = pool_take(&link->calls.pool);
    assert(call != NULL);
    *call = (struct redis_call){.link = link,
                                .done = done,
                                .arg = arg,
                                .sent_ns = clock_ns(),
                                .pooled = pooled || is_unsendable,
                                .is_unsendable = is_unsendable,
                                .key_count = key_count,
                                .argc = key_count + arg_count};
    if (args == NULL || is_unsendable)
        return call;
    if (script->formatted != NULL)
        memcpy(call->args, script->formatted, args_size);
    call->args_len = script->formatted != NULL ? args_size : format_args(call->args, args);
    return call;
}

void redis_call_free(struct redis_call *call)
{
    if (call->pooled)
        pool_give(&call->link->calls.pool, call);
    else
        free(call);
}

/* --- their end ---------------------------------------------------------------------------- */

void redis_call_end(struct redis_call *call, const struct redis_result *result)
{
    struct redis_link *link = call->link;

    if (result->outcome == REDIS_UNKNOWN)
        metrics_add(link->options.metrics, METRIC_REDIS_UNKNOWN, 1);
    else if (result->outcome == REDIS_REFUSED)
        metrics_add(link->options.metrics, METRIC_REDIS_NOT_EXECUTED, 1);
    call->done(call->arg, result);
    redis_call_free(call);
}

void redis_call_refuse_later(struct redis_call *call)
{
    struct redis_link *link = call->link;

    DL_APPEND(link->calls.refused, call);
    timer_arm(loop_timers(link->options.loop), &link->calls.refuse, 0);
}

void redis_link_refuse_calls(void *arg)
{
    struct redis_link *link = arg;
    struct redis_call *calls = link->calls.refused, *call, *next;

    link->calls.refused = NULL; /* a callback may ask, and be refused, again */
    DL_FOREACH_SAFE(calls, call, next) {
        const struct redis_result result = {.outcome = REDIS_REFUSED,
                                            .refusal = REDIS_REFUSED_UNAVAILABLE,
                                            .sent_ns = call->sent_ns,
                                            .server = &link->server};
        redis_call_end(call, &result);
    }
}

/* --- their times -------------------------------------------------------------------------- */

/* The timer is armed from the queueing of the first call, since most calls are answered long
 * before; when it fires, it looks when the call was written. */
void redis_link_watch_deadline(struct redis_link *link)
{
    struct timers *timers = loop_timers(link->options.loop);
    const struct redis_call *first = link->calls.pending;

    if (first != NULL)
        timer_arm(timers, &link->deadline,
                  first->sent_ns + REDIS_DEADLINE_MS * CLOCK_NS_PER_MS);
    else if (link->state != LINK_CONNECTING)
        timer_cancel(timers, &link->deadline);
}

/* The time of a call counts from its write: a call that is not written yet is written at the
 * end of this turn. */
int64_t redis_link_due_ns(const struct redis_link *link)
{
    int64_t now_ns = loop_now_ns(link->options.loop);
    const struct redis_call *first = link->calls.pending;

    if (first == NULL)
        return now_ns;
    return (first->written_ns != 0 ? first->written_ns : now_ns) +
           REDIS_DEADLINE_MS * CLOCK_NS_PER_MS;
}

void redis_call_await(struct redis_call *call)
{
    struct link_calls *calls = &call->link->calls;

    DL_APPEND(calls->pending, call);
    if (calls->pending == call)
        redis_link_watch_deadline(call->link);
}

void redis_link_note_written(struct redis_link *link)
{
    const struct link_calls *calls = &link->calls;
    struct redis_call *call = calls->pending != NULL ? calls->pending->prev : NULL; /* last */

    if (call == NULL || call->written_ns != 0)
        return;
    int64_t now_ns = clock_ns();
    for (; call->written_ns == 0; call = call->prev) /* the first one's is the last again */
        call->written_ns = now_ns;
}

void redis_link_drop_sent(struct redis_link *link, size_t len)
{
    redisContext *context = &link->context->c;

    sdsrange(context->obuf, (int)len, -1);
    if (sdslen(context->obuf) > 0 || sdsavail(context->obuf) < KEPT_BUFFER)
        return;
    char *smaller = sdsempty();
    if (smaller != NULL) {
        sdsfree(context->obuf);
        context->obuf = smaller;
    }
}

void redis_link_write(struct redis_link *link)
{
    redisContext *context = &link->context->c;
    size_t len = sdslen(context->obuf);
    ssize_t sent = len > 0 ? write(context->fd, context->obuf, len) : 0;

    if (sent > 0)
        redis_link_drop_sent(link, (size_t)sent);
}

bool redis_link_has_gathered(struct redis_link *link)
{
    if (++link->calls.gathered < GATHER_MAX || link->state != LINK_UP)
        return false;
    link->calls.gathered = 0;
    return true;
}

void redis_link_turn_calls(struct redis_link *link)
{
    struct link_calls *calls = &link->calls;

    if (calls->pending != NULL)
        loop_await(link->options.loop, calls->pending->next == NULL ? 1 : 2);
    calls->gathered = 0;
}
