/* Finds COMMAND as a shell would, and makes its environment. */
#include "client/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/say.h"
#include "client/status.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin" /* where PATH is not set */

/* 0, or errno. */
static int try_file(const char *path)
{
    struct stat file;

    if (stat(path, &file) != 0) {
        return errno;
    }
    if (!S_ISREG(file.st_mode)) {
        return EACCES;
    }
    return access(path, X_OK) == 0 ? 0 : errno;
}

/* A file that may not be executed does not end the search, but is remembered. */
static int search(const char *name, char **found)
{
    const char *folders = getenv("PATH");
    int result = ENOENT;

    for (const char *at = folders ? folders : DEFAULT_PATH;; at++) {
        size_t len = strcspn(at, ":");
        if (asprintf(found, "%.*s%s%s", (int)len, at, len ? "/" : "", name) < 0) {
            return ENOMEM;
        }
        int error = try_file(*found);
        if (error == 0) {
            return 0;
        }
        free(*found);
        *found = NULL;
        result = error == EACCES ? EACCES : result;
        at += len;
        if (!*at) {
            return result;
        }
    }
}

static char **make_arguments(const struct settings *settings)
{
    char *shell = getenv("SHELL");
    size_t count = 0, at = 0;

    while (settings->argv[count]) {
        count++;
    }
    char **argv = calloc(count + 4, sizeof(*argv)); /* execve() leaves the texts as they are */
    if (argv && settings->shell) {
        argv[at++] = shell && *shell ? shell : (char *)"/bin/sh";
        argv[at++] = (char *)"-c";
        argv[at++] = (char *)settings->shell;
    }
    if (argv) {
        memcpy(argv + at, settings->argv, count * sizeof(*argv));
    }
    return argv;
}

int command_find(const struct settings *settings, char **path, char ***argv)
{
    *argv = make_arguments(settings);
    if (!*argv || !**argv) {
        say("usage: rlock run [OPTIONS] NAME COMMAND [ARG...]");
        return STATUS_USAGE;
    }
    const char *name = **argv;
    int error = ENOENT;
    if (strchr(name, '/')) {
        error = try_file(name);
        *path = strdup(name);
    } else if (*name) {
        error = search(name, path);
    }
    if (error) {
        say("%s: %s%s", name, error == ENOENT ? "command not found" : strerror(error),
            *name == '-' ? "; options come before NAME" : "");
    }
    return error == 0                            ? 0
           : error == ENOENT || error == ENOTDIR ? STATUS_NOT_FOUND
                                                 : STATUS_NOT_EXECUTABLE;
}

static bool has_line(const char *lines, const char *line)
{
    size_t wanted = strlen(line);

    while (*lines) {
        size_t len = strcspn(lines, "\n");
        if (len == wanted && memcmp(lines, line, len) == 0) {
            return true;
        }
        lines += len + (lines[len] == '\n');
    }
    return false;
}

const char *command_held_outside(const struct settings *settings)
{
    const char *held = getenv("RLOCK_HELD");

    for (size_t i = 0; held && i < settings->name_count; i++) {
        if (has_line(held, settings->names[i])) {
            return settings->names[i];
        }
    }
    return NULL;
}

static bool set_held(const struct settings *settings)
{
    const char *outside = getenv("RLOCK_HELD");
    size_t room = outside ? strlen(outside) + 2 : 2;

    for (size_t i = 0; i < settings->name_count; i++) {
        room += strlen(settings->names[i]) + 1;
    }
    char *held = malloc(room);
    if (!held) {
        return false;
    }
    char *at = held + snprintf(held, room, "%s", outside ? outside : "");
    for (size_t i = 0; i < settings->name_count; i++) {
        at += snprintf(at, room - (size_t)(at - held), "%s%s", at == held ? "" : "\n",
                       settings->names[i]);
    }
    bool done = setenv("RLOCK_HELD", held, 1) == 0;
    free(held);
    return done;
}

static bool set_number(const char *variable, json_int_t number)
{
    char text[32];

    snprintf(text, sizeof(text), "%lld", (long long)number);
    return setenv(variable, text, 1) == 0;
}

/* With several locks: an object of their names, and the token of the first in the variable that
 * a run with one lock has, too. */
static bool set_tokens(const struct lease *lease)
{
    json_t *locks = json_object_get(lease->grant, "locks"), *lock, *tokens = json_object();
    size_t index;
    bool done = true;

    json_array_foreach(locks, index, lock) {
        const char *name = json_string_value(json_object_get(lock, "lock"));
        json_t *token = json_object_get(lock, "fencing_token");
        json_object_set(tokens, name ? name : "", token);
        if (name && strcmp(name, lease->settings->names[0]) == 0) {
            done = set_number("RLOCK_FENCING_TOKEN", json_integer_value(token)) && done;
        }
    }
    char *text = json_dumps(tokens, JSON_COMPACT);
    json_decref(tokens);
    done = text && setenv("RLOCK_FENCING_TOKENS", text, 1) == 0 && done;
    free(text);
    return done;
}

bool command_set_environment(const struct lease *lease)
{
    const struct settings *settings = lease->settings;
    json_t *token = json_object_get(lease->grant, "fencing_token");
    bool done = setenv("RLOCK_NAME", settings->names[0], 1) == 0 &&
                setenv("RLOCK_LEASE_ID", lease->lease_id, 1) == 0 &&
                setenv("RLOCK_KIND", settings->permit ? "permit" : settings->kind, 1) == 0 &&
                set_held(settings);

    unsetenv("RLOCK_FENCING_TOKEN"); /* an outer run's */
    unsetenv("RLOCK_FENCING_TOKENS");
    if (token) {
        done = set_number("RLOCK_FENCING_TOKEN", json_integer_value(token)) && done;
    }
    if (settings->name_count > 1) {
        done = set_tokens(lease) && done;
    }
    return done;
}
