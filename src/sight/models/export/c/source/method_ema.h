/* State of one wearer of the method ema. All members have 32 bits: state_bytes.c saves them in this order. */
#ifndef METHOD_EMA_H
#define METHOD_EMA_H

#include <stdint.h>

#include "sight_config.h"

typedef struct {
    float belief[SIGHT_CLASSES]; /* moving average of the probabilities */
    uint32_t count;              /* windows seen */
} sight_state_t;

#endif
