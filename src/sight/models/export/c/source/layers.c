#include "layers.h"

#include <math.h>

#include "encoder_constants.h"

sight_overlap_t sight_find_overlap(const sight_slide_t *slide, uint32_t at)
{
    const uint32_t kernel = slide->kernel;
    const uint32_t padding = slide->padding;
    const uint32_t length = slide->length;
    const uint32_t from = at * slide->stride; /* in a signal with the padding in front */
    sight_overlap_t overlap;
    overlap.first = (from < padding) ? padding - from : 0U;
    overlap.start = from + overlap.first - padding;
    const uint32_t left = (overlap.start < length) ? length - overlap.start : 0U;
    overlap.last = (kernel - overlap.first < left) ? kernel : overlap.first + left;
    return overlap;
}

bool sight_scale_input(const float *window, float *output)
{
    for (size_t i = 0; i < SIGHT_LENGTH * SIGHT_CHANNELS; i++) {
        const size_t channel = i % SIGHT_CHANNELS;
        float value = window[i];
#if ENCODER_FILLS
        value = isnan(value) ? ENCODER_FILL[channel] : value;
#endif
        if (!isfinite(value)) {
            return false;
        }
        output[i] = (value - ENCODER_MEAN[channel]) / ENCODER_DEVIATION[channel];
    }
    return true;
}

void sight_bin_means(const sight_bins_t *layer, const float *input, float *z)
{
    for (uint32_t c = 0; c < layer->channels; c++) {
        for (uint32_t b = 0; b < layer->bins; b++) {
            float sum = 0.0f;
            for (uint32_t t = layer->first[b]; t < layer->last[b]; t++) {
                sum += input[t * layer->channels + c];
            }
            z[c * layer->bins + b] = sum / (float)(layer->last[b] - layer->first[b]);
        }
    }
}
