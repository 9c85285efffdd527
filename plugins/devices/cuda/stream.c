/* SPDX-License-Identifier: MIT
 * stream.c - CUDA streams and events, with the rules of failures that spcore/device.h states.
 *
 * An operation runs as it is submitted and only enqueues: so its failure is known at once, on the host, and what comes
 * behind it is never submitted. A failure on the device itself ends the context; whoever synchronizes next meets it. */
#include "dev.h"

#include "give.h"
#include "hash.h"

#include <stdlib.h>
#include <string.h>

#define GIVEN 16384 /* bytes that a kernel copies from the device */

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* The most urgent is the lowest number. A GPU may have one, two or six of them. */
static int of_cuda(const cuda_dev *dev, int priority) {
  int most = dev->least - dev->most, up = priority == 0 ? most / 3 : priority == 1 ? most - (most > 1) : most;
  return priority < 0 ? dev->least : dev->least - up;
}

int sp_cuda_stream_open(sp_ctx *ctx, void *d, const char *name, int priority, void **out) {
  cuda_dev *dev = d;
  int status = sp_cuda_enter(ctx, dev);
  if (status) return status;
  cuda_stream *s = calloc(1, sizeof *s);
  if (s) s->name = strdup(name);
  if (!s || !s->name) {
    free(s);
    return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for stream '%s'", name);
  }
  s->dev = dev;
  cudaError_t rc = cudaStreamCreateWithPriority(&s->native, cudaStreamNonBlocking, of_cuda(dev, priority));
  if (rc != cudaSuccess) {
    free(s->name);
    free(s);
    return sp_cuda_failed(ctx, rc, "stream '%s'", name);
  }
  sp_cuda_name_stream(s->native, name);
  sp_cuda_streams_add(s);
  *out = s;
  return SP_OK;
}

/* Where the context has ended, waiting and destroying fail at once; nothing can be done about it. */
void sp_cuda_stream_close(void *stream) {
  cuda_stream *s = stream;
  sp_cuda_make_current(s->dev->ext.device);
  sp_cuda_capture_drop(s);
  cudaStreamSynchronize(s->native);
  sp_cuda_handles_free(s);
  cudaStreamDestroy(s->native);
  (void)cudaGetLastError();
  sp_cuda_streams_remove(s);
  free(s->name);
  free(s);
}

void *sp_cuda_stream_native(void *stream) { return ((cuda_stream *)stream)->native; }

/* Where the stream keeps its failure: that of a capture comes with the launch. */
static int *status_of(cuda_stream *s) { return s->root ? &s->root->capture_status : &s->status; }

static int call_failed(sp_ctx *ctx, cuda_stream *s, cudaError_t rc, const char *what) {
  int status = sp_cuda_failed(ctx, rc, "%s on stream '%s'", what, s->name);
  *status_of(s) = status;
  return status;
}

int sp_cuda_stream_submit(sp_ctx *ctx, void *stream, sp_op_fn fn, void *arg) {
  cuda_stream *s = stream;
  int *failed = status_of(s), status = sp_cuda_enter(ctx, s->dev);
  if (status || *failed) return status;
  *failed = fn(arg, s->native);
  cudaError_t rc = cudaPeekAtLastError();
  if (rc == cudaSuccess) return SP_OK;
  if (!*failed) return call_failed(ctx, s, rc, "an operation left an error of CUDA behind");
  (void)cudaGetLastError();
  return SP_OK;
}

static bool is_of(const void *p, enum cudaMemoryType type) {
  struct cudaPointerAttributes a;
  return cudaPointerGetAttributes(&a, p) == cudaSuccess && a.type == type;
}

/* On an H100 a copy of 64 bytes from the device takes 12.3 us between two kernels, 1.3 us as a kernel; the other way
 * there is nothing to gain. */
static bool is_given(const void *dst, const void *src, size_t bytes) {
  return bytes <= GIVEN && is_of(dst, cudaMemoryTypeHost) && is_of(src, cudaMemoryTypeDevice);
}

int sp_cuda_stream_copy(sp_ctx *ctx, void *stream, void *dst, const void *src, size_t bytes) {
  cuda_stream *s = stream;
  int status = sp_cuda_enter(ctx, s->dev);
  if (status || !bytes || *status_of(s)) return status;
  cudaError_t rc = is_given(dst, src, bytes) ? (cudaError_t)sp_cuda_give(s->native, dst, src, bytes)
                                             : cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, s->native);
  return rc == cudaSuccess ? SP_OK : call_failed(ctx, s, rc, "a copy");
}

int sp_cuda_stream_hash(sp_ctx *ctx, void *stream, const void *data, size_t bytes, uint64_t *sum) {
  cuda_stream *s = stream;
  int status = sp_cuda_enter(ctx, s->dev);
  if (status || *status_of(s)) return status;
  cudaError_t rc = (cudaError_t)sp_cuda_hash(s->native, data, bytes, sum);
  return rc == cudaSuccess ? SP_OK : call_failed(ctx, s, rc, "a checksum");
}

/* A thread that captures may neither ask nor wait, also not for what has no part in the capture, unless it says that it
 * knows. `mode` holds the mode to go back to. */
static bool relax(cuda_dev *dev, enum cudaStreamCaptureMode *mode) {
  if (!atomic_load_explicit(&dev->capturing, memory_order_relaxed)) return false;
  *mode = cudaStreamCaptureModeRelaxed;
  return cudaThreadExchangeStreamCaptureMode(mode) == cudaSuccess;
}

int sp_cuda_stream_sync(sp_ctx *ctx, void *stream) {
  cuda_stream *s = stream;
  if (s->root) return sp_cuda_in_capture(ctx, s, "stream_sync");
  int status = sp_cuda_enter(ctx, s->dev);
  if (status) return status;
  enum cudaStreamCaptureMode mode;
  bool relaxed = relax(s->dev, &mode);
  cudaError_t rc = cudaStreamSynchronize(s->native);
  if (relaxed) cudaThreadExchangeStreamCaptureMode(&mode);
  if (rc != cudaSuccess) return sp_cuda_broke(ctx, s->dev, rc, "stream '%s'", s->name);
  if (s->status) return ctx->host->fail(ctx, s->status, "an operation of stream '%s' failed", s->name);
  return SP_OK;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

int sp_cuda_event_open(sp_ctx *ctx, void *d, uint32_t flags, void **out) {
  cuda_dev *dev = d;
  int status = sp_cuda_enter(ctx, dev);
  if (status) return status;
  cuda_event *e = calloc(1, sizeof *e);
  if (!e) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for an event");
  e->dev = dev;
  e->flags = flags;
  cudaError_t rc =
      cudaEventCreateWithFlags(&e->native, flags & SP_EVENT_TIMING ? cudaEventDefault : cudaEventDisableTiming);
  if (rc != cudaSuccess) {
    free(e);
    return sp_cuda_failed(ctx, rc, "an event");
  }
  *out = e;
  return SP_OK;
}

void sp_cuda_event_close(void *event) {
  cuda_event *e = event;
  cudaEventDestroy(e->native);
  (void)cudaGetLastError();
  free(e);
}

static int captured_event(sp_ctx *ctx, const char *what) {
  return ctx->host->fail(ctx, SP_E_STATE, "%s of an event that was recorded last inside of a capture", what);
}

int sp_cuda_stream_wait(sp_ctx *ctx, void *stream, void *event) {
  cuda_stream *s = stream;
  cuda_event *e = event;
  cuda_stream *root = sp_cuda_capture_of(e);
  int status = sp_cuda_enter(ctx, s->dev);
  if (status) return status;
  if (e->capture && !root) return captured_event(ctx, "stream_wait");
  if (s->root && s->root != root) return sp_cuda_in_capture(ctx, s, "stream_wait for an event from outside");
  if (!root) {
    if (s->status || !atomic_load(&e->there)) return SP_OK;
    s->status = atomic_load(&e->status);
    if (s->status) return SP_OK;
  }
  cudaError_t rc = cudaStreamWaitEvent(s->native, e->native, 0);
  if (rc != cudaSuccess) return call_failed(ctx, s, rc, "stream_wait");
  s->root = root;
  return SP_OK;
}

int sp_cuda_event_record(sp_ctx *ctx, void *event, void *stream) {
  cuda_event *e = event;
  cuda_stream *s = stream;
  int status = sp_cuda_enter(ctx, s->dev);
  if (status) return status;
  if (s->root || !s->status) {
    cudaError_t rc = cudaEventRecord(e->native, s->native);
    if (rc != cudaSuccess) return call_failed(ctx, s, rc, "event_record");
  }
  e->capture = s->root ? s->root->capture : 0;
  atomic_store(&e->status, s->root ? SP_OK : s->status);
  atomic_store(&e->there, true);
  return SP_OK;
}

int sp_cuda_event_query(sp_ctx *ctx, void *event, int *complete) {
  cuda_event *e = event;
  int status = sp_cuda_enter(ctx, e->dev);
  if (status) return status;
  if (e->capture) return captured_event(ctx, "event_query");
  *complete = 1;
  if (!atomic_load(&e->there) || atomic_load(&e->status)) return SP_OK;
  enum cudaStreamCaptureMode mode;
  bool relaxed = relax(e->dev, &mode);
  cudaError_t rc = cudaEventQuery(e->native);
  if (relaxed) cudaThreadExchangeStreamCaptureMode(&mode);
  if (rc == cudaSuccess) return SP_OK;
  if (rc != cudaErrorNotReady) return sp_cuda_broke(ctx, e->dev, rc, "event_query");
  (void)cudaGetLastError(); /* or the next operation is taken to have left it behind */
  *complete = 0;
  return SP_OK;
}

/* Any thread: a lane of the processor waits for a copy here. */
int sp_cuda_event_sync(sp_ctx *ctx, void *event) {
  cuda_event *e = event;
  int status = sp_cuda_enter(ctx, e->dev);
  if (status) return status;
  if (e->capture) return captured_event(ctx, "event_sync");
  if (!atomic_load(&e->there)) return SP_OK;
  status = atomic_load(&e->status);
  if (status) return ctx->host->fail(ctx, status, "an operation before the event failed");
  enum cudaStreamCaptureMode mode;
  bool relaxed = relax(e->dev, &mode);
  cudaError_t rc = cudaEventSynchronize(e->native);
  if (relaxed) cudaThreadExchangeStreamCaptureMode(&mode);
  return rc == cudaSuccess ? SP_OK : sp_cuda_broke(ctx, e->dev, rc, "event_sync");
}

int sp_cuda_event_elapsed(sp_ctx *ctx, void *from, void *to, double *ms) {
  cuda_event *e[2] = {from, to};
  float took = 0;
  for (int i = 0; i < 2; i++) {
    int complete = 0;
    if (!(e[i]->flags & SP_EVENT_TIMING))
      return ctx->host->fail(ctx, SP_E_STATE, "event_elapsed of an event opened without SP_EVENT_TIMING");
    int status = sp_cuda_event_query(ctx, e[i], &complete);
    if (status) return status;
    if (!complete || !atomic_load(&e[i]->there) || atomic_load(&e[i]->status))
      return ctx->host->fail(ctx, SP_E_STATE, "event_elapsed of an event that is not complete");
  }
  cudaError_t rc = cudaEventElapsedTime(&took, e[0]->native, e[1]->native);
  if (rc != cudaSuccess) return sp_cuda_failed(ctx, rc, "event_elapsed");
  *ms = took;
  return SP_OK;
}
