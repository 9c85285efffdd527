/* SPDX-License-Identifier: MIT
 * dev.c - what the files of device_cuda.so stand on: failures, the current device, the lists of devices and streams. */
#include "dev.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list of devices and of their lists of streams */
static cuda_dev *all;

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static int fail_words(sp_ctx *ctx, cudaError_t rc, const char *fmt, va_list ap) {
  char what[256];
  vsnprintf(what, sizeof what, fmt, ap);
  (void)cudaGetLastError();
  return ctx->host->fail(ctx, rc == cudaErrorMemoryAllocation ? SP_E_NOMEM : SP_E_DEVICE, "%s: %s: %s", what,
                         cudaGetErrorName(rc), cudaGetErrorString(rc));
}

int sp_cuda_failed(sp_ctx *ctx, cudaError_t rc, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int status = fail_words(ctx, rc, fmt, ap);
  va_end(ap);
  return status;
}

int sp_cuda_broke(sp_ctx *ctx, cuda_dev *dev, cudaError_t rc, const char *fmt, ...) {
  va_list ap;
  int none = 0;
  atomic_compare_exchange_strong(&dev->broken, &none, (int)rc);
  va_start(ap, fmt);
  int status = fail_words(ctx, (cudaError_t)atomic_load(&dev->broken), fmt, ap);
  va_end(ap);
  return status;
}

int sp_cuda_no_memory(sp_ctx *ctx, const cuda_dev *dev, size_t bytes, const char *more) {
  size_t free_bytes = 0, all_bytes = 0;
  (void)cudaGetLastError();
  if (cudaMemGetInfo(&free_bytes, &all_bytes) != cudaSuccess) (void)cudaGetLastError();
  return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory on cuda:%d: %zu bytes asked for, %zu of %zu bytes are free%s",
                         dev->ext.device, bytes, free_bytes, all_bytes, more);
}

/* ---- the current device ------------------------------------------------------------------------------------------ */

/* cudaSetDevice costs more than looking. */
cudaError_t sp_cuda_make_current(int ordinal) {
  static _Thread_local int current = -1;
  if (current == ordinal) return cudaSuccess;
  cudaError_t rc = cudaSetDevice(ordinal);
  if (rc == cudaSuccess) current = ordinal;
  return rc;
}

int sp_cuda_enter(sp_ctx *ctx, cuda_dev *dev) {
  cudaError_t rc = (cudaError_t)atomic_load_explicit(&dev->broken, memory_order_relaxed);
  if (rc == cudaSuccess) rc = sp_cuda_make_current(dev->ext.device);
  return rc == cudaSuccess ? SP_OK : sp_cuda_failed(ctx, rc, "device cuda:%d", dev->ext.device);
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

void sp_cuda_devs_add(cuda_dev *dev) {
  pthread_mutex_lock(&lock);
  dev->next = all;
  all = dev;
  pthread_mutex_unlock(&lock);
}

void sp_cuda_devs_remove(cuda_dev *dev) {
  cuda_dev **at = &all;
  pthread_mutex_lock(&lock);
  while (*at != dev) at = &(*at)->next;
  *at = dev->next;
  pthread_mutex_unlock(&lock);
}

void sp_cuda_streams_add(cuda_stream *s) {
  pthread_mutex_lock(&lock);
  s->next = s->dev->streams;
  s->dev->streams = s;
  pthread_mutex_unlock(&lock);
}

void sp_cuda_streams_remove(cuda_stream *s) {
  cuda_stream **at = &s->dev->streams;
  pthread_mutex_lock(&lock);
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  pthread_mutex_unlock(&lock);
}

cuda_stream *sp_cuda_stream_of(cudaStream_t native) {
  cuda_stream *s = NULL;
  pthread_mutex_lock(&lock);
  for (cuda_dev *dev = all; dev && !s; dev = dev->next)
    for (s = dev->streams; s && s->native != native;) s = s->next;
  pthread_mutex_unlock(&lock);
  return s;
}

cuda_dev *sp_cuda_current(void) {
  int ordinal = -1;
  cudaGetDevice(&ordinal);
  pthread_mutex_lock(&lock);
  cuda_dev *dev = all;
  while (dev && dev->ext.device != ordinal) dev = dev->next;
  pthread_mutex_unlock(&lock);
  return dev;
}
