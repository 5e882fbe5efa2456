/* What the fuzz targets share: libFuzzer's entry, the input as a stream of parts, and a check
 * that ends the run. Include the header once a program. */
#ifndef RLOCKD_TESTS_FUZZ_FUZZ_H
#define RLOCKD_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

/* What is left of an input. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};

/* 0 at the end. */
static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

/* A copy of the next `len` bytes, or of those that are left, with a NUL behind: of its own, so
 * that the sanitizer sees a step beyond its end. To be freed. */
static inline char *fuzz_take(struct fuzz_input *input, size_t len)
{
    if (len > input->size)
        len = input->size;
    char *text = malloc(len + 1);
    CHECK(text != NULL);
    memcpy(text, input->data, len);
    text[len] = '\0';
    input->data += len;
    input->size -= len;
    return text;
}

/* The next line, without its end: a text without NUL. To be freed. */
static inline char *fuzz_line(struct fuzz_input *input)
{
    const uint8_t *end = input->size > 0 ? memchr(input->data, '\n', input->size) : NULL;
    char *line = fuzz_take(input, end != NULL ? (size_t)(end - input->data) : input->size);

    (void)fuzz_byte(input);
    return line;
}

/* All that is left. To be freed. */
static inline char *fuzz_rest(struct fuzz_input *input)
{
    return fuzz_take(input, input->size);
}

#endif
