/* server/base/config.c. The input is lines: those with a RLOCKD_ at their beginning are
 * variables, the others arguments. */
#include "server/base/config.h"
#include "tests/fuzz/fuzz.h"

enum { LINES_MAX = 24 };

static void check_config(const struct config *config)
{
    CHECK(config->workers >= 1 && config->workers <= 64);
    CHECK(config->watchdog_timeout_ms >= 300 && config->max_wait_ms >= 1000);
    CHECK(config->retry_window_ms >= 1000 && config->fencing_ttl_ms >= 0);
    CHECK(config->max_connections >= 16 && config->max_connections_per_address >= 0);
    CHECK(config->data_dir[0] != '\0' && config->log_level <= LOG_LEVEL_ERROR);
    CHECK(strpbrk(config->listen_host, "[]/ ") == NULL);
}

/* --help and --version print, which is not what is looked at here. */
static bool prints(const char *line)
{
    return strcmp(line, "--help") == 0 || strcmp(line, "-h") == 0 ||
           strcmp(line, "--version") == 0 || strcmp(line, "-V") == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *argv[LINES_MAX + 2] = {(char *)"rlockd"}, *envp[LINES_MAX + 1] = {NULL};
    char error[256] = "";
    int argc = 1, variables = 0;
    static struct config config;

    for (int i = 0; i < LINES_MAX && input.size > 0; i++) {
        char *line = fuzz_line(&input);
        if (prints(line))
            free(line);
        else if (strncmp(line, "RLOCKD_", 7) == 0)
            envp[variables++] = line;
        else
            argv[argc++] = line;
    }
    enum config_outcome outcome = config_load(&config, argc, argv, envp, error, sizeof(error));
    CHECK(outcome != CONFIG_EXIT_OK);
    if (outcome == CONFIG_RUN)
        check_config(&config);
    else if (outcome == CONFIG_ERROR)
        CHECK(error[0] != '\0' && strchr(error, '\n') == NULL);
    while (argc-- > 1)
        free(argv[argc]);
    while (variables-- > 0)
        free(envp[variables]);
    return 0;
}
