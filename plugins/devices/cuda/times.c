/* SPDX-License-Identifier: MIT
 * times.c - "spcore.times/1": when kernels and copies of CUDA graphs ran, from CUPTI, which is opened when a trace
 * asks.
 *
 * A node of a graph belongs to the call that was recorded when it was created; CUPTI says so as it happens, and
 * again of the copy that is made of it when the graph is instantiated. A launch is known by the number that CUPTI
 * gives to the call of cudaGraphLaunch. Records have both, and come in buffers some time later, on a thread of
 * CUPTI's. There is one of all this in a process. */
#include "dev.h"

#ifdef DEVICE_CUDA_CUPTI
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

#if CUPTI_API_VERSION >= 130000
#define MAJOR 13
typedef CUpti_ActivityKernel10 kernel_record;
typedef CUpti_ActivityMemcpy6 copy_record;
#else
#define MAJOR 12
typedef CUpti_ActivityKernel9 kernel_record;
typedef CUpti_ActivityMemcpy5 copy_record;
#endif
typedef CUpti_ActivityMemset4 fill_record;

#ifndef DEVICE_CUDA_CUPTI_FILE
#define DEVICE_CUDA_CUPTI_FILE "libcupti.so." TEXT(MAJOR)
#endif

enum { BUFFER = 1 << 20, KINDS = 3 };

static const CUpti_ActivityKind kinds[KINDS] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                                CUPTI_ACTIVITY_KIND_MEMSET};

/* ---- the library ------------------------------------------------------------------------------------------------- */

#define FUNCTIONS(X)                        \
  X(cuptiSubscribe)                         \
  X(cuptiUnsubscribe)                       \
  X(cuptiEnableCallback)                    \
  X(cuptiGetGraphNodeId)                    \
  X(cuptiGetResultString)                   \
  X(cuptiActivityRegisterCallbacks)         \
  X(cuptiActivityRegisterTimestampCallback) \
  X(cuptiActivityEnable)                    \
  X(cuptiActivityDisable)                   \
  X(cuptiActivityFlushAll)                  \
  X(cuptiActivityGetNextRecord)

#define MEMBER(name) __typeof__(name) *name;
static struct {
  void *handle;
  FUNCTIONS(MEMBER)
} lib;

static bool get(void *to, const char *name) {
  void *symbol = dlsym(lib.handle, name);
  memcpy(to, &symbol, sizeof symbol);
  return symbol;
}

static int open_library(sp_ctx *ctx) {
  if (lib.handle) return SP_OK;
  lib.handle = dlopen(DEVICE_CUDA_CUPTI_FILE, RTLD_NOW | RTLD_LOCAL);
  if (!lib.handle) return ctx->host->fail(ctx, SP_E_NOTFOUND, "%s", dlerror());
#define GET(name) &&get(&lib.name, #name)
  if (true FUNCTIONS(GET)) return SP_OK;
  dlclose(lib.handle);
  lib.handle = NULL;
  return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "%s lacks functions of CUPTI %d", DEVICE_CUDA_CUPTI_FILE, MAJOR);
}

/* ---- numbers by numbers ------------------------------------------------------------------------------------------ */

/* Keys and values are not 0. Where there is no memory nothing is put: its spans are nobody's then. */
typedef struct table {
  uint64_t (*slot)[2];
  size_t n, cap; /* a power of two */
} table;

static size_t place(const table *t, uint64_t key) {
  size_t i = (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (t->cap - 1);
  while (t->slot[i][0] && t->slot[i][0] != key) i = (i + 1) & (t->cap - 1);
  return i;
}

static bool widen(table *t) {
  table wide = {.cap = t->cap ? 2 * t->cap : 1024};
  if (!(wide.slot = calloc(wide.cap, sizeof *wide.slot))) return false;
  for (size_t i = 0; i < t->cap; i++)
    if (t->slot[i][0]) memcpy(wide.slot[place(&wide, t->slot[i][0])], t->slot[i], sizeof *t->slot);
  wide.n = t->n;
  free(t->slot);
  *t = wide;
  return true;
}

static void table_put(table *t, uint64_t key, uint64_t value) {
  if (!key || !value || (2 * t->n >= t->cap && !widen(t))) return;
  uint64_t *slot = t->slot[place(t, key)];
  t->n += !slot[0];
  slot[0] = key;
  slot[1] = value;
}

static uint64_t table_get(const table *t, uint64_t key) { return t->cap && key ? t->slot[place(t, key)][1] : 0; }

static void table_free(table *t) {
  free(t->slot);
  *t = (table){0};
}

/* ---- what is kept ------------------------------------------------------------------------------------------------ */

typedef struct span {
  uint64_t launch, call, begin, end; /* nanoseconds */
  const char *what;                  /* a kernel's name as the compiler has it */
} span;

static struct {
  pthread_mutex_t lock; /* of all behind it */
  cuda_dev *dev;        /* who holds it; NULL: nobody */
  bool on;              /* records are asked for */
  CUpti_SubscriberHandle me;
  _Atomic uint64_t call, launch; /* now */
  table nodes, launches;         /* node: call; CUPTI's number: launch */
  span *spans;                   /* [most] */
  size_t n, most;
  uint64_t lost;
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The lock is held for one record at a time, since whoever launches wants it too. */
static void keep(uint64_t node, uint32_t number, uint64_t begin, uint64_t end, const char *what) {
  if (!begin || end < begin) return; /* it has not ended, or CUPTI ran out of room */
  pthread_mutex_lock(&held.lock);
  span s = {table_get(&held.launches, number), table_get(&held.nodes, node), begin, end, what};
  if (s.launch && s.call && held.n < held.most) held.spans[held.n++] = s;
  else if (s.launch && s.call) held.lost++;
  pthread_mutex_unlock(&held.lock);
}

static const char *direction(uint8_t kind) {
  return kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "copy to the device"
         : kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy from the device"
                                                   : "copy";
}

static void take_record(const CUpti_Activity *a) {
  if (a->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const kernel_record *k = (const kernel_record *)a;
    keep(k->graphNodeId, k->correlationId, k->start, k->end, k->name);
  } else if (a->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const copy_record *c = (const copy_record *)a;
    keep(c->graphNodeId, c->correlationId, c->start, c->end, direction(c->copyKind));
  } else if (a->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const fill_record *f = (const fill_record *)a;
    keep(f->graphNodeId, f->correlationId, f->start, f->end, "fill");
  }
}

/* ---- what CUPTI calls -------------------------------------------------------------------------------------------- */

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most) {
  *buffer = aligned_alloc(64, BUFFER);
  *size = *buffer ? BUFFER : 0;
  *most = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  CUpti_Activity *a = NULL;
  (void)context, (void)stream, (void)size;
  while (valid && lib.cuptiActivityGetNextRecord(buffer, valid, &a) == CUPTI_SUCCESS) take_record(a);
  free(buffer);
}

static uint64_t id_of(CUgraphNode node) {
  uint64_t id = 0;
  return node && lib.cuptiGetGraphNodeId(node, &id) == CUPTI_SUCCESS ? id : 0;
}

static void note_node(CUpti_CallbackId id, const CUpti_ResourceData *data) {
  const CUpti_GraphData *g = data->resourceDescriptor;
  bool copied = id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED;
  uint64_t node = id_of(g->node), of = copied ? id_of(g->originalNode) : 0;
  pthread_mutex_lock(&held.lock);
  table_put(&held.nodes, node, copied ? table_get(&held.nodes, of) : held.call);
  pthread_mutex_unlock(&held.lock);
}

static void CUPTIAPI called(void *arg, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data) {
  const CUpti_CallbackData *d = data;
  (void)arg;
  if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
    note_node(id, data);
    return;
  }
  if (d->callbackSite != CUPTI_API_ENTER) return;
  pthread_mutex_lock(&held.lock);
  table_put(&held.launches, d->correlationId, held.launch);
  pthread_mutex_unlock(&held.lock);
}

/* ---- the extension ----------------------------------------------------------------------------------------------- */

static int refused(sp_ctx *ctx, CUptiResult rc, const char *what) {
  const char *words = "it gives no reason";
  if (rc == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    return ctx->host->fail(ctx, SP_E_STATE, "another profiler has CUPTI");
  lib.cuptiGetResultString(rc, &words);
  return ctx->host->fail(ctx, SP_E_DEVICE, "CUPTI, %s: %s", what, words);
}

static void times_close(void *dev) {
  if (held.dev != dev) return;
  for (size_t i = 0; held.on && i < KINDS; i++) lib.cuptiActivityDisable(kinds[i]);
  if (held.on) lib.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); /* their buffers come back */
  lib.cuptiUnsubscribe(held.me);
  pthread_mutex_lock(&held.lock);
  held.dev = NULL;
  held.on = false;
  held.call = held.launch = held.lost = held.n = 0;
  free(held.spans);
  held.spans = NULL;
  table_free(&held.nodes);
  table_free(&held.launches);
  pthread_mutex_unlock(&held.lock);
}

static CUptiResult enable_callbacks(void) {
  static const struct {
    CUpti_CallbackDomain domain;
    CUpti_CallbackId id;
  } wanted[] = {{CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED},
                {CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED},
                {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000},
                {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch}};
  CUptiResult rc = CUPTI_SUCCESS;
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !rc; i++)
    rc = lib.cuptiEnableCallback(1, held.me, wanted[i].domain, wanted[i].id);
  return rc;
}

static int times_open(sp_ctx *ctx, void *dev) {
  int status = open_library(ctx);
  if (status || held.dev == dev) return status;
  if (held.dev) return ctx->host->fail(ctx, SP_E_STATE, "another graph's trace has CUPTI");
  CUptiResult rc = lib.cuptiSubscribe(&held.me, called, NULL);
  if (rc) return refused(ctx, rc, "subscribing");
  held.dev = dev;
  if ((rc = enable_callbacks())) {
    times_close(dev);
    return refused(ctx, rc, "callbacks");
  }
  return SP_OK;
}

static CUptiResult enable_records(void) {
  CUptiResult rc = lib.cuptiActivityRegisterTimestampCallback(now);
  if (!rc) rc = lib.cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (size_t i = 0; i < KINDS && !rc; i++) rc = lib.cuptiActivityEnable(kinds[i]);
  return rc;
}

static int times_begin(sp_ctx *ctx, void *dev, size_t most) {
  if (held.dev != dev) return ctx->host->fail(ctx, SP_E_STATE, "times_begin without times_open");
  if (held.on) return SP_OK;
  if (!(held.spans = calloc(most, sizeof *held.spans)))
    return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for %zu spans", most);
  held.most = most;
  held.on = true;
  CUptiResult rc = enable_records();
  if (!rc) return SP_OK;
  times_close(dev);
  return refused(ctx, rc, "records");
}

static void times_call(void *dev, uint64_t call) {
  if (held.dev == dev) held.call = call;
}

static void times_launch(void *dev, uint64_t launch) {
  if (held.dev == dev) held.launch = launch;
}

/* Of a mangled name the innermost part: "_ZN5conv_4rowsILi8EEEvPKf" is "rows". */
static void short_name(const char *name, char *out, size_t size) {
  const char *at = strncmp(name, "_Z", 2) ? NULL : name + 2 + strspn(name + 2, "NKL"), *part = name;
  size_t n = strlen(name);
  while (at && *at >= '1' && *at <= '9') {
    char *end;
    size_t length = strtoul(at, &end, 10);
    if (length > strlen(end)) break;
    if (strncmp(end, "_GLOBAL__N_", 11)) part = end, n = length;
    at = end + length;
    at += strspn(at, "L");
  }
  if (n >= size) n = size - 1;
  memcpy(out, part, n);
  out[n] = 0;
}

static int times_read(sp_ctx *ctx, void *dev, sp_times_fn fn, void *arg, uint64_t *lost) {
  char what[160];
  *lost = 0;
  if (held.dev != dev || !held.on) return SP_OK;
  CUptiResult rc = lib.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (rc) return refused(ctx, rc, "flushing");
  pthread_mutex_lock(&held.lock);
  for (size_t i = 0; i < held.n; i++) {
    const span *s = &held.spans[i];
    short_name(s->what ? s->what : "kernel", what, sizeof what);
    fn(arg, &(sp_times_span){s->launch, s->call, (double)s->begin * 1e-9, (double)s->end * 1e-9, what});
  }
  *lost = held.lost;
  held.n = held.lost = 0;
  pthread_mutex_unlock(&held.lock);
  return SP_OK;
}

const sp_times sp_cuda_times = {.size = sizeof sp_cuda_times,
                                .open = times_open,
                                .begin = times_begin,
                                .call = times_call,
                                .launch = times_launch,
                                .read = times_read,
                                .close = times_close};

#else

static int times_open(sp_ctx *ctx, void *dev) {
  (void)dev;
  return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "the plugin was built without CUPTI");
}

static void times_close(void *dev) { (void)dev; }

const sp_times sp_cuda_times = {.size = sizeof sp_cuda_times, .open = times_open, .close = times_close};

#endif
