/* storage/redis/prepare.c and link_connect.c: names and files beside the loop. The program has
 * a getaddrinfo() of its own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "storage/redis/link.h"
#include "storage/redis/prepare.h"

enum { PATIENCE_S = 30, TICK_MS = 10 };

/* --- a name service that does as it is told ------------------------------------------------
 */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool hangs;
    int asked, under_way, most_under_way;
    const char *addresses[4];
} names = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void names_reset(void)
{
    pthread_mutex_lock(&names.lock);
    names.hangs = false;
    names.asked = names.most_under_way = 0;
    memset(names.addresses, 0, sizeof(names.addresses));
    pthread_mutex_unlock(&names.lock);
}

static void names_hang(bool hangs)
{
    pthread_mutex_lock(&names.lock);
    names.hangs = hangs;
    pthread_cond_broadcast(&names.changed);
    pthread_mutex_unlock(&names.lock);
}

/* One allocation: what freeaddrinfo() below gives back. */
struct found {
    struct addrinfo info;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
};

static struct addrinfo *found_new(const char *text, const char *port)
{
    struct found *found = calloc(1, sizeof(*found));
    in_port_t number = htons((uint16_t)(port != NULL ? strtol(port, NULL, 10) : 0));

    assert_non_null(found);
    found->info.ai_socktype = SOCK_STREAM;
    found->info.ai_protocol = IPPROTO_TCP;
    found->info.ai_addr = &found->address.any;
    if (inet_pton(AF_INET, text, &found->address.v4.sin_addr) == 1) {
        found->info.ai_family = found->address.any.sa_family = AF_INET;
        found->info.ai_addrlen = sizeof(found->address.v4);
        found->address.v4.sin_port = number;
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &found->address.v6.sin6_addr), 1);
        found->info.ai_family = found->address.any.sa_family = AF_INET6;
        found->info.ai_addrlen = sizeof(found->address.v6);
        found->address.v6.sin6_port = number;
    }
    return &found->info;
}

static int look_up(struct addrinfo **out)
{
    pthread_mutex_lock(&names.lock);
    names.asked++;
    if (++names.under_way > names.most_under_way)
        names.most_under_way = names.under_way;
    while (names.hangs)
        pthread_cond_wait(&names.changed, &names.lock);
    names.under_way--;
    pthread_cond_broadcast(&names.changed);
    *out = NULL;
    for (size_t i = 4; i-- > 0;) {
        if (names.addresses[i] == NULL)
            continue;
        struct addrinfo *one = found_new(names.addresses[i], NULL);
        one->ai_next = *out;
        *out = one;
    }
    pthread_mutex_unlock(&names.lock);
    return *out != NULL ? 0 : EAI_NONAME;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    unsigned char address[16];
    bool is_v4 = inet_pton(AF_INET, node, address) == 1;

    if (!is_v4 && inet_pton(AF_INET6, node, address) != 1)
        return look_up(out);
    /* hiredis, with an address. */
    if (hints->ai_family != AF_UNSPEC && (hints->ai_family == AF_INET) != is_v4)
        return EAI_NONAME;
    *out = found_new(node, service);
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    while (list != NULL) {
        struct addrinfo *next = list->ai_next;
        free(list);
        list = next;
    }
}

/* --- a Redis that only greets --------------------------------------------------------------
 */

struct greeter {
    int listener;
    uint16_t port;
    pthread_t thread;
};

static void *greet(void *arg)
{
    static const char greeting[] = "+OK\r\n:7\r\n$49\r\n# Server\r\nredis_version:7.0.15\r\n"
                                   "run_id:00000001\r\n\r\n";
    const struct greeter *greeter = arg;
    char text[4096];
    int fd = accept(greeter->listener, NULL, NULL);

    if (fd < 0)
        return NULL;
    ssize_t n = write(fd, greeting, sizeof(greeting) - 1);
    while (n > 0)
        n = read(fd, text, sizeof(text));
    close(fd);
    return NULL;
}

static void greeter_start(struct greeter *greeter, int family, const char *address)
{
    struct addrinfo *at = found_new(address, NULL);
    struct sockaddr_in6 bound;
    socklen_t len = sizeof(bound);

    greeter->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(greeter->listener, at->ai_addr, at->ai_addrlen), 0);
    assert_int_equal(listen(greeter->listener, 8), 0);
    getsockname(greeter->listener, (struct sockaddr *)&bound, &len);
    greeter->port = ntohs(bound.sin6_port); /* at the same place in both families */
    assert_int_equal(pthread_create(&greeter->thread, NULL, greet, greeter), 0);
    free(at);
}

static void greeter_stop(struct greeter *greeter)
{
    shutdown(greeter->listener, SHUT_RDWR);
    pthread_join(greeter->thread, NULL);
    close(greeter->listener);
}

/* --- a connection in a loop ----------------------------------------------------------------
 */

struct scene {
    struct loop *loop;
    struct metrics metrics;
    struct redis_url url;
    struct redis_link *link;
    int ups, downs;
    bool has_two_names; /* each time it is down, it is to connect to the other one */
    int ticks;
    struct timer tick;
    int64_t give_up_ns;
    bool (*is_over)(const struct scene *scene);
};

static void on_up(void *arg)
{
    ((struct scene *)arg)->ups++;
}

static void on_down(void *arg)
{
    struct scene *scene = arg;
    struct redis_host *host = &scene->url.hosts[0];

    scene->downs++;
    if (scene->has_two_names)
        snprintf(host->host, sizeof(host->host), "%s",
                 strcmp(host->host, "other.test") == 0 ? "redis.test" : "other.test");
}

static void on_tick(void *arg)
{
    struct scene *scene = arg;
    int64_t now_ns = loop_now_ns(scene->loop);

    scene->ticks++;
    if (scene->is_over(scene) || now_ns > scene->give_up_ns)
        loop_stop(scene->loop);
    else
        timer_arm(loop_timers(scene->loop), &scene->tick, now_ns + TICK_MS * CLOCK_NS_PER_MS);
}

static void scene_start(struct scene *scene, uint16_t port)
{
    char text[64], error[200];

    *scene = (struct scene){.loop = loop_new()};
    assert_non_null(scene->loop);
    assert_int_equal(metrics_init(&scene->metrics, 1), 0);
    snprintf(text, sizeof(text), "redis://redis.test:%d", port);
    assert_int_equal(redis_url_parse(&scene->url, text, error, sizeof(error)), 0);
    const struct redis_link_options options = {.url = &scene->url,
                                               .loop = scene->loop,
                                               .metrics = &scene->metrics,
                                               .up = on_up,
                                               .down = on_down,
                                               .arg = scene};
    scene->link = redis_link_new(&options);
    assert_non_null(scene->link);
}

static void play_until(struct scene *scene, bool (*is_over)(const struct scene *scene))
{
    scene->is_over = is_over;
    scene->give_up_ns = clock_ns() + PATIENCE_S * CLOCK_NS_PER_S;
    scene->tick = (struct timer){.fire = on_tick, .arg = scene};
    timer_arm(loop_timers(scene->loop), &scene->tick, 0);
    loop_run(scene->loop);
    if (!is_over(scene))
        fail_msg("it did not come to that; the link: %s", redis_link_last_reason(scene->link));
}

static void scene_end(struct scene *scene)
{
    redis_link_free(scene->link);
    metrics_release(&scene->metrics);
    loop_free(scene->loop);
}

static bool is_up(const struct scene *scene)
{
    return redis_link_is_up(scene->link);
}

/* --- tests ---------------------------------------------------------------------------------
 */

static void addresses_are_tried_in_turn(void **state)
{
    struct greeter greeter;
    struct scene scene;

    (void)state;
    names_reset();
    greeter_start(&greeter, AF_INET, "127.0.0.3");
    names.addresses[0] = "127.0.0.1"; /* nobody listens there, nor at the next */
    names.addresses[1] = "127.0.0.2";
    names.addresses[2] = "127.0.0.3";
    scene_start(&scene, greeter.port);
    play_until(&scene, is_up);
    assert_int_equal(names.asked, 1);
    assert_int_equal(scene.downs, 0); /* the name was not given up */
    scene_end(&scene);
    greeter_stop(&greeter);
}

/* As with the Sentinels of a URL: the next name is tried when no address of one answers. */
static void every_address_of_a_name_is_tried_before_the_next_name(void **state)
{
    struct greeter greeter;
    struct scene scene;

    (void)state;
    names_reset();
    greeter_start(&greeter, AF_INET, "127.0.0.3");
    names.addresses[0] = "127.0.0.1";
    names.addresses[1] = "127.0.0.3";
    scene_start(&scene, greeter.port);
    scene.has_two_names = true;
    play_until(&scene, is_up);
    assert_int_equal(names.asked, 1);
    assert_int_equal(scene.downs, 0);
    scene_end(&scene);
    greeter_stop(&greeter);
}

static bool half_a_second_has_passed(const struct scene *scene)
{
    return scene->ticks * TICK_MS >= 500;
}

static void names_that_lead_nowhere_are_asked_for_with_pauses(void **state)
{
    struct scene scene;

    (void)state;
    names_reset();
    names.addresses[0] = "127.0.0.1";
    names.addresses[1] = "127.0.0.2";
    scene_start(&scene, 1);
    scene.has_two_names = true;
    play_until(&scene, half_a_second_has_passed);
    assert_in_range(names.asked, 2, 10);
    assert_non_null(strstr(redis_link_down_reason(scene.link), "cannot be reached"));
    scene_end(&scene);
}

static void names_lead_to_ipv6(void **state)
{
    struct greeter greeter;
    struct scene scene;

    (void)state;
    names_reset();
    greeter_start(&greeter, AF_INET6, "::1");
    names.addresses[0] = "::1";
    scene_start(&scene, greeter.port);
    play_until(&scene, is_up);
    assert_int_equal(scene.downs, 0);
    scene_end(&scene);
    greeter_stop(&greeter);
}

static bool is_unknown(const struct scene *scene)
{
    return scene->downs >= 2 &&
           strstr(redis_link_down_reason(scene->link), "not known") != NULL;
}

static void an_unknown_name_is_asked_for_again(void **state)
{
    struct greeter greeter;
    struct scene scene;

    (void)state;
    names_reset();
    greeter_start(&greeter, AF_INET, "127.0.0.1");
    scene_start(&scene, greeter.port);
    play_until(&scene, is_unknown);
    names.addresses[0] = "127.0.0.1";
    play_until(&scene, is_up);
    assert_true(names.asked >= 3);
    scene_end(&scene);
    greeter_stop(&greeter);
}

static bool has_given_up_once(const struct scene *scene)
{
    return scene->downs >= 1 && strstr(redis_link_down_reason(scene->link), "in time") != NULL;
}

/* The loop goes on, one thread asks for all attempts, and what comes late is used. */
static void a_hanging_name_service_stalls_nothing(void **state)
{
    struct greeter greeter;
    struct scene scene;

    (void)state;
    names_reset();
    greeter_start(&greeter, AF_INET, "127.0.0.1");
    names.addresses[0] = "127.0.0.1";
    names_hang(true);
    scene_start(&scene, greeter.port);
    play_until(&scene, has_given_up_once);
    assert_true(scene.ticks >= 10);
    assert_int_equal(names.asked, 1);
    scene.downs = 0;
    play_until(&scene, has_given_up_once);
    assert_int_equal(names.asked, 1);
    names_hang(false);
    play_until(&scene, is_up);
    assert_int_equal(names.asked, 1);
    scene_end(&scene);
    greeter_stop(&greeter);
}

static bool is_asking(const struct scene *scene)
{
    (void)scene;
    return names.under_way > 0;
}

static void a_link_ends_while_its_name_hangs(void **state)
{
    struct scene scene;

    (void)state;
    names_reset();
    names_hang(true);
    scene_start(&scene, 1);
    play_until(&scene, is_asking);
    scene_end(&scene);
    names_hang(false);
    pthread_mutex_lock(&names.lock);
    while (names.under_way > 0)
        pthread_cond_wait(&names.changed, &names.lock);
    pthread_mutex_unlock(&names.lock);
}

/* A Sentinel may name another server meanwhile. */
static void another_host_is_asked_for_at_once(void **state)
{
    struct greeter greeter;
    struct scene scene;

    (void)state;
    names_reset();
    greeter_start(&greeter, AF_INET, "127.0.0.1");
    names_hang(true);
    scene_start(&scene, 1);
    play_until(&scene, is_asking);
    snprintf(scene.url.hosts[0].host, sizeof(scene.url.hosts[0].host), "127.0.0.1");
    scene.url.hosts[0].port = greeter.port;
    redis_link_reconnect(scene.link, "the test names another server");
    play_until(&scene, is_up);
    assert_int_equal(scene.downs, 0);
    names_hang(false);
    scene_end(&scene);
    greeter_stop(&greeter);
}

static void password_files_are_read(void **state)
{
    static const struct {
        const char *text;
        size_t len;
        const char *password, *error;
    } rows[] = {
        {"s3cret", 6, "s3cret", NULL},     {"s3cret\n", 7, "s3cret", NULL},
        {"s3cret\r\n", 8, "s3cret", NULL}, {" s3 cret\n\n", 10, " s3 cret\n", NULL},
        {"", 0, NULL, "is empty"},         {"\n", 1, NULL, "is empty"},
        {"a\0b", 3, NULL, "no password"},
    };
    char path[] = "/tmp/rlockd-password-XXXXXX", password[REDIS_URL_PASSWORD_SIZE], error[200];
    char filler[REDIS_URL_PASSWORD_SIZE + 2];
    int fd = mkstemp(path);

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, rows[i].text, rows[i].len, 0), rows[i].len);
        bool ok = redis_password_read(path, password, error, sizeof(error));
        assert_int_equal(ok, rows[i].error == NULL);
        if (ok)
            assert_string_equal(password, rows[i].password);
        else
            assert_non_null(strstr(error, rows[i].error));
    }
    memset(filler, 'x', sizeof(filler));
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, filler, REDIS_URL_PASSWORD_SIZE - 1, 0), 511);
    assert_true(redis_password_read(path, password, error, sizeof(error)));
    assert_int_equal(strlen(password), REDIS_URL_PASSWORD_SIZE - 1);
    assert_int_equal(pwrite(fd, filler, REDIS_URL_PASSWORD_SIZE, 0), 512);
    assert_false(redis_password_read(path, password, error, sizeof(error)));
    assert_int_equal(pwrite(fd, filler, sizeof(filler), 0), sizeof(filler));
    assert_false(redis_password_read(path, password, error, sizeof(error)));
    unlink(path);
    close(fd);
    assert_false(redis_password_read(path, password, error, sizeof(error)));
    assert_non_null(strstr(error, "No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_tried_in_turn),
        cmocka_unit_test(every_address_of_a_name_is_tried_before_the_next_name),
        cmocka_unit_test(names_that_lead_nowhere_are_asked_for_with_pauses),
        cmocka_unit_test(names_lead_to_ipv6),
        cmocka_unit_test(an_unknown_name_is_asked_for_again),
        cmocka_unit_test(a_hanging_name_service_stalls_nothing),
        cmocka_unit_test(a_link_ends_while_its_name_hangs),
        cmocka_unit_test(another_host_is_asked_for_at_once),
        cmocka_unit_test(password_files_are_read),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
