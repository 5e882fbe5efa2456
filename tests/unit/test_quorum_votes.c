/* storage/quorum/votes.c against the cases that the model of the protocol prints
 * (tests/model/quorum/cases.py), all of them. They are made when the test is built, which takes
 * the model a quarter of a second: so none can be older than the model. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/quorum/votes.h"

enum { LINE_SIZE = 512, PARTS_MAX = 4, PHASES = 13 };

static const char *const cases[] = {
#include "quorum_cases.inc"
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

/* --- names -------------------------------------------------------------------------------- */

static const char *const replies_of_nodes[] = {
    [NODE_SILENT] = "-",
    [NODE_ACCEPTED] = "accepted",
    [NODE_HELD] = "held",
    [NODE_BUSY] = "busy",
    [NODE_LOW] = "low",
    [NODE_CLOCK] = "clock",
    [NODE_LAPSED] = "lapsed",
    [NODE_SPENT] = "spent",
    [NODE_QUARANTINE] = "quarantine",
    [NODE_UNBOUND] = "unbound",
    [NODE_REFUSED] = "refused",
    [NODE_CLAIMED] = "claimed",
    [NODE_GONE] = "gone",
    [NODE_RESTARTED] = "restarted",
    [NODE_MARKED] = "marked",
    [NODE_RELEASED] = "released",
    [NODE_ENDED] = "ended",
    [NODE_FORCED] = "forced",
    [NODE_FREE] = "free",
    [NODE_OTHER] = "other",
    [NODE_OPEN] = "open",
    [NODE_PASSED] = "passed",
    [NODE_UNKNOWN] = "unknown",
};

static const struct {
    const char *name;
    conclude *conclude;
} phases[PHASES] = {
    {"vote", conclude_votes},       {"claim", conclude_claims},   {"renew", conclude_renewals},
    {"release", conclude_releases}, {"end", conclude_ends},       {"force", conclude_forces},
    {"spend", conclude_spends},     {"look", conclude_looks},     {"check", conclude_checks},
    {"keep", conclude_keep_alives}, {"close", conclude_closings}, {"due", conclude_due},
    {"shut", conclude_shuts},
};

/* --- reading a case ----------------------------------------------------------------------- */

struct parts {
    char line[LINE_SIZE];
    char *part[PARTS_MAX]; /* what stands between " : " */
};

static void split(struct parts *parts, const char *text)
{
    char *at = parts->line, *end;

    assert_true(strlen(text) < sizeof(parts->line));
    memcpy(parts->line, text, strlen(text) + 1);
    for (size_t i = 0; i < PARTS_MAX; i++, at = end + 3) {
        parts->part[i] = at;
        end = strstr(at, " : ");
        if (end == NULL)
            return;
        *end = '\0';
    }
}

/* The number behind ` name=`. */
static int64_t number_of(const char *part, const char *name)
{
    const char *at = strstr(part, name);

    assert_non_null(at);
    return strtoll(at + strlen(name), NULL, 10);
}

static struct node_reply read_reply(char *shown)
{
    char *value = strchr(shown, ':');
    struct node_reply reply = {.value = value != NULL ? strtoll(value + 1, NULL, 10) : 0};
    size_t word = 0;

    if (value != NULL)
        *value = '\0';
    while (strcmp(replies_of_nodes[word], shown) != 0)
        assert_true(++word < sizeof(replies_of_nodes) / sizeof(replies_of_nodes[0]));
    reply.word = (enum node_word)word;
    return reply;
}

static void read_replies(char *part, struct node_reply replies[QUORUM_NODES_MAX],
                         unsigned nodes)
{
    char *next = NULL, *shown = strtok_r(part, " ", &next);

    for (unsigned i = 0; i < nodes; i++, shown = strtok_r(NULL, " ", &next)) {
        assert_non_null(shown);
        replies[i] = read_reply(shown);
    }
    assert_null(shown);
}

static conclude *conclude_of(const char *part)
{
    size_t at = 0, len = strcspn(part, " ");

    while (strncmp(phases[at].name, part, len) != 0 || phases[at].name[len] != '\0')
        assert_true(++at < PHASES);
    return phases[at].conclude;
}

/* --- what the model prints ---------------------------------------------------------------- */

static void show_nodes(FILE *out, const char *name, unsigned set, unsigned nodes, bool all)
{
    const char *between = "";

    fprintf(out, " %s=", name);
    if (all && set == (1u << nodes) - 1)
        fputs("all", out);
    else if (set == 0)
        fputs("none", out);
    else
        for (unsigned i = 0; i < nodes; i++)
            if (set & 1u << i) {
                fprintf(out, "%s%u", between, i);
                between = ",";
            }
}

static void show(char *shown, const struct conclusion *made, unsigned nodes)
{
    FILE *out = fmemopen(shown, LINE_SIZE, "w");

    assert_non_null(out);
    fprintf(out, "%s token=%lld until=%lld", conclusion_names[made->word],
            (long long)made->token, (long long)made->until_ms);
    show_nodes(out, "undo", made->undo, nodes, true);
    show_nodes(out, "mend", made->mend, nodes, false);
    fclose(out);
}

static void check_conclusion(const char *text)
{
    struct parts parts;
    char shown[LINE_SIZE];
    struct node_reply replies[QUORUM_NODES_MAX];

    split(&parts, text);
    const char *asked_for = parts.part[0];
    struct quorum_ask asked = {.nodes = (unsigned)number_of(asked_for, " nodes="),
                               .number = (unsigned)number_of(asked_for, " round="),
                               .last = (unsigned)number_of(asked_for, "/"),
                               .token = number_of(asked_for, " token="),
                               .sent_ms = number_of(asked_for, " sent="),
                               .ttl_ms = number_of(asked_for, " ttl="),
                               .drift_ms = number_of(asked_for, " drift=")};
    read_replies(parts.part[1], replies, asked.nodes);
    conclude *made_by = conclude_of(asked_for + strlen("conclude "));
    struct conclusion made = made_by(&asked, replies, number_of(asked_for, " now="),
                                     number_of(asked_for, " over=") == 1);

    show(shown, &made, asked.nodes);
    if (strcmp(shown, parts.part[2]) != 0)
        fail_msg("%s\nC concludes: %s", text, shown);
}

static bool begins_with(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

static void each_case_is_concluded_as_in_the_model(void **state)
{
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < CASES; i++)
        if (begins_with(cases[i], "conclude ")) {
            check_conclusion(cases[i]);
            count++;
        }
    assert_true(count > 5000);
}

/* --- proposals, waiting ------------------------------------------------------------------- */

static void check_proposal(const char *text)
{
    struct parts parts;
    int64_t clocks[QUORUM_NODES_MAX];
    size_t count = 0;

    split(&parts, text);
    for (char *at = strchr(parts.part[0], '=') + 1; count == 0 || *at++ == ','; count++)
        clocks[count] = strtoll(at, &at, 10);
    int64_t last = number_of(parts.part[0], " last=");
    assert_int_equal(quorum_proposal(clocks, count, last), strtoll(parts.part[1], NULL, 10));
}

static void each_proposal_is_that_of_the_model(void **state)
{
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < CASES; i++)
        if (begins_with(cases[i], "propose ")) {
            check_proposal(cases[i]);
            count++;
        }
    assert_int_equal(count, 16);
}

static void check_refusal(const char *text)
{
    struct parts parts;
    unsigned holders[QUORUM_NODES_MAX];
    size_t count = 0;

    split(&parts, text);
    for (const char *at = parts.part[1]; *at != '\0' && *at != '-'; at++)
        if (*at != ' ')
            holders[count++] = (unsigned)*at;
    bool sleeps = quorum_may_sleep(holders, count, 3);
    bool publishes = quorum_withdrawal_publishes((unsigned)number_of(parts.part[0], " votes="),
                                                 3);
    assert_int_equal(sleeps, begins_with(parts.part[2], "sleep "));
    assert_int_equal(publishes, number_of(parts.part[2], " publish="));
}

static void waiters_sleep_publish_and_wake_as_in_the_model(void **state)
{
    struct parts parts;
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        if (begins_with(cases[i], "refused ")) {
            check_refusal(cases[i]);
            count++;
        } else if (begins_with(cases[i], "baton ")) {
            split(&parts, cases[i]);
            bool has = quorum_has_baton((unsigned)number_of(parts.part[0], " heard="),
                                        number_of(parts.part[0], " timer=") == 1, 3);
            assert_int_equal(has, strtoll(parts.part[1], NULL, 10));
            count++;
        }
    }
    assert_int_equal(count, 28);
}

/* --- what the model has no words for -------------------------------------------------------
 */

static const struct quorum_ask ask = {.nodes = 3,
                                      .number = 1,
                                      .last = 3,
                                      .token = 5,
                                      .sent_ms = 0,
                                      .ttl_ms = 1000,
                                      .drift_ms = 12};

static void what_no_vote_overcomes_is_told_before_a_busy_lock(void **state)
{
    const struct node_reply replies[] = {{NODE_BUSY, 0}, {NODE_SILENT, 0}, {NODE_REFUSED, 0}};

    (void)state;
    assert_int_equal(conclude_votes(&ask, replies, 1, false).word, CONCLUDE_REFUSED);
}

static void lease_that_waits_is_not_ended_by_its_renewal(void **state)
{
    const struct node_reply replies[] = {{NODE_BUSY, 0}, {NODE_GONE, 0}, {NODE_SILENT, 0}};

    (void)state;
    assert_int_equal(conclude_renewals(&ask, replies, 1, false).word, CONCLUDE_BUSY);
}

/* Clocks drift by less than 1 % (A4), and each is read in whole milliseconds. */
static void drift_is_a_hundredth_of_the_time_and_two_ms(void **state)
{
    (void)state;
    assert_int_equal(quorum_drift_ms(1000), 12);
    assert_int_equal(quorum_drift_ms(30000), 302);
}

/* At its deadline, less the drift, a lease may be over. */
static void grant_at_its_deadline_is_late(void **state)
{
    const struct node_reply replies[] = {
        {NODE_ACCEPTED, 5}, {NODE_ACCEPTED, 5}, {NODE_SILENT, 0}};

    (void)state;
    assert_int_equal(conclude_votes(&ask, replies, 987, false).word, CONCLUDE_GRANTED);
    assert_int_equal(conclude_votes(&ask, replies, 988, false).word, CONCLUDE_LATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case_is_concluded_as_in_the_model),
        cmocka_unit_test(each_proposal_is_that_of_the_model),
        cmocka_unit_test(waiters_sleep_publish_and_wake_as_in_the_model),
        cmocka_unit_test(what_no_vote_overcomes_is_told_before_a_busy_lock),
        cmocka_unit_test(lease_that_waits_is_not_ended_by_its_renewal),
        cmocka_unit_test(drift_is_a_hundredth_of_the_time_and_two_ms),
        cmocka_unit_test(grant_at_its_deadline_is_late),
    };

    return cmocka_run_group_tests_name("quorum votes", tests, NULL, NULL);
}
