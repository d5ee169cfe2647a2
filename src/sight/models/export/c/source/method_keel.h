/* State of one wearer of the method keel. All members have 32 bits: state_bytes.c saves them in this order. */
#ifndef METHOD_KEEL_H
#define METHOD_KEEL_H

#include <stdint.h>

#include "sight_config.h"

typedef struct {
    float belief[SIGHT_CLASSES];      /* last prediction */
    float frequencies[SIGHT_CLASSES]; /* mean of the predictions */
    float evidence[SIGHT_CLASSES];    /* mean of the evidence */
    float previous[SIGHT_CLASSES];    /* evidence of the previous window */
    float hazard;                     /* learned probability of a change of activity from one window to the next */
    float near_distance;              /* mean log distance of neighbouring windows */
    float spread;                     /* variance of that log distance */
    float far_distance;               /* mean log distance of windows far apart */
    uint32_t pairs;                   /* neighbours seen */
    uint32_t count;                   /* windows seen */
    uint32_t linked;                  /* 1 if the previous window is a neighbour, 0 after a gap */
} sight_state_t;

#endif
