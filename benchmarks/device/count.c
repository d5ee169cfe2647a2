/* Counts instructions on the emulated board, which runs with `-icount shift=0`: one instruction takes one nanosecond of
 * its clock, and SysTick counts at 25 MHz, once every 40 instructions. Prints lines "name,instructions": a loop of known
 * length, one call of sight_push without a window, of sight_encode and of sight_step, and the stack that they used. */
#include <stdio.h>

#include "sight.h"

#define SYSTICK_CONTROL (*(volatile uint32_t *)0xE000E010UL)
#define SYSTICK_RELOAD (*(volatile uint32_t *)0xE000E014UL)
#define SYSTICK_VALUE (*(volatile uint32_t *)0xE000E018UL)
#define SYSTICK_MASK 0x00FFFFFFUL
#define ENABLE_WITH_PROCESSOR_CLOCK 5UL
#define INSTRUCTIONS_PER_TICK 40UL

enum { WINDOWS = 12, LOOPS = 1000000, STACK_PROBE = 65536, STACK_MARGIN = 64, FILLED = 0xA5 };

extern uint32_t stack_top; /* of the linker script */

typedef struct {
    unsigned long total;
    unsigned long calls;
} counter_t;

static sight_state_t state;
static sight_windower_t windower;
static sight_workspace_t workspace;
static float z[SIGHT_FEATURES];
static float p[SIGHT_CLASSES];
static float q[SIGHT_CLASSES];
static counter_t push_count;
static counter_t encode_count;
static counter_t step_count;
static unsigned long windows;

static uint32_t now(void)
{
    return SYSTICK_VALUE;
}

static void add(counter_t *counter, uint32_t started)
{
    counter->total += ((started - now()) & SYSTICK_MASK) * INSTRUCTIONS_PER_TICK;
    counter->calls++;
}

/* Two instructions in each round. */
static unsigned long count_loop(void)
{
    const uint32_t started = now();
    uint32_t rounds = LOOPS;
    __asm volatile("1: subs %0, %0, #1\n\tbne 1b" : "+r"(rounds) : : "cc");
    return ((started - now()) & SYSTICK_MASK) * INSTRUCTIONS_PER_TICK;
}

static void on_window(void *user, const float *window, double start_s, double gap_s)
{
    (void)user;
    (void)start_s;
    (void)gap_s;
    const uint32_t before_encode = now();
    const bool encoded = sight_encode(&workspace, window, z, p);
    add(&encode_count, before_encode);
    const uint32_t before_step = now();
    const bool refined = sight_step(&state, z, p, q);
    add(&step_count, before_step);
    windows += (encoded && refined) ? 1U : 0U;
}

/* Samples of a wearer who moves now and then, in units of about the deviation of the training data. */
static void make_sample(uint32_t number, float *sample)
{
    static uint32_t seed = 1;
    for (size_t c = 0; c < SIGHT_CHANNELS; c++) {
        seed = seed * 1664525U + 1013904223U;
        const float noise = (float)(seed >> 16U) / 65536.0f - 0.5f;
        sample[c] = ((number / 300U) % 2U == 0U) ? 0.1f * noise : 8.0f * noise;
    }
}

/* Fill the stack below this function; used_stack finds how much of it was written over. */
static void fill_stack(void)
{
    uintptr_t here;
    __asm volatile("mov %0, sp" : "=r"(here));
    for (uintptr_t at = (uintptr_t)&stack_top - STACK_PROBE; at < here - STACK_MARGIN; at++) {
        *(volatile uint8_t *)at = FILLED;
    }
}

static unsigned long used_stack(void)
{
    uintptr_t at = (uintptr_t)&stack_top - STACK_PROBE;
    while (*(volatile uint8_t *)at == FILLED) {
        at++;
    }
    return (unsigned long)((uintptr_t)&stack_top - at);
}

static void run(void)
{
    for (uint32_t number = 0; windows < WINDOWS; number++) {
        float sample[SIGHT_CHANNELS];
        make_sample(number, sample);
        const unsigned long before = windows;
        const uint32_t started = now();
        sight_push(&windower, (double)number / SENSOR_HZ, sample, on_window, NULL);
        if (windows == before) {
            add(&push_count, started);
        }
    }
}

int main(void)
{
    SYSTICK_RELOAD = SYSTICK_MASK;
    SYSTICK_VALUE = 0;
    SYSTICK_CONTROL = ENABLE_WITH_PROCESSOR_CLOCK;
    sight_reset(&state);
    sight_windower_reset(&windower);
    printf("loop,%lu\n", count_loop() / LOOPS);
    fill_stack();
    run();
    const unsigned long stack = used_stack();
    printf("stack,%lu\n", stack);
    printf("push,%lu\n", push_count.total / push_count.calls);
    printf("encode,%lu\n", encode_count.total / encode_count.calls);
    printf("step,%lu\n", step_count.total / step_count.calls);
    printf("state,%lu\nwindower,%lu\nworkspace,%lu\n", (unsigned long)sizeof state, (unsigned long)sizeof windower,
           (unsigned long)sizeof workspace);
    return 0;
}
