/* Smallest program with an exported folder, without standard input and output, to see what the parts take of flash and
 * RAM. PARTS is 0 for nothing at all, 1 for the adapter alone, 2 for windower, encoder and adapter. */
#include "sight.h"

void initialise_monitor_handles(void);
void exit(int status);

static volatile float source[64];
static volatile float sink;

#if PARTS > 0
static sight_state_t state;
static float z[SIGHT_FEATURES];
static float p[SIGHT_CLASSES];
static float q[SIGHT_CLASSES];
static uint8_t bytes[SIGHT_STATE_BYTES];
#endif
#if PARTS > 1
static sight_windower_t windower;
static sight_workspace_t workspace;

static void on_window(void *user, const float *window, double start_s, double gap_s)
{
    (void)user;
    (void)start_s;
    (void)sight_gap(&state, (float)gap_s);
    if (sight_encode(&workspace, window, z, p) && sight_step(&state, z, p, q)) {
        sink = q[0];
    }
}
#endif

void initialise_monitor_handles(void)
{
}

void exit(int status)
{
    (void)status;
    for (;;) {
    }
}

int main(void)
{
#if PARTS > 0
    sight_reset(&state);
    (void)sight_load(&state, bytes);
#endif
#if PARTS > 1
    float sample[SIGHT_CHANNELS];
    sight_windower_reset(&windower);
    for (uint32_t n = 0; source[1] >= 0.0f; n++) {
        sample[n % SIGHT_CHANNELS] = source[0];
        sight_push(&windower, (double)n, sample, on_window, NULL);
    }
    sight_finish(&windower, on_window, NULL);
#elif PARTS > 0
    while (source[1] >= 0.0f) {
        z[0] = source[0];
        p[0] = source[2];
        (void)sight_gap(&state, source[3]);
        (void)sight_step(&state, z, p, q);
        sink = q[0];
    }
#endif
#if PARTS > 0
    sight_save(&state, bytes);
#endif
    sink = source[0];
    return 0;
}
