/* Certificates for tests of TLS, made by openssl: NAME.pem and NAME.key in the world's folder;
 * and a Redis that has one. */
#include <unistd.h>

#include "harness_world.h"

enum { OPENSSL_MS = 10000 };

const char *shell_run(struct world *w, int *code, const char *command)
{
    const char *const argv[] = {"/bin/sh", "-c", text(w, "cd %s && exec %s", w->dir, command),
                                NULL};
    struct child *child = child_start(w, "sh", argv, NULL);
    int status = child_wait(child, OPENSSL_MS);

    if (code != NULL)
        *code = status;
    else if (status != 0)
        FAIL("%s: %d %s", command, status, child_stderr(child));
    return child_stdout(child);
}

void authority_make(struct world *w, const char *name)
{
    shell_run(w, NULL,
              text(w,
                   "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                   "-keyout %s.key -out %s.pem -days 2 -subj /CN=%s",
                   name, name, name));
}

void certificate_make(struct world *w, const char *name, const char *authority,
                      const char *names)
{
    shell_run(w, NULL,
              text(w,
                   "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                   "-keyout %s.key -out %s.csr -subj /CN=%s",
                   name, name, name));
    shell_run(w, NULL, text(w, "sh -c 'echo subjectAltName=%s > extensions'", names));
    shell_run(
        w, NULL,
        text(w,
             "openssl x509 -req -in %s.csr -CA %s.pem -CAkey %s.key -CAcreateserial -days 2 "
             "-extfile extensions -out %s.pem",
             name, authority, authority, name));
}

void certificate_use(struct world *w, const char *name, const char *as)
{
    shell_run(w, NULL,
              text(w, "sh -c 'cp %s.pem %s.pem && cp %s.key %s.key'", name, as, name, as));
}

bool redis_is_tls(void)
{
    const char *wanted = getenv("E2E_REDIS");

    return wanted != NULL && strcmp(wanted, "tls") == 0;
}

const char *redis_address(struct world *w)
{
    unsigned pid = (unsigned)getpid() & 0x3fffff;

    return text(w, "127.%u.%u.%u", 64 + (pid >> 16), pid >> 8 & 0xff, pid & 0xff);
}

static bool is_made(struct world *w, const char *name)
{
    return access(text(w, "%s/%s.pem", w->dir, name), F_OK) == 0;
}

size_t redis_tls_flags(struct redis *redis, const char **argv, size_t len)
{
    struct world *w = redis->world;
    const char *name = text(w, "redis-%d", redis->number), *address = redis_address(w);

    if (!is_made(w, "redis-ca"))
        authority_make(w, "redis-ca");
    if (!is_made(w, name))
        certificate_make(w, name, "redis-ca",
                         text(w, "IP:%s,IP:127.0.0.1,DNS:localhost", address));
    redis->tls_port = REDIS_FIRST_PORT + redis->number;
    const char *const flags[] = {"--bind",
                                 address,
                                 "--port",
                                 "0",
                                 "--tls-port",
                                 text(w, "%d", redis->tls_port),
                                 "--tls-cert-file",
                                 text(w, "%s/%s.pem", w->dir, name),
                                 "--tls-key-file",
                                 text(w, "%s/%s.key", w->dir, name),
                                 "--tls-ca-cert-file",
                                 text(w, "%s/redis-ca.pem", w->dir),
                                 "--tls-auth-clients",
                                 "no"};
    for (size_t i = 0; i < COUNT_OF(flags); i++)
        argv[len++] = flags[i];
    return len;
}
