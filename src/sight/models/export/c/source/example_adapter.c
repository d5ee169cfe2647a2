/* Example: the adapter behind an encoder of your own (TensorFlow Lite Micro, Edge Impulse, CMSIS-NN ...). It needs
 * sight.h, sight_config.h, the two files of the method, method_constants.h, vector_math.*, state_bytes.c and
 * class_names.c.
 *
 * Reads one window per line from standard input: the seconds missing before it, SIGHT_CLASSES probabilities and, if the
 * method uses features, SIGHT_FEATURES features. Prints the refined probabilities. */
#include <stdio.h>
#include <stdlib.h>

#include "sight.h"

enum {
    P_AT = 1,
    Z_AT = P_AT + SIGHT_CLASSES,
    NUMBERS = Z_AT + SIGHT_USES_FEATURES * SIGHT_FEATURES,
    LINE_SIZE = 32 * NUMBERS
};

static sight_state_t state;

/* Read a line of numbers separated by commas; false if it is something else, such as a header. */
static bool parse_line(const char *line, float *numbers)
{
    const char *start = line;
    for (size_t i = 0; i < NUMBERS; i++) {
        char *end = NULL;
        numbers[i] = strtof(start, &end);
        const bool last = i + 1U == NUMBERS;
        const bool ended = (*end == '\0') || (*end == '\r') || (*end == '\n');
        if ((end == start) || (last ? !ended : (*end != ','))) {
            return false;
        }
        start = end + 1;
    }
    return true;
}

int main(void)
{
    static char line[LINE_SIZE];
    static float numbers[NUMBERS]; /* of your encoder */
    float q[SIGHT_CLASSES];
    sight_reset(&state);
    for (unsigned long number = 1; fgets(line, sizeof line, stdin) != NULL; number++) {
        if (!parse_line(line, numbers)) {
            fprintf(stderr, "Line %lu: expected %u numbers: seconds, probabilities%s.\n", number, (unsigned)NUMBERS,
                    SIGHT_USES_FEATURES ? ", features" : "");
            return EXIT_FAILURE;
        }
        const float *z = SIGHT_USES_FEATURES ? &numbers[Z_AT] : NULL;
        if (!sight_gap(&state, numbers[0]) || !sight_step(&state, z, &numbers[P_AT], q)) {
            fprintf(stderr, "Line %lu: expected seconds of 0 or more, probabilities with a sum of 1; it was left out.\n",
                    number);
            continue;
        }
        for (size_t k = 0; k < SIGHT_CLASSES; k++) {
            printf("%s%.9g", (k > 0U) ? "," : "", (double)q[k]);
        }
        printf("\n");
    }
    return EXIT_SUCCESS;
}
