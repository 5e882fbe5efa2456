/* How a deadlock looks in JSON and in Redis. */
#include "storage/look/deadlock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store/store_call.h"

/* The lines of a member in a mark. */
enum { MARK_LINES = 6 };

static void set_text(json_t *object, const char *name, const char *text)
{
    if (text[0] != '\0')
        json_object_set_new(object, name, json_string(text)); /* nothing, if it is no UTF-8 */
}

json_t *deadlock_json(const struct deadlock *deadlock)
{
    json_t *json = deadlock != NULL ? json_array() : NULL;

    for (size_t i = 0; deadlock != NULL && i < deadlock->count; i++) {
        const struct deadlock_member *member = &deadlock->members[i];
        json_t *object = json_object();
        set_text(object, "session_id", member->session_id);
        set_text(object, "session_name", member->session_name);
        set_text(object, "owner", member->owner);
        set_text(object, "lease_id", member->lease_id);
        set_text(object, "note", member->note);
        set_text(object, "lock", member->lock);
        json_array_append_new(json, object);
    }
    return json;
}

/* --- marks -------------------------------------------------------------------------------- */

/* The text of a mark: the field by which the lock is held and the waiter of the lock, which
 * look.lua finds in the lock's home as long as these two stand, and the lines of the members.
 * To be freed. */
static char *format_mark(const struct deadlock *deadlock, const struct deadlock_member *of,
                         size_t *len)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, len);

    assert(out != NULL);
    fprintf(out, "%s\n%s%s\n", of->field, of->lease_id, of->is_set ? ":m" : "");
    for (size_t i = 0; i < deadlock->count; i++) {
        const struct deadlock_member *member = &deadlock->members[i];
        fprintf(out, "%s\n%s\n%s\n%s\n%s\n%s\n", member->session_id, member->session_name,
                member->owner, member->lease_id, member->note, member->lock);
    }
    fclose(out);
    assert(text != NULL);
    return text;
}

static void on_ignored(void *arg, const struct redis_result *result)
{
    (void)arg;
    (void)result;
}

static void mark_one(struct store *store, const struct deadlock *deadlock,
                     const struct deadlock_member *member, int64_t ttl_ms)
{
    char name[KEY_NAME_MAX + 1], ttl[24];
    size_t name_len = store_key_name(store, member->lock, name, sizeof(name)), len;
    char *text = format_mark(deadlock, member, &len);
    struct key mark;

    key_make(&mark, KEY_DEADLOCK, name, name_len, NULL);
    snprintf(ttl, sizeof(ttl), "%" PRId64, ttl_ms);
    const char *argv[] = {"SET", mark.text, text, "PX", ttl};
    const size_t lens[] = {3, mark.len, len, 2, strlen(ttl)};
    const struct redis_command command = {.argc = 5, .argv = argv, .lens = lens};
    const struct redis_tag tag = redis_tag_of(mark.text, mark.len);
    topology_command(store_topology(store), &tag, &command, on_ignored, NULL);
    free(text);
}

bool deadlock_is_younger(const struct deadlock_member *member,
                         const struct deadlock_member *other)
{
    return member->since_ms > other->since_ms ||
           (member->since_ms == other->since_ms && strcmp(member->wait_id, other->wait_id) > 0);
}

void deadlock_mark(struct store *store, const struct deadlock *deadlock, int64_t ttl_ms)
{
    for (size_t i = 0; i < deadlock->count; i++)
        mark_one(store, deadlock, &deadlock->members[i], ttl_ms);
}

/* Takes the next line off the text. False: there is none, or it does not fit. */
static bool take_line(const char **text, const char *end, char *out, size_t out_size)
{
    const char *line_end = memchr(*text, '\n', (size_t)(end - *text));
    size_t len = line_end != NULL ? (size_t)(line_end - *text) : out_size;

    if (len >= out_size)
        return false;
    memcpy(out, *text, len);
    out[len] = '\0';
    *text = line_end + 1;
    return true;
}

static bool take_member(const char **text, const char *end, struct deadlock_member *member)
{
    return take_line(text, end, member->session_id, sizeof(member->session_id)) &&
           take_line(text, end, member->session_name, sizeof(member->session_name)) &&
           take_line(text, end, member->owner, sizeof(member->owner)) &&
           take_line(text, end, member->lease_id, sizeof(member->lease_id)) &&
           take_line(text, end, member->note, sizeof(member->note)) &&
           take_line(text, end, member->lock, sizeof(member->lock));
}

struct deadlock *deadlock_parse_mark(const char *text, size_t len)
{
    const char *end = text + len;
    size_t lines = 0;

    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    if (lines == 0 || lines % MARK_LINES != 0 || lines / MARK_LINES > DEADLOCK_MEMBERS_MAX)
        return NULL;
    size_t count = lines / MARK_LINES;
    struct deadlock *deadlock = calloc(1, sizeof(*deadlock) +
                                              count * sizeof(deadlock->members[0]));
    assert(deadlock != NULL);
    while (deadlock->count < count &&
           take_member(&text, end, &deadlock->members[deadlock->count]))
        deadlock->count++;
    if (deadlock->count == count && text == end)
        return deadlock;
    free(deadlock);
    return NULL;
}
