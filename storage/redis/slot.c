/* The tag of a key, and the CRC16 that maps the tag to a slot. */
#include "storage/redis/slot.h"

#include <assert.h>
#include <stdio.h>

/* CRC-16 of XMODEM (polynomial 0x1021, initial value 0): the remainder of each half byte. */
static const uint16_t half_bytes[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                        0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                        0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};

static uint16_t add_half(uint16_t crc, unsigned half)
{
    return (uint16_t)(crc << 4) ^ half_bytes[(crc >> 12 ^ half) & 0xf];
}

static uint16_t add_byte(uint16_t crc, unsigned byte)
{
    return add_half(add_half(crc, byte >> 4), byte & 0xf);
}

static uint16_t crc_of(const struct redis_tag *tag)
{
    uint16_t crc = 0;

    for (size_t i = 0; i < tag->len; i++)
        crc = add_byte(crc, (unsigned char)tag->text[i]);
    return crc;
}

uint16_t redis_slot_of(const struct redis_tag *tag)
{
    return crc_of(tag) % REDIS_SLOTS;
}

static uint16_t add_number(uint16_t crc, unsigned number)
{
    return add_byte(number > 9 ? add_number(crc, number / 10) : crc, '0' + number % 10);
}

bool redis_slot_walk(const struct redis_tag *text, unsigned count,
                     bool (*visit)(void *arg, unsigned number, uint16_t slot), void *arg)
{
    uint16_t begin = crc_of(text), crc = begin; /* of all but the last digit */

    for (unsigned number = 0; number < count; number++) {
        if (number > 9 && number % 10 == 0)
            crc = add_number(begin, number / 10);
        if (visit(arg, number, add_byte(crc, '0' + number % 10) % REDIS_SLOTS))
            return true;
    }
    return false;
}

/* --- tags of slots ------------------------------------------------------------------------ */

enum {
    NUMBERS = 200000, /* have every slot among them */
    NO_NUMBER = NUMBERS
};

struct search {
    struct redis_slot_tags *tags;
    size_t missing;
};

static bool note_number(void *arg, unsigned number, uint16_t slot)
{
    struct search *search = arg;
    uint32_t *smallest = &search->tags->numbers[slot];

    if (*smallest == NO_NUMBER) {
        *smallest = number;
        search->missing--;
    }
    return search->missing == 0;
}

void redis_slot_tags_make(struct redis_slot_tags *tags)
{
    static const struct redis_tag nothing = {.text = ""};
    struct search search = {.tags = tags, .missing = REDIS_SLOTS};

    for (size_t slot = 0; slot < REDIS_SLOTS; slot++)
        tags->numbers[slot] = NO_NUMBER;
    bool has_all = redis_slot_walk(&nothing, NUMBERS, note_number, &search);
    assert(has_all);
}

void redis_slot_tag(const struct redis_slot_tags *tags, uint16_t slot,
                    char tag[REDIS_SLOT_TAG_SIZE])
{
    snprintf(tag, REDIS_SLOT_TAG_SIZE, "%u", tags->numbers[slot] % NUMBERS);
}
