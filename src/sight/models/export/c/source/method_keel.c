/* Keel: removes the persistent bias of a classifier for one wearer, then filters its predictions between changes of
 * activity. The same computation as sight/methods/keel/reference.py; what Python adds up in double is a running mean
 * here, which float holds exactly enough. Constants named METHOD_ are in method_constants.h. */
#include <math.h>
#include <string.h>

#include "method_constants.h"
#include "sight.h"
#include "vector_math.h"

/* Evidence of a window: centred logarithms of its probabilities, mixed with scaled cosines to the class means. */
static void find_evidence(const float *z, const float *p, float *evidence)
{
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        evidence[k] = logf(fmaxf(p[k], METHOD_TINY));
    }
    sight_centre(evidence, SIGHT_CLASSES);
#if SIGHT_USES_FEATURES
    float cosines[SIGHT_CLASSES] = {0.0f};
    float squares = 0.0f;
    for (size_t d = 0; d < SIGHT_FEATURES; d++) {
        const float away = z[d] - METHOD_ORIGIN[d];
        squares += away * away;
        for (size_t k = 0; k < SIGHT_CLASSES; k++) {
            cosines[k] += METHOD_DIRECTIONS[k][d] * away;
        }
    }
    const float length = fmaxf(sqrtf(squares), METHOD_NORM_FLOOR);
    sight_centre(cosines, SIGHT_CLASSES);
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        evidence[k] = (1.0f - METHOD_SHARE) * evidence[k] + METHOD_SHARE * METHOD_SCALE * cosines[k] / length;
    }
#else
    (void)z;
#endif
}

/* Share, 0 to 1, of the bias correction to apply: how many of the classes have been predicted so far. */
static float find_coverage(const sight_state_t *state)
{
    float entropy = 0.0f;
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        const float share = state->frequencies[k];
        entropy -= (share > 0.0f) ? share * logf(share) : 0.0f;
    }
    const float covered = fmaxf(expf(entropy) - 1.0f, 0.0f) / (float)(SIGHT_CLASSES - 1);
    return fmaxf(covered - METHOD_LEAST_COVERAGE, 0.0f) / (1.0f - METHOD_LEAST_COVERAGE);
}

/* Evidence without the wearer's bias, as logarithms of a likelihood; shares are the wearer's class frequencies. */
static void correct(const sight_state_t *state, const float *evidence, float *shares, float *log_likelihood)
{
    const float windows = (float)state->count;
    const float whole = windows + METHOD_PATIENCE;
    const float applied = find_coverage(state);
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        shares[k] = (state->frequencies[k] * windows + METHOD_PATIENCE * METHOD_PRIOR[k]) / whole;
        const float drift = (state->evidence[k] - METHOD_EXPECTED[k]) * windows / whole;
        const float raised = METHOD_DEBIAS * logf(shares[k] / METHOD_PRIOR[k]);
        const float excess = sight_clamp(raised, -METHOD_HIGHEST_RAISE, METHOD_PENALTY);
        log_likelihood[k] = evidence[k] - applied * (METHOD_ALIGN * drift + excess);
    }
    sight_log_softmax(log_likelihood, SIGHT_CLASSES);
}

/* Logarithm of a distance, with a floor under the square. */
static float log_length(float squares)
{
    return 0.5f * logf(squares + METHOD_STILL);
}

/* Odds of a change by the distance of the window from the previous one, on the scale of distances seen so far. */
static float find_odds(const sight_state_t *state, float distance)
{
    const float pairs = (float)state->pairs;
    const float prior_pairs = (float)METHOD_FIRST_PAIRS;
    const float variance = (state->spread * pairs + prior_pairs * METHOD_FIRST_VARIANCE) / (pairs + prior_pairs);
    const float deviation = sqrtf(variance);
    const float delta = fmaxf((state->far_distance - state->near_distance) / deviation, 0.0f);
    const float factor = METHOD_SURPRISE * delta * ((distance - state->near_distance) / deviation - 0.5f * delta);
    return state->hazard / (1.0f - state->hazard) * expf(sight_clamp(factor, -METHOD_CERTAIN, METHOD_CERTAIN));
}

/* Probability of a change before this window; then updates the statistics of distances. */
static float find_change(sight_state_t *state, const float *evidence)
{
    if (!(METHOD_SURPRISE > 0.0f) || (state->linked == 0U)) {
        return state->hazard;
    }
    float to_previous = 0.0f;
    float to_mean = 0.0f;
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        const float step = evidence[k] - state->previous[k];
        const float offset = evidence[k] - state->evidence[k];
        to_previous += step * step;
        to_mean += offset * offset;
    }
    const float distance = log_length(to_previous);
    /* Two independent windows are sqrt(2) times as far apart as one is from their mean. */
    const float far_distance = log_length(2.0f * to_mean);
    float change = state->hazard;
    if (state->pairs >= METHOD_FIRST_PAIRS) {
        const float odds = find_odds(state, distance);
        change = odds / (1.0f + odds);
    }
    state->pairs++;
    const float pairs = (float)state->pairs;
    const float before = distance - state->near_distance;
    state->near_distance += before / pairs;
    state->spread += (before * (distance - state->near_distance) - state->spread) / pairs;
    state->far_distance += (far_distance - state->far_distance) / pairs;
    return change;
}

/* One step of the hidden Markov model: updates the belief, then the hazard. */
static void filter(sight_state_t *state, const float *log_likelihood, const float *shares, float change)
{
    const float weight = METHOD_TEMPER + (1.0f - METHOD_TEMPER) * fminf(1.0f, state->hazard / METHOD_HAZARD);
    float likelihood[SIGHT_CLASSES];
    float drawn = 0.0f;
    float stayed = 0.0f;
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        likelihood[k] = expf(weight * log_likelihood[k]);
        const float stay = (1.0f - change) * state->belief[k] * likelihood[k];
        state->belief[k] = stay + change / (float)SIGHT_CLASSES * likelihood[k];
        stayed += stay;
        drawn += shares[k] * likelihood[k];
    }
    sight_normalise(state->belief, likelihood, SIGHT_CLASSES);
    if (METHOD_RATE > 0.0f) {
        drawn *= change;
        const float target = drawn / fmaxf(drawn + stayed, METHOD_TINY);
        const float rate = fmaxf(METHOD_RATE, 1.0f / (float)(METHOD_FIRST_WINDOWS + state->count));
        const float hazard = state->hazard + rate * (target - state->hazard);
        state->hazard = sight_clamp(hazard, METHOD_LOWEST, METHOD_HIGHEST);
    }
}

/* Add the prediction and the evidence of a window to their means. */
static void remember(sight_state_t *state, const float *evidence)
{
    state->count++;
    const float windows = (float)state->count;
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        state->frequencies[k] += (state->belief[k] - state->frequencies[k]) / windows;
        state->evidence[k] += (evidence[k] - state->evidence[k]) / windows;
        state->previous[k] = evidence[k];
    }
    state->linked = 1U;
}

void sight_reset(sight_state_t *state)
{
    memset(state, 0, sizeof *state);
    sight_fill_evenly(state->belief, SIGHT_CLASSES);
    state->hazard = METHOD_HAZARD;
}

bool sight_step(sight_state_t *state, const float z[SIGHT_FEATURES], const float p[SIGHT_CLASSES],
                float q[SIGHT_CLASSES])
{
    float taken[SIGHT_CLASSES];
    if (!sight_take_probabilities(p, taken)
        || (SIGHT_USES_FEATURES && !sight_valid_features(z, SIGHT_FEATURES))) {
        return false;
    }
    float evidence[SIGHT_CLASSES];
    float shares[SIGHT_CLASSES];
    float log_likelihood[SIGHT_CLASSES];
    find_evidence(z, taken, evidence);
    correct(state, evidence, shares, log_likelihood);
    if (state->count == 0U) {
        for (size_t k = 0; k < SIGHT_CLASSES; k++) {
            state->belief[k] = expf(log_likelihood[k]);
        }
    } else {
        const float change = find_change(state, evidence);
        filter(state, log_likelihood, shares, change);
    }
    remember(state, evidence);
    memcpy(q, state->belief, sizeof state->belief);
    return true;
}

bool sight_gap(sight_state_t *state, float seconds)
{
    if (!sight_relax(state->belief, SIGHT_CLASSES, seconds, METHOD_GAP_HALF_LIFE_S)) {
        return false;
    }
    if (seconds > 0.0f) {
        state->linked = 0U;
    }
    return true;
}
