/* Certificates for tests of TLS, made by openssl: NAME.pem and NAME.key in the world's folder.
 */
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
                   "-keyout %s.key -out %s.pem -days 2 -subj /CN=%s "
                   "-addext keyUsage=critical,keyCertSign",
                   name, name, name));
}

void certificate_make(struct world *w, const char *name, const char *authority,
                      const char *names)
{
    certificate_make_as(w, name, authority, names, "ec -pkeyopt ec_paramgen_curve:prime256v1",
                        NULL);
}

void certificate_make_as(struct world *w, const char *name, const char *authority,
                         const char *names, const char *key, const char *purpose)
{
    shell_run(w, NULL,
              text(w, "openssl req -newkey %s -nodes -keyout %s.key -out %s.csr -subj /CN=%s",
                   key, name, name, name));
    /* Python 3.13 wants all that RFC 5280 wants. */
    shell_run(
        w, NULL,
        text(w,
             "sh -c 'printf \"subjectAltName=%s\\nauthorityKeyIdentifier=keyid\\n%s%s\\n\" "
             "> extensions'",
             names, purpose ? "extendedKeyUsage=" : "", purpose ? purpose : ""));
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
