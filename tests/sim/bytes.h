/* Text that may hold any byte, and text that grows. */
#ifndef RLOCKD_TESTS_SIM_BYTES_H
#define RLOCKD_TESTS_SIM_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    char *text; /* ended by a NUL that does not count */
    size_t len;
};

struct bytes bytes_of(const char *text);
struct bytes bytes_copy(struct bytes bytes);
bool bytes_equal(struct bytes a, struct bytes b);
/* As memcmp(), the shorter one first. */
int bytes_compare(struct bytes a, struct bytes b);
/* The same letters, whatever their case. */
bool bytes_is_word(struct bytes bytes, const char *word);
bool bytes_to_integer(struct bytes bytes, int64_t *number);

struct buffer {
    char *text;
    size_t len, size;
};

void buffer_add(struct buffer *buffer, const void *text, size_t len);
void buffer_format(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Takes the first bytes off. */
void buffer_drop(struct buffer *buffer, size_t len);
void buffer_release(struct buffer *buffer);

/* Cleared memory; there is always enough. */
void *zalloc(size_t size);

#endif
