/* The row of a setting, for config.c, which has the table and reads flags and environment, and
 * config_text.c, which prints the table. */
#ifndef RLOCKD_BASE_CONFIG_INTERNAL_H
#define RLOCKD_BASE_CONFIG_INTERNAL_H

#include "server/base/config.h"

enum kind { KIND_LISTEN, KIND_TEXT, KIND_INT, KIND_INT64, KIND_SWITCH, KIND_LEVEL };

struct setting {
    const char *flag;
    const char *variable;
    const char *placeholder;
    enum kind kind;
    size_t offset;    /* of its field in struct config */
    int64_t min, max; /* the number's bounds; of a text, its length's in bytes */
    const char *default_text;
    const char *help;
};

extern const struct setting config_settings[];
extern const size_t config_setting_count;

#endif
