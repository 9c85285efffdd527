/* SPDX-License-Identifier: MIT
 *
 * spcore/ext/times.h - "spcore.times/1": what a device tells of when calls in a recorded graph ran, for traces.
 *
 * Events around a launch say when all of a graph ran; what lies within only the device itself can tell. It is an
 * extension of the device (sp_device_type.extension), for the host alone. Nothing of it costs anything before open().
 */
#ifndef SPCORE_EXT_TIMES_H
#define SPCORE_EXT_TIMES_H

#include "../abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SP_EXT_TIMES "spcore.times/1"

/* Something that ran: a kernel, a copy, a fill. */
typedef struct sp_times_span {
  uint64_t launch, call; /* as launch() and call() were told */
  double begin, end;     /* seconds of CLOCK_MONOTONIC */
  const char *what;      /* "copy to device", a kernel's name; lives for the call that gives it */
} sp_times_span;

typedef void (*sp_times_fn)(void *arg, const sp_times_span *span);

typedef struct sp_times {
  uint32_t size, reserved;

  /* Takes hold of what tells the times, or fails with why it cannot: it is not there, or another has it. Does
   * nothing where this device holds it already. Graphs that were recorded before are not known. Before it nothing
   * but close() is called; where it can only fail the others are NULL. [main & !running] */
  int (*open)(sp_ctx *, void *dev);
  /* Keeps spans from here on, `most` at a time. Does nothing where it does so already. [main & !running] */
  int (*begin)(sp_ctx *, void *dev, size_t most);
  /* What is recorded from here on belongs to `call`; 0: to none. [main] */
  void (*call)(void *dev, uint64_t call);
  /* Graphs that are launched from here on are `launch`; 0: nothing of them is kept. [main] */
  void (*launch)(void *dev, uint64_t launch);
  /* Gives all spans that have ended, in no order, and forgets them; *lost: how many there was no room for. All
   * streams must have been waited for. [main] */
  int (*read)(sp_ctx *, void *dev, sp_times_fn fn, void *arg, uint64_t *lost);
  /* Lets go of it. Does nothing where it is not held; closing the device does so too. [main] */
  void (*close)(void *dev);
} sp_times;

#ifdef __cplusplus
}
#endif
#endif
