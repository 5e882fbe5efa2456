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

struct key_row {
    const char *name;
    enum key_home home; /* the part that decides the slot of the key */
    enum key_shape shape;
};

static const struct key_row rows[KEY_KINDS] = {
    [KEY_OBJECT] = {"", HOME_OBJECT, SHAPE_BARE},
    [KEY_COUNTER] = {"redisson_lock_token", HOME_OBJECT, SHAPE_COMPANION},
    [KEY_QUEUE] = {"redisson_lock_queue", HOME_OBJECT, SHAPE_COMPANION},
    [KEY_TIMES] = {"redisson_lock_timeout", HOME_OBJECT, SHAPE_COMPANION},
    [KEY_TIMEOUTS] = {"timeout", HOME_OBJECT, SHAPE_SUFFIX},
    [KEY_LEASE] = {"rlockd:lease", HOME_OBJECT, SHAPE_WITH_ID},
    [KEY_MEMBER] = {"rlockd:lease", HOME_OBJECT, SHAPE_MEMBER},
    [KEY_WAITERS] = {"rlockd:waiters", HOME_OBJECT, SHAPE_COMPANION},
    [KEY_PLACES] = {"rlockd:places", HOME_OBJECT, SHAPE_COMPANION},
    [KEY_FORCED] = {"rlockd:forced", HOME_OBJECT, SHAPE_COMPANION},
    [KEY_OWNER] = {"rlockd:owner", HOME_OBJECT, SHAPE_COMPANION},
    [KEY_LONG_WAITS] = {"rlockd:long-waits", HOME_OBJECT, SHAPE_COMPANION},
    [KEY_DEADLOCK] = {"rlockd:deadlock", HOME_OBJECT, SHAPE_COMPANION},
    [KEY_IDEMPOTENCY] = {"rlockd:idempotency", HOME_OBJECT, SHAPE_WITH_ID},
    [KEY_SET] = {"rlockd:set", HOME_LEASE, SHAPE_COMPANION},
    [KEY_SESSION] = {"rlockd:session", HOME_SESSION, SHAPE_COMPANION},
    [KEY_SESSION_LEASES] = {"rlockd:session-leases", HOME_SESSION, SHAPE_COMPANION},
    [KEY_SESSION_DUE] = {"rlockd:session-due", HOME_SESSION, SHAPE_COMPANION},
    [KEY_SESSION_LOST] = {"rlockd:session-lost", HOME_SESSION, SHAPE_COMPANION},
    [KEY_SESSION_WAITS] = {"rlockd:session-waits", HOME_SESSION, SHAPE_COMPANION},
    [KEY_SESSIONS] = {"rlockd:sessions", HOME_INDEX, SHAPE_COMPANION},
    [KEY_WAITS] = {"rlockd:waits", HOME_INDEX, SHAPE_COMPANION},
    [KEY_CENSUS] = {"rlockd:census", HOME_INDEX, SHAPE_COMPANION},
    [KEY_QUEUES] = {"rlockd:queues", HOME_INDEX, SHAPE_COMPANION},
    [CHANNEL_LOCK] = {"redisson_lock__channel", HOME_NONE, SHAPE_COMPANION},
    [CHANNEL_FAIR] = {"redisson_lock__channel", HOME_NONE, SHAPE_PLACE},
    [CHANNEL_READ_WRITE] = {"redisson_rwlock", HOME_NONE, SHAPE_COMPANION},
    [CHANNEL_SEMAPHORE] = {"redisson_sc", HOME_NONE, SHAPE_COMPANION},
    [CHANNEL_LATCH] = {"redisson_countdownlatch__channel__", HOME_NONE, SHAPE_BRACED},
    [CHANNEL_WORKER] = {"rlockd:worker", HOME_NONE, SHAPE_PLAIN},
};

struct writer {
    char *out;
    size_t len;
};

static void append(struct writer *writer, const char *text, size_t len)
{
    assert(writer->len + len < KEY_SIZE);
    memcpy(writer->out + writer->len, text, len);
    writer->len += len;
}

static void append_string(struct writer *writer, const char *text)
{
    append(writer, text, strlen(text));
}

static void append_braced(struct writer *writer, const char *of, size_t len)
{
    append(writer, "{", 1);
    append(writer, of, len);
    append(writer, "}", 1);
}

/* Redisson's RedissonObject.prefixName() and suffixName(): only the opening brace counts. */
static void append_tagged(struct writer *writer, const char *of, size_t len)
{
    if (memchr(of, '{', len) != NULL)
        append(writer, of, len);
    else
        append_braced(writer, of, len);
}

static void append_companion(struct writer *writer, const struct key_row *row, const char *of,
                             size_t len)
{
    append_string(writer, row->name);
    append(writer, ":", 1);
    append_tagged(writer, of, len);
}

static void append_end(struct writer *writer, const char *id, const char *end)
{
    append(writer, ":", 1);
    append_string(writer, id);
    append_string(writer, end);
}

static void write_shape(struct writer *writer, const struct key_row *row, const char *of,
                        size_t len, const char *id)
{
    switch (row->shape) {
    case SHAPE_BARE:
        append(writer, of, len);
        return;
    case SHAPE_COMPANION:
        append_companion(writer, row, of, len);
        return;
    case SHAPE_WITH_ID:
        append_companion(writer, row, of, len);
        append_end(writer, id, "");
        return;
    case SHAPE_MEMBER:
        append_companion(writer, row, of, len);
        append_end(writer, id, ":m");
        return;
    case SHAPE_PLACE:
        append_companion(writer, row, of, len);
        append_end(writer, id, ":0");
        return;
    case SHAPE_SUFFIX:
        append_tagged(writer, of, len);
        append_end(writer, row->name, "");
        return;
    case SHAPE_BRACED:
        append_string(writer, row->name);
        append_braced(writer, of, len);
        return;
    case SHAPE_PLAIN:
        append_string(writer, row->name);
        append(writer, ":", 1);
        append(writer, of, len);
        return;
    }
}

size_t key_write(char *out, enum key_kind kind, const char *of, size_t of_len, const char *id)
{
    struct writer writer = {.out = out};

    assert(kind < KEY_KINDS);
    write_shape(&writer, &rows[kind], of, of_len, id);
    out[writer.len] = '\0';
    return writer.len;
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
