/* Random input for every function of an exported folder, to be run with sanitizers: times, samples, windows, features,
 * probabilities, gaps and saved bytes of any value, in any order. Prints how many windows were refined, and ends with an
 * error if a prediction is no distribution. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sight.h"

enum { ROUNDS = 60000 };

static sight_state_t state;
static sight_windower_t windower;
static sight_workspace_t workspace;
static float z[SIGHT_FEATURES];
static float p[SIGHT_CLASSES];
static float q[SIGHT_CLASSES];
static uint32_t seed;
static unsigned long refined;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13U;
    seed ^= seed >> 17U;
    seed ^= seed << 5U;
    return seed % below;
}

/* Any float: mostly usual ones, now and then arbitrary bits, among them NaN, infinity and denormal numbers. */
static float draw_float(void)
{
    if (draw(200) > 0U) {
        return ((float)draw(20001) - 10000.0f) / 1000.0f;
    }
    const uint32_t bits = draw(UINT32_MAX);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double next_time(double time_s)
{
    const double period_s = 1.0 / SIGHT_RATE_HZ;
    switch (draw(400)) {
    case 0: return (double)NAN;
    case 1: return (double)INFINITY;
    case 2: return time_s - 50.0;
    case 3: return time_s + 1e6;
    case 4: return -1e300;
    case 5: return 1e300;
    case 6: return 0.0;
    case 7: return time_s + 3.0;
    case 8: return time_s;
    default: return time_s + period_s * ((double)draw(2000) / 1000.0);
    }
}

static void check(void)
{
    float sum = 0.0f;
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        if (!(q[k] >= 0.0f)) {
            exit(EXIT_FAILURE);
        }
        sum += q[k];
    }
    if (!(fabsf(sum - 1.0f) < 1e-3f)) {
        exit(EXIT_FAILURE);
    }
    refined++;
}

static void on_window(void *user, const float *window, double start_s, double gap_s)
{
    (void)user;
    (void)start_s;
    (void)sight_gap(&state, (float)gap_s);
    if ((draw(20) == 0U) && sight_encode(&workspace, window, z, p) && sight_step(&state, z, p, q)) {
        check();
    }
}

static void step_anything(void)
{
    float sum = 0.0f;
    for (size_t d = 0; d < SIGHT_FEATURES; d++) {
        z[d] = draw_float();
    }
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        p[k] = (draw(4) == 0U) ? 0.0f : fabsf(draw_float());
        sum += p[k];
    }
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        p[k] = (draw(50) == 0U) ? p[k] : p[k] / sum;
    }
    if (sight_step(&state, z, p, q)) {
        check();
    }
}

static void save_and_load(void)
{
    uint8_t bytes[SIGHT_STATE_BYTES];
    sight_save(&state, bytes);
    if (draw(2) == 0U) {
        bytes[draw(SIGHT_STATE_BYTES)] ^= (uint8_t)(1U << draw(8));
    }
    sight_state_t other;
    sight_reset(&other);
    (void)sight_load(&other, bytes);
    state = other;
}

int main(int argc, char **argv)
{
    seed = (argc > 1) ? (uint32_t)strtoul(argv[1], NULL, 10) : 1U;
    double time_s = 0.0;
    sight_reset(&state);
    sight_windower_reset(&windower);
    for (unsigned long round = 0; round < ROUNDS; round++) {
        float sample[SIGHT_CHANNELS];
        for (size_t c = 0; c < SIGHT_CHANNELS; c++) {
            sample[c] = draw_float();
        }
        const double next = next_time(time_s);
        time_s = (isfinite(next) && (fabs(next) < 1e12)) ? next : time_s;
        sight_push(&windower, next, sample, on_window, NULL);
        if (draw(30) == 0U) {
            step_anything();
        }
        if (draw(300) == 0U) {
            save_and_load();
        }
        if (draw(1000) == 0U) {
            (void)sight_gap(&state, draw_float());
            sight_finish(&windower, on_window, NULL);
        }
    }
    printf("%lu\n", refined);
    return EXIT_SUCCESS;
}
