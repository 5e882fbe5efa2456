/* The table of embedded scripts. */
#include "storage/redis/script.h"

static const struct script_row rows[SCRIPT_COUNT] = {
#include "scripts.inc"
};

static const struct script_row cluster_rows[SCRIPT_COUNT] = {
#include "scripts_cluster.inc"
};

static const struct script_row shard_rows[SCRIPT_COUNT] = {
#include "scripts_shard.inc"
};

static const struct script_row quorum_rows[SCRIPT_COUNT] = {
#include "scripts_quorum.inc"
};

const struct script_row *script_row(enum script script)
{
    return &rows[script];
}

const struct script_row *script_row_of_cluster(enum script script, bool broadcasts)
{
    return broadcasts ? &cluster_rows[script] : &shard_rows[script];
}

const struct script_row *script_row_of_quorum(enum script script)
{
    return &quorum_rows[script];
}
