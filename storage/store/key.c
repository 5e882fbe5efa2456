/* The table of keys and channels, and the texts made from it. */
#include "storage/store/key.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "storage/redis/script_call.h"

#define READER_TIME ":rwlock_timeout:"

enum key_home { HOME_OBJECT, HOME_LEASE, HOME_SESSION, HOME_INDEX, HOME_NONE };

enum key_shape {
    SHAPE_BARE,      /* of */
    SHAPE_COMPANION, /* name:{of}, or name:of when that has a brace of its own */
    SHAPE_WITH_ID,   /* that and :id */
    SHAPE_MEMBER,    /* that and :id:m */
    SHAPE_PLACE,     /* that and :id:0 */
    SHAPE_SUFFIX,    /* {of}:name, or of:name when that has a brace of its own */
    SHAPE_BRACED,    /* name{of}, also if `of` has braces */
    SHAPE_PLAIN      /* name:of */
};

enum { SHAPE_EXTRA = 6 }; /* braces, colons, and what stands behind an id */

struct key_row {
    const char *name;
    size_t name_len;
    enum key_home home; /* the part that decides the slot of the key */
    enum key_shape shape;
};

#define NAME(text) (text), sizeof(text) - 1

static const struct key_row rows[KEY_KINDS] = {
    [KEY_OBJECT] = {NAME(""), HOME_OBJECT, SHAPE_BARE},
    [KEY_COUNTER] = {NAME("redisson_lock_token"), HOME_OBJECT, SHAPE_COMPANION},
    [KEY_QUEUE] = {NAME("redisson_lock_queue"), HOME_OBJECT, SHAPE_COMPANION},
    [KEY_TIMES] = {NAME("redisson_lock_timeout"), HOME_OBJECT, SHAPE_COMPANION},
    [KEY_TIMEOUTS] = {NAME("timeout"), HOME_OBJECT, SHAPE_SUFFIX},
    [KEY_LEASE] = {NAME("rlockd:lease"), HOME_OBJECT, SHAPE_WITH_ID},
    [KEY_MEMBER] = {NAME("rlockd:lease"), HOME_OBJECT, SHAPE_MEMBER},
    [KEY_WAITERS] = {NAME("rlockd:waiters"), HOME_OBJECT, SHAPE_COMPANION},
    [KEY_PLACES] = {NAME("rlockd:places"), HOME_OBJECT, SHAPE_COMPANION},
    [KEY_FORCED] = {NAME("rlockd:forced"), HOME_OBJECT, SHAPE_COMPANION},
    [KEY_OWNER] = {NAME("rlockd:owner"), HOME_OBJECT, SHAPE_COMPANION},
    [KEY_LONG_WAITS] = {NAME("rlockd:long-waits"), HOME_OBJECT, SHAPE_COMPANION},
    [KEY_DEADLOCK] = {NAME("rlockd:deadlock"), HOME_OBJECT, SHAPE_COMPANION},
    [KEY_IDEMPOTENCY] = {NAME("rlockd:idempotency"), HOME_OBJECT, SHAPE_WITH_ID},
    [KEY_DELETED] = {NAME("rlockd:deleted"), HOME_OBJECT, SHAPE_COMPANION},
    [KEY_SET] = {NAME("rlockd:set"), HOME_LEASE, SHAPE_COMPANION},
    [KEY_SESSION] = {NAME("rlockd:session"), HOME_SESSION, SHAPE_COMPANION},
    [KEY_SESSION_LEASES] = {NAME("rlockd:session-leases"), HOME_SESSION, SHAPE_COMPANION},
    [KEY_SESSION_DUE] = {NAME("rlockd:session-due"), HOME_SESSION, SHAPE_COMPANION},
    [KEY_SESSION_LOST] = {NAME("rlockd:session-lost"), HOME_SESSION, SHAPE_COMPANION},
    [KEY_SESSION_WAITS] = {NAME("rlockd:session-waits"), HOME_SESSION, SHAPE_COMPANION},
    [KEY_SESSIONS] = {NAME("rlockd:sessions"), HOME_INDEX, SHAPE_COMPANION},
    [KEY_WAITS] = {NAME("rlockd:waits"), HOME_INDEX, SHAPE_COMPANION},
    [KEY_CENSUS] = {NAME("rlockd:census"), HOME_INDEX, SHAPE_COMPANION},
    [KEY_QUEUES] = {NAME("rlockd:queues"), HOME_INDEX, SHAPE_COMPANION},
    [CHANNEL_LOCK] = {NAME("redisson_lock__channel"), HOME_NONE, SHAPE_COMPANION},
    [CHANNEL_FAIR] = {NAME("redisson_lock__channel"), HOME_NONE, SHAPE_PLACE},
    [CHANNEL_READ_WRITE] = {NAME("redisson_rwlock"), HOME_NONE, SHAPE_COMPANION},
    [CHANNEL_SEMAPHORE] = {NAME("redisson_sc"), HOME_NONE, SHAPE_COMPANION},
    [CHANNEL_LATCH] = {NAME("redisson_countdownlatch__channel__"), HOME_NONE, SHAPE_BRACED},
    [CHANNEL_WORKER] = {NAME("rlockd:worker"), HOME_NONE, SHAPE_PLAIN},
};

static char *append(char *out, const char *text, size_t len)
{
    memcpy(out, text, len);
    return out + len;
}

static char *append_braced(char *out, const char *of, size_t len)
{
    *out++ = '{';
    out = append(out, of, len);
    *out++ = '}';
    return out;
}

/* Redisson's RedissonObject.prefixName() and suffixName(): only the opening brace counts. */
static char *append_tagged(char *out, const char *of, size_t len)
{
    return memchr(of, '{', len) != NULL ? append(out, of, len) : append_braced(out, of, len);
}

static char *append_companion(char *out, const struct key_row *row, const char *of, size_t len)
{
    out = append(out, row->name, row->name_len);
    *out++ = ':';
    return append_tagged(out, of, len);
}

static char *append_id(char *out, const char *id, size_t len)
{
    *out++ = ':';
    return append(out, id, len);
}

static char *write_shape(char *out, const struct key_row *row, const char *of, size_t len,
                         const char *id, size_t id_len)
{
    switch (row->shape) {
    case SHAPE_BARE:
        return append(out, of, len);
    case SHAPE_COMPANION:
        return append_companion(out, row, of, len);
    case SHAPE_WITH_ID:
        return append_id(append_companion(out, row, of, len), id, id_len);
    case SHAPE_MEMBER:
        return append(append_id(append_companion(out, row, of, len), id, id_len), ":m", 2);
    case SHAPE_PLACE:
        return append(append_id(append_companion(out, row, of, len), id, id_len), ":0", 2);
    case SHAPE_SUFFIX:
        return append_id(append_tagged(out, of, len), row->name, row->name_len);
    case SHAPE_BRACED:
        return append_braced(append(out, row->name, row->name_len), of, len);
    case SHAPE_PLAIN:
        out = append(out, row->name, row->name_len);
        *out++ = ':';
        return append(out, of, len);
    }
    return out;
}

size_t key_write(char *out, enum key_kind kind, const char *of, size_t of_len, const char *id)
{
    const struct key_row *row = &rows[kind];

    assert(kind < KEY_KINDS);
    size_t id_len = id != NULL ? strlen(id) : 0;
    assert(row->name_len + of_len + id_len + SHAPE_EXTRA < KEY_SIZE);
    char *end = write_shape(out, row, of, of_len, id, id_len);
    *end = '\0';
    return (size_t)(end - out);
}

void key_make(struct key *key, enum key_kind kind, const char *of, size_t of_len,
              const char *id)
{
    key->len = key_write(key->text, kind, of, of_len, id);
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* `…:rwlock_timeout:<n>`: how long the n-th hold of a reader lasts. */
static bool is_time_of_a_reader(const char *name)
{
    size_t len = strlen(name), digits = 0;

    while (digits < len && isdigit((unsigned char)name[len - 1 - digits]))
        digits++;
    const char *end = name + len - digits;
    size_t end_len = sizeof(READER_TIME) - 1;
    return digits > 0 && (size_t)(end - name) >= end_len &&
           memcmp(end - end_len, READER_TIME, end_len) == 0;
}

bool key_is_reserved(const char *key_prefix, const char *name)
{
    static const char own[] = KEY_PREFIX_OWN, redisson[] = KEY_PREFIX_REDISSON;

    return strncmp(name, own, sizeof(own) - 1) == 0 ||
           strncmp(name, redisson, sizeof(redisson) - 1) == 0 ||
           /* A companion that Redisson makes with a suffix has a brace in it. */
           ((strchr(name, '{') != NULL || strchr(key_prefix, '{') != NULL) &&
            (ends_with(name, ":timeout") || is_time_of_a_reader(name)));
}

bool key_shares_slot(const char *name, size_t len)
{
    struct redis_tag tag = redis_tag_of(name, len);
    struct key key;

    for (enum key_kind kind = 0; kind < KEY_KINDS; kind++) {
        if (rows[kind].home != HOME_OBJECT)
            continue;
        key_make(&key, kind, name, len, "");
        struct redis_tag other = redis_tag_of(key.text, key.len);
        if (other.len != tag.len || memcmp(other.text, tag.text, tag.len) != 0)
            return false;
    }
    return true;
}
