/* A certificate that is its own authority, in files, for tests of TLS. */
#ifndef RLOCKD_TESTS_UNIT_CERTIFICATE_H
#define RLOCKD_TESTS_UNIT_CERTIFICATE_H

#define CERTIFICATE_NAME "redis.test"

extern char certificate_path[], certificate_key_path[];

/* For CERTIFICATE_NAME, in new files. `days`: how long it is valid from now on. `purpose`: an
 * OID, GNUTLS_KP_...; NULL: the certificate names none. */
void certificate_write(int days, const char *purpose);
void certificate_remove(void);

#endif
