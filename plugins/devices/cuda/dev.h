/* SPDX-License-Identifier: MIT
 * dev.h - what the files of the module device_cuda.so share. It is a plugin: nothing of the host is linked. */
#ifndef DEVICE_CUDA_DEV_H
#define DEVICE_CUDA_DEV_H

#include <spcore/device.h>
#include <spcore/ext/choices.h>
#include <spcore/ext/counters.h>
#include <spcore/ext/cuda.h>
#include <spcore/ext/ranges.h>
#include <spcore/ext/times.h>

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdbool.h>

struct cuda_tuned; /* tuned.c */

typedef struct cuda_dev {
  sp_cuda ext;
  struct cuda_dev *next; /* of all open ones */
  char gpu[96];
  atomic_int broken;    /* cudaError_t of a failure that ended the context: every later call gives it */
  atomic_int capturing; /* captures that have begun and not ended */
  struct cuda_stream *streams;
  int most, least;          /* range of stream priorities */
  void *nvml;               /* counters.c; NULL: not asked for */
  struct cuda_tuned *tuned; /* the process', not the device's; NULL until the first question */
} cuda_dev;

typedef struct cuda_stream {
  cuda_dev *dev;
  struct cuda_stream *next;
  char *name;
  cudaStream_t native;
  int status; /* not 0: failed, whatever comes is dropped */
  /* A capture that spans streams is known by the stream that began it, its root. */
  struct cuda_stream *root; /* NULL: not capturing */
  uint64_t capture;         /* of a root: its id */
  int capture_status;       /* of a root: the first failure while capturing */
  /* lib.c; made at first demand */
  void *cublas, *cublaslt, *cudnn, *workspace;
} cuda_stream;

typedef struct cuda_event {
  cuda_dev *dev;
  cudaEvent_t native;
  uint32_t flags;
  _Atomic uint64_t capture; /* not 0: recorded last in the capture of that id */
  atomic_bool there;        /* recorded */
  atomic_int status;        /* not 0: recorded on a stream that had failed with it */
} cuda_event;

typedef struct cuda_graph {
  cuda_dev *dev;
  cudaGraphExec_t exec; /* NULL: a failure alone */
  int status;           /* what its launch makes of the stream */
} cuda_graph;

/* Makes the device current on the calling thread, and the only way to: what is current is remembered there. enter()
 * fails if the context has ended. */
cudaError_t sp_cuda_make_current(int ordinal);
int sp_cuda_enter(sp_ctx *ctx, cuda_dev *dev);

/* Fails with SP_E_DEVICE, or SP_E_NOMEM, and the words of CUDA behind `fmt`. Leaves no error behind in the runtime. */
int sp_cuda_failed(sp_ctx *ctx, cudaError_t rc, const char *fmt, ...) SP_PRINTF(3, 4);

/* Fails with how much is free there; `more` follows. */
int sp_cuda_no_memory(sp_ctx *ctx, const cuda_dev *dev, size_t bytes, const char *more);

/* Of what only a failure on the device can give: as sp_cuda_failed(), and marks the device as broken. */
int sp_cuda_broke(sp_ctx *ctx, cuda_dev *dev, cudaError_t rc, const char *fmt, ...) SP_PRINTF(4, 5);

/* The list of open devices. */
void sp_cuda_devs_add(cuda_dev *dev);
void sp_cuda_devs_remove(cuda_dev *dev);

/* The device's list of streams; the open stream of that handle, or NULL; the open device that is current, or NULL. */
void sp_cuda_streams_add(cuda_stream *s);
void sp_cuda_streams_remove(cuda_stream *s);
cuda_stream *sp_cuda_stream_of(cudaStream_t native);
cuda_dev *sp_cuda_current(void);

/* stream.c */
int sp_cuda_stream_open(sp_ctx *ctx, void *dev, const char *name, int priority, void **out);
void sp_cuda_stream_close(void *stream);
int sp_cuda_stream_submit(sp_ctx *ctx, void *stream, sp_op_fn fn, void *arg);
int sp_cuda_stream_wait(sp_ctx *ctx, void *stream, void *event);
int sp_cuda_stream_copy(sp_ctx *ctx, void *stream, void *dst, const void *src, size_t bytes);
int sp_cuda_stream_hash(sp_ctx *ctx, void *stream, const void *data, size_t bytes, uint64_t *sum);
int sp_cuda_stream_sync(sp_ctx *ctx, void *stream);
void *sp_cuda_stream_native(void *stream);
int sp_cuda_event_open(sp_ctx *ctx, void *dev, uint32_t flags, void **out);
void sp_cuda_event_close(void *event);
int sp_cuda_event_record(sp_ctx *ctx, void *event, void *stream);
int sp_cuda_event_query(sp_ctx *ctx, void *event, int *complete);
int sp_cuda_event_sync(sp_ctx *ctx, void *event);
int sp_cuda_event_elapsed(sp_ctx *ctx, void *from, void *to, double *ms);

/* capture.c */
cuda_stream *
sp_cuda_capture_of(const cuda_event *e);   /* the root of the capture in which it was recorded last, or NULL */
void sp_cuda_capture_drop(cuda_stream *s); /* ends a capture that nobody wants any more */
int sp_cuda_in_capture(sp_ctx *ctx, const cuda_stream *s, const char *what); /* refuses it */
int sp_cuda_capture_begin(sp_ctx *ctx, void *stream);
int sp_cuda_capture_end(sp_ctx *ctx, void *stream, void **graph);
int sp_cuda_graph_launch(sp_ctx *ctx, void *graph, void *stream);
void sp_cuda_graph_close(void *graph);

/* lib.c: the libraries are opened when they are first needed. */
const char *sp_cuda_library_versions(void); /* "cuBLAS 13.0.2, cuDNN 9.19.0" */
void sp_cuda_handles_free(cuda_stream *s);
int sp_cuda_cublas(sp_ctx *ctx, void **handle);
int sp_cuda_cublaslt(sp_ctx *ctx, void **handle);
int sp_cuda_cudnn(sp_ctx *ctx, void **handle);
int sp_cuda_workspace(sp_ctx *ctx, void **ptr);

/* counters.c */
extern const sp_counters sp_cuda_counters;
void sp_cuda_counters_close(cuda_dev *dev);

/* ranges.c */
const sp_ranges *sp_cuda_ranges(void); /* NULL: nobody listens */
void sp_cuda_name_stream(cudaStream_t native, const char *name);

/* times.c */
extern const sp_times sp_cuda_times;

/* tuned.c */
int sp_cuda_get_tuned(sp_ctx *ctx, const char *key, char *value, size_t bytes);
int sp_cuda_set_tuned(sp_ctx *ctx, const char *key, const char *refused, char *value, size_t bytes);
extern const sp_choices sp_cuda_choices;

#endif
