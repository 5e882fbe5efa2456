/* The Lua scripts that every change of a lock goes through: storage/scripts/, embedded at build
 * time. */
#ifndef RLOCKD_STORAGE_SCRIPT_H
#define RLOCKD_STORAGE_SCRIPT_H

#include <stddef.h>

/* In the order of the file names. */
enum script {
    SCRIPT_ACQUIRE,
    SCRIPT_FORCE_UNLOCK,
    SCRIPT_LOOK,
    SCRIPT_PROBE,
    SCRIPT_RELEASE,
    SCRIPT_RENEW,
    SCRIPT_SESSION_END,
    SCRIPT_SESSION_LIST,
    SCRIPT_SESSION_LOOK,
    SCRIPT_SESSION_OPEN,
    SCRIPT_TEND,
    SCRIPT_WITHDRAW,
    SCRIPT_COUNT
};

struct script_row {
    const char *name;
    const char *sha1; /* of the text: what EVALSHA takes */
    const char *text;
    size_t len;
};

const struct script_row *script_row(enum script script);

#endif
