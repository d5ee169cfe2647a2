/* State of one wearer of the method sight. All members have 32 bits: state_bytes.c saves them in this order. */
#ifndef METHOD_SIGHT_H
#define METHOD_SIGHT_H

#include <stdint.h>

#include "sight_config.h"

typedef struct {
    float prototypes[SIGHT_CLASSES][SIGHT_FEATURES]; /* direction of each class in feature space */
    float habit[SIGHT_CLASSES];                      /* running class frequencies */
    float belief[SIGHT_CLASSES];                     /* last prediction */
    uint32_t count;                                  /* windows seen */
} sight_state_t;

#endif
