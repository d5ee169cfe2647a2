/* Activity recognition that adapts to its wearer, without a heap and without dependencies but libm.
 *
 *   samples --sight_push--> windows --sight_encode--> features z, probabilities p --sight_step--> refined q
 *
 * With an encoder of your own, use sight_step alone. Each wearer needs one sight_state_t and, if the windower is used,
 * one sight_windower_t. Functions keep no pointers and have no hidden state, so that wearers are independent. */
#ifndef SIGHT_H
#define SIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "METHOD.h"
#include "sight_config.h"
#if SIGHT_HAS_WINDOWER
#include "windower.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a saved state: magic, identity, the words of the state, checksum; see state_bytes.c. */
#define SIGHT_STATE_BYTES (4U * (3U + SIGHT_STATE_WORDS))

/* Start a new wearer. */
void sight_reset(sight_state_t *state);

/* Refine the probabilities p of one window into q, which may be the same array, and adapt. z are the features of the
 * window; methods that use probabilities alone accept NULL. False, without any effect, if z or p are invalid: missing,
 * not finite, or p no distribution. */
bool sight_step(sight_state_t *state, const float z[SIGHT_FEATURES], const float p[SIGHT_CLASSES],
                float q[SIGHT_CLASSES]);

/* Report seconds of missing data before the next window. False, without any effect, unless seconds >= 0. */
bool sight_gap(sight_state_t *state, float seconds);

/* Save a state as bytes, which any machine and Python can load. */
void sight_save(const sight_state_t *state, uint8_t bytes[SIGHT_STATE_BYTES]);

/* Load saved bytes. False, without any effect, if they are damaged or of another model or method. */
bool sight_load(sight_state_t *state, const uint8_t bytes[SIGHT_STATE_BYTES]);

/* Predicted class: the position of the largest probability, the first of equal ones. */
size_t sight_predicted_class(const float q[SIGHT_CLASSES]);

/* Names of the classes, in the order of p and q. */
extern const char *const SIGHT_CLASS_NAMES[SIGHT_CLASSES];

#if SIGHT_HAS_ENCODER
/* Encode one window, SIGHT_LENGTH samples of SIGHT_CHANNELS values in time order and in the units of the model. The
 * workspace holds intermediate results; it may be shared by wearers and used for other purposes between two calls.
 * False if the window holds values that are not finite. */
bool sight_encode(sight_workspace_t *workspace, const float window[SIGHT_LENGTH * SIGHT_CHANNELS],
                  float z[SIGHT_FEATURES], float p[SIGHT_CLASSES]);
#endif
#if SIGHT_HAS_WINDOWER
/* Start a new stream. */
void sight_windower_reset(sight_windower_t *windower);

/* Add one sample and its time in seconds since any fixed moment; calls on_window for each window that is complete now. */
void sight_push(sight_windower_t *windower, double time_s, const float sample[SIGHT_CHANNELS],
                sight_on_window_t on_window, void *user);

/* End the stream; calls on_window if a window was waiting for another sample. Later windows have later samples only. */
void sight_finish(sight_windower_t *windower, sight_on_window_t on_window, void *user);
#endif

#ifdef __cplusplus
}
#endif
#endif
