/* A Redis Cluster, and two front ends behind one address: a listing whose pages come from the
 * one and the other. */
#include "cluster.h"

enum { MASTERS = 3, NODES = MASTERS + 1, LOCKS = 20, LIMIT = 3, PAGES_MAX = 1000 };
enum { MOVE_MS = 10000 };
#define AT_SLOT_0 "06S"

struct ground {
    struct front *fronts[2];
    const char *bases[NODES]; /* of the names of locks, each at a master of its own */
    bool is_listed[NODES][LOCKS];
};

static void hold(struct world *w, struct ground *ground, int node, const char *base)
{
    ground->bases[node] = base;
    for (int i = 0; i < LOCKS; i++)
        expect_status(lock_put(ground->fronts[0], text(w, "{%s}%d", ground->bases[node], i),
                               token_new(w), "ttl_ms=60000"),
                      201);
}

static void note(struct world *w, struct ground *ground, const char *lock)
{
    for (int node = 0; node < NODES; node++)
        for (int i = 0; ground->bases[node] != NULL && i < LOCKS; i++)
            if (strcmp(lock, text(w, "{%s}%d", ground->bases[node], i)) == 0)
                ground->is_listed[node][i] = true;
}

/* Returns the next cursor; NULL: the listing is over. */
static const char *list_page(struct world *w, struct ground *ground, int page,
                             const char *cursor)
{
    json_t *entry;
    size_t i;
    struct reply *r = http(
        ground->fronts[page % 2], "GET",
        text(w, "/v1/locks?limit=%d&cursor=%s", LIMIT, url_encode(w, cursor)), NULL);

    expect_status(r, 200);
    json_array_foreach(reply_get(r, "locks"), i, entry) {
        note(w, ground, json_string_value(json_object_get(entry, "lock")));
    }
    return reply_str(r, "next_cursor");
}

static void expect_all(const struct ground *ground)
{
    for (int node = 0; node < NODES; node++)
        for (int i = 0; ground->bases[node] != NULL && i < LOCKS; i++)
            if (!ground->is_listed[node][i])
                FAIL("lock %d of node %d is missing", i, node);
}

/* The one front end has met the masters in another order than the other. */
static void test_front_ends_that_met_the_masters_in_turn(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, false);
    struct ground ground = {.fronts = {front_start(w, "--redis", cluster->url, NULL)}};
    struct redis *added = cluster_add(cluster);
    const char *cursor = "";
    int pages = 0;

    assert_int_equal(cluster_slot(cluster, AT_SLOT_0), 0);
    slot_open(cluster, 0, cluster->nodes[0], added);
    slot_migrate(cluster, 0, cluster->nodes[0], added);
    slot_close(cluster, 0, cluster->nodes[0], added);
    ground.fronts[1] = front_start(w, "--redis", cluster->url, NULL);
    for (int i = 0; i < 2; i++)
        wait_until(front_metric(ground.fronts[i], "rlockd_redis_cluster_nodes", NULL) == NODES,
                   MOVE_MS);
    for (int node = 0; node < MASTERS; node++)
        hold(w, &ground, node, cluster_name_at(cluster, cluster->nodes[node], "list"));
    hold(w, &ground, MASTERS, AT_SLOT_0);
    while (cursor != NULL && pages < PAGES_MAX)
        cursor = list_page(w, &ground, pages++, cursor);
    assert_null(cursor);
    expect_all(&ground);
}

/* The replica keeps the keys in another order than its master, and has another address. */
static void test_a_failover_between_two_pages(struct world *w)
{
    struct cluster *cluster = cluster_start(w, MASTERS, true);
    struct front *fe = front_start(w, "--redis", cluster->url, NULL);
    struct ground ground = {.fronts = {fe, fe}};
    const char *cursor = "";
    int pages = 0;

    for (int node = 0; node < MASTERS; node++)
        hold(w, &ground, node, cluster_name_at(cluster, cluster->nodes[node], "list"));
    while (cursor != NULL && pages < PAGES_MAX) {
        cursor = list_page(w, &ground, pages, cursor);
        if (pages % 4 == 3 && pages / 4 < MASTERS) {
            cluster_promote(cluster->nodes[MASTERS + pages / 4]);
            wait_until(front_metric(fe, "rlockd_redis_failovers_total", NULL) > pages / 4,
                       MOVE_MS);
        }
        pages++;
    }
    assert_null(cursor);
    expect_all(&ground);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_front_ends_that_met_the_masters_in_turn),
        E2E_TEST(test_a_failover_between_two_pages),
    };
    struct e2e_plan plan = {.name = "topology_cluster_listing", E2E_TESTS(tests)};

    return e2e_run(&plan);
}
