/* SPDX-License-Identifier: MIT
 *
 * spcore/ext/counters.h - "spcore.counters/1": what a device measures of itself, for traces: load, power, memory in
 * use.
 *
 * It is an extension of the device (sp_device_type.extension), for the host alone.
 */
#ifndef SPCORE_EXT_COUNTERS_H
#define SPCORE_EXT_COUNTERS_H

#include "../abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SP_EXT_COUNTERS "spcore.counters/1"

#define SP_COUNTERS_MAX 8

typedef struct sp_counters {
  uint32_t size, n;         /* n: at most SP_COUNTERS_MAX */
  const char *const *names; /* [n], with their units; they stay for as long as the process */

  /* Gets ready to read, or fails with why it cannot. Does nothing where it is. Closing the device ends it.
   * [main & !running] */
  int (*open)(sp_ctx *, void *dev);
  /* values[n]; NaN: this one is not measured here. Takes a millisecond at most. [any thread, one at a time] */
  void (*read)(void *dev, double *values);
} sp_counters;

#ifdef __cplusplus
}
#endif
#endif
