/* Samples of a sensor to windows on the regular clock of the model. Constants named WINDOWER_ are in
 * windower_constants.h; WINDOWER_CONVERTS and WINDOWER_SECTIONS are in sight_config.h.
 *
 * Samples that are not finite, not later than the one before, or repeated are dropped. A pause longer than
 * WINDOWER_GAP_S is a gap, which no window spans. Jitter is removed, holes shorter than a gap are interpolated, and if
 * the sensor has another rate than the model, its samples are filtered and converted.
 *
 * Counters of ticks overflow after 2^32 ticks without a gap, 6.8 years at 20 Hz; sight_finish starts them again. */
#ifndef WINDOWER_H
#define WINDOWER_H

#include <stdbool.h>
#include <stdint.h>

#include "sight_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called with each complete window: SIGHT_LENGTH samples of SIGHT_CHANNELS values, valid until the function returns,
 * the time of the first sample, and the seconds missing before the window (0 if there is no gap). It must not call
 * functions of the same windower. */
typedef void (*sight_on_window_t)(void *user, const float *window, double start_s, double gap_s);

typedef struct {
    double last_s;        /* time of the latest sample */
    double first_s;       /* earliest time of all */
    double gap_from_s;    /* latest gap */
    double gap_to_s;
    double earlier_from_s; /* steady samples before the latest one: first and last time, and number */
    double earlier_to_s;
    uint32_t earlier;
    uint32_t accepted; /* samples used, and dropped by reason */
    uint32_t repeated;
    uint32_t late;
    uint32_t not_finite;
    uint32_t gaps; /* pauses, and clocks that were set back */
} windower_clock_t;

#if WINDOWER_CONVERTS
typedef struct {
#if WINDOWER_SECTIONS > 0
    double memory[WINDOWER_SECTIONS][2][SIGHT_CHANNELS]; /* of the low-pass filter */
#endif
    double previous[SIGHT_CHANNELS]; /* filtered sample before the latest one */
    float latest[SIGHT_CHANNELS];    /* latest sample, not filtered */
    uint32_t received;
    uint32_t returned;
} windower_converter_t;
#endif

typedef struct {
    windower_clock_t clock;
    double origin_s;                /* time of the first sample of the stretch between two gaps */
    uint32_t ticks;                 /* of the regular clock since then */
    float previous[SIGHT_CHANNELS]; /* latest sample */
    bool begun;                     /* whether there is a stretch */
#if WINDOWER_CONVERTS
    windower_converter_t converter;
#endif
    float samples[SIGHT_LENGTH * SIGHT_CHANNELS]; /* the incomplete window */
    uint32_t held;                                /* samples in it */
    uint32_t skip;                                /* samples to leave out where the stride is longer than a window */
    uint32_t emitted;                             /* regular samples since the start of the stretch */
    double end_s;                                 /* end of the latest window */
    bool has_end;
    bool fresh; /* whether the next window is the first of its stretch */
} sight_windower_t;

#ifdef __cplusplus
}
#endif

#endif
