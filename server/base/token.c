/* The parser of tokens, and the ids (UUID version 5) that are derived from them. */
#include "server/base/token.h"

#include <assert.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/random.h>
#include <uuid/uuid.h>

/* A change of a namespace would change the id that every deployed rlockd derives from a
 * token. */
UUID_DEFINE(LEASE_NAMESPACE, 0xfe, 0x47, 0xf7, 0xb5, 0xf9, 0x64, 0x42, 0x76, 0xac, 0x79, 0xac,
            0x8e, 0x35, 0x86, 0x63, 0x86);
UUID_DEFINE(SESSION_NAMESPACE, 0x43, 0x91, 0x78, 0x4d, 0xf4, 0x79, 0x4c, 0x4d, 0xb7, 0xb1, 0x72,
            0x44, 0x07, 0xe5, 0x3e, 0x06);
UUID_DEFINE(CLIENT_NAMESPACE, 0x52, 0x0c, 0xd6, 0x7e, 0x8f, 0x1b, 0x4d, 0x29, 0x9a, 0x63, 0x0e,
            0x71, 0xb4, 0xd8, 0x2f, 0xc5);
UUID_DEFINE(NOTE_NAMESPACE, 0x84, 0x1b, 0xd5, 0x0f, 0x36, 0x92, 0x4e, 0x7a, 0x9d, 0x28, 0xc4,
            0x5a, 0x07, 0x6e, 0xf1, 0x3b);
UUID_DEFINE(CHECK_NAMESPACE, 0xbe, 0x61, 0xa3, 0x5e, 0xe7, 0x2c, 0x44, 0x29, 0xa9, 0xe8, 0x61,
            0x93, 0x3d, 0x8c, 0xe2, 0x25);

/* A server-made token is RFC 9562's free-form UUID version 8: 14 bytes, random but for version
 * and variant (106 bits), then a check of these bytes. The check tells server-made tokens from
 * those of clients. It is no protection against forgery and needs none: a forged token counts
 * as spent. */
enum { VERSION_BYTE = 6, VARIANT_BYTE = 8, CHECK_BYTE = 14, CHECK_LEN = 2 };

static_assert(TOKEN_TEXT_SIZE == UUID_STR_LEN, "canonical UUID text");

static void random_bytes(void *out, size_t len)
{
    unsigned char *bytes = out;

    while (len > 0) {
        ssize_t n = getrandom(bytes, len, 0);
        assert(n > 0 || (n < 0 && errno == EINTR));
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        }
    }
}

/* RFC 9562 §5.5: UUID version 5. libuuid makes the same in three times the time. */
static void make_uuid5(uuid_t out, const uuid_t name_space, const char *name, size_t len)
{
    enum { SHA1_LEN = 20 };
    unsigned char text[sizeof(uuid_t) + TOKEN_NAME_MAX], hash[SHA1_LEN];

    assert(len <= TOKEN_NAME_MAX);
    memcpy(text, name_space, sizeof(uuid_t));
    memcpy(text + sizeof(uuid_t), name, len);
    int failed = gnutls_hash_fast(GNUTLS_DIG_SHA1, text, sizeof(uuid_t) + len, hash);
    assert(failed == 0);
    (void)failed;
    memcpy(out, hash, sizeof(uuid_t));
    out[VERSION_BYTE] = (unsigned char)((out[VERSION_BYTE] & 0x0F) | 0x50);
    out[VARIANT_BYTE] = (unsigned char)((out[VARIANT_BYTE] & 0x3F) | 0x80);
}

static void check_of(const uuid_t token, unsigned char check[CHECK_LEN])
{
    uuid_t hash;

    make_uuid5(hash, CHECK_NAMESPACE, (const char *)token, CHECK_BYTE);
    memcpy(check, hash, CHECK_LEN);
}

static void derive_id(const uuid_t name_space, const char *canonical, char *out)
{
    uuid_t id;

    make_uuid5(id, name_space, canonical, strlen(canonical));
    uuid_unparse_lower(id, out);
}

/* RFC 9562's 8-4-4-4-12, in lower case; libuuid's own parser takes seven times as long. */
bool token_parse(const char *text, char canonical[TOKEN_TEXT_SIZE])
{
    static const unsigned char group_ends[] = {8, 13, 18, 23, 36};
    static const char lower[256] = {
        ['0'] = '0', ['1'] = '1', ['2'] = '2', ['3'] = '3', ['4'] = '4', ['5'] = '5',
        ['6'] = '6', ['7'] = '7', ['8'] = '8', ['9'] = '9', ['a'] = 'a', ['b'] = 'b',
        ['c'] = 'c', ['d'] = 'd', ['e'] = 'e', ['f'] = 'f', ['A'] = 'a', ['B'] = 'b',
        ['C'] = 'c', ['D'] = 'd', ['E'] = 'e', ['F'] = 'f',
    };
    char other_bits = 0; /* than those of '0' in any digit */
    size_t i = 0;

    for (size_t group = 0; group < sizeof(group_ends); group++) {
        for (; i < group_ends[group]; i++) {
            char c = lower[(unsigned char)text[i]];
            if (c == '\0')
                return false;
            other_bits |= c ^ '0';
            canonical[i] = c;
        }
        char end = i < TOKEN_TEXT_SIZE - 1 ? '-' : '\0';
        if (text[i] != end)
            return false;
        canonical[i++] = end;
    }
    return other_bits != 0;
}

void token_make(char out[TOKEN_TEXT_SIZE])
{
    uuid_t token = {0};

    random_bytes(token, CHECK_BYTE);
    token[VERSION_BYTE] = (unsigned char)((token[VERSION_BYTE] & 0x0F) | 0x80);
    token[VARIANT_BYTE] = (unsigned char)((token[VARIANT_BYTE] & 0x3F) | 0x80);
    check_of(token, token + CHECK_BYTE);
    uuid_unparse_lower(token, out);
}

bool token_is_server_made(const char canonical[TOKEN_TEXT_SIZE])
{
    enum { VERSION_DIGIT = 14 };
    unsigned char check[CHECK_LEN];
    uuid_t token;

    if (canonical[VERSION_DIGIT] != '8')
        return false;
    if (uuid_parse(canonical, token) != 0)
        return false;
    if ((token[VARIANT_BYTE] & 0xC0) != 0x80)
        return false;
    check_of(token, check);
    return memcmp(check, token + CHECK_BYTE, CHECK_LEN) == 0;
}

void token_lease_id(const char canonical[TOKEN_TEXT_SIZE], char out[TOKEN_TEXT_SIZE])
{
    derive_id(LEASE_NAMESPACE, canonical, out);
}

void token_session_id(const char canonical[TOKEN_TEXT_SIZE], char out[TOKEN_TEXT_SIZE])
{
    derive_id(SESSION_NAMESPACE, canonical, out);
}

/* Of two texts, neither of which can run into the other. */
static void derive_from_both(const uuid_t name_space, const char *name, const char *text,
                             char *out)
{
    uuid_t in_name;

    make_uuid5(in_name, name_space, name, strlen(name));
    derive_id(in_name, text, out);
}

void token_of_client(const char *name, const char *client_id, char out[TOKEN_TEXT_SIZE])
{
    derive_from_both(CLIENT_NAMESPACE, name, client_id, out);
}

void token_id_of_note(const char *name, const char *note, char out[TOKEN_TEXT_SIZE])
{
    derive_from_both(NOTE_NAMESPACE, name, note, out);
}

void token_random_hex(char *out, size_t hex_len)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[32];

    for (size_t i = 0; i < hex_len; i++) {
        if (i % sizeof(bytes) == 0)
            random_bytes(bytes, sizeof(bytes));
        out[i] = digits[bytes[i % sizeof(bytes)] & 0x0F];
    }
    out[hex_len] = '\0';
}

bool token_is_public_id(const char *text)
{
    return text[14] == '5';
}
