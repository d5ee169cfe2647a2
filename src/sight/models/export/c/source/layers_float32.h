/* Layers of the encoder in float. */
#ifndef LAYERS_FLOAT32_H
#define LAYERS_FLOAT32_H

#include "layers.h"

/* Convolution over time. Weights are [rows][kernel][inputs]; rows are the outputs, filled up with zeros to a multiple
 * of SIGHT_ROWS_AT_ONCE. Batch normalisation is part of weights and biases. */
typedef struct {
    const float *weights;
    const float *biases; /* [rows] */
    uint16_t inputs;
    uint16_t outputs;
    sight_slide_t slide;
    bool relu;
} sight_float_conv_t;

/* Compute one sample of the output. The residual, a signal of the size of the output, is added before the ReLU. It may be
 * NULL. */
void sight_float_conv_at(const sight_float_conv_t *layer, uint32_t at, const float *input, const float *residual,
                         float *output);

/* The residual may be NULL or the output itself. */
void sight_float_conv(const sight_float_conv_t *layer, const float *input, const float *residual, float *output);

void sight_float_max_pool(const sight_pool_t *layer, const float *input, float *output);
void sight_float_average_pool(const sight_pool_t *layer, const float *input, float *output);

#endif
