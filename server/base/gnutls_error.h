/* Errors of GnuTLS as text for a person. */
#ifndef RLOCKD_SERVER_BASE_GNUTLS_ERROR_H
#define RLOCKD_SERVER_BASE_GNUTLS_ERROR_H

#include <errno.h>
#include <gnutls/gnutls.h>
#include <string.h>

/* Of a call that failed just now: `errno` says why a file cannot be read. */
static inline const char *gnutls_error_text(int code)
{
    return code == GNUTLS_E_FILE_ERROR && errno != 0 ? strerror(errno) : gnutls_strerror(code);
}

#endif
