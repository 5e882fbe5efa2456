/* server/base/log.c: what it writes to standard error. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/base/log.h"
#include "server/base/log_output.h"

enum { TEXT_SIZE = 256 * 1024 };

static int saved_stderr, reader;
static char text[TEXT_SIZE];

/* A pipe in place of standard error; it must hold what a test writes. */
static int set_up(void **state)
{
    int ends[2];

    (void)state;
    if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[1], F_SETPIPE_SZ, TEXT_SIZE) < 0 ||
        fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        return -1;
    saved_stderr = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    reader = ends[0];
    log_set_level(LOG_LEVEL_INFO);
    log_output_open();
    return saved_stderr < 0;
}

/* What was written since the last call, in `text`. */
static size_t written(void)
{
    size_t len = 0;
    ssize_t got;

    while (len < sizeof(text) - 1 &&
           (got = read(reader, text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)got;
    text[len] = '\0';
    return len;
}

static int tear_down(void **state)
{
    (void)state;
    dup2(saved_stderr, STDERR_FILENO);
    log_output_open();
    close(saved_stderr);
    /* Nothing, unless the test failed: then this says why. */
    fwrite(text, 1, written(), stderr);
    return close(reader);
}

/* The one line that was written, as an object to be freed. */
static json_t *written_line(void)
{
    size_t len = written();

    assert_true(len > 0);
    assert_ptr_equal(strchr(text, '\n'), text + len - 1);
    json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_is_object(line));
    return line;
}

static const char *member(const json_t *line, const char *name)
{
    const char *value = json_string_value(json_object_get(line, name));

    assert_non_null(value);
    return value;
}

/* Not time(), which lags behind the clock of the log by up to a tick. */
static time_t now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}

static void line_has_time_level_and_msg(void **state)
{
    static const char shape[] = "0000-00-00T00:00:00.000Z";
    struct tm utc = {0};

    (void)state;
    time_t before = now_s();
    log_write(LOG_LEVEL_WARN, "redis is down", NULL);
    time_t after = now_s();
    json_t *line = written_line();
    assert_int_equal(json_object_size(line), 3);
    assert_string_equal(member(line, "level"), "warn");
    assert_string_equal(member(line, "msg"), "redis is down");
    const char *when = member(line, "time");
    assert_int_equal(strlen(when), strlen(shape));
    for (size_t i = 0; shape[i] != '\0'; i++)
        assert_true(shape[i] == '0' ? isdigit((unsigned char)when[i]) : when[i] == shape[i]);
    assert_non_null(strptime(when, "%Y-%m-%dT%H:%M:%S", &utc));
    assert_in_range(timegm(&utc), before, after);
    /* People read it from the left. */
    assert_memory_equal(text, "{\"time\":\"", 9);
    json_decref(line);
}

static void fields_are_added(void **state)
{
    (void)state;
    log_write(LOG_LEVEL_INFO, "request",
              json_pack("{s:s, s:i, s:f, s:b, s:n}", "route", "/v1/locks/{name}", "status", 201,
                        "seconds", 0.0001239999, "suspended", 0, "lease"));
    json_t *line = written_line();
    assert_int_equal(json_object_size(line), 8);
    assert_string_equal(member(line, "msg"), "request");
    assert_string_equal(member(line, "route"), "/v1/locks/{name}");
    assert_int_equal(json_integer_value(json_object_get(line, "status")), 201);
    assert_true(json_is_false(json_object_get(line, "suspended")));
    assert_true(json_is_null(json_object_get(line, "lease")));
    assert_non_null(strstr(text, "\"seconds\":0.000124,"));
    json_decref(line);
}

/* One line stays one line, and nothing in it steers a terminal. */
static void control_characters_are_escaped(void **state)
{
    static const char nasty[] =
        "a\nb\r\"c\"\\\t\x1b[31m\x7f\xC2\x85\xE2\x80\xA8\xC3\xBC\xF0\x9F\x94\x92\x01";

    (void)state;
    log_write(LOG_LEVEL_ERROR, nasty, json_pack("{s:s}", "name", nasty));
    json_t *line = written_line();
    assert_string_equal(member(line, "msg"), nasty);
    assert_string_equal(member(line, "name"), nasty);
    json_decref(line);
    for (const char *c = text; c[1] != '\0'; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > 0x7f)
            fail_msg("byte %02x in %s", (unsigned char)*c, text);
    assert_non_null(strstr(text, "\\u001B[31m"));
    assert_non_null(strstr(text, "\\uD83D\\uDD12"));
}

static void lower_levels_are_dropped(void **state)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    struct log_buffer buffer;

    (void)state;
    log_buffer_init(&buffer);
    for (enum log_level lowest = LOG_LEVEL_DEBUG; lowest <= LOG_LEVEL_ERROR; lowest++) {
        log_set_level(lowest);
        for (enum log_level level = LOG_LEVEL_DEBUG; level <= LOG_LEVEL_ERROR; level++) {
            assert_int_equal(log_is_on(level), level >= lowest);
            log_write(level, "now", json_pack("{s:i}", "x", 1));
            log_buffer_write(&buffer, level, "later", json_pack("{s:i}", "x", 1));
            log_buffer_flush(&buffer);
            size_t len = written();
            if (level < lowest) {
                assert_int_equal(len, 0);
                continue;
            }
            char *later = strchr(text, '\n') + 1;
            assert_int_equal(strcspn(later, "\n"), strlen(later) - 1);
            assert_non_null(strstr(later, "later"));
            assert_non_null(strstr(later, names[level]));
        }
    }
    log_buffer_release(&buffer);
}

static void buffer_waits_for_the_flush(void **state)
{
    struct log_buffer buffer;

    (void)state;
    log_buffer_init(&buffer);
    log_buffer_flush(&buffer);
    log_buffer_write(&buffer, LOG_LEVEL_INFO, "one", NULL);
    log_buffer_write(&buffer, LOG_LEVEL_INFO, "two", NULL);
    assert_int_equal(written(), 0);
    log_buffer_flush(&buffer);
    size_t len = written();
    char *second = strchr(text, '\n') + 1;
    assert_non_null(strstr(second, "\"two\""));
    assert_int_equal(second[strlen(second) - 1], '\n');
    assert_true(memmem(text, (size_t)(second - text), "\"one\"", 5) != NULL);
    assert_int_equal(strlen(text), len);
    /* Once only. */
    log_buffer_flush(&buffer);
    assert_int_equal(written(), 0);
    log_buffer_write(&buffer, LOG_LEVEL_INFO, "three", NULL);
    log_buffer_release(&buffer);
    json_t *line = written_line();
    assert_string_equal(member(line, "msg"), "three");
    json_decref(line);
}

static void full_buffer_is_written_by_itself(void **state)
{
    struct log_buffer buffer;
    size_t lines = 0, count = 0, len = 0;

    (void)state;
    log_buffer_init(&buffer);
    while (len == 0 && count < 10000) {
        log_buffer_write(&buffer, LOG_LEVEL_INFO, "request",
                         json_pack("{s:i}", "number", (int)count++));
        len = written();
    }
    assert_in_range(len, 32 * 1024, 40 * 1024);
    for (const char *c = text; (c = strchr(c, '\n')) != NULL; c++)
        lines++;
    assert_int_equal(lines, count);
    log_buffer_release(&buffer);
    assert_int_equal(written(), 0);
}

static size_t lines_of(const char *content, const char *word)
{
    size_t lines = 0;

    while ((content = strstr(content, word)) != NULL) {
        lines++;
        content += strlen(word);
    }
    return lines;
}

/* A pipe that is full takes nothing more: lines are kept, then dropped, never waited for. */
static void unread_lines_are_kept_then_dropped(void **state)
{
    static char more[4 * 1024 * 1024];
    size_t len = 0, sent = 0, got;
    struct log_buffer buffer;

    (void)state;
    log_buffer_init(&buffer);
    for (int i = 0; i < 30000; i++, sent++)
        log_buffer_write(&buffer, LOG_LEVEL_INFO, "request", json_pack("{s:i}", "number", i));
    log_buffer_flush(&buffer);
    uint64_t dropped = log_output_dropped();
    assert_in_range(dropped, 1, sent - 1);
    while ((got = written()) > 0) {
        memcpy(more + len, text, got);
        len += got;
        log_buffer_flush(&buffer);
    }
    more[len] = '\0';
    assert_int_equal(lines_of(more, "\"request\""), sent - dropped);
    assert_int_equal(lines_of(more, "were dropped"), 1);
    char count[40];
    snprintf(count, sizeof(count), "\"lines\":%llu}", (unsigned long long)dropped);
    assert_non_null(strstr(more, count));
    /* Whole lines, and the oldest ones. */
    for (char *line = more, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        json_t *object = json_loads(line, 0, NULL);
        assert_true(json_is_object(object));
        json_decref(object);
    }
    log_write(LOG_LEVEL_INFO, "again", NULL);
    json_decref(written_line());
    log_buffer_release(&buffer);
}

/* `fd` in place of standard error fails every write: its lines are dropped, and counted in the
 * first line that a later standard error takes. */
static void expect_dropped_by(int fd)
{
    int pipe_end = dup(STDERR_FILENO);
    uint64_t before = log_output_dropped();

    assert_true(fd >= 0 && pipe_end >= 0);
    dup2(fd, STDERR_FILENO);
    log_output_open();
    log_write(LOG_LEVEL_INFO, "lost", NULL);
    log_write(LOG_LEVEL_INFO, "lost, too", NULL);
    uint64_t dropped = log_output_dropped() - before;
    dup2(pipe_end, STDERR_FILENO);
    log_output_open();
    close(pipe_end);
    close(fd);
    assert_int_equal(dropped, 2);
    log_write(LOG_LEVEL_INFO, "again", NULL);
    written();
    assert_null(strstr(text, "lost"));
    assert_int_equal(lines_of(text, "\"again\""), 1);
    assert_int_equal(lines_of(text, "\"lines\":2}"), 1);
}

static void failed_writes_drop_lines(void **state)
{
    int ends[2];

    (void)state;
    signal(SIGPIPE, SIG_IGN); /* as in main() */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    expect_dropped_by(ends[1]); /* a pipe whose reader has gone */
    expect_dropped_by(open("/dev/full", O_WRONLY | O_CLOEXEC)); /* a full disk */
}

/* A disk that is full within a line: what is written later begins a line of its own. */
static void torn_lines_end(void **state)
{
    enum { PART = 10 };
    int pipe_end = dup(STDERR_FILENO);
    FILE *file = tmpfile();
    struct log_buffer buffer;
    struct rlimit limit;

    (void)state;
    log_write(LOG_LEVEL_INFO, "one", NULL);
    size_t line_len = written();
    uint64_t before = log_output_dropped();
    signal(SIGXFSZ, SIG_IGN);
    assert_non_null(file);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    dup2(fileno(file), STDERR_FILENO);
    log_output_open();
    log_buffer_init(&buffer);
    log_buffer_write(&buffer, LOG_LEVEL_INFO, "one", NULL);
    log_buffer_write(&buffer, LOG_LEVEL_INFO, "two", NULL);
    setrlimit(RLIMIT_FSIZE,
              &(struct rlimit){.rlim_cur = line_len + PART, .rlim_max = limit.rlim_max});
    log_buffer_release(&buffer);
    log_write(LOG_LEVEL_INFO, "six", NULL); /* nothing of it */
    setrlimit(RLIMIT_FSIZE, &limit);
    uint64_t dropped = log_output_dropped() - before;
    log_write(LOG_LEVEL_INFO, "again", NULL);
    dup2(pipe_end, STDERR_FILENO);
    log_output_open();
    close(pipe_end);
    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_int_equal(dropped, 2);
    assert_int_equal(text[line_len + PART], '\n');
    json_t *line = json_loads(text + line_len + PART + 1, JSON_DISABLE_EOF_CHECK, NULL);
    assert_true(json_is_object(line));
    assert_string_equal(member(line, "msg"), "again");
    json_decref(line);
    assert_int_equal(lines_of(text, "\"lines\":2}\n"), 1);
    assert_int_equal(lines_of(text, "\n"), 4);
}

static void abort_writes_what_was_gathered(void **state)
{
    int status;

    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct log_buffer buffer;
        const struct rlimit no_core = {0};

        setrlimit(RLIMIT_CORE, &no_core);
        log_flush_at_abort();
        log_buffer_init(&buffer);
        log_buffer_write(&buffer, LOG_LEVEL_INFO, "the last request", NULL);
        log_write(LOG_LEVEL_ERROR, "something else", NULL);
        abort();
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    written();
    assert_non_null(strstr(text, "the last request"));
    assert_non_null(strstr(text, "something else"));
}

static void cheap_lines_look_like_the_others(void **state)
{
    struct log_buffer buffer;
    struct json_text cheap;

    (void)state;
    log_buffer_init(&buffer);
    log_line_begin(&cheap, LOG_LEVEL_INFO, "request");
    json_text_ascii(&cheap, "name",
                    "a\"\\\n\x7f\xC3\xBC\xE2\x80\xA8\xF0\x9F\x94\x92\xFFz\xE2\x80");
    json_text_milliseconds(&cheap, "ms", 1234567);
    json_text_raw(&cheap, "list", "[1]", 3);
    log_line_end(&buffer, &cheap);
    log_buffer_release(&buffer);
    json_t *line = written_line();
    assert_int_equal(strlen(member(line, "time")), 24);
    assert_string_equal(member(line, "level"), "info");
    assert_string_equal(member(line, "msg"), "request");
    assert_string_equal(
        member(line, "name"),
        "a\"\\\n\x7f\xC3\xBC\xE2\x80\xA8\xF0\x9F\x94\x92\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD");
    assert_non_null(strstr(text, "\"ms\":1.234,\"list\":[1]}"));
    assert_non_null(strstr(text, "\\u2028\\uD83D\\uDD12"));
    json_decref(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(line_has_time_level_and_msg, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fields_are_added, set_up, tear_down),
        cmocka_unit_test_setup_teardown(control_characters_are_escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lower_levels_are_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(buffer_waits_for_the_flush, set_up, tear_down),
        cmocka_unit_test_setup_teardown(full_buffer_is_written_by_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unread_lines_are_kept_then_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failed_writes_drop_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(torn_lines_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(abort_writes_what_was_gathered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cheap_lines_look_like_the_others, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
