/* Sticky filter that learns how long the wearer's activities last, as sight/methods/sticky.py. Constants named METHOD_
 * are in method_constants.h. */
#include <string.h>

#include "method_constants.h"
#include "sight.h"
#include "vector_math.h"

/* Move the learned probability towards the posterior one that the activity stayed before this window. */
static float learn_stay(const sight_state_t *state, const float *p)
{
    float overlap = 0.0f;
    float sum = 0.0f;
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        overlap += p[k] * state->belief[k];
        sum += p[k];
    }
    const float stayed = state->stay * overlap;
    const float drawn = (1.0f - state->stay) * sum / (float)SIGHT_CLASSES;
    if (!(stayed + drawn > 0.0f)) {
        return state->stay;
    }
    const float target = stayed / (stayed + drawn);
    const float stay = state->stay + METHOD_RATE * (target - state->stay);
    return sight_clamp(stay, METHOD_LEAST_STAY, METHOD_MOST_STAY);
}

void sight_reset(sight_state_t *state)
{
    memset(state, 0, sizeof *state);
    sight_fill_evenly(state->belief, SIGHT_CLASSES);
    state->stay = sight_clamp(METHOD_S, METHOD_LEAST_STAY, METHOD_MOST_STAY);
}

bool sight_step(sight_state_t *state, const float z[SIGHT_FEATURES], const float p[SIGHT_CLASSES],
                float q[SIGHT_CLASSES])
{
    (void)z;
    float taken[SIGHT_CLASSES];
    if (!sight_take_probabilities(p, taken)) {
        return false;
    }
    if (state->count == 0U) {
        memcpy(state->belief, taken, sizeof state->belief);
    } else {
        const float learned = learn_stay(state, taken);
        for (size_t k = 0; k < SIGHT_CLASSES; k++) {
            const float moved = (1.0f - state->stay) / (float)SIGHT_CLASSES;
            state->belief[k] = taken[k] * (state->stay * state->belief[k] + moved);
        }
        sight_normalise(state->belief, taken, SIGHT_CLASSES);
        state->stay = learned;
    }
    state->count++;
    memcpy(q, state->belief, sizeof state->belief);
    return true;
}

bool sight_gap(sight_state_t *state, float seconds)
{
    return sight_relax(state->belief, SIGHT_CLASSES, seconds, METHOD_GAP_HALF_LIFE_S);
}
