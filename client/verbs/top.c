/* rlock top: a live picture of what is waited for, and of what is held for long. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "client/boottime.h"
#include "client/say.h"
#include "client/status.h"
#include "client/verbs/look.h"
#include "client/verbs/verbs.h"

enum {
    EVERY_MIN_MS = 200,
    ROWS_DEFAULT = 24,
    COLUMNS_DEFAULT = 80,
    HEAD_ROWS = 5, /* the headlines and the line below */
    LINE_SIZE = 1024,
};

struct top {
    struct http *http;
    const struct settings *settings;
    int signals;
    bool is_live, has_ended;
    json_t *waited, *held;
    json_t *tokens; /* lock -> fencing token, of the picture before */
    int64_t taken_at;
    double hand_overs; /* a second, at least */
};

static int64_t number_of(json_t *object, const char *member)
{
    return json_integer_value(json_object_get(object, member));
}

/* The list of the longest waits has the time of a hold in the holders only. */
static void complete(json_t *lock)
{
    json_t *holder;
    size_t index;
    int64_t longest_ms = -1;

    json_array_foreach(json_object_get(lock, "holders"), index, holder) {
        json_t *held_ms = json_object_get(holder, "held_ms");
        if (held_ms && json_integer_value(held_ms) > longest_ms) {
            longest_ms = json_integer_value(held_ms);
        }
    }
    if (longest_ms >= 0 && !json_object_get(lock, "held_ms")) {
        json_object_set_new(lock, "held_ms", json_integer(longest_ms));
    }
}

/* ---- the picture's locks */

static int list(struct top *top, const char *order, json_t **locks)
{
    json_t *page = NULL;
    char *path = look_path("/v1/locks?prefix=", top->settings->names[0], order);
    int status = look_get(top->http, top->settings, path, &page);

    *locks = json_incref(json_object_get(page, "locks"));
    json_decref(page);
    return status;
}

static int take_lists(struct top *top)
{
    int status = list(top, "&order=waited", &top->waited);

    return status == 0 ? list(top, "&order=held", &top->held) : status;
}

/* Each other token of a lock is a hand-over at least. */
static void count_hand_overs(struct top *top, json_t *tokens, int64_t now)
{
    const char *name;
    json_t *token, *before;
    int changes = 0;

    json_object_foreach(tokens, name, token) {
        before = json_object_get(top->tokens, name);
        changes += before && json_integer_value(before) != json_integer_value(token);
    }
    if (top->tokens && now > top->taken_at) {
        top->hand_overs = changes * 1000.0 / (double)(now - top->taken_at);
    }
    json_decref(top->tokens);
    top->tokens = tokens;
    top->taken_at = now;
}

static void take_tokens(json_t *tokens, json_t *locks)
{
    json_t *lock;
    size_t index;

    json_array_foreach(locks, index, lock) {
        const char *name = json_string_value(json_object_get(lock, "lock"));
        json_t *token = json_object_get(lock, "fencing_token");
        complete(lock);
        if (name && token) {
            json_object_set(tokens, name, token);
        }
    }
}

static int take_picture(struct top *top)
{
    json_t *tokens = json_object();

    json_decref(top->waited);
    json_decref(top->held);
    top->waited = top->held = NULL;
    int status = take_lists(top);
    take_tokens(tokens, top->waited);
    take_tokens(tokens, top->held);
    count_hand_overs(top, tokens, boottime_ms());
    return status;
}

/* ---- drawing */

static void add_line(FILE *out, const struct top *top, const char *line, int columns)
{
    char cut[LINE_SIZE];

    snprintf(cut, sizeof(cut), "%s", line);
    say_clean(cut);
    say_cut(cut, (size_t)columns);
    fprintf(out, "%s%s\n", cut, top->is_live ? "\033[K" : "");
}

static int by_member(json_t *a, json_t *b, const char *member)
{
    int64_t left = number_of(a, member), right = number_of(b, member);

    return (left < right) - (left > right);
}

static int by_waited(const void *a, const void *b)
{
    return by_member(*(json_t *const *)a, *(json_t *const *)b, "waited_ms");
}

static int by_held(const void *a, const void *b)
{
    return by_member(*(json_t *const *)a, *(json_t *const *)b, "held_ms");
}

static void draw_lock(FILE *out, const struct top *top, json_t *lock, int columns)
{
    json_t *holder = json_array_get(json_object_get(lock, "holders"), 0);
    const char *name = json_string_value(json_object_get(lock, "lock"));
    char waited[LOOK_TIME_SIZE] = "", held[LOOK_TIME_SIZE] = "", who[LOOK_HOLDER_SIZE] = "";
    char waiters[LOOK_TIME_SIZE] = "";
    char line[LINE_SIZE];

    if (json_object_get(lock, "waited_ms")) {
        look_time(number_of(lock, "waited_ms"), waited);
    }
    if (json_object_get(lock, "waiter_count")) {
        snprintf(waiters, sizeof(waiters), "%lld", (long long)number_of(lock, "waiter_count"));
    }
    if (json_object_get(lock, "held_ms")) {
        look_time(number_of(lock, "held_ms"), held);
    }
    if (holder) {
        look_holder(holder, who);
    }
    snprintf(line, sizeof(line), "%8s %7s %8s  %-28s  %s", waited, waiters, held,
             name ? name : "", who);
    add_line(out, top, line, columns);
}

/* At most `rows` lines: those with the member, the longest first. Returns how many there are.
 */
static size_t draw_list(FILE *out, const struct top *top, json_t *locks, const char *member,
                        int rows, int columns)
{
    size_t size = json_array_size(locks), count = 0;
    json_t **sorted = calloc(size + 1, sizeof(*sorted)), *lock;
    size_t index;

    json_array_foreach(locks, index, lock) {
        if (sorted && json_object_get(lock, member)) {
            sorted[count++] = lock;
        }
    }
    if (sorted) {
        qsort(sorted, count, sizeof(lock),
              strcmp(member, "held_ms") == 0 ? by_held : by_waited);
    }
    for (size_t i = 0; i < count && (int)i < rows; i++) {
        draw_lock(out, top, sorted[i], columns);
    }
    free(sorted);
    return count;
}

static void draw(const struct top *top)
{
    struct winsize size = {0};
    char *text = NULL, line[LINE_SIZE], now[16];
    size_t len = 0;
    time_t clock = time(NULL);
    struct tm local;
    FILE *out = open_memstream(&text, &len);

    if (!out) {
        return;
    }
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) {
        size = (struct winsize){.ws_row = ROWS_DEFAULT, .ws_col = COLUMNS_DEFAULT};
    }
    int rows = (size.ws_row > HEAD_ROWS ? size.ws_row - HEAD_ROWS : 2) / 2;
    strftime(now, sizeof(now), "%H:%M:%S", localtime_r(&clock, &local));
    fputs(top->is_live ? "\033[H" : "", out);
    snprintf(line, sizeof(line), "rlock top %s  %s  hand-overs/s: at least %.1f",
             top->settings->names[0], now, top->hand_overs);
    add_line(out, top, line, size.ws_col);
    add_line(out, top, "WAITED FOR, the longest first", size.ws_col);
    add_line(out, top, "  WAITED WAITERS     HELD  LOCK                          HOLDER",
             size.ws_col);
    draw_list(out, top, top->waited, "waited_ms", rows, size.ws_col);
    add_line(out, top, "HELD, the longest first", size.ws_col);
    draw_list(out, top, top->held, "held_ms", rows, size.ws_col);
    fputs(top->is_live ? "\033[J" : "", out);
    fclose(out);
    fwrite(text, 1, len, stdout);
    fflush(stdout);
    free(text);
}

/* ---- the loop */

static bool take_signal(void *context)
{
    struct top *top = context;
    struct signalfd_siginfo taken;

    while (read(top->signals, &taken, sizeof(taken)) == (ssize_t)sizeof(taken)) {
        top->has_ended = top->has_ended || taken.ssi_signo != SIGWINCH;
    }
    return top->has_ended;
}

static void watch_signals(struct top *top)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
    top->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    http_watch(top->http, take_signal, top);
    http_watch_fd(top->http, WATCH_SIGNALS, top->signals);
}

static int run(struct top *top)
{
    int64_t every_ms = top->settings->every_ms;
    int status;

    if (top->is_live) {
        fputs("\033[2J", stdout);
    }
    every_ms = every_ms < EVERY_MIN_MS ? EVERY_MIN_MS : every_ms;
    do {
        status = take_picture(top);
        if (top->has_ended || status != 0) {
            break;
        }
        draw(top);
    } while (top->is_live && !top->has_ended &&
             http_pause(top->http, boottime_ms() + every_ms));
    return top->has_ended ? 0 : status;
}

int verb_top(struct settings *settings)
{
    int status;
    struct top top = {.settings = settings,
                      .http = http_new(settings, &status),
                      .is_live = isatty(STDOUT_FILENO)};

    if (!top.http) {
        return status;
    }
    watch_signals(&top);
    status = run(&top);
    json_decref(top.waited);
    json_decref(top.held);
    json_decref(top.tokens);
    http_free(top.http);
    return status;
}
