/* The notes of a session's leases and its losses, at all servers. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/quorum/calls_internal.h"

static unsigned replied(const struct quorum_call *call)
{
    unsigned count = 0;

    for (size_t i = 0; i < call->calls->nodes; i++)
        count += call->round.replies[i].state == ROUND_REPLIED;
    return count;
}

/* --- unbind ------------------------------------------------------------------------------- */

/* A note that a server has still is one of a lease that is neither held nor waits. */
static void decide_unbind(struct quorum_call *call)
{
    if (replied(call) >= quorum_majority(call->calls->nodes))
        quorum_call_answer(call, value_make_integer(0));
    else if (call->round.is_over)
        quorum_call_fail(call);
}

void quorum_unbind(struct quorum_call *call)
{
    quorum_call_ask(call, SCRIPT_SESSION_UNBIND, call->args, decide_unbind);
}

/* --- settle ------------------------------------------------------------------------------- */

static const struct call_word settle_words[] = {
    {"open", NODE_OPEN, SESSION_SETTLE_REPLY_OPEN_NEXT_MS}, {"ended", NODE_ENDED, 0}};

/* A loss that one server has noted already is new at another one. */
static void answer_settled(struct quorum_call *call, const struct node_reply *replies)
{
    struct redis_value *reply = value_make_list(SESSION_SETTLE_REPLY_OPEN_LOSSES + 1);
    int64_t next_ms = INT64_MAX;

    for (size_t i = 0; i < call->calls->nodes; i++)
        if (replies[i].word == NODE_OPEN && replies[i].value < next_ms)
            next_ms = replies[i].value;
    value_put(reply, 0, value_make_text("open", sizeof("open") - 1));
    value_put(reply, SESSION_SETTLE_REPLY_OPEN_NEXT_MS, value_make_integer(next_ms));
    value_put(reply, SESSION_SETTLE_REPLY_OPEN_LOSSES,
              quorum_union(call, replies, NODE_OPEN, SESSION_SETTLE_REPLY_OPEN_LOSSES,
                           SESSION_SETTLE_REPLY_LOSS_VALUES));
    quorum_call_answer(call, reply);
}

static void decide_settle(struct quorum_call *call)
{
    struct node_reply replies[QUORUM_NODES_MAX];
    unsigned needed = quorum_majority(call->calls->nodes), over;

    quorum_session_words(call, WORDS(settle_words), replies);
    over = quorum_count_over(call, replies);
    if (quorum_count(call, replies, NODE_OPEN) >= needed)
        answer_settled(call, replies);
    else if (over >= needed)
        quorum_session_answer_ended(call, quorum_end_reason(call, replies));
    else if (call->round.is_over)
        quorum_call_fail(call);
}

void quorum_settle(struct quorum_call *call)
{
    int64_t seen_ms = quorum_arg_ms(call, SESSION_SETTLE_ARG_SEEN);
    int64_t ago_ms = quorum_clock_ms(call->calls) - seen_ms;

    if (seen_ms > 0)
        args_number(call->args, SESSION_SETTLE_ARG_SEEN, ago_ms > 0 ? ago_ms : 0);
    quorum_call_ask(call, SCRIPT_SESSION_SETTLE, call->args, decide_settle);
}

/* --- times -------------------------------------------------------------------------------- */

void quorum_put_back(struct redis_value *entries, size_t from, size_t to, int64_t ahead_ms)
{
    enum { AHEAD_MIN_MS = 1000 }; /* less than that does no harm */

    if (llabs(ahead_ms) < AHEAD_MIN_MS)
        return;
    for (size_t i = from + SESSION_PAGE_REPLY_ENTRY_VALUE; i < to;
         i += SESSION_PAGE_REPLY_ENTRY_VALUES) {
        size_t len;
        const char *text = value_text(value_at(entries, i), &len);
        char *rest, *made;
        int64_t ms = strtoll(text, &rest, 10);
        if (rest == text)
            continue; /* the sentinel */
        int made_len = asprintf(&made, "%" PRId64 "%s", ms - ahead_ms, rest);
        assert(made_len > 0);
        value_put(entries, i, value_make_text(made, (size_t)made_len));
        free(made);
    }
}

/* --- pages -------------------------------------------------------------------------------- */

/* The pages of one server follow those of another: all notes of a majority are read. A cursor
 * names the server, its cursor, and how many servers could not be read. */
struct page_place {
    size_t node;
    uint64_t cursor;
    unsigned missed;
};

static struct page_place read_place(const struct quorum_call *call)
{
    struct page_place place = {0};
    const char *text = quorum_arg(call, SESSION_PAGE_ARG_CURSOR);

    if (sscanf(text, "%zu.%" SCNu64 ".%u", &place.node, &place.cursor, &place.missed) != 3 ||
        place.node >= call->calls->nodes)
        place = (struct page_place){0};
    return place;
}

static void answer_page(struct quorum_call *call, struct page_place next,
                        struct redis_value *entries)
{
    struct redis_value *page = value_make_list(SESSION_PAGE_REPLY_VALUES);
    char text[64] = "0";

    if (next.node < call->calls->nodes)
        snprintf(text, sizeof(text), "%zu.%" PRIu64 ".%u", next.node, next.cursor, next.missed);
    value_put(page, SESSION_PAGE_REPLY_CURSOR, value_make_text(text, strlen(text)));
    value_put(page, SESSION_PAGE_REPLY_ENTRIES, entries);
    quorum_call_answer(call, page);
}

static void decide_page(struct quorum_call *call)
{
    struct page_place place = read_place(call);
    const struct round_reply *reply = &call->round.replies[place.node];

    if (!call->round.is_over)
        return;
    if (reply->state == ROUND_REPLIED) {
        size_t len;
        int64_t ahead_ms = quorum_ahead_ms(call->calls, place.node);
        place.cursor = strtoull(
            value_text(value_at(reply->value, SESSION_PAGE_REPLY_CURSOR), &len), NULL, 10);
        place.node += place.cursor == 0;
        struct redis_value *entries = value_copy(
            value_at(reply->value, SESSION_PAGE_REPLY_ENTRIES));
        quorum_put_back(entries, 0, value_count(entries), ahead_ms);
        answer_page(call, place, entries);
        return;
    }
    place.node++;
    place.cursor = 0;
    place.missed++;
    if (place.missed > call->calls->nodes - quorum_majority(call->calls->nodes))
        quorum_call_fail(call);
    else
        answer_page(call, place, value_make_list(0));
}

void quorum_page(struct quorum_call *call)
{
    struct page_place place = read_place(call);
    const struct script_text *hash = &call->args->keys[SESSION_PAGE_KEY_HASH];
    char cursor[TEXT_INT64_SIZE];
    struct script_args args;

    args_init(&args);
    args_key(&args, SESSION_PAGE_KEY_HASH, hash->text, hash->len);
    snprintf(cursor, sizeof(cursor), "%" PRIu64, place.cursor);
    args_string(&args, SESSION_PAGE_ARG_CURSOR, cursor);
    const struct script_call script = script_call_make(SCRIPT_SESSION_PAGE, &args);
    call->decide = decide_page;
    round_begin(&call->round, &script, 1U << place.node);
}

/* --- losses that were told ---------------------------------------------------------------- */

enum { TOLD_BATCH = 100 };

static void answer_told(struct quorum_call *call)
{
    quorum_call_answer(call, value_make_integer(0));
}

/* A ref with the time before it when the loss was noted; of a loss that this keep-alive has
 * found that is not known, and is now. The caller frees it. */
static char *make_loss(const struct redis_command *command, size_t i, int64_t now_ms)
{
    const char *text = command->argv[i];
    int len = (int)command->lens[i], made_len;
    char *made;

    if (text[strspn(text, "0123456789")] == ' ')
        made_len = asprintf(&made, "%.*s", len, text);
    else
        made_len = asprintf(&made, "%" PRId64 " %.*s", now_ms, len, text);
    assert(made_len > 0);
    return made;
}

/* Each server gets the difference of its clock. */
static void tell(struct quorum_call *call, struct script_args *args)
{
    for (struct topology_node *node = topology_next_node(call->calls->options.topology, NULL);
         node != NULL; node = topology_next_node(call->calls->options.topology, node)) {
        size_t number = topology_node_number(node);
        args->number_count = 1; /* told_ms stays */
        args_number(args, QUORUM_SESSION_TOLD_ARG_AHEAD_MS,
                    quorum_ahead_ms(call->calls, number));
        quorum_call_repeat(call, SCRIPT_SESSION_TOLD, args, 1U << number,
                           call->calls->options.config->retry_window_ms);
    }
}

/* A server that is away has a loss, or the note of the lease, until it has confirmed this.
 * After the retry window the mark at the others says so. */
void quorum_told(struct quorum_call *call, const struct redis_command *command)
{
    static const enum quorum_key keys[QUORUM_SESSION_TOLD_KEYS] = {
        [QUORUM_SESSION_TOLD_KEY_SESSION] = QUORUM_KEY_SESSION,
        [QUORUM_SESSION_TOLD_KEY_NOTES] = QUORUM_KEY_SESSION_LEASES,
        [QUORUM_SESSION_TOLD_KEY_DUE] = QUORUM_KEY_SESSION_DUE,
        [QUORUM_SESSION_TOLD_KEY_LOST] = QUORUM_KEY_SESSION_LOST};
    int64_t now_ms = quorum_clock_ms(call->calls);
    char texts[QUORUM_SESSION_TOLD_KEYS][SESSION_KEY_SIZE];
    struct redis_tag id = redis_tag_of(command->argv[1], command->lens[1]);
    struct script_args args;

    for (size_t i = 2; i < command->argc; i += TOLD_BATCH) {
        args_init(&args);
        quorum_put_session_keys(call->calls, &args, keys, QUORUM_SESSION_TOLD_KEYS, id, texts);
        args_number(&args, QUORUM_SESSION_TOLD_ARG_TOLD_MS, now_ms);
        char *losses[TOLD_BATCH];
        size_t count = 0;
        for (; count < TOLD_BATCH && i + count < command->argc; count++) {
            losses[count] = make_loss(command, i + count, now_ms);
            args_string(&args, QUORUM_SESSION_TOLD_ARG_LOSSES + count, losses[count]);
        }
        tell(call, &args);
        while (count > 0)
            free(losses[--count]);
    }
    quorum_call_later(call, answer_told);
}
