/* A wearer's state as bytes, the same on every machine:
 *
 *   offset 0  "SGT1"
 *   offset 4  SIGHT_STATE_ID, which stands for the model, the method and the layout of its state
 *   offset 8  SIGHT_STATE_WORDS words: the members of sight_state_t in order, IEEE 754 floats and unsigned integers
 *   at last   CRC-32 of all bytes before
 *
 * All words are little-endian. In Python: sight.models.export.c.state_bytes. */
#include <math.h>
#include <string.h>

#include "sight.h"

#define WORD_BYTES 4U
#define ID_AT WORD_BYTES
#define STATE_AT (2U * WORD_BYTES)
#define CHECKSUM_AT (SIGHT_STATE_BYTES - WORD_BYTES)

static const uint8_t MAGIC[WORD_BYTES] = {'S', 'G', 'T', '1'};

/* Compiles only if the struct has the size that the generator found in Python. */
typedef char state_has_expected_size[(sizeof(sight_state_t) == WORD_BYTES * SIGHT_STATE_WORDS) ? 1 : -1];

static void put_word(uint8_t *bytes, uint32_t word)
{
    for (size_t i = 0; i < WORD_BYTES; i++) {
        bytes[i] = (uint8_t)(word >> (8U * i));
    }
}

static uint32_t get_word(const uint8_t *bytes)
{
    uint32_t word = 0;
    for (size_t i = 0; i < WORD_BYTES; i++) {
        word |= (uint32_t)bytes[i] << (8U * i);
    }
    return word;
}

/* CRC-32 of IEEE 802.3 and zlib, bit by bit: a state is small and rarely saved. */
static uint32_t checksum(const uint8_t *bytes, size_t count)
{
    uint32_t remainder = 0xFFFFFFFFU;
    for (size_t i = 0; i < count; i++) {
        remainder ^= bytes[i];
        for (unsigned bit = 0; bit < 8U; bit++) {
            const uint32_t polynomial = ((remainder & 1U) != 0U) ? 0xEDB88320U : 0U;
            remainder = (remainder >> 1U) ^ polynomial;
        }
    }
    return ~remainder;
}

/* Whether a word is the bits of infinity or NaN; no counter of windows reaches such a value. */
static bool is_infinite_or_nan(uint32_t word)
{
    const uint32_t exponent = 0x7F800000U;
    return (word & exponent) == exponent;
}

void sight_save(const sight_state_t *state, uint8_t bytes[SIGHT_STATE_BYTES])
{
    const uint8_t *members = (const uint8_t *)state;
    memcpy(bytes, MAGIC, sizeof MAGIC);
    put_word(&bytes[ID_AT], SIGHT_STATE_ID);
    for (size_t i = 0; i < SIGHT_STATE_WORDS; i++) {
        uint32_t word;
        memcpy(&word, &members[i * sizeof word], sizeof word);
        put_word(&bytes[STATE_AT + i * WORD_BYTES], word);
    }
    put_word(&bytes[CHECKSUM_AT], checksum(bytes, CHECKSUM_AT));
}

bool sight_load(sight_state_t *state, const uint8_t bytes[SIGHT_STATE_BYTES])
{
    if ((memcmp(bytes, MAGIC, sizeof MAGIC) != 0) || (get_word(&bytes[ID_AT]) != SIGHT_STATE_ID)
        || (get_word(&bytes[CHECKSUM_AT]) != checksum(bytes, CHECKSUM_AT))) {
        return false;
    }
    for (size_t i = 0; i < SIGHT_STATE_WORDS; i++) {
        if (is_infinite_or_nan(get_word(&bytes[STATE_AT + i * WORD_BYTES]))) {
            return false;
        }
    }
    uint8_t *members = (uint8_t *)state;
    for (size_t i = 0; i < SIGHT_STATE_WORDS; i++) {
        const uint32_t word = get_word(&bytes[STATE_AT + i * WORD_BYTES]);
        memcpy(&members[i * sizeof word], &word, sizeof word);
    }
    return true;
}
