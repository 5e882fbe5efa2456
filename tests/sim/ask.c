/* The sending of a request, the judgement of its answer, and its line in the history. */
#include "tests/sim/ask.h"

#include <string.h>

#include "tests/sim/bytes.h"

/* --- what an answer means
 * ---------------------------------------------------------------------- */

static const char *text_in(const struct answer *answer, const char *name)
{
    const char *text = json_string_value(json_object_get(answer->body, name));

    return text != NULL ? text : "";
}

int64_t number_in(const struct answer *answer, const char *name)
{
    return json_integer_value(json_object_get(answer->body, name));
}

int64_t fencing_token_of(const struct answer *answer, const char *lock)
{
    json_t *parts = json_object_get(answer->body, "locks"), *part;
    size_t i;

    json_array_foreach(parts, i, part) {
        const char *name = json_string_value(json_object_get(part, "lock"));
        if (name != NULL && strcmp(name, lock) == 0)
            return json_integer_value(json_object_get(part, "fencing_token"));
    }
    return 0;
}

static bool has(const struct answer *answer, const char *name)
{
    return json_object_get(answer->body, name) != NULL;
}

static enum result result_of(const struct answer *answer)
{
    if (answer->is_abandoned)
        return RESULT_ABANDONED;
    if (!answer->is_sent)
        return RESULT_NOT_DONE;
    if (answer->status == 200 || answer->status == 201)
        return RESULT_OK;
    if (answer->status == 410)
        return RESULT_ENDED;
    if (answer->status == 0 || strcmp(text_in(answer, "outcome"), "unknown") == 0)
        return RESULT_UNKNOWN;
    return RESULT_NOT_DONE;
}

/* What is wrong with the form of an answer; NULL: nothing. */
static const char *fault_of(const struct answer *answer, int refusal)
{
    static const int expected[] = {404, 410, 412, 423, 429, 503};
    const char *outcome = text_in(answer, "outcome");

    if (answer->status == 0)
        return NULL;
    if (!json_is_object(answer->body))
        return "an answer without a JSON object";
    if (answer->status < 400)
        return NULL;
    if (!answer->is_problem || number_in(answer, "status") != answer->status ||
        text_in(answer, "type")[0] == '\0')
        return "a wrong problem document";
    if (answer->status == 503 && strcmp(outcome, "unknown") != 0 &&
        strcmp(outcome, "not-executed") != 0)
        return "status 503 without an outcome";
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        if (answer->status == expected[i])
            return NULL;
    if (answer->status == refusal)
        return NULL;
    return "a status that was not to be expected";
}

/* --- asking
 * -------------------------------------------------------------------------------------- */

static void add_number(struct buffer *line, const char *name, int64_t number)
{
    if (number >= 0)
        buffer_format(line, ",\"%s\":%lld", name, (long long)number);
}

static void add_text(struct buffer *line, const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0')
        buffer_format(line, ",\"%s\":\"%s\"", name, text);
}

static void add_lease(struct buffer *line, const struct asking *asking, enum result result)
{
    const struct lease *lease = asking->lease;
    bool tells_tokens = result == RESULT_OK && strcmp(asking->verb, "release") != 0;

    add_text(line, "lease", lease->id);
    add_text(line, "kind", lease->kind);
    add_text(line, "owner", lease->owner);
    if (lease->lock_count == 1) {
        add_text(line, "lock", lease->locks[0]);
        if (tells_tokens)
            add_number(line, "token", number_in(&asking->answer, "fencing_token"));
        return;
    }
    buffer_format(line, ",\"locks\":[");
    for (size_t i = 0; i < lease->lock_count; i++)
        buffer_format(line, "%s\"%s\"", i > 0 ? "," : "", lease->locks[i]);
    buffer_format(line, "]");
    if (!tells_tokens)
        return;
    buffer_format(line, ",\"tokens\":[");
    for (size_t i = 0; i < lease->lock_count; i++)
        buffer_format(line, "%s%lld", i > 0 ? "," : "",
                      (long long)fencing_token_of(&asking->answer, lease->locks[i]));
    buffer_format(line, "]");
}

/* The leases that the answer says to hold; of a lease in the state "unknown" it says nothing.
 */
static void add_listed(struct buffer *line, const struct asking *asking)
{
    json_t *leases = json_object_get(asking->answer.body, "leases"), *lease;
    const char *comma = "";
    size_t i;

    buffer_format(line, ",\"listed\":[");
    json_array_foreach(leases, i, lease) {
        if (strcmp(json_string_value(json_object_get(lease, "state")), "held") != 0)
            continue;
        buffer_format(line, "%s{\"lease\":\"%s\",\"remaining_ms\":%lld}", comma,
                      json_string_value(json_object_get(lease, "lease_id")),
                      (long long)json_integer_value(json_object_get(lease, "remaining_ms")));
        comma = ",";
    }
    buffer_format(line, "]");
}

/* Whether the answer says of each lease of the session whether it holds. */
static bool is_whole(const struct asking *asking)
{
    json_t *leases = json_object_get(asking->answer.body, "leases"), *lease;
    size_t i;

    json_array_foreach(leases, i, lease) {
        if (strcmp(json_string_value(json_object_get(lease, "state")), "held") != 0)
            return false;
    }
    return leases != NULL;
}

static void add_lost(struct buffer *line, const struct asking *asking)
{
    json_t *losses = json_object_get(asking->answer.body, "lost"), *loss;
    size_t i;

    if (is_whole(asking))
        buffer_format(line, ",\"whole\":true");
    if (json_array_size(losses) == 0)
        return;
    buffer_format(line, ",\"lost\":[");
    json_array_foreach(losses, i, loss) {
        buffer_format(line, "%s{\"lease\":\"%s\",\"reason\":\"%s\"}", i > 0 ? "," : "",
                      json_string_value(json_object_get(loss, "lease_id")),
                      json_string_value(json_object_get(loss, "reason")));
    }
    buffer_format(line, "]");
}

static const char *complaint_of(const struct asking *asking, enum result result)
{
    const char *id = text_in(&asking->answer, "lease_id");

    if (asking->lease != NULL && result == RESULT_OK && id[0] != '\0' &&
        strcmp(id, asking->lease->id) != 0)
        return "another lease_id than that of the token";
    if (asking->must_work && asking->answer.status == 503 && world.only_out_of_memory)
        return "refused when only memory was short";
    return fault_of(&asking->answer, asking->how.refusal);
}

static void record_asking(const struct asking *asking, enum result result)
{
    static const char *const results[] = {"ok", "not-done", "ended", "unknown", "abandoned"};
    const struct answer *answer = &asking->answer;
    struct buffer line = {0};

    add_number(&line, "wait_ms", asking->how.wait_ms > 0 ? asking->how.wait_ms : -1);
    add_number(&line, "ttl_ms", asking->how.ttl_ms);
    if (asking->lease != NULL)
        add_lease(&line, asking, result);
    add_text(&line, "lock", asking->lock);
    add_text(&line, "session", asking->session ? asking->session->token : NULL);
    if (result == RESULT_OK && has(answer, "remaining_ms"))
        add_number(&line, "remaining_ms", number_in(answer, "remaining_ms"));
    if (result == RESULT_OK && has(answer, "hold_count") &&
        strcmp(asking->verb, "acquire") == 0)
        add_number(&line, "hold_count", number_in(answer, "hold_count"));
    if (result == RESULT_OK && strcmp(asking->verb, "keep-alive") == 0) {
        add_listed(&line, asking);
        add_lost(&line, asking);
    }
    add_text(&line, "reason", text_in(answer, "reason"));
    add_text(&line, "malformed", complaint_of(asking, result));
    if (asking->session != NULL && asking->session->refuses)
        buffer_format(&line, ",\"refuses\":true");
    if (asking->how.is_sweep)
        buffer_format(&line, ",\"sweep\":true");
    if (asking->how.contends)
        buffer_format(&line, ",\"contends\":true");
    if (asking->how.is_bystander)
        buffer_format(&line, ",\"bystander\":true");
    record("op",
           "\"client\":\"%s\",\"op\":\"%s\",\"front\":%d,\"t_inv\":%lld,\"t_ret\":%lld,"
           "\"status\":%d,\"outcome\":\"%s\"%.*s",
           asking->caller->name, asking->verb, asking->front->number,
           (long long)asking->began_ns, (long long)now_ns(), answer->status, results[result],
           (int)line.len, line.text != NULL ? line.text : "");
    buffer_release(&line);
}

enum result ask(struct asking *asking)
{
    int64_t wait_ms = asking->how.wait_ms > 0 ? asking->how.wait_ms : 0;

    asking->front = asking->how.front
                        ? asking->how.front
                        : &world.fronts[chance_below(&asking->caller->chance, FRONTS)];
    asking->began_ns = now_ns();
    asking->must_work &= world.only_out_of_memory;
    asking->request.timeout_ns = wait_ms * CLOCK_NS_PER_MS + TIMEOUT_NS;
    asking->request.abandon_ns = asking->how.abandon_ns;
    world.waiting += wait_ms > 0;
    trace("%s %s %s %s to %d", asking->caller->name, asking->verb, asking->request.method,
          asking->request.uri, asking->front->number);
    asking->answer = http_ask(asking->front, &asking->request);
    trace("%s %s is answered %d", asking->caller->name, asking->verb, asking->answer.status);
    world.waiting -= wait_ms > 0;
    world.requests++;
    enum result result = result_of(&asking->answer);
    world.grants += result == RESULT_OK && asking->answer.status == 201 &&
                    strcmp(asking->verb, "acquire") == 0;
    record_asking(asking, result);
    return result;
}
