/* The hash of an API token, the credentials of Basic that have a token, and the command
 * --hash-token. */
#include "server/auth/auth_hash.h"

#include <assert.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "server/base/text.h"
#include "server/base/token.h"
#include "server/auth/auth.h"

enum { MADE_DIGITS = 48 }; /* 192 random bits */

static const char scheme[] = "sha256:";

void auth_hash(const char *token, size_t len, unsigned char hash[AUTH_HASH_LEN])
{
    int failed = gnutls_hash_fast(GNUTLS_DIG_SHA256, token, len, hash);

    assert(failed == 0);
    (void)failed;
}

bool auth_hash_equals(const unsigned char a[AUTH_HASH_LEN],
                      const unsigned char b[AUTH_HASH_LEN])
{
    return gnutls_memcmp(a, b, AUTH_HASH_LEN) == 0;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20; /* lower case */
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool auth_hash_parse(const char *text, unsigned char hash[AUTH_HASH_LEN])
{
    if (strncmp(text, scheme, sizeof(scheme) - 1) != 0)
        return false;
    text += sizeof(scheme) - 1;
    if (strlen(text) != 2 * (size_t)AUTH_HASH_LEN)
        return false;
    for (size_t i = 0; i < AUTH_HASH_LEN; i++) {
        int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        hash[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* A user name, a colon and a password. `text` is freed by gnutls_free(). */
static bool decode(const char *credentials, gnutls_datum_t *text)
{
    /* It is read only. */
    const gnutls_datum_t base64 = {(unsigned char *)credentials,
                                   (unsigned int)strlen(credentials)};

    return base64.size > 0 && gnutls_base64_decode2(&base64, text) == 0;
}

static bool take(const unsigned char *part, size_t len, char *out, size_t max)
{
    if (len > max)
        return false;
    memcpy(out, part, len);
    return true;
}

bool auth_basic_password(const char *credentials, char password[AUTH_TOKEN_MAX], size_t *len)
{
    gnutls_datum_t text;

    if (!decode(credentials, &text))
        return false;
    const unsigned char *colon = memchr(text.data, ':', text.size);
    *len = colon != NULL ? text.size - (size_t)(colon + 1 - text.data) : 0;
    bool is_good = colon != NULL && take(colon + 1, *len, password, AUTH_TOKEN_MAX);
    gnutls_free(text.data);
    return is_good;
}

bool auth_basic_name(const char *credentials, char name[AUTH_CALLER_SIZE])
{
    gnutls_datum_t text;

    if (!decode(credentials, &text))
        return false;
    const unsigned char *colon = memchr(text.data, ':', text.size);
    size_t len = colon != NULL ? (size_t)(colon - text.data) : 0;
    bool is_good = len > 0 && memchr(text.data, '\0', len) == NULL &&
                   take(text.data, len, name, AUTH_CALLER_SIZE - 1);
    if (is_good)
        name[len] = '\0';
    gnutls_free(text.data);
    return is_good;
}

/* A token that is typed does not show. */
static void set_echo(bool on)
{
    struct termios settings;

    if (tcgetattr(STDIN_FILENO, &settings) != 0)
        return; /* no terminal */
    if (!on)
        fputs("Token: ", stderr);
    else
        fputs("\n", stderr);
    settings.c_lflag = on ? settings.c_lflag | ECHO : settings.c_lflag & ~(tcflag_t)ECHO;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &settings);
}

/* One line of standard input without its end. Returns the reason of a refusal, or NULL. */
static const char *read_token(char token[AUTH_TOKEN_MAX + 3])
{
    /* The characters that a header can carry: RFC 6750 §2.1. */
    static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789-._~+/=";
    set_echo(false);
    bool got = fgets(token, AUTH_TOKEN_MAX + 3, stdin) != NULL;
    set_echo(true);
    if (!got)
        return "there is no token on standard input";
    token[strcspn(token, "\r\n")] = '\0';
    /* A terminal has no end of file behind the line, unless it is typed. */
    if ((!isatty(STDIN_FILENO) && getchar() != EOF) || strlen(token) > AUTH_TOKEN_MAX)
        return "standard input has more than one token of up to 256 characters";
    if (strlen(token) < AUTH_TOKEN_MIN)
        return "the token has fewer than 16 characters: --make-token makes a good one";
    if (token[strspn(token, characters)] != '\0')
        return "the token has characters other than letters, digits and -._~+/=";
    return NULL;
}

bool auth_print_line(const char *name, char *error, size_t error_size)
{
    char token[AUTH_TOKEN_MAX + 3] = "";
    unsigned char hash[AUTH_HASH_LEN];
    size_t len = strlen(name);
    const char *wrong = NULL;

    if (len == 0 || len >= AUTH_CALLER_SIZE || strpbrk(name, " #") != NULL ||
        !text_is_utf8(name, len) || text_has_control(name, len))
        wrong = "the name must be UTF-8 of 1 to 64 bytes, without blanks, control characters "
                "and #";
    else
        wrong = read_token(token);
    if (wrong != NULL) {
        snprintf(error, error_size, "--hash-token: %s", wrong);
        return false;
    }
    auth_hash(token, strlen(token), hash);
    printf("%s %s", name, scheme);
    for (size_t i = 0; i < AUTH_HASH_LEN; i++)
        printf("%02x", hash[i]);
    puts(" read=* lock=*");
    return true;
}

void auth_print_token(void)
{
    char digits[MADE_DIGITS + 1];

    token_random_hex(digits, MADE_DIGITS);
    printf("rlockd_%s\n", digits); /* which scanners for leaked secrets can recognise */
}
