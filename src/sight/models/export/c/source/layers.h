/* What the layers of the encoder share. Signals are stored as [length][channels], so that the samples under a kernel lie
 * side by side in memory. */
#ifndef LAYERS_H
#define LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of weights that are multiplied with an input at once. */
#define SIGHT_ROWS_AT_ONCE 4U

/* How a kernel moves over a signal. */
typedef struct {
    uint16_t kernel;
    uint16_t stride;
    uint16_t padding;
    uint16_t length; /* of the input */
    uint16_t output_length;
} sight_slide_t;

/* Pool over time. */
typedef struct {
    uint16_t channels;
    sight_slide_t slide;
} sight_pool_t;

/* Means over parts of a signal: bin b is the samples from first[b] to before last[b]. */
typedef struct {
    const uint16_t *first;
    const uint16_t *last;
    uint16_t bins;
    uint16_t channels;
} sight_bins_t;

/* Part of a kernel that lies inside the signal for one sample of the output: from `first` to before `last`, starting at sample `start`. */
typedef struct {
    uint32_t first;
    uint32_t last;
    uint32_t start;
} sight_overlap_t;

sight_overlap_t sight_find_overlap(const sight_slide_t *slide, uint32_t at);

/* Samples in the units of the sensor to values with mean 0 and deviation 1. False if one is not finite. */
bool sight_scale_input(const float *window, float *output);

/* Features: the means of each channel, [channels][bins]. */
void sight_bin_means(const sight_bins_t *layer, const float *input, float *z);

#endif
