/* SPDX-License-Identifier: MIT
 *
 * spcore/device.h - how a device is written: memory, streams, events, capture.
 *
 * Rules that the conformance suite (tests/core/check_device.c) states for every device:
 *  - A stream executes its operations in the order of submission. Different streams are independent.
 *  - Events are CUDA's: wait() and sync() mean the latest record() that was issued before them on the submitting
 *    thread; an event that was never recorded is complete. Recording again re-arms it.
 *  - One thread submits everything. The device may execute on any thread.
 *  - A failure is sticky on its stream: later operations of that stream are dropped, records included, and their
 *    events complete with the failure, so that nothing hangs. A stream that waits for such an event fails likewise,
 *    with the first status. sync() returns it.
 *  - Memory from alloc() is aligned to SP_ALIGN bytes at least.
 */
#ifndef SPCORE_DEVICE_H
#define SPCORE_DEVICE_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SP_ALIGN 256

enum { SP_MEM_DEVICE = 0, SP_MEM_PINNED = 1 }; /* PINNED: host memory that the device copies from without staging */

enum { SP_EVENT_TIMING = 1u << 0 };

enum {
  SP_DEVICE_CAPTURE = 1u << 0, /* capture_* are there */
  SP_DEVICE_HOSTMEM = 1u << 1, /* DEVICE memory can be read and written by the host */
  SP_DEVICE_FORK = 1u << 2     /* a capture may span streams, forked and joined by events recorded in it */
};

typedef struct sp_device_info {
  uint32_t size, reserved;
  char name[96];    /* "NVIDIA H200", "Intel(R) Xeon(R)" */
  char detail[160]; /* one line for `spcore devices` */
  int32_t units;    /* multiprocessors or processors */
  int32_t copy_engines;
  uint64_t memory, free_memory; /* bytes */
} sp_device_info;

/* One operation of a stream. Returns an sp_status; `native` is the native stream or NULL. */
typedef int (*sp_op_fn)(void *arg, void *native);

typedef struct sp_device_type {
  uint32_t size, flags;
  const char *name, *doc;

  /* How many there are; 0 with a fail() that says why. [main & !running] */
  int (*count)(sp_ctx *, int *n);
  int (*describe)(sp_ctx *, int index, sp_device_info *info); /* [main & !running] */
  int (*open)(sp_ctx *, int index, void **dev);               /* [main & !running] */
  void (*close)(void *dev);                                   /* [main & !running] everything of it is closed before */

  int (*alloc)(sp_ctx *, void *dev, int kind, size_t bytes, void **ptr); /* [main & !running] */
  void (*free)(void *dev, int kind, void *ptr);                          /* [main & !running] */

  /* priority: -1 low, 0 normal, 1 high, 2 above all, which lane comm has: what waits for other ranks is not to wait for
   * what this one computes, too. `name` is copied. */
  int (*stream_open)(sp_ctx *, void *dev, const char *name, int priority, void **stream); /* [main & !running] */
  void (*stream_close)(void *stream); /* [main & !running] waits for what was submitted */
  int (*stream_submit)(sp_ctx *, void *stream, sp_op_fn fn, void *arg); /* [main] arg lives until fn ran */
  int (*stream_wait)(sp_ctx *, void *stream, void *event);              /* [main] */
  int (*stream_copy)(sp_ctx *, void *stream, void *dst, const void *src, size_t bytes); /* [main] */
  int (*stream_sync)(sp_ctx *, void *stream); /* [main] blocks; returns the stream's failure, if any */
  void *(*stream_native)(void *stream);       /* [any thread] */

  int (*event_open)(sp_ctx *, void *dev, uint32_t flags, void **event); /* [main & !running] */
  void (*event_close)(void *event);                                     /* [main & !running] */
  int (*event_record)(sp_ctx *, void *event, void *stream);             /* [main] */
  int (*event_query)(sp_ctx *, void *event, int *complete);             /* [main] */
  int (*event_sync)(sp_ctx *, void *event); /* [main] blocks; returns the failure that came along, if any */
  int (*event_elapsed)(sp_ctx *, void *from, void *to, double *ms); /* [main] both with SP_EVENT_TIMING and complete */

  /* Between begin and end the stream's operations are kept instead of run, their failures come with the launch, and
   * event_sync() of what was recorded there is refused. Waits and records are refused too, but with SP_DEVICE_FORK:
   * there a stream joins the capture when it waits for an event recorded in it, and from then on may record and wait
   * like the first. Before capture_end() of the first one it must wait for an event behind the last operation of each
   * other. Events from outside of a capture stay outside. NULL without SP_DEVICE_CAPTURE. */
  int (*capture_begin)(sp_ctx *, void *stream);             /* [main] */
  int (*capture_end)(sp_ctx *, void *stream, void **graph); /* [main] */
  int (*graph_launch)(sp_ctx *, void *graph, void *stream); /* [main] one operation of the stream */
  void (*graph_close)(void *graph);                         /* [main & !running] */

  /* Optional. Services of the device for stages that run on it, by name ("spcore.cuda/2"), or NULL. What a stage gets
   * through sp_host.get_extension. The table lives as long as the device is open. [any thread] */
  const void *(*extension)(void *dev, const char *id);

  /* Optional. *sum becomes the checksum (spcore/checksum.h) of `bytes` bytes of DEVICE memory, of any alignment, as
   * they are when the stream gets there: one operation of the stream, which may be captured. `sum` is PINNED memory,
   * aligned to 8 bytes, and is read behind an event or a sync. data may be NULL where bytes is 0. Without it a run with
   * --checksums waits behind every stage and captures nothing, and ranks compare copies of their weights. [main] */
  int (*stream_hash)(sp_ctx *, void *stream, const void *data, size_t bytes, uint64_t *sum);
} sp_device_type;

#ifdef __cplusplus
}
#endif
#endif
