/* Start of a program on a Cortex-M4F, as the emulated board mps2-an386 and most others need it. */
#include <stdint.h>

extern uint32_t stack_top; /* these six come from the linker script */
extern uint32_t data_load;
extern uint32_t data_start;
extern uint32_t data_end;
extern uint32_t bss_start;
extern uint32_t bss_end;

extern void initialise_monitor_handles(void); /* semihosting: standard input and output of the emulator */
extern int main(int argc, char **argv);
extern void exit(int status);

void reset_handler(void);
void stop(void);

/* Coprocessor access register, and the bits that switch the floating-point unit on. */
#define CPACR (*(volatile uint32_t *)0xE000ED88UL)
#define FULL_ACCESS_TO_FPU (0xFUL << 20U)

void stop(void)
{
    for (;;) {
    }
}

void reset_handler(void)
{
    CPACR |= FULL_ACCESS_TO_FPU;
    __asm volatile("dsb\n\tisb");
    const uint32_t *from = &data_load;
    for (uint32_t *to = &data_start; to < &data_end; to++) {
        *to = *from;
        from++;
    }
    for (uint32_t *to = &bss_start; to < &bss_end; to++) {
        *to = 0U;
    }
    initialise_monitor_handles();
    exit(main(0, 0));
}

typedef void (*handler_t)(void);

/* First words of the flash: initial stack, reset, and the other system exceptions, which all stop. */
typedef struct {
    uint32_t *stack;
    handler_t handlers[15];
} vectors_t;

__attribute__((section(".vectors"), used)) static const vectors_t vectors = {
    .stack = &stack_top,
    .handlers = {reset_handler, stop, stop, stop, stop, stop, stop, stop, stop, stop, stop, stop, stop, stop, stop},
};
