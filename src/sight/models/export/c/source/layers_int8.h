/* Layers of the encoder in 8 bits. A stored byte b of a signal stands for the value (b - zero) * scale. Weights have a
 * scale for each output. Sums are exact integers; they become bytes again by one multiplication in float. The first
 * convolution is computed in float, because 8 bits are too coarse for the samples of a sensor. */
#ifndef LAYERS_INT8_H
#define LAYERS_INT8_H

#include "layers.h"
#include "layers_float32.h"

/* What the bytes of a signal stand for. */
typedef struct {
    float scale;
    int32_t zero;
} sight_range_t;

/* Convolution over time of a signal whose byte 0 stands for 0, as after a ReLU. Rows of weights are the outputs, filled
 * up with zeros to a multiple of four. Weights lie in the order of use, [rows / 4][kernel][inputs / 4][4 rows][4 inputs].
 * Batch normalisation is part of weights and biases. */
typedef struct {
    const int8_t *weights;
    const int32_t *biases; /* [rows], in units of the sums */
    const float *scales;   /* [rows], value of one unit of a sum */
    uint16_t inputs; /* a multiple of four */
    uint16_t outputs;
    sight_slide_t slide;
    bool relu;
    sight_range_t residual_range;
    sight_range_t output_range;
} sight_byte_conv_t;

/* A convolution in float with bytes as output; row holds one sample of the output. */
void sight_float_conv_to_bytes(const sight_float_conv_t *layer, const float *input, sight_range_t range, float *row,
                               uint8_t *output);

/* The residual, a signal of the size of the output, is added before the ReLU. It may be NULL or the output itself. */
void sight_byte_conv(const sight_byte_conv_t *layer, const uint8_t *input, const uint8_t *residual, uint8_t *output);

/* The same with values as output, for the last convolution. */
void sight_byte_conv_to_values(const sight_byte_conv_t *layer, const uint8_t *input, const uint8_t *residual,
                               float *output);

/* The output has the range of the input. */
void sight_byte_max_pool(const sight_pool_t *layer, const uint8_t *input, uint8_t *output);
void sight_byte_average_pool(const sight_pool_t *layer, const uint8_t *input, uint8_t *output);

/* Features: the means of each channel, [channels][bins]. */
void sight_bin_means_of_bytes(const sight_bins_t *layer, const uint8_t *input, sight_range_t range, float *z);

#endif
