/* The windower: the same windows, bit for bit, as sight/recordings/signal/live_windows.py. */
#include <math.h>
#include <string.h>

#include "sight.h"
#include "windower_constants.h"

/* Where the windows of a call go. */
typedef struct {
    sight_on_window_t on_window;
    void *user;
} listener_t;

typedef enum { DROPPED, CONTINUES, BEGINS } verdict_t;

static const double PERIOD_S = 1.0 / SIGHT_SENSOR_HZ;
static const double ROUNDING_S = WINDOWER_ROUNDING / SIGHT_SENSOR_HZ;

/* ---- Clock: which samples are used, and where a stretch begins ---- */

static void reset_clock(windower_clock_t *clock)
{
    memset(clock, 0, sizeof *clock);
    clock->last_s = -HUGE_VAL;
    clock->first_s = HUGE_VAL;
    clock->gap_from_s = -HUGE_VAL;
    clock->gap_to_s = HUGE_VAL;
}

static bool is_finite(double time_s, const float *sample)
{
    for (size_t c = 0; c < SIGHT_CHANNELS; c++) {
        if (!isfinite(sample[c])) {
            return false;
        }
    }
    return isfinite(time_s);
}

/* Count a sample before the latest one. Most are late or repeated. If they go on steadily where no sample can be a
 * repeated one, the clock of the sensor was set back: true, and a new stretch starts. */
static bool was_set_back(windower_clock_t *clock, double time_s)
{
    const bool before_all = time_s < clock->first_s;
    const bool in_gap = (clock->gap_from_s < time_s) && (time_s < clock->gap_to_s);
    if (!before_all && !in_gap) {
        clock->earlier = 0;
        return false;
    }
    if ((clock->earlier > 0U) && (fabs(time_s - clock->earlier_to_s) <= WINDOWER_GAP_S)) {
        clock->earlier++;
        clock->earlier_to_s = fmax(clock->earlier_to_s, time_s);
    } else {
        clock->earlier = 1;
        clock->earlier_from_s = time_s;
        clock->earlier_to_s = time_s;
    }
    return (clock->earlier >= WINDOWER_RESTART_SAMPLES)
           && (clock->earlier_to_s - clock->earlier_from_s >= WINDOWER_RESTART_S) && (time_s >= clock->earlier_to_s);
}

static verdict_t accept_later(windower_clock_t *clock, double time_s)
{
    const bool gap = time_s - clock->last_s > WINDOWER_GAP_S;
    if (gap) {
        clock->gaps += (clock->accepted > 0U) ? 1U : 0U;
        clock->gap_from_s = clock->last_s;
        clock->gap_to_s = time_s;
        clock->first_s = fmin(clock->first_s, time_s);
    }
    clock->earlier = 0;
    clock->last_s = time_s;
    clock->accepted++;
    return gap ? BEGINS : CONTINUES;
}

static verdict_t accept_set_back(windower_clock_t *clock, double time_s)
{
    if (time_s < clock->first_s) {
        clock->first_s = time_s;
        clock->gap_from_s = -HUGE_VAL;
    }
    clock->gap_to_s = time_s;
    clock->gaps++;
    clock->earlier = 0;
    clock->last_s = time_s;
    clock->accepted++;
    return BEGINS;
}

static verdict_t examine(windower_clock_t *clock, double time_s, const float *sample)
{
    if (!is_finite(time_s, sample)) {
        clock->not_finite++;
        return DROPPED;
    }
    if (time_s > clock->last_s) {
        return accept_later(clock, time_s);
    }
    if (time_s < clock->last_s) {
        if (was_set_back(clock, time_s)) {
            return accept_set_back(clock, time_s);
        }
        clock->late++;
        return DROPPED;
    }
    clock->repeated++;
    return DROPPED;
}

/* ---- Window: regular samples are collected ---- */

static void deliver_window(sight_windower_t *windower, const listener_t *listener)
{
    const uint32_t first = windower->emitted - SIGHT_LENGTH;
    const double start_s = windower->origin_s + (double)first / SIGHT_RATE_HZ;
    double gap_s = 0.0;
    if (windower->fresh && windower->has_end) {
        gap_s = fmax(start_s - windower->end_s, 0.0);
    }
    windower->fresh = false;
    windower->has_end = true;
    windower->end_s = start_s + (double)SIGHT_LENGTH / SIGHT_RATE_HZ;
    listener->on_window(listener->user, windower->samples, start_s, gap_s);
}

static void add_regular(sight_windower_t *windower, const float *sample, const listener_t *listener)
{
    windower->emitted++;
    if (windower->skip > 0U) {
        windower->skip--;
        return;
    }
    memcpy(&windower->samples[windower->held * SIGHT_CHANNELS], sample, SIGHT_CHANNELS * sizeof sample[0]);
    windower->held++;
    if (windower->held < SIGHT_LENGTH) {
        return;
    }
    deliver_window(windower, listener);
    const uint32_t used = (SIGHT_STRIDE < SIGHT_LENGTH) ? SIGHT_STRIDE : SIGHT_LENGTH;
    windower->held -= used;
    windower->skip = SIGHT_STRIDE - used;
    memmove(windower->samples, &windower->samples[used * SIGHT_CHANNELS],
            windower->held * SIGHT_CHANNELS * sizeof windower->samples[0]);
}

#if WINDOWER_CONVERTS

/* ---- Converter: samples at the rate of the sensor to the rate of the model ---- */

#if WINDOWER_SECTIONS > 0
/* Coefficients of a section of the filter; a0 is 1. */
enum { FILTER_B0, FILTER_B1, FILTER_B2, FILTER_A0, FILTER_A1, FILTER_A2 };
#endif

static void apply_filter(windower_converter_t *converter, const float *sample, double *filtered)
{
    for (size_t c = 0; c < SIGHT_CHANNELS; c++) {
        filtered[c] = (double)sample[c];
    }
#if WINDOWER_SECTIONS > 0
    for (size_t s = 0; s < WINDOWER_SECTIONS; s++) {
        const double *section = WINDOWER_FILTER[s];
        for (size_t c = 0; c < SIGHT_CHANNELS; c++) {
            double *memory0 = &converter->memory[s][0][c];
            double *memory1 = &converter->memory[s][1][c];
            if (converter->received == 0U) { /* as if the first sample had lasted for ever */
                *memory0 = WINDOWER_FILTER_START[s][0] * (double)sample[c];
                *memory1 = WINDOWER_FILTER_START[s][1] * (double)sample[c];
            }
            const double input = filtered[c];
            const double output = section[FILTER_B0] * input + *memory0;
            *memory0 = section[FILTER_B1] * input - section[FILTER_A1] * output + *memory1;
            *memory1 = section[FILTER_B2] * input - section[FILTER_A2] * output;
            filtered[c] = output;
        }
    }
#else
    (void)converter;
#endif
}

/* Where a sample of the model lies, in samples of the sensor. */
static double position_of(uint32_t number)
{
    const double at = ((double)number / SIGHT_RATE_HZ + WINDOWER_DELAY_S) * SIGHT_SENSOR_HZ;
    const double whole = floor(at + 0.5);
    return (fabs(at - whole) < WINDOWER_TOLERANCE) ? whole : at;
}

/* Add a sample of the sensor; at most `limit` samples of the model are returned since the start of the stretch. */
static void convert(sight_windower_t *windower, const float *sample, uint32_t limit, const listener_t *listener)
{
    windower_converter_t *converter = &windower->converter;
    double filtered[SIGHT_CHANNELS];
    apply_filter(converter, sample, filtered);
    memcpy(converter->latest, sample, sizeof converter->latest);
    const uint32_t latest = converter->received;
    converter->received++;
    while (converter->returned < limit) {
        const double at = position_of(converter->returned);
        if (at > (double)latest + WINDOWER_TOLERANCE) {
            break;
        }
        const uint32_t left = (uint32_t)(at + WINDOWER_TOLERANCE);
        const double *before = (left >= latest) ? filtered : converter->previous;
        const double share = (left >= latest) ? 0.0 : fmax(at - (double)left, 0.0);
        float value[SIGHT_CHANNELS];
        for (size_t c = 0; c < SIGHT_CHANNELS; c++) {
            value[c] = (float)(before[c] * (1.0 - share) + filtered[c] * share);
        }
        converter->returned++;
        add_regular(windower, value, listener);
    }
    memcpy(converter->previous, filtered, sizeof converter->previous);
}

/* End a stretch: repeat its last sample for the delay of the filter. */
static void finish_conversion(sight_windower_t *windower, const listener_t *listener)
{
    windower_converter_t *converter = &windower->converter;
    if (converter->received > 0U) {
        const double end_s = (double)(converter->received - 1U) / SIGHT_SENSOR_HZ;
        const uint32_t limit = (uint32_t)(end_s * SIGHT_RATE_HZ + WINDOWER_TOLERANCE) + 1U;
        float last[SIGHT_CHANNELS];
        memcpy(last, converter->latest, sizeof last);
        for (uint32_t i = 0; i < WINDOWER_REPEATS; i++) {
            convert(windower, last, limit, listener);
        }
    }
    memset(converter, 0, sizeof *converter);
}

static void add_tick(sight_windower_t *windower, const float *sample, const listener_t *listener)
{
    convert(windower, sample, UINT32_MAX, listener);
}

#else

static void add_tick(sight_windower_t *windower, const float *sample, const listener_t *listener)
{
    add_regular(windower, sample, listener);
}

#endif

/* ---- Ticks: samples at uneven times to a regular clock that starts at the first sample ---- */

/* Find the time of the next tick; false if it is later than `until_s`. */
static bool find_tick(const sight_windower_t *windower, double until_s, double *tick_s)
{
    /* The number is limited too: beside a very large time, a period is lost in rounding. */
    const uint32_t last = (uint32_t)((until_s - windower->origin_s) * SIGHT_SENSOR_HZ) + 1U;
    *tick_s = windower->origin_s + (double)windower->ticks / SIGHT_SENSOR_HZ;
    return (windower->ticks <= last) && (*tick_s <= until_s);
}

/* A tick takes the nearest sample within half a period; further from both neighbours it is interpolated. */
static void sample_at(const sight_windower_t *windower, double before_s, double after_s, const float *sample,
                      float *value)
{
    if (fmin(before_s, after_s) > 0.5 * PERIOD_S) {
        const double share = before_s / (before_s + after_s);
        for (size_t c = 0; c < SIGHT_CHANNELS; c++) {
            value[c] = (float)((double)windower->previous[c] * (1.0 - share) + (double)sample[c] * share);
        }
    } else {
        const float *nearest = (before_s <= after_s) ? windower->previous : sample;
        memcpy(value, nearest, SIGHT_CHANNELS * sizeof value[0]);
    }
}

static void end_stretch(sight_windower_t *windower, double last_s, const listener_t *listener)
{
    if (!windower->begun) {
        return;
    }
    double tick_s;
    if (find_tick(windower, last_s + 0.5 * PERIOD_S, &tick_s)) {
        float last[SIGHT_CHANNELS];
        memcpy(last, windower->previous, sizeof last);
        add_tick(windower, last, listener);
    }
#if WINDOWER_CONVERTS
    finish_conversion(windower, listener);
#endif
    windower->begun = false;
    windower->held = 0;
    windower->skip = 0;
    windower->emitted = 0;
    windower->ticks = 0;
    windower->fresh = true;
}

void sight_windower_reset(sight_windower_t *windower)
{
    memset(windower, 0, sizeof *windower);
    reset_clock(&windower->clock);
    windower->fresh = true;
}

void sight_push(sight_windower_t *windower, double time_s, const float sample[SIGHT_CHANNELS],
                sight_on_window_t on_window, void *user)
{
    const listener_t listener = {.on_window = on_window, .user = user};
    const double last_s = windower->clock.last_s;
    const verdict_t verdict = examine(&windower->clock, time_s, sample);
    if (verdict == DROPPED) {
        return;
    }
    const bool begins = (verdict == BEGINS) || !windower->begun; /* the latter after sight_finish */
    if (begins) {
        end_stretch(windower, last_s, &listener);
        windower->begun = true;
        windower->origin_s = time_s;
        memcpy(windower->previous, sample, sizeof windower->previous);
    }
    const double since_s = begins ? time_s : last_s;
    double tick_s;
    while (find_tick(windower, time_s + ROUNDING_S, &tick_s)) {
        float value[SIGHT_CHANNELS];
        sample_at(windower, tick_s - since_s, time_s - tick_s, sample, value);
        windower->ticks++;
        add_tick(windower, value, &listener);
    }
    memcpy(windower->previous, sample, sizeof windower->previous);
}

void sight_finish(sight_windower_t *windower, sight_on_window_t on_window, void *user)
{
    const listener_t listener = {.on_window = on_window, .user = user};
    end_stretch(windower, windower->clock.last_s, &listener);
}
