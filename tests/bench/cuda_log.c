/* SPDX-License-Identifier: MIT
 * cuda_log.c - writes down what a process does on the GPU, for gpu_table.py: the driver loads it.
 *
 *   CUDA_INJECTION64_PATH=cuda_log.so SP_CUDA_LOG=FILE SP_CUDA_LOG_WHAT=memory|kernels PROGRAM
 *
 * memory: every allocation and release, of libraries too. kernels: every kernel, copy and fill with its times, and the
 * functions through which it was called, from which the stage can be told. One line each, tabs between:
 *   clock   ns of CUPTI, ns of CLOCK_MONOTONIC
 *   memory  ns, 1 allocation or 2 release, kind, bytes
 *   kernel  begin, end, stream, correlation, name
 *   copy    begin, end, stream, correlation, kind, bytes
 *   fill    begin, end, stream, correlation, bytes
 *   call    correlation, MODULE+OFFSET ... from the inside out */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include <cupti.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 kernel;
typedef CUpti_ActivityMemcpy6 copy;
typedef CUpti_ActivityMemory4 memory;
#else
typedef CUpti_ActivityKernel9 kernel;
typedef CUpti_ActivityMemcpy5 copy;
typedef CUpti_ActivityMemory3 memory;
#endif
typedef CUpti_ActivityMemset4 fill;

enum { BUFFER = 1 << 20, FRAMES = 24 };

static FILE *out;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((visibility("default"))) int InitializeInjection(void); /* by this name the driver finds it */

static void give(uint8_t **buffer, size_t *size, size_t *max_records) {
  *size = BUFFER;
  *max_records = 0;
  *buffer = aligned_alloc(64, BUFFER);
}

static void put(const CUpti_Activity *a) {
  if (a->kind == CUPTI_ACTIVITY_KIND_MEMORY2) {
    const memory *m = (const memory *)a;
    fprintf(out, "memory\t%" PRIu64 "\t%d\t%d\t%" PRIu64 "\n", m->timestamp, (int)m->memoryOperationType,
            (int)m->memoryKind, m->bytes);
  } else if (a->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const kernel *k = (const kernel *)a;
    fprintf(out, "kernel\t%" PRIu64 "\t%" PRIu64 "\t%u\t%u\t%s\n", k->start, k->end, k->streamId, k->correlationId,
            k->name);
  } else if (a->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const copy *c = (const copy *)a;
    fprintf(out, "copy\t%" PRIu64 "\t%" PRIu64 "\t%u\t%u\t%d\t%" PRIu64 "\n", c->start, c->end, c->streamId,
            c->correlationId, c->copyKind, c->bytes);
  } else if (a->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const fill *f = (const fill *)a;
    fprintf(out, "fill\t%" PRIu64 "\t%" PRIu64 "\t%u\t%u\t%" PRIu64 "\n", f->start, f->end, f->streamId,
            f->correlationId, f->bytes);
  }
}

static void take(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  CUpti_Activity *a = NULL;
  (void)context, (void)stream, (void)size;
  pthread_mutex_lock(&lock);
  while (cuptiActivityGetNextRecord(buffer, valid, &a) == CUPTI_SUCCESS) put(a);
  pthread_mutex_unlock(&lock);
  free(buffer);
}

static void called(void *arg, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data) {
  const CUpti_CallbackData *d = data;
  void *frame[FRAMES];
  (void)arg, (void)domain, (void)id;
  if (d->callbackSite != CUPTI_API_ENTER) return;
  bool wanted =
      strstr(d->functionName, "LaunchKernel") || strstr(d->functionName, "Memcpy") || strstr(d->functionName, "Memset");
  if (!wanted) return;
  int n = backtrace(frame, FRAMES);
  pthread_mutex_lock(&lock);
  fprintf(out, "call\t%u", d->correlationId);
  for (int i = 1; i < n; i++) {
    Dl_info module;
    if (!dladdr(frame[i], &module) || !module.dli_fname) continue;
    fprintf(out, "\t%s+%tx", module.dli_fname, (char *)frame[i] - (char *)module.dli_fbase);
  }
  fputc('\n', out);
  pthread_mutex_unlock(&lock);
}

static void finish(void) {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  pthread_mutex_lock(&lock);
  fflush(out);
  pthread_mutex_unlock(&lock);
}

static CUptiResult watch_kernels(void) {
  static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                             CUPTI_ACTIVITY_KIND_MEMSET};
  CUpti_SubscriberHandle me;
  void *frame[2];
  CUptiResult st = cuptiSubscribe(&me, called, NULL);
  backtrace(frame, 2); /* the first call loads a library */
  if (!st) st = cuptiEnableDomain(1, me, CUPTI_CB_DOMAIN_RUNTIME_API);
  if (!st) st = cuptiEnableDomain(1, me, CUPTI_CB_DOMAIN_DRIVER_API);
  for (size_t i = 0; !st && i < sizeof kinds / sizeof *kinds; i++) st = cuptiActivityEnable(kinds[i]);
  return st;
}

int InitializeInjection(void) {
  const char *path = getenv("SP_CUDA_LOG"), *what = getenv("SP_CUDA_LOG_WHAT"), *words = "";
  struct timespec now;
  uint64_t ns = 0;
  if (!path || out || !(out = fopen(path, "w"))) return 1;
  CUptiResult st = cuptiActivityRegisterCallbacks(give, take);
  if (!st && what && !strcmp(what, "memory")) st = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2);
  else if (!st) st = watch_kernels();
  if (!st) st = cuptiGetTimestamp(&ns);
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (st) {
    cuptiGetResultString(st, &words);
    fprintf(out, "failed\t%s\n", words);
    fflush(out);
    return 1;
  }
  fprintf(out, "clock\t%" PRIu64 "\t%" PRIu64 "\n", ns, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
  atexit(finish);
  return 1;
}
