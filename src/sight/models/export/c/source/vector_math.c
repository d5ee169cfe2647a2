#include "vector_math.h"

#include <math.h>
#include <string.h>

#include "sight.h"

#define LN_2 0.69314718f

bool sight_valid_features(const float *z, size_t count)
{
    if (z == NULL) {
        return false;
    }
    float squares = 0.0f;
    for (size_t i = 0; i < count; i++) {
        squares += z[i] * z[i];
    }
    /* Also false for NaN. A product of two features of this length still fits into a float. */
    return squares < SIGHT_MAX_LENGTH * SIGHT_MAX_LENGTH;
}

bool sight_valid_probabilities(const float *p, size_t count)
{
    float sum = 0.0f;
    for (size_t i = 0; i < count; i++) {
        if (!(p[i] >= 0.0f)) {
            return false;
        }
        sum += p[i];
    }
    return fabsf(sum - 1.0f) <= SIGHT_SUM_TOLERANCE;
}

bool sight_take_probabilities(const float *p, float *taken)
{
    if (!sight_valid_probabilities(p, SIGHT_CLASSES)) {
        return false;
    }
#if SIGHT_SOFTENS
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        taken[k] = SIGHT_SHARPNESS * logf((p[k] + SIGHT_FLOOR / (float)SIGHT_CLASSES) / (1.0f + SIGHT_FLOOR));
    }
    sight_softmax(taken, SIGHT_CLASSES);
#else
    memcpy(taken, p, SIGHT_CLASSES * sizeof *p);
#endif
    return true;
}

void sight_fill_evenly(float *belief, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        belief[i] = 1.0f / (float)count;
    }
}

static size_t position_of_largest(const float *values, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++) {
        if (values[i] > values[best]) {
            best = i;
        }
    }
    return best;
}

size_t sight_predicted_class(const float q[SIGHT_CLASSES])
{
    return position_of_largest(q, SIGHT_CLASSES);
}

float sight_clamp(float value, float lowest, float highest)
{
    return fminf(fmaxf(value, lowest), highest);
}

void sight_centre(float *values, size_t count)
{
    float sum = 0.0f;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
    }
    const float mean = sum / (float)count;
    for (size_t i = 0; i < count; i++) {
        values[i] -= mean;
    }
}

void sight_log_softmax(float *values, size_t count)
{
    const float largest = values[position_of_largest(values, count)];
    float sum = 0.0f;
    for (size_t i = 0; i < count; i++) {
        sum += expf(values[i] - largest);
    }
    const float shift = largest + logf(sum);
    for (size_t i = 0; i < count; i++) {
        values[i] -= shift;
    }
}

void sight_softmax(float *values, size_t count)
{
    sight_log_softmax(values, count);
    for (size_t i = 0; i < count; i++) {
        values[i] = expf(values[i]);
    }
}

void sight_normalise(float *weights, const float *fallback, size_t count)
{
    float sum = 0.0f;
    for (size_t i = 0; i < count; i++) {
        sum += weights[i];
    }
    if (sum < SIGHT_LEAST_SUM) {
        memcpy(weights, fallback, count * sizeof weights[0]);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        weights[i] /= sum;
    }
}

bool sight_relax(float *belief, size_t count, float seconds, float half_life_s)
{
    if (!isfinite(seconds) || (seconds < 0.0f)) {
        return false;
    }
    if (half_life_s <= 0.0f) {
        return true;
    }
    const float kept = expf(-LN_2 * seconds / half_life_s);
    const float even = 1.0f / (float)count;
    for (size_t i = 0; i < count; i++) {
        belief[i] = even + (belief[i] - even) * kept;
    }
    return true;
}

void sight_head(const float *weights, const float *biases, const float *z, float *p)
{
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        const float *row = &weights[k * SIGHT_FEATURES];
        float sum = biases[k];
        for (size_t d = 0; d < SIGHT_FEATURES; d++) {
            sum += row[d] * z[d];
        }
        p[k] = sum;
    }
    sight_softmax(p, SIGHT_CLASSES);
}
