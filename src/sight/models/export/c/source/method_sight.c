/* SIGHT: keeps its belief while features match the expectation, and moves it when they deviate. The same computation
 * as sight/methods/sight/reference.py, in passes over the features that need no memory beside the state. Constants
 * named METHOD_ are in method_constants.h; METHOD_AUTHORS selects the computation of the authors' public code. */
#include <math.h>
#include <string.h>

#include "method_constants.h"
#include "sight.h"
#include "vector_math.h"

/* What one pass over the features and prototypes finds, before directions can be compared. */
typedef struct {
    size_t believed;       /* class of the largest belief */
    float others;          /* belief in all other classes */
    float feature_length;  /* of z, with a floor */
    float expected_length; /* of the expectation, with a floor */
    float lost;            /* how much the believed direction turns because the expectation is normalised */
    float kept;            /* 1 - lost, with a floor */
} lengths_t;

/* Expected feature before it is normalised: prototypes weighted by the belief. */
static float expectation(const sight_state_t *state, size_t d)
{
    float sum = 0.0f;
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        sum += state->belief[k] * state->prototypes[k][d];
    }
    return sum;
}

/* Offset from the expectation to the believed prototype. Written with the shares of the other classes, because with a
 * belief near one-hot the plain difference is rounding noise. */
static float believed_offset(const sight_state_t *state, const lengths_t *lengths, size_t d)
{
    const size_t believed = lengths->believed;
    float sum = 0.0f;
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        sum += (k == believed) ? 0.0f : state->belief[k] * state->prototypes[k][d];
    }
    return lengths->others * state->prototypes[believed][d] - sum;
}

static float length_of(const float *z)
{
    float squares = 0.0f;
    for (size_t d = 0; d < SIGHT_FEATURES; d++) {
        squares += z[d] * z[d];
    }
    return sqrtf(squares);
}

static lengths_t measure(const sight_state_t *state, const float *z)
{
    lengths_t lengths = {.kept = 1.0f};
    lengths.believed = sight_predicted_class(state->belief);
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        lengths.others += (k == lengths.believed) ? 0.0f : state->belief[k];
    }
    float expected_squares = 0.0f;
    float offset_squares = 0.0f;
    float along = 0.0f;
    for (size_t d = 0; d < SIGHT_FEATURES; d++) {
        const float expected = expectation(state, d);
        const float offset = believed_offset(state, &lengths, d);
        expected_squares += expected * expected;
        offset_squares += offset * offset;
        along += state->prototypes[lengths.believed][d] * offset;
    }
    lengths.feature_length = fmaxf(length_of(z), METHOD_COSINE_FLOOR);
    lengths.expected_length = fmaxf(sqrtf(expected_squares), METHOD_COSINE_FLOOR);
    if (!METHOD_AUTHORS) {
        const float shrink = 2.0f * along - offset_squares;
        lengths.lost = shrink / (1.0f + sqrtf(fmaxf(1.0f - shrink, 0.0f)));
        lengths.kept = fmaxf(1.0f - lengths.lost, METHOD_EPS);
    }
    return lengths;
}

/* Surprise, 0 to 1, from the cosine of feature and expectation and their squared distance, both of length 1. */
static float find_surprise(float cosine, float squares)
{
    if (METHOD_SURPRISE == METHOD_SURPRISE_CONSTANT) {
        return METHOD_CONSTANT;
    }
    if (METHOD_SURPRISE == METHOD_SURPRISE_DISTANCE) {
        return fminf(sqrtf(squares), 1.0f);
    }
    const float distance = 1.0f - cosine;
    return -expm1f(-METHOD_BETA * distance * distance);
}

/* Multiply the routing by the wearer's habit, and normalise it. */
static void calibrate(const sight_state_t *state, float *routing)
{
    float sum = 0.0f;
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        const float habit = state->habit[k];
        if (METHOD_HABIT == METHOD_HABIT_SQRT) {
            routing[k] *= sqrtf(METHOD_AUTHORS ? habit : habit + METHOD_EPS);
        } else if (METHOD_HABIT == METHOD_HABIT_RAW) {
            routing[k] *= habit + METHOD_EPS;
        } else {
            /* METHOD_HABIT_OFF: the routing is used as it is. */
        }
        sum += routing[k];
    }
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        routing[k] /= METHOD_AUTHORS ? fmaxf(sum, METHOD_SUM_FLOOR) : sum;
    }
}

/* Prior of the window: the belief, and as much as the feature is surprising, the classes towards which it moved. */
static void find_prior(const sight_state_t *state, const float *z, float *prior)
{
    const lengths_t lengths = measure(state, z);
    float alignment[SIGHT_CLASSES] = {0.0f};
    float direction_squares[SIGHT_CLASSES] = {0.0f};
    float moved_squares = 0.0f;
    float unit_squares = 0.0f;
    float cosine = 0.0f;
    for (size_t d = 0; d < SIGHT_FEATURES; d++) {
        const float raw_expected = expectation(state, d);
        const float unit_feature = z[d] / lengths.feature_length;
        const float unit_expected = raw_expected / lengths.expected_length;
        const float feature = METHOD_AUTHORS ? z[d] : unit_feature;
        const float expected = METHOD_AUTHORS ? raw_expected : unit_expected;
        const float offset = believed_offset(state, &lengths, d);
        const float moved = feature - expected;
        moved_squares += moved * moved;
        cosine += unit_feature * unit_expected;
        unit_squares += (unit_feature - unit_expected) * (unit_feature - unit_expected);
        for (size_t k = 0; k < SIGHT_CLASSES; k++) {
            float direction = state->prototypes[k][d] - expected;
            if (k == lengths.believed) {
                direction = (offset - lengths.lost * state->prototypes[k][d]) / lengths.kept;
            }
            alignment[k] += direction * moved;
            direction_squares[k] += direction * direction;
        }
    }
    const float moved_length = fmaxf(sqrtf(moved_squares), METHOD_COSINE_FLOOR);
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        const float length = fmaxf(sqrtf(direction_squares[k]), METHOD_COSINE_FLOOR);
        prior[k] = METHOD_ROUTING ? alignment[k] / (length * moved_length) / METHOD_TAU : 0.0f;
    }
    sight_softmax(prior, SIGHT_CLASSES);
    calibrate(state, prior);
    const float surprise = find_surprise(cosine, unit_squares);
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        prior[k] = (1.0f - surprise) * state->belief[k] + surprise * prior[k];
    }
}

/* Normalised product of evidence and prior; the evidence alone if the product vanishes. */
static void find_consensus(const float *p, const float *prior, float *q)
{
    float sum = 0.0f;
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        q[k] = p[k] * (METHOD_AUTHORS ? fmaxf(prior[k], METHOD_PRIOR_FLOOR) : prior[k]);
        sum += q[k];
    }
    if (METHOD_AUTHORS && (sum >= SIGHT_LEAST_SUM)) {
        for (size_t k = 0; k < SIGHT_CLASSES; k++) {
            q[k] /= fmaxf(sum, METHOD_SUM_FLOOR);
        }
    } else {
        sight_normalise(q, p, SIGHT_CLASSES);
    }
}

static void scale_to_unit(float *values, float floor)
{
    const float length = fmaxf(length_of(values), floor);
    for (size_t d = 0; d < SIGHT_FEATURES; d++) {
        values[d] /= length;
    }
}

/* Pull the prototypes towards the feature by the refined probabilities, and back to their anchors. */
static void move_prototypes(sight_state_t *state, const float *z, const float *q)
{
    const size_t predicted = sight_predicted_class(q);
    const float feature_length = METHOD_AUTHORS ? 1.0f : fmaxf(length_of(z), METHOD_EPS);
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        float share = q[k];
        if (METHOD_PROTOTYPES == METHOD_PROTOTYPES_HARD) {
            share = (k == predicted) ? 1.0f : 0.0f;
        }
        const float pull = METHOD_ETA_MU * share;
        float *prototype = state->prototypes[k];
        for (size_t d = 0; d < SIGHT_FEATURES; d++) {
            prototype[d] = (1.0f - pull) * prototype[d] + pull * z[d] / feature_length;
        }
        if (!METHOD_AUTHORS) {
            scale_to_unit(prototype, METHOD_EPS);
        }
        if (METHOD_OMEGA_MU > 0.0f) {
            for (size_t d = 0; d < SIGHT_FEATURES; d++) {
                prototype[d] = (1.0f - METHOD_OMEGA_MU) * prototype[d] + METHOD_OMEGA_MU * METHOD_ANCHORS[k][d];
            }
        }
        scale_to_unit(prototype, METHOD_NORM_FLOOR);
    }
}

static void update_habit(sight_state_t *state, const float *q)
{
    if (METHOD_AUTHORS && (state->count == 0U)) {
        return;
    }
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        const float latest = METHOD_AUTHORS ? state->belief[k] : q[k];
        state->habit[k] = (1.0f - METHOD_ETA_H) * state->habit[k] + METHOD_ETA_H * latest;
    }
}

void sight_reset(sight_state_t *state)
{
    memset(state, 0, sizeof *state);
    memcpy(state->prototypes, METHOD_ANCHORS, sizeof state->prototypes);
    sight_fill_evenly(state->habit, SIGHT_CLASSES);
    sight_fill_evenly(state->belief, SIGHT_CLASSES);
}

bool sight_step(sight_state_t *state, const float z[SIGHT_FEATURES], const float p[SIGHT_CLASSES],
                float q[SIGHT_CLASSES])
{
    if (!sight_valid_probabilities(p, SIGHT_CLASSES) || !sight_valid_features(z, SIGHT_FEATURES)) {
        return false;
    }
    float refined[SIGHT_CLASSES];
    if (state->count == 0U) {
        memcpy(refined, p, sizeof refined);
    } else {
        float prior[SIGHT_CLASSES];
        find_prior(state, z, prior);
        find_consensus(p, prior, refined);
    }
    update_habit(state, refined);
    memcpy(state->belief, refined, sizeof refined);
    state->count++;
    if (METHOD_PROTOTYPES != METHOD_PROTOTYPES_OFF) {
        move_prototypes(state, z, refined);
    }
    memcpy(q, refined, sizeof refined);
    return true;
}

bool sight_gap(sight_state_t *state, float seconds)
{
    return sight_relax(state->belief, SIGHT_CLASSES, seconds, METHOD_GAP_HALF_LIFE_S);
}
