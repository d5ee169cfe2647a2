/* State of one wearer of the method sticky-learned. All members have 32 bits: state_bytes.c saves them in this order. */
#ifndef METHOD_STICKY_LEARNED_H
#define METHOD_STICKY_LEARNED_H

#include <stdint.h>

#include "sight_config.h"

typedef struct {
    float belief[SIGHT_CLASSES]; /* last prediction */
    uint32_t count;              /* windows seen */
    float stay;                  /* learned probability that an activity continues for another window */
} sight_state_t;

#endif
