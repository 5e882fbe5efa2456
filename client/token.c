/* Random tokens. */
#include "client/token.h"

#include <stdio.h>
#include <sys/random.h>

bool token_make(char out[TOKEN_SIZE])
{
    unsigned char random[16];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return false;
    }
    random[6] = (random[6] & 0x0f) | 0x40;
    random[8] = (random[8] & 0x3f) | 0x80;
    for (size_t i = 0, at = 0; i < sizeof(random); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            out[at++] = '-';
        }
        at += (size_t)snprintf(out + at, 3, "%02x", random[i]);
    }
    return true;
}
