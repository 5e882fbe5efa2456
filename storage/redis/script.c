#include "storage/redis/script.h"

static const struct script_row rows[SCRIPT_COUNT] = {
#include "scripts.inc"
};

const struct script_row *script_row(enum script script)
{
    return &rows[script];
}
