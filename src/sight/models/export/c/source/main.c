/* Example: reads samples as lines "seconds,value,value,..." from standard input, in the units of the model, and prints
 * one line for each window: its start, the predicted class, and the refined probability of each class. Prints a summary
 * of the samples on standard error.
 *
 *   ./sight < recording.csv                      a new wearer
 *   ./sight wearer.state < recording.csv         loads the state if the file exists, and saves it at the end
 *   ./sight wearer.state 3600 < recording.csv    the same after an hour without data */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sight.h"

enum { LINE_SIZE = 512 };

typedef struct {
    sight_state_t state;
    sight_windower_t windower;
    sight_workspace_t workspace;
    float z[SIGHT_FEATURES];
    float p[SIGHT_CLASSES];
    float q[SIGHT_CLASSES];
    unsigned long windows;
} wearer_t;

/* Static, because it is larger than the stack of a microcontroller. */
static wearer_t wearer;

static void print_prediction(double start_s, const float *q)
{
    printf("%.3f,%s", start_s, SIGHT_CLASS_NAMES[sight_predicted_class(q)]);
    for (size_t k = 0; k < SIGHT_CLASSES; k++) {
        printf(",%.9g", (double)q[k]);
    }
    printf("\n");
}

static void on_window(void *user, const float *window, double start_s, double gap_s)
{
    wearer_t *me = user;
    me->windows++;
    if (gap_s > 0.0) {
        (void)sight_gap(&me->state, (float)gap_s);
    }
    if (sight_encode(&me->workspace, window, me->z, me->p) && sight_step(&me->state, me->z, me->p, me->q)) {
        print_prediction(start_s, me->q);
    } else {
        fprintf(stderr, "The window at %.3f s is not finite; check the sensor and its units.\n", start_s);
    }
}

/* Read one line "seconds,value,..."; false if it is something else, such as a header. */
static bool parse_line(const char *line, double *time_s, float *sample)
{
    char *end = NULL;
    *time_s = strtod(line, &end);
    bool valid = end != line;
    for (size_t c = 0; valid && (c < SIGHT_CHANNELS); c++) {
        const char *start = end + 1;
        valid = *end == ',';
        if (valid) {
            sample[c] = strtof(start, &end);
            valid = end != start;
        }
    }
    return valid && ((*end == '\0') || (*end == '\r') || (*end == '\n'));
}

/* Load the state of an earlier run; false if the file exists and does not fit. */
static bool load_state(const char *path, sight_state_t *state)
{
    uint8_t bytes[SIGHT_STATE_BYTES + 1U]; /* one more, to find files that are too long */
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return true;
    }
    const size_t count = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    return (count == SIGHT_STATE_BYTES) && sight_load(state, bytes);
}

static bool save_state(const char *path, const sight_state_t *state)
{
    uint8_t bytes[SIGHT_STATE_BYTES];
    sight_save(state, bytes);
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return false;
    }
    const size_t count = fwrite(bytes, 1, sizeof bytes, file);
    return (fclose(file) == 0) && (count == sizeof bytes);
}

/* Report seconds without data, given as text; false if it is no number of 0 or more. */
static bool report_gap(const char *text, sight_state_t *state)
{
    char *end = NULL;
    const float seconds = strtof(text, &end);
    return (end != text) && (*end == '\0') && sight_gap(state, seconds);
}

static void print_summary(const wearer_t *me)
{
    const windower_clock_t *clock = &me->windower.clock;
    const unsigned long dropped = (unsigned long)clock->repeated + clock->late + clock->not_finite;
    fprintf(stderr, "%lu samples: %lu windows, %lu samples dropped, %lu gaps.\n", clock->accepted + dropped,
            me->windows, dropped, (unsigned long)clock->gaps);
    if ((clock->gaps > 0U) && (me->windows == 0U)) {
        fprintf(stderr, "No window is complete: check that times are in seconds, at about %g samples a second.\n",
                SIGHT_SENSOR_HZ);
    }
}

int main(int argc, char **argv)
{
    const char *state_file = (argc > 1) ? argv[1] : NULL;
    sight_reset(&wearer.state);
    sight_windower_reset(&wearer.windower);
    if ((state_file != NULL) && !load_state(state_file, &wearer.state)) {
        fprintf(stderr, "%s: expected the state of model %s and method %s.\n", state_file, SIGHT_MODEL, SIGHT_METHOD);
        return EXIT_FAILURE;
    }
    if ((argc > 2) && !report_gap(argv[2], &wearer.state)) {
        fprintf(stderr, "Expected seconds without data, 0 or more, got %s.\n", argv[2]);
        return EXIT_FAILURE;
    }
    static char line[LINE_SIZE];
    unsigned long number = 0;
    while (fgets(line, sizeof line, stdin) != NULL) {
        double time_s;
        float sample[SIGHT_CHANNELS];
        number++;
        if (parse_line(line, &time_s, sample)) {
            sight_push(&wearer.windower, time_s, sample, on_window, &wearer);
        } else if (number > 1U) { /* the first line may be a header */
            fprintf(stderr, "Line %lu: expected seconds and %u numbers; it was left out.\n", number, SIGHT_CHANNELS);
        } else {
            /* Nothing of a header is needed. */
        }
    }
    sight_finish(&wearer.windower, on_window, &wearer);
    print_summary(&wearer);
    if ((state_file != NULL) && !save_state(state_file, &wearer.state)) {
        fprintf(stderr, "%s: the state could not be written.\n", state_file);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
