/* The scripts of a node against the cases that the model of the protocol prints
 * (tests/model/quorum/cases.py): the state of a node, a script, the reply, the state after it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node_home.h"

enum { LINE_SIZE = 512, PARTS_MAX = 4, HALF_MS = 15000, LATE_MS = 20000 };

static const char *const cases[] = {
#include "quorum_cases.inc"
};

struct hold {
    char lease;
    int64_t token, was;
    int attempt, round, since;
    int claimed;
};

/* What a case says of a node. */
struct node {
    int64_t counter;
    struct hold holds[2];
    size_t hold_count;
    bool is_spent, is_lapsed; /* lease A */
    char session[16];
    bool in_quarantine;
};

static const char *id_of(char lease)
{
    return lease == 'A' ? A : B;
}

static bool begins_with(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* --- reading a case ----------------------------------------------------------------------- */

/* The text behind ` name=`, up to the next blank. */
static const char *value_of(const char *part, const char *name)
{
    const char *at = strstr(part, name);

    assert_non_null(at);
    at += strlen(name);
    return text("%.*s", (int)strcspn(at, " "), at);
}

static void read_hold(struct hold *hold, const char *shown)
{
    /* lease/token/attempt.round/was/since/claimed; an attempt of -1 is nobody's */
    const char *at = shown + 2;
    char *end;

    hold->lease = shown[0];
    hold->token = strtoll(at, &end, 10);
    hold->attempt = (int)strtol(end + 1, &end, 10);
    hold->round = (int)strtol(end + 1, &end, 10);
    hold->was = strtoll(end + 1, &end, 10);
    hold->since = (int)strtol(end + 1, &end, 10);
    hold->claimed = (int)strtol(end + 1, NULL, 10);
}

static void read_node(struct node *node, const char *part)
{
    const char *holds = value_of(part, "holds=");

    *node = (struct node){.counter = atoll(value_of(part, "counter=")),
                          .is_spent = value_of(part, "spent=")[0] == 'A',
                          .is_lapsed = value_of(part, "lapsed=")[0] == 'A',
                          .in_quarantine = strcmp(value_of(part, "quarantine="), "0") != 0};
    snprintf(node->session, sizeof(node->session), "%s", value_of(part, "session="));
    for (; holds != NULL && holds[0] != '-'; holds = strchr(holds, ',')) {
        holds += holds[0] == ',';
        read_hold(&node->holds[node->hold_count++], holds);
    }
}

/* --- making and showing a node ------------------------------------------------------------ */

static void make_record(const struct hold *hold, const char *kind)
{
    const char *attempt = hold->claimed ? "" : text("w.%d.%d", hold->attempt, hold->round);
    const char *was = hold->claimed ? "" : text("was %s", node_token(hold->was));
    bool has_session = hold->lease == 'A';

    command("SET %s %s PX 90000", text("rlockd:lease:{jobs}:%s", id_of(hold->lease)),
            text("held\n%s\n%s\n%s\n30000\nnote\n%s\n%s\n%s\n%s\n%s\n", was, attempt,
                 node_process(), has_session ? SID : "", has_session ? "host/1" : "",
                 node_token(hold->token), has_session ? "1" : "", kind));
}

static const char *read_key_of(char lease)
{
    return text("{jobs}:%s:0:rwlock_timeout:1", id_of(lease));
}

static void make_hold(const struct hold *hold, const char *kind)
{
    make_record(hold, kind);
    command("HSET jobs %s 1", text("%s:0", id_of(hold->lease)));
    if (strcmp(kind, "read") == 0) {
        command("HSET jobs mode read");
        command("SET %s %s PX %d", read_key_of(hold->lease), id_of(hold->lease), HALF_MS);
    }
    command("PEXPIRE jobs %d", HALF_MS);
}

static void make_session(const char *state)
{
    if (strcmp(state, "unknown") == 0)
        return;
    session_open("30000");
    if (strcmp(state, "passed") == 0)
        session_overdue();
    if (strcmp(state, "ended") == 0)
        session_end("released", "0", NULL);
}

static void make_node(const struct node *node, const char *kind)
{
    const struct hold lapsed = {.lease = 'A', .token = 1, .claimed = 1};

    if (node->in_quarantine)
        node_process_is(1);
    if (node->counter > 0)
        command("SET %s %s", COUNTER, node_token(node->counter));
    for (size_t i = 0; i < node->hold_count; i++)
        make_hold(&node->holds[i], kind);
    if (node->is_lapsed)
        make_record(&lapsed, kind);
    if (node->is_spent)
        command("SET %s 2 PX 60000", RECORD(A));
    make_session(node->session);
}

/* Line number `at` of a record, from 0. */
static const char *line_of(const char *record, int at)
{
    for (; at > 0; at--)
        record = strchr(record, '\n') + 1;
    return text("%.*s", (int)strcspn(record, "\n"), record);
}

static void show_hold(FILE *out, char lease, const char *kind, const char *between)
{
    const char *record = reply_text(command("GET rlockd:lease:{jobs}:%s", id_of(lease)));
    const char *attempt = line_of(record, 2), *detail = line_of(record, 1);
    bool is_read = strcmp(kind, "read") == 0;
    int64_t left = reply_integer(is_read ? command("PTTL %s", read_key_of(lease))
                                         : command("PTTL jobs"));

    fprintf(out, "%s%c/%lld/", between, lease, (long long)node_number(line_of(record, 8)));
    if (attempt[0] == '\0')
        fputs("claimed", out);
    else
        fprintf(out, "%s/%lld", attempt, (long long)node_number(value_of(detail, "was ")));
    fprintf(out, "/%d", left > LATE_MS);
}

static bool holds_here(char lease)
{
    return reply_integer(command("HEXISTS jobs %s", text("%s:0", id_of(lease)))) == 1;
}

static const char *session_state(void)
{
    const char *state = reply_text(command("HGET %s state", SESSION));
    int64_t deadline_ms;

    if (strcmp(state, "open") != 0)
        return strcmp(state, "nil") == 0 ? "unknown" : state;
    deadline_ms = reply_integer(command("HGET %s deadline", SESSION));
    return deadline_ms > redis_now_ms() ? "open" : "passed";
}

/* The node as it is, in the form of shown(). */
static const char *show_node(const char *kind)
{
    const char *counter = reply_text(command("GET " COUNTER)), *between = "";
    const char *record = reply_text(command("GET " RECORD(A)));
    bool is_held = begins_with(record, "held"), is_lost = is_held && !holds_here('A');
    bool is_forced = is_lost && reply_integer(command("EXISTS " FORCED)) == 1;
    bool is_spent = (!is_held && strcmp(record, "nil") != 0) || is_forced ||
                    (is_held && strstr(line_of(record, 1), "spent ") != NULL);
    char *made = NULL;
    size_t size;
    FILE *out = open_memstream(&made, &size);

    fprintf(out, "counter=%lld holds=",
            (long long)node_number(strcmp(counter, "nil") == 0 ? "0" : counter));
    for (char lease = 'A'; lease <= 'B'; lease++)
        if (holds_here(lease)) {
            if (lease == 'A' && is_spent && !is_held)
                fprintf(out, "%sA/spent", between);
            else
                show_hold(out, lease, kind, between);
            between = ",";
        }
    fprintf(out, " spent=%d lapsed=%d session=%s", is_spent, is_lost && !is_forced,
            session_state());
    fclose(out);
    const char *kept = text("%s", made);
    free(made);
    return kept;
}

/* The node that the model expects, as show_node() shows it. */
static const char *shown(const struct node *node)
{
    const char *holds = "";

    for (size_t i = 0; i < node->hold_count; i++) {
        const struct hold *hold = &node->holds[i];
        const char *vote = text("w.%d.%d/%lld", hold->attempt, hold->round,
                                (long long)hold->was);
        holds = text("%s%s%c/%lld/%s/%d", holds, i > 0 ? "," : "", hold->lease,
                     (long long)hold->token, hold->claimed ? "claimed" : vote, hold->since);
    }
    return text("counter=%lld holds=%s spent=%d lapsed=%d session=%s", (long long)node->counter,
                holds, node->is_spent, node->is_lapsed && !node->is_spent, node->session);
}

/* --- the scripts -------------------------------------------------------------------------- */

/* Which kind of lease the case is about, the number behind the name of its script, and the ms
 * until tick 2 of the model, the deadline of each repair. */
static const char *the_kind;
static int64_t the_number, the_left_ms;

static redisReply *cast_vote(void)
{
    session_bind(A " jobs", "w.0", "10000");
    return vote(.id = A, .kind = the_kind, .session = SID, .attempt = "w.0",
                .round = (int)the_number, .token = the_number == 1 ? 5 : 3);
}

static redisReply *claim_lease(void)
{
    return node_claim(A, the_kind, SID, the_number);
}

static redisReply *withdraw_votes(void)
{
    return node_withdraw(A, "w.0", "");
}

static redisReply *release_lease(void)
{
    return lock_release(A);
}

static redisReply *end_lease(void)
{
    return node_lose(A, "w.0");
}

static redisReply *renew_lease(void)
{
    return lock_renew(A, "30000");
}

static redisReply *repair_lease(void)
{
    session_bind(A " jobs", "*", "10000");
    return repair(the_left_ms, .id = A, .kind = the_kind, .session = SID, .token = the_number);
}

static redisReply *force_lock(void)
{
    return node_force(the_number);
}

static redisReply *close_session(void)
{
    return session_end("released", "0", NULL);
}

static redisReply *keep_alive(void)
{
    return session_keep_alive("0");
}

static redisReply *restore_session(void)
{
    return node_repair_session(the_left_ms);
}

/* Replies of the model: that word begins the reply that stands for it; of the first row whose
 * pattern fits. */
static const struct script_case {
    const char *name;
    redisReply *(*run)(void);
    struct {
        const char *pattern, *word;
    } replies[8];
} scripts[] = {
    {"vote ",
     cast_vote,
     {{"[held, *", "held"},
      {"[busy, *", "busy"},
      {"[low, *", "low"},
      {"[lapsed]", "lapsed"},
      {"[spent, *", "spent"},
      {"[quarantine, *", "quarantine"},
      {"[unbound, *", "unbound"},
      {"*", "accepted"}}},
    {"claim ", claim_lease, {{"[claimed, *", "claimed"}, {"[gone, *", "gone"}}},
    {"withdraw", withdraw_votes, {{"*", "-"}}},
    {"release",
     release_lease,
     {{"0", "released"}, {"[released, *", "released"}, {"[ended, *", "ended"}}},
    {"end", end_lease, {{"[ended, *", "ended"}}},
    {"renew",
     renew_lease,
     {{"[held, *", "held"},
      {"[unknown, *", "gone"},
      {"[lapsed, *", "gone"},
      {"[spent, *", "gone"}}},
    {"repair ", repair_lease, {{"*", "-"}}},
    {"force ",
     force_lock,
     {{"[unlocked, *", "forced"}, {"[free*", "free"}, {"[low, *", "low"}}},
    {"close", close_session, {{"[released, *", "ended"}, {"[ended, *", "ended"}}},
    {"keep",
     keep_alive,
     {{"[open, *", "open"},
      {"[ended, expired*", "passed"},
      {"[ended, unknown*", "unknown"},
      {"[ended, *", "ended"}}},
    {"restore", restore_session, {{"*", "-"}}},
};

static bool fits(const char *reply, const char *pattern)
{
    size_t len = strcspn(pattern, "*");

    return strncmp(reply, pattern, len) == 0 && (pattern[len] == '*' || reply[len] == '\0');
}

/* The reply in the model's words; of accepted, held and low with the number. */
static const char *reply_of(const struct script_case *script, redisReply *reply)
{
    const char *made = reply_text(reply), *word = NULL;

    for (size_t i = 0; word == NULL && script->replies[i].pattern != NULL; i++)
        if (fits(made, script->replies[i].pattern))
            word = script->replies[i].word;
    if (word == NULL)
        fail_msg("%s replies %s", script->name, made);
    bool has_number = strcmp(word, "accepted") == 0 || strcmp(word, "held") == 0 ||
                      strcmp(word, "low") == 0;
    if (!has_number)
        return word;
    size_t at = script->run == force_lock ? 2 : 1;
    const char *number = reply->elements > 1 ? reply_text(reply_at(reply, at)) : made;
    return text("%s:%lld", word, (long long)node_number(number));
}

static void check(const char *line, const char *parts[PARTS_MAX])
{
    const char *asked = parts[0] + strlen("node ");
    size_t at = 0;
    struct node before, after;

    while (!begins_with(asked, scripts[at].name))
        assert_true(++at < sizeof(scripts) / sizeof(scripts[0]));
    the_number = strtoll(asked + strlen(scripts[at].name), NULL, 10);
    the_kind = value_of(parts[0], "kind=");
    the_left_ms = (2 - atoll(value_of(parts[0], "now="))) * HALF_MS;
    read_node(&before, parts[1]);
    read_node(&after, parts[2]);
    assert_int_equal(node_clear(NULL), 0);
    make_node(&before, the_kind);
    const char *reply = reply_of(&scripts[at], scripts[at].run());
    const char *wanted = value_of(parts[2], "reply=");
    if (!begins_with(wanted, reply) || strcmp(show_node(the_kind), shown(&after)) != 0)
        fail_msg("%s\nexpected %s\ngot      %s\nreply %s", line, shown(&after),
                 show_node(the_kind), reply);
}

static void split(char *line, const char *parts[PARTS_MAX])
{
    for (size_t i = 0; i < PARTS_MAX; i++) {
        char *end = strstr(line, " : ");
        parts[i] = line;
        if (end == NULL)
            return;
        *end = '\0';
        line = end + 3;
    }
}

static void each_script_does_what_the_model_does(void **state)
{
    size_t count = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[LINE_SIZE];
        const char *parts[PARTS_MAX];

        if (!begins_with(cases[i], "node ") || begins_with(cases[i], "node restart"))
            continue;
        snprintf(line, sizeof(line), "%s", cases[i]);
        split(line, parts);
        check(cases[i], parts);
        assert_int_equal(replies_free(state), 0);
        count++;
    }
    assert_true(count > 250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {NODE_TEST(each_script_does_what_the_model_does)};

    return cmocka_run_group_tests_name("quorum cases", tests, redis_set_up_node,
                                       redis_tear_down);
}
