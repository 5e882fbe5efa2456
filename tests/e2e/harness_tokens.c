/* Files of API tokens. */
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <sys/stat.h>

#include "harness_world.h"

static void write_hash(FILE *file, const char *token, size_t len)
{
    unsigned char hash[32];

    assert_int_equal(gnutls_hash_fast(GNUTLS_DIG_SHA256, token, len, hash), 0);
    fputs("sha256:", file);
    for (size_t i = 0; i < sizeof(hash); i++)
        fprintf(file, "%02x", hash[i]);
}

const char *tokens_write(struct world *w, const char *name, const char *lines)
{
    const char *path = text(w, "%s/%s", w->dir, name);
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    for (const char *at = lines; *at != '\0'; at++) {
        size_t len = *at == '{' ? strcspn(at, "}") - 1 : 0;
        if (len > 0) {
            write_hash(file, at + 1, len);
            at += len + 1;
        } else {
            fputc(*at, file);
        }
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0600), 0);
    return path;
}

const char *bearer(struct world *w, const char *token)
{
    return text(w, "Authorization: Bearer %s", token);
}
