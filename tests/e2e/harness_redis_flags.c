/* Which Redis the environment wants for the tests, and what a server is started with: where it
 * listens, with TLS or without, as a part of a cluster or alone. */
#include <sys/stat.h>
#include <unistd.h>

#include "harness_world.h"

static bool wants(const char *word)
{
    const char *wanted = getenv("E2E_REDIS");

    return wanted != NULL && strstr(wanted, word) != NULL;
}

bool redis_is_cluster(void)
{
    const char *wanted = getenv("E2E_REDIS_CLUSTER");

    return (wanted != NULL && strcmp(wanted, "1") == 0) || redis_has_masters();
}

bool redis_has_masters(void)
{
    return wants("cluster3");
}

bool redis_is_sentinel(void)
{
    return wants("sentinel");
}

bool redis_is_tls(void)
{
    return wants("tls");
}

const char *redis_address(struct world *w)
{
    struct stat namespace = {0};
    unsigned number = (unsigned)getpid();

    /* Tests in a chroot with process ids of its own may run beside these. */
    if (stat("/proc/self/ns/pid", &namespace) == 0)
        number ^= (unsigned)namespace.st_ino << 16;
    return text(w, "127.%u.%u.%u", 64 + (number >> 16 & 0x3f), number >> 8 & 0xff,
                number & 0xff);
}

static size_t add(const char **argv, size_t len, const char *const *flags, size_t count)
{
    for (size_t i = 0; i < count; i++)
        argv[len++] = flags[i];
    return len;
}

static bool is_made(struct world *w, const char *name)
{
    return access(text(w, "%s/%s.pem", w->dir, name), F_OK) == 0;
}

const char *redis_certificate(struct world *w, int number)
{
    const char *name = text(w, "redis-%d", number);

    if (!is_made(w, "redis-ca"))
        authority_make(w, "redis-ca");
    if (!is_made(w, name))
        certificate_make(w, name, "redis-ca",
                         text(w, "IP:%s,IP:127.0.0.1,DNS:localhost", redis_address(w)));
    return text(w, "%s/%s", w->dir, name);
}

size_t redis_tls_flags(struct redis *redis, const char **argv, size_t len)
{
    struct world *w = redis->world;
    const char *certificate = redis_certificate(w, redis->number);

    redis->tls_port = REDIS_FIRST_PORT + redis->number;
    const char *const flags[] = {"--bind",
                                 redis_address(w),
                                 "--port",
                                 "0",
                                 "--tls-port",
                                 text(w, "%d", redis->tls_port),
                                 "--tls-cert-file",
                                 text(w, "%s.pem", certificate),
                                 "--tls-key-file",
                                 text(w, "%s.key", certificate),
                                 "--tls-ca-cert-file",
                                 text(w, "%s/redis-ca.pem", w->dir),
                                 "--tls-auth-clients",
                                 "no"};
    return add(argv, len, flags, COUNT_OF(flags));
}

/* A server of a cluster listens on two ports. So that no two servers meet, each test program
 * has an address of its own, and each of its servers a port. */
size_t redis_tcp_flags(struct redis *redis, const char **argv, size_t len)
{
    struct world *w = redis->world;

    snprintf(redis->host, sizeof(redis->host), "%s", redis_address(w));
    redis->port = REDIS_FIRST_PORT + redis->number;
    const char *const plain[] = {"--bind", redis->host, "--port", text(w, "%d", redis->port)};
    const char *const encrypted[] = {"--tls-replication", "yes", "--tls-cluster", "yes"};
    const char *const announced[] = {"--replica-announce-ip", redis->host};

    if (redis_is_tls()) {
        len = redis_tls_flags(redis, argv, len);
        len = add(argv, len, encrypted, COUNT_OF(encrypted));
    } else {
        len = add(argv, len, plain, COUNT_OF(plain));
    }
    return add(argv, len, announced, COUNT_OF(announced));
}

size_t redis_socket_flags(struct redis *redis, const char **argv, size_t len)
{
    static const char *const flags[] = {"--port", "0"};

    return redis_is_tls() ? redis_tls_flags(redis, argv, len)
                          : add(argv, len, flags, COUNT_OF(flags));
}

size_t redis_cluster_flags(const char **argv, size_t len)
{
    static const char *const flags[] = {"--cluster-enabled", "yes", "--cluster-config-file",
                                        "nodes.conf"};

    return add(argv, len, flags, COUNT_OF(flags));
}

size_t redis_data_flags(struct redis *redis, const char **argv, size_t len)
{
    const char *const flags[] = {
        "--unixsocket",  redis->socket,
        "--dir",         redis->dir,
        "--logfile",     text(redis->world, "%s/redis.log", redis->dir),
        "--save",        "",
        "--appendonly",  "yes",
        "--appendfsync", "no"};

    return add(argv, len, flags, COUNT_OF(flags));
}
