/* SPDX-License-Identifier: MIT
 *
 * spcore/ext/ranges.h - "spcore.ranges/1": what the host does, for a profiler of the device that is attached to the
 * process.
 *
 * It is an extension of the device (sp_device_type.extension), for the host alone, and only there while somebody
 * listens.
 */
#ifndef SPCORE_EXT_RANGES_H
#define SPCORE_EXT_RANGES_H

#include "../abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SP_EXT_RANGES "spcore.ranges/1"

typedef struct sp_ranges {
  uint32_t size, reserved;
  /* A range begins on this thread, within the one that began before, and the latest ends. `step` is shown beside the
   * name, which is copied. [any thread] */
  void (*push)(const char *name, uint64_t step);
  void (*pop)(void);
} sp_ranges;

#ifdef __cplusplus
}
#endif
#endif
