/* The files of the web page, and the operator's end of a session, which the page offers. */
#include "harness_session.h"

#define OPERATE_TOKEN "operate-secret-cccccc"
#define PART_TOKEN "part-secret-eeeeeeee"
enum { SOON_MS = 5000 };

#define BROWSER "Accept: text/html,application/xhtml+xml,*/*;q=0.8"

static void expect_head(const struct reply *r, const char *text)
{
    if (strstr(r->head, text) == NULL)
        FAIL("no '%s' in %s", text, r->head);
}

static struct reply *page_get(struct front *fe, const char *path, const char *a, const char *b)
{
    return HTTP(fe, .method = "GET", .path = path, .headers = {a, b});
}

static void test_the_files_of_the_page(struct world *w)
{
    struct reply *r = page_get(w->a, "/", BROWSER, NULL);

    expect_status(r, 200);
    expect_head(r, "Content-Type: text/html");
    expect_head(r, "default-src 'none'; script-src 'self'");
    expect_head(r, "require-trusted-types-for 'script'; trusted-types 'none'");
    assert_non_null(strstr(r->text, "<script type=\"module\" src=\"/page/page.js\"></script>"));
    r = page_get(w->a, "/", BROWSER, "Accept: application/json;q=0.1");
    expect_head(r, "Content-Type: text/html");
    r = page_get(w->a, "/page/page.js", NULL, NULL);
    expect_status(r, 200);
    expect_head(r, "Content-Type: text/javascript");
    expect_problem(page_get(w->a, "/page/embed.sh", NULL, NULL), 404, "not-found");
    expect_problem(page_get(w->a, "/page/page.js?x=1", NULL, NULL), 400, "malformed-request");
    /* A foreign page neither loads nor frames it. */
    expect_problem(
        page_get(w->a, "/page/page.js", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: script"),
        403, "forbidden");
    expect_problem(page_get(w->a, "/", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: iframe"),
                   403, "forbidden");
}

static void test_known_files_are_not_sent_again(struct world *w)
{
    struct reply *r = page_get(w->a, "/page/page.css", NULL, NULL);
    char header[128] = "If-None-Match: ";
    const char *etag = strstr(r->head, "ETag: \"");

    assert_non_null(etag);
    strncat(header, etag + 6, strcspn(etag + 6, "\r\n"));
    r = page_get(w->a, "/page/page.css", header, NULL);
    expect_status(r, 304);
    assert_int_equal(strlen(r->text), 0);
    assert_null(strstr(r->head, "Content-Length: 0"));
    expect_status(page_get(w->a, "/page/page.css", header, "If-None-Match: \"another\""), 304);
    assert_true(front_metric(w->a, "rlockd_requests_total", "status=\"304\"") > 0);
    expect_status(page_get(w->a, "/page/page.js", header, NULL), 200);
}

static void test_programs_get_json(struct world *w)
{
    expect_str(page_get(w->a, "/", "Accept: application/json", NULL), "name", "rlockd");
    expect_str(page_get(w->a, "/", "Accept: */*", NULL), "name", "rlockd");
    struct front *fe = front_start(w, "--redis", w->redis->url, "--no-page", NULL);
    expect_str(page_get(fe, "/", BROWSER, NULL), "name", "rlockd");
    expect_problem(page_get(fe, "/page/page.js", NULL, NULL), 404, "not-found");
}

/* --- the operator's end of a session ------------------------------------------------------ */

static struct reply *force_end(struct front *fe, const char *id, const char *token)
{
    const char *path = text(fe->world, "/v1/sessions/%s/force-end?reason=ticket+4711", id);

    return HTTP(fe, .method = "POST", .path = path, .headers = {bearer(fe->world, token)});
}

static void test_an_operator_ends_a_session(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--api-tokens",
                                   tokens_write(w, "tokens",
                                                "ops {" OPERATE_TOKEN "} operate=* read=*\n"
                                                "part {" PART_TOKEN
                                                "} operate=deploy/ lock=* read=*\n"),
                                   NULL);
    struct session s = session_new(w->a, NULL);

    session_hold(w->a, &s, "forced", NULL);
    expect_problem(force_end(fe, s.id, PART_TOKEN), 403, "forbidden");
    expect_status(session_look(w->a, s.id), 200);
    struct reply *r = force_end(fe, s.id, OPERATE_TOKEN);
    expect_status(r, 200);
    expect_int(r, "released", 1);
    expect_bool(lock_look(w->a, "forced"), "locked", false);
    /* Its client has released nothing, and learns of the loss. */
    r = keep_alive(w->a, &s, NULL);
    expect_problem(r, 410, "session-ended");
    expect_str(r, "reason", "forced");
    r = session_end(w->a, &s);
    expect_problem(r, 410, "session-ended");
    expect_str(r, "reason", "forced");
    expect_int(force_end(fe, s.id, OPERATE_TOKEN), "released", 1);
    wait_until(strstr(front_log(fe), "\"audit\":true,\"reason\":\"ticket 4711\"") != NULL,
               SOON_MS);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_the_files_of_the_page),
        E2E_TEST(test_known_files_are_not_sent_again),
        E2E_TEST(test_programs_get_json),
        E2E_TEST(test_an_operator_ends_a_session),
    };
    struct e2e_plan plan = {.name = "page", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
