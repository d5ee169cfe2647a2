#include "layers_float32.h"

#include <math.h>

#if SIGHT_ROWS_AT_ONCE != 4U
#error "multiply_rows is written for four rows"
#endif

/* Products of one input with SIGHT_ROWS_AT_ONCE rows of weights: each value of the input is read once. */
static void multiply_rows(const float *input, const float *weights, size_t row_size, size_t count, float *sums)
{
    const float *row0 = weights;
    const float *row1 = &row0[row_size];
    const float *row2 = &row1[row_size];
    const float *row3 = &row2[row_size];
    float sum0 = 0.0f;
    float sum1 = 0.0f;
    float sum2 = 0.0f;
    float sum3 = 0.0f;
    for (size_t i = 0; i < count; i++) {
        const float value = input[i];
        sum0 += value * row0[i];
        sum1 += value * row1[i];
        sum2 += value * row2[i];
        sum3 += value * row3[i];
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

void sight_float_conv_at(const sight_float_conv_t *layer, uint32_t at, const float *input, const float *residual,
                         float *output)
{
    const sight_overlap_t overlap = sight_find_overlap(&layer->slide, at);
    const float *inside = &input[overlap.start * layer->inputs];
    const size_t row_size = (size_t)layer->slide.kernel * layer->inputs;
    const size_t count = (size_t)(overlap.last - overlap.first) * layer->inputs;
    for (uint32_t row = 0; row < layer->outputs; row += SIGHT_ROWS_AT_ONCE) {
        const float *weights = &layer->weights[row * row_size + (size_t)overlap.first * layer->inputs];
        float sums[SIGHT_ROWS_AT_ONCE];
        multiply_rows(inside, weights, row_size, count, sums);
        for (uint32_t o = row; (o < row + SIGHT_ROWS_AT_ONCE) && (o < layer->outputs); o++) {
            float value = sums[o - row] + layer->biases[o];
            value += (residual != NULL) ? residual[o] : 0.0f;
            output[o] = (layer->relu && (value < 0.0f)) ? 0.0f : value;
        }
    }
}

void sight_float_conv(const sight_float_conv_t *layer, const float *input, const float *residual, float *output)
{
    for (uint32_t t = 0; t < layer->slide.output_length; t++) {
        const size_t at = (size_t)t * layer->outputs;
        sight_float_conv_at(layer, t, input, (residual != NULL) ? &residual[at] : NULL, &output[at]);
    }
}

void sight_float_max_pool(const sight_pool_t *layer, const float *input, float *output)
{
    for (uint32_t t = 0; t < layer->slide.output_length; t++) {
        const sight_overlap_t overlap = sight_find_overlap(&layer->slide, t);
        for (uint32_t c = 0; c < layer->channels; c++) {
            float largest = -INFINITY;
            for (uint32_t i = 0; i < overlap.last - overlap.first; i++) {
                const float value = input[(overlap.start + i) * layer->channels + c];
                largest = (value > largest) ? value : largest;
            }
            output[t * layer->channels + c] = largest;
        }
    }
}

void sight_float_average_pool(const sight_pool_t *layer, const float *input, float *output)
{
    for (uint32_t t = 0; t < layer->slide.output_length; t++) {
        const sight_overlap_t overlap = sight_find_overlap(&layer->slide, t);
        const uint32_t count = overlap.last - overlap.first;
        for (uint32_t c = 0; c < layer->channels; c++) {
            float sum = 0.0f;
            for (uint32_t i = 0; i < count; i++) {
                sum += input[(overlap.start + i) * layer->channels + c];
            }
            output[t * layer->channels + c] = sum / (float)count;
        }
    }
}
