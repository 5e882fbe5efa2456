/* Which reader has a fencing token. */
#include "storage/look/grant_find.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store/store.h"
#include "storage/store/store_call.h"
#include "storage/store/look_turns.h"

/* The largest number of scripts in one search: each script looks at some fifty readers, and
 * takes Redis about a millisecond. */
enum { PARTS_MAX = 128 };

struct search {
    struct store *store;
    grant_find_done *done;
    void *arg;
    char name[LOCK_NAME_SIZE];
    char token[FENCING_TOKEN_SIZE];
    char *state; /* the state of grant_find.lua; NULL: before the first script */
    int parts;
};

static void finish(struct search *search, const struct grant_found *found)
{
    search->done(search->arg, found);
    free(search->state);
    free(search);
}

static void look_on(struct search *search);

static void on_looked(void *arg, const struct redis_result *result)
{
    struct search *search = arg;
    enum call_outcome outcome = call_outcome_of(result);
    size_t len;

    if (outcome != CALL_DONE) {
        finish(search, &(struct grant_found){.outcome = outcome, .holder = ""});
        return;
    }
    const char *holder = value_text(value_at(result->reply, GRANT_FIND_REPLY_HOLDER), &len);
    const char *state = value_text(value_at(result->reply, GRANT_FIND_REPLY_STATE), &len);
    if (holder[0] != '\0' || state[0] == '\0') {
        finish(search, &(struct grant_found){.outcome = CALL_DONE, .holder = holder});
        return;
    }
    if (++search->parts == PARTS_MAX) {
        finish(search, &(struct grant_found){
                           .outcome = CALL_DONE, .holder = "", .has_more_readers = true});
        return;
    }
    free(search->state);
    search->state = strdup(state);
    assert(search->state != NULL);
    look_on(search);
}

static void look_on(struct search *search)
{
    struct store_call *call = call_begin(search->store, SCRIPT_GRANT_FIND);

    call_key(call, GRANT_FIND_KEY_LOCK, KEY_OBJECT, call_object(call, search->name), NULL);
    call_string(call, GRANT_FIND_ARG_ASKED_TOKEN, search->token);
    call_string(call, GRANT_FIND_ARG_STATE, search->state != NULL ? search->state : "");
    call_send_in_turn(call, on_looked, search);
}

void grant_find(struct store *store, const char *name, const char *token, grant_find_done *done,
                void *arg)
{
    struct search *search = calloc(1, sizeof(*search));

    assert(search != NULL);
    search->store = store;
    search->done = done;
    search->arg = arg;
    snprintf(search->name, sizeof(search->name), "%s", name);
    snprintf(search->token, sizeof(search->token), "%s", token);
    look_on(search);
}
