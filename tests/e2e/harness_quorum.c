/* Independent servers, and the front ends of a quorum. */
#include "quorum.h"
#include "sentinel.h"

/* LATE_MS: somewhat less than a front end waits for the reply of a server. */
enum { QUORUM_UP_MS = 10000, FLAGS_MAX = 16, LATE_MS = 900 };

/* Redis writes `run_id:<40 hex digits>`. */
static const char *run_id_of(struct redis *server)
{
    static const char name[] = "run_id:";
    const char *found = strstr(redis_str(server, "INFO server"), name);

    if (found == NULL)
        FAIL("INFO has no run_id");
    return text(server->world, "%.40s", found + strlen(name));
}

void quorum_trust(struct redis *server)
{
    redis_ok(server, "HSET rlockd:marker run_id %s since 1 kept 1 at 1 layout 1",
             run_id_of(server));
}

struct quorum *quorum_start(struct world *w, int count)
{
    static const int ahead_s[QUORUM_MAX];

    return quorum_start_skewed(w, count, ahead_s);
}

struct quorum *quorum_start_skewed(struct world *w, int count, const int *ahead_s)
{
    struct quorum *q = calloc(1, sizeof(*q));

    if (q == NULL)
        abort();
    world_defer(w, free, q);
    q->world = w;
    q->count = count;
    for (int i = 0; i < count; i++) {
        q->server[i] = redis_start_skewed(w, ahead_s[i]);
        quorum_trust(q->server[i]);
    }
    return q;
}

const char *quorum_url(struct world *w, struct proxy *const *proxy, int count)
{
    const char *url = redis_is_tls() ? "rediss-quorum://" : "redis-quorum://";

    for (int i = 0; i < count; i++)
        url = text(w, "%s%s127.0.0.1:%d", url, i > 0 ? "," : "", proxy_port(proxy[i]));
    return url;
}

const char *quorum_state(struct front *fe, int server)
{
    struct reply *r = http(fe, "GET", "/readyz", NULL);
    const char *state = reply_str(r, text(fe->world, "redis.members.%d.state", server));

    return state != NULL ? state : "";
}

bool quorum_all_up(struct front *fe)
{
    struct reply *r = http(fe, "GET", "/readyz", NULL);
    json_t *members = reply_get(r, "redis.members"), *member;
    size_t i;

    json_array_foreach(members, i, member) {
        if (strcmp(json_string_value(json_object_get(member, "state")), "up") != 0)
            return false;
    }
    return r->status == 200 && json_array_size(members) > 0;
}

struct quorum_front quorum_front(struct quorum *q, ...)
{
    struct world *w = q->world;
    struct quorum_front front;
    const char *flags[FLAGS_MAX] = {NULL};
    va_list args;

    for (int i = 0; i < q->count; i++)
        front.proxy[i] = proxy_start(q->server[i]);
    va_start(args, q);
    for (size_t i = 0; i < FLAGS_MAX && (flags[i] = va_arg(args, const char *)) != NULL; i++)
        ;
    va_end(args);
    front.fe = front_start(w, "--redis", quorum_url(w, front.proxy, q->count), flags[0],
                           flags[1], flags[2], flags[3], flags[4], flags[5], NULL);
    wait_until(quorum_all_up(front.fe), QUORUM_UP_MS);
    return front;
}

struct reply *quorum_ask(struct front *fe, const char *method, const char *path,
                         const char *token)
{
    struct reply *r = http(fe, method, path, token);

    for (int i = 0; i < 10 && r->status == 503 && r->done_ms - r->sent_ms >= LATE_MS; i++)
        r = http(fe, method, path, token);
    return r;
}

void quorum_hold(struct front *fe, const char *lock, const char *query)
{
    struct world *w = fe->world;
    struct reply *r = quorum_ask(fe, "PUT", lock_path(w, lock, query), token_new(w));

    expect_true(r, r->status == 201 || r->status == 200);
}

int quorum_holds(const struct quorum *q, const char *key)
{
    int count = 0;

    for (int i = 0; i < q->count; i++)
        count += q->server[i]->db->err == 0 && redis_has(q->server[i], key);
    return count;
}

void quorum_empty(struct redis *server)
{
    redis_kill(server);
    redis_lose_data(server);
    redis_return(server);
}
