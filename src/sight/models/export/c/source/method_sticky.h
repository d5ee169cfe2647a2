/* State of one wearer of the method sticky. All members have 32 bits: state_bytes.c saves them in this order. */
#ifndef METHOD_STICKY_H
#define METHOD_STICKY_H

#include <stdint.h>

#include "sight_config.h"

typedef struct {
    float belief[SIGHT_CLASSES]; /* last prediction */
    uint32_t count;              /* windows seen */
} sight_state_t;

#endif
