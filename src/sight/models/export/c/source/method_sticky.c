/* Sticky filter: a hidden Markov model with one parameter, the probability that the activity stays, as
 * sight/methods/sticky.py. Constants named METHOD_ are in method_constants.h. */
#include <string.h>

#include "method_constants.h"
#include "sight.h"
#include "vector_math.h"

void sight_reset(sight_state_t *state)
{
    memset(state, 0, sizeof *state);
    sight_fill_evenly(state->belief, SIGHT_CLASSES);
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
        for (size_t k = 0; k < SIGHT_CLASSES; k++) {
            state->belief[k] = taken[k] * (METHOD_S * state->belief[k] + (1.0f - METHOD_S) / (float)SIGHT_CLASSES);
        }
        sight_normalise(state->belief, taken, SIGHT_CLASSES);
    }
    state->count++;
    memcpy(q, state->belief, sizeof state->belief);
    return true;
}

bool sight_gap(sight_state_t *state, float seconds)
{
    return sight_relax(state->belief, SIGHT_CLASSES, seconds, METHOD_GAP_HALF_LIFE_S);
}
