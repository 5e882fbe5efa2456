/* The tag of a key, and the CRC16 that maps the tag to a slot. */
#include "storage/redis/slot.h"

#include <stdio.h>

/* CRC-16 of XMODEM (polynomial 0x1021, initial value 0): the remainder of each half byte. */
static const uint16_t half_bytes[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                        0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                        0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};

static uint16_t add_half(uint16_t crc, unsigned half)
{
    return (uint16_t)(crc << 4) ^ half_bytes[(crc >> 12 ^ half) & 0xf];
}

uint16_t redis_slot_of(const struct redis_tag *tag)
{
    uint16_t crc = 0;

    for (size_t i = 0; i < tag->len; i++) {
        unsigned byte = (unsigned char)tag->text[i];
        crc = add_half(add_half(crc, byte >> 4), byte & 0xf);
    }
    return crc % REDIS_SLOTS;
}

/* Numbers below 200,000 have every slot among them. */
void redis_slot_tag(uint16_t slot, char tag[REDIS_SLOT_TAG_SIZE])
{
    struct redis_tag numbered = {.text = tag};
    unsigned number = 0;

    do {
        numbered.len = (size_t)snprintf(tag, REDIS_SLOT_TAG_SIZE, "%u", number++ % 1000000);
    } while (redis_slot_of(&numbered) != slot);
}
