/* SPDX-License-Identifier: MIT
 * tune.c - measures how long something takes on a lane's stream, and writes choices as text. */
#include "../cuda_net.h"

#include <cuda_runtime_api.h>
#include <string.h>

enum { RUNS = 10, ROUNDS = 3 };
#define LONG 1.0 /* milliseconds from which one run is measured, submitting included */

/* RUNS calls of fn as one graph, so that the time is the device's and not that of submitting. */
static cudaGraphExec_t recorded(cudaStream_t stream, int (*fn)(void *arg), void *arg) {
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  int bad = 0;
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)) return NULL;
  for (int i = 0; i < RUNS && !bad; i++) bad = fn(arg);
  if (cudaStreamEndCapture(stream, &graph)) return NULL;
  if (!bad && cudaGraphInstantiate(&exec, graph, 0)) exec = NULL;
  cudaGraphDestroy(graph);
  return exec;
}

static int timed(cudaStream_t stream, cudaEvent_t *events, int (*fn)(void *arg), void *arg, float *ms) {
  return cudaEventRecord(events[0], stream) || fn(arg) || cudaEventRecord(events[1], stream) ||
         cudaEventSynchronize(events[1]) || cudaEventElapsedTime(ms, events[0], events[1]);
}

static int launch(void *arg) { return cudaGraphLaunch(((void **)arg)[0], ((void **)arg)[1]); }

double nnc_measure(const nnc_call *c, int (*fn)(void *arg), void *arg) {
  cudaStream_t stream = c->stream;
  cudaEvent_t events[2] = {NULL, NULL};
  cudaGraphExec_t exec = NULL;
  double best = -1;
  float ms = 0;
  int bad =
      cudaEventCreate(&events[0]) || cudaEventCreate(&events[1]) || fn(arg) || timed(stream, events, fn, arg, &ms);
  if (!bad && ms < LONG) {
    void *graph[2] = {exec = recorded(stream, fn, arg), stream};
    bad = !exec || launch(graph);
    for (int i = 0; i < ROUNDS && !bad; i++) {
      bad = timed(stream, events, launch, graph, &ms);
      if (!bad && (best < 0 || ms < best)) best = ms;
    }
    best /= RUNS;
  } else best = ms;
  if (exec) cudaGraphExecDestroy(exec);
  for (int i = 0; i < 2; i++)
    if (events[i]) cudaEventDestroy(events[i]);
  if (bad) (void)cudaGetLastError(); /* a candidate that was refused is none of the caller's errors */
  return bad ? -1 : best;
}

typedef struct cold {
  const nnc_call *c;
  int (*fn)(void *arg); /* NULL: only what drives all out of the cache */
  void *arg;
  size_t bytes;
} cold;

static int run_cold(void *arg) {
  const cold *p = arg;
  int bad = cudaMemsetAsync(p->c->workspace, 0, p->bytes, p->c->stream) != cudaSuccess;
  return bad || !p->fn ? bad : p->fn(p->arg);
}

double nnc_measure_cold(const nnc_call *c, int (*fn)(void *arg), void *arg) {
  const sp_cuda *ext = c->cuda->ext;
  size_t all = ext->l2_bytes + ext->l2_bytes / 4;
  cold p = {.c = c, .arg = arg, .bytes = all < ext->workspace_bytes ? all : ext->workspace_bytes};
  double alone = nnc_measure(c, run_cold, &p), both;
  p.fn = fn;
  both = nnc_measure(c, run_cold, &p);
  if (alone < 0 || both < 0) return -1;
  return both > alone ? both - alone : nnc_measure(c, fn, arg); /* less than measurements differ by */
}

int nnc_tuned(const nnc_call *c, const char *key, int (*take)(void *arg, const char *text),
              int (*measure)(void *arg, const char *key, char *text, size_t bytes), void *arg) {
  const sp_cuda *ext = c->cuda->ext;
  sp_ctx *ctx = c->w.ctx;
  char text[SP_CUDA_VALUE_MAX], refused[SP_CUDA_VALUE_MAX];
  int st = ext->tuned(ctx, key, refused, sizeof refused), kept = st == SP_OK;
  if (st && st != SP_E_NOTFOUND) return st;
  if (kept && take(arg, refused)) return SP_OK;
  st = measure(arg, key, text, sizeof text);
  if (!st) st = ext->set_tuned(ctx, key, kept ? refused : NULL, text, sizeof text);
  if (st || take(arg, text)) return st;
  return ctx->host->fail(ctx, SP_E_DEVICE, "the library takes back its choice for %s", key);
}

int nnc_no_choice(const nnc_call *c, const char *words, const char *key) {
  cudaError_t rc = cudaStreamQuery(c->stream);
  if (rc == cudaSuccess || rc == cudaErrorNotReady)
    return c->w.ctx->host->fail(c->w.ctx, SP_E_UNSUPPORTED, "%s %s", words, key);
  return c->w.ctx->host->fail(c->w.ctx, SP_E_DEVICE, "%s: %s", key, cudaGetErrorString(rc));
}

void nnc_hex(char *text, const void *bytes, size_t n) {
  const unsigned char *b = bytes;
  for (size_t i = 0; i < 2 * n; i++) text[i] = "0123456789abcdef"[(b[i / 2] >> (i % 2 ? 0 : 4)) & 15];
  text[2 * n] = 0;
}

int nnc_unhex(void *bytes, const char *text, size_t n) {
  static const char digits[] = "0123456789abcdef";
  unsigned char *b = bytes;
  if (strlen(text) != 2 * n || strspn(text, digits) != 2 * n) return -1;
  memset(b, 0, n);
  for (size_t i = 0; i < 2 * n; i++) b[i / 2] = (unsigned char)(b[i / 2] << 4 | (strchr(digits, text[i]) - digits));
  return 0;
}
