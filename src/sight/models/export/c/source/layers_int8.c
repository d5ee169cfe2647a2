#include "layers_int8.h"

#include <string.h>

#if defined(__ARM_FEATURE_SIMD32)
#include <arm_acle.h>
#endif

#if SIGHT_ROWS_AT_ONCE != 4U
#error "multiply_rows is written for four rows"
#endif

#define LARGEST_BYTE 255.0f

/* ---- Products of four inputs with four rows of weights ---- */

enum { INPUTS_AT_ONCE = 4, BITS_OF_BYTE = 8 };

#if defined(__ARM_FEATURE_SIMD32)

/* Cortex-M4 and above multiply two pairs of 16 bits in one instruction. The sums are the same as those without it. */

typedef struct {
    int16x2_t even; /* inputs 0 and 2 */
    int16x2_t odd;  /* inputs 1 and 3 */
} inputs_t;

static uint32_t load_word(const void *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static inputs_t load_inputs(const uint8_t *bytes)
{
    const uint32_t word = load_word(bytes);
    return (inputs_t){.even = (int16x2_t)__uxtb16(word), .odd = (int16x2_t)__uxtb16(word >> BITS_OF_BYTE)};
}

static int32_t add_products(const int8_t *weights, inputs_t inputs, int32_t sum)
{
    const uint32_t word = load_word(weights);
    const int32_t added = __smlad(__sxtb16((int8x4_t)word), inputs.even, sum);
    return __smlad(__sxtb16((int8x4_t)(word >> BITS_OF_BYTE)), inputs.odd, added);
}

#else

typedef struct {
    int32_t value[INPUTS_AT_ONCE];
} inputs_t;

static inputs_t load_inputs(const uint8_t *bytes)
{
    return (inputs_t){.value = {bytes[0], bytes[1], bytes[2], bytes[3]}};
}

static int32_t add_products(const int8_t *weights, inputs_t inputs, int32_t sum)
{
    return sum + weights[0] * inputs.value[0] + weights[1] * inputs.value[1] + weights[2] * inputs.value[2]
           + weights[3] * inputs.value[3];
}

#endif

static void multiply_rows(const uint8_t *input, const int8_t *weights, size_t count, int32_t *sums)
{
    int32_t sum0 = 0;
    int32_t sum1 = 0;
    int32_t sum2 = 0;
    int32_t sum3 = 0;
    for (const uint8_t *end = &input[count]; input < end; input += INPUTS_AT_ONCE) {
        const inputs_t inputs = load_inputs(input);
        sum0 = add_products(weights, inputs, sum0);
        sum1 = add_products(&weights[INPUTS_AT_ONCE], inputs, sum1);
        sum2 = add_products(&weights[2 * INPUTS_AT_ONCE], inputs, sum2);
        sum3 = add_products(&weights[3 * INPUTS_AT_ONCE], inputs, sum3);
        weights += SIGHT_ROWS_AT_ONCE * INPUTS_AT_ONCE;
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

/* ---- Bytes and values ---- */

static uint8_t byte_of(float value, sight_range_t range)
{
    const float rounded = value / range.scale + (float)range.zero + 0.5f;
    if (!(rounded > 0.0f)) { /* also for NaN */
        return 0;
    }
    return (rounded < LARGEST_BYTE) ? (uint8_t)rounded : (uint8_t)LARGEST_BYTE;
}

static float value_of(uint8_t byte, sight_range_t range)
{
    return (float)((int32_t)byte - range.zero) * range.scale;
}

/* ---- Layers ---- */

void sight_float_conv_to_bytes(const sight_float_conv_t *layer, const float *input, sight_range_t range, float *row,
                               uint8_t *output)
{
    for (uint32_t t = 0; t < layer->slide.output_length; t++) {
        sight_float_conv_at(layer, t, input, NULL, row);
        for (uint32_t o = 0; o < layer->outputs; o++) {
            output[t * layer->outputs + o] = byte_of(row[o], range);
        }
    }
}

/* Compute one sample of the output; bytes or values is NULL. */
static void conv_at(const sight_byte_conv_t *layer, uint32_t t, const uint8_t *input, const uint8_t *residual,
                    uint8_t *bytes, float *values)
{
    const sight_overlap_t overlap = sight_find_overlap(&layer->slide, t);
    const uint8_t *inside = &input[overlap.start * layer->inputs];
    const size_t row_size = (size_t)layer->slide.kernel * layer->inputs;
    const size_t count = (size_t)(overlap.last - overlap.first) * layer->inputs;
    for (uint32_t row = 0; row < layer->outputs; row += SIGHT_ROWS_AT_ONCE) {
        const size_t skipped = (size_t)overlap.first * layer->inputs * SIGHT_ROWS_AT_ONCE;
        int32_t sums[SIGHT_ROWS_AT_ONCE];
        multiply_rows(inside, &layer->weights[row * row_size + skipped], count, sums);
        for (uint32_t o = row; (o < row + SIGHT_ROWS_AT_ONCE) && (o < layer->outputs); o++) {
            const size_t at = (size_t)t * layer->outputs + o;
            float value = (float)(sums[o - row] + layer->biases[o]) * layer->scales[o];
            value += (residual != NULL) ? value_of(residual[at], layer->residual_range) : 0.0f;
            value = (layer->relu && (value < 0.0f)) ? 0.0f : value;
            if (bytes != NULL) {
                bytes[at] = byte_of(value, layer->output_range);
            } else {
                values[at] = value;
            }
        }
    }
}

void sight_byte_conv(const sight_byte_conv_t *layer, const uint8_t *input, const uint8_t *residual, uint8_t *output)
{
    for (uint32_t t = 0; t < layer->slide.output_length; t++) {
        conv_at(layer, t, input, residual, output, NULL);
    }
}

void sight_byte_conv_to_values(const sight_byte_conv_t *layer, const uint8_t *input, const uint8_t *residual,
                               float *output)
{
    for (uint32_t t = 0; t < layer->slide.output_length; t++) {
        conv_at(layer, t, input, residual, NULL, output);
    }
}

void sight_byte_max_pool(const sight_pool_t *layer, const uint8_t *input, uint8_t *output)
{
    for (uint32_t t = 0; t < layer->slide.output_length; t++) {
        const sight_overlap_t overlap = sight_find_overlap(&layer->slide, t);
        for (uint32_t c = 0; c < layer->channels; c++) {
            uint8_t largest = 0;
            for (uint32_t i = 0; i < overlap.last - overlap.first; i++) {
                const uint8_t byte = input[(overlap.start + i) * layer->channels + c];
                largest = (byte > largest) ? byte : largest;
            }
            output[t * layer->channels + c] = largest;
        }
    }
}

void sight_byte_average_pool(const sight_pool_t *layer, const uint8_t *input, uint8_t *output)
{
    for (uint32_t t = 0; t < layer->slide.output_length; t++) {
        const sight_overlap_t overlap = sight_find_overlap(&layer->slide, t);
        const uint32_t count = overlap.last - overlap.first;
        for (uint32_t c = 0; c < layer->channels; c++) {
            uint32_t sum = 0;
            for (uint32_t i = 0; i < count; i++) {
                sum += input[(overlap.start + i) * layer->channels + c];
            }
            output[t * layer->channels + c] = (uint8_t)((sum + count / 2U) / count);
        }
    }
}

void sight_bin_means_of_bytes(const sight_bins_t *layer, const uint8_t *input, sight_range_t range, float *z)
{
    for (uint32_t c = 0; c < layer->channels; c++) {
        for (uint32_t b = 0; b < layer->bins; b++) {
            uint32_t sum = 0;
            for (uint32_t t = layer->first[b]; t < layer->last[b]; t++) {
                sum += input[t * layer->channels + c];
            }
            const float mean = (float)sum / (float)(layer->last[b] - layer->first[b]);
            z[c * layer->bins + b] = (mean - (float)range.zero) * range.scale;
        }
    }
}
