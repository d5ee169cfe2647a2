/* Small functions of vectors that the methods and the encoder share. */
#ifndef VECTOR_MATH_H
#define VECTOR_MATH_H

#include <stdbool.h>
#include <stddef.h>

/* Whether features are given, finite and not too long, and probabilities finite, nowhere negative and with a sum of 1. */
bool sight_valid_features(const float *z, size_t count);
bool sight_valid_probabilities(const float *p, size_t count);

/* Copy valid probabilities p to taken; false if they are invalid. If the model is known by its probabilities only
 * (SIGHT_SOFTENS), each class gets a share of SIGHT_FLOOR first, because a zero of votes or of an 8-bit output is no
 * certainty, and the result is raised to the power SIGHT_SHARPNESS. */
bool sight_take_probabilities(const float *p, float *taken);

/* Give all classes the same probability. */
void sight_fill_evenly(float *belief, size_t count);

float sight_clamp(float value, float lowest, float highest);

/* Subtract the mean. */
void sight_centre(float *values, size_t count);

/* Replace values by their softmax, and by the logarithm of it. */
void sight_softmax(float *values, size_t count);
void sight_log_softmax(float *values, size_t count);

/* Divide by the sum; copy the fallback if the sum is below SIGHT_LEAST_SUM. */
void sight_normalise(float *weights, const float *fallback, size_t count);

/* Move a belief towards equal probabilities over a gap; a half-life of 0 keeps it. False, without any effect, if the gap
 * is negative or not finite. */
bool sight_relax(float *belief, size_t count, float seconds, float half_life_s);

/* Head of the encoder: p = softmax(weights z + biases), weights as [classes][features]. */
void sight_head(const float *weights, const float *biases, const float *z, float *p);

#endif
