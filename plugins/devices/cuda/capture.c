/* SPDX-License-Identifier: MIT
 * capture.c - stream capture: what one stream, or several from one root, were given becomes a CUDA graph.
 *
 * CUDA follows the forks and joins by itself; what is kept here is which stream takes part in which capture, so that a
 * mistake gives words instead of an invalid capture. */
#include "dev.h"

#include <stdlib.h>

static uint64_t capture_ids; /* never reused, so that an event of an old capture is known as such */

cuda_stream *sp_cuda_capture_of(const cuda_event *e) {
  uint64_t id = e->capture;
  cuda_stream *s = id ? e->dev->streams : NULL;
  while (s && !(s->root == s && s->capture == id)) s = s->next;
  return s;
}

int sp_cuda_in_capture(sp_ctx *ctx, const cuda_stream *s, const char *what) {
  return ctx->host->fail(ctx, SP_E_STATE, "%s on stream '%s' between capture_begin and capture_end", what, s->name);
}

int sp_cuda_capture_begin(sp_ctx *ctx, void *stream) {
  cuda_stream *s = stream;
  if (s->root) return sp_cuda_in_capture(ctx, s, "capture_begin");
  int status = sp_cuda_enter(ctx, s->dev);
  if (status) return status;
  cudaError_t rc = cudaStreamBeginCapture(s->native, cudaStreamCaptureModeThreadLocal);
  if (rc != cudaSuccess) return sp_cuda_failed(ctx, rc, "capture_begin on stream '%s'", s->name);
  atomic_fetch_add(&s->dev->capturing, 1);
  s->root = s;
  s->capture = ++capture_ids;
  s->capture_status = SP_OK;
  return SP_OK;
}

static cudaError_t end_capture(cuda_stream *s, cudaGraph_t *graph) {
  for (cuda_stream *o = s->dev->streams; o; o = o->next)
    if (o->root == s) o->root = NULL;
  *graph = NULL;
  atomic_fetch_sub(&s->dev->capturing, 1);
  return cudaStreamEndCapture(s->native, graph);
}

void sp_cuda_capture_drop(cuda_stream *s) {
  cudaGraph_t graph;
  if (s->root != s) return;
  if (end_capture(s, &graph) == cudaSuccess && graph) cudaGraphDestroy(graph);
}

static int end_failed(sp_ctx *ctx, const cuda_stream *s, cudaError_t rc) {
  if (rc == cudaErrorStreamCaptureUnjoined)
    return sp_cuda_failed(ctx, rc, "capture_end on stream '%s', which does not wait for all streams of the capture",
                          s->name);
  return sp_cuda_failed(ctx, rc, "the capture of stream '%s' holds an operation that cannot be captured", s->name);
}

int sp_cuda_capture_end(sp_ctx *ctx, void *stream, void **out) {
  cuda_stream *s = stream;
  cudaGraph_t graph;
  if (s->root != s)
    return ctx->host->fail(ctx, SP_E_STATE, "capture_end on stream '%s' without capture_begin", s->name);
  int status = sp_cuda_enter(ctx, s->dev);
  if (status) return status;
  cuda_graph *g = calloc(1, sizeof *g);
  cudaError_t rc = end_capture(s, &graph);
  if (!g) {
    if (rc == cudaSuccess) cudaGraphDestroy(graph);
    return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for a graph of stream '%s'", s->name);
  }
  g->dev = s->dev;
  g->status = s->capture_status;
  if (rc == cudaSuccess && !g->status) {
    rc = cudaGraphInstantiateWithFlags(&g->exec, graph, cudaGraphInstantiateFlagUseNodePriority);
    if (rc == cudaSuccess) rc = cudaGraphUpload(g->exec, s->native);
  }
  if (graph) cudaGraphDestroy(graph);
  if (rc != cudaSuccess && !g->status) {
    if (g->exec) cudaGraphExecDestroy(g->exec);
    free(g);
    return end_failed(ctx, s, rc);
  }
  (void)cudaGetLastError(); /* of the operation whose failure the graph carries */
  *out = g;
  return SP_OK;
}

int sp_cuda_graph_launch(sp_ctx *ctx, void *graph, void *stream) {
  cuda_graph *g = graph;
  cuda_stream *s = stream;
  if (s->root) return sp_cuda_in_capture(ctx, s, "graph_launch");
  int status = sp_cuda_enter(ctx, s->dev);
  if (status || s->status) return status;
  s->status = g->status;
  if (s->status) return SP_OK;
  cudaError_t rc = cudaGraphLaunch(g->exec, s->native);
  if (rc == cudaSuccess) return SP_OK;
  s->status = sp_cuda_failed(ctx, rc, "graph_launch on stream '%s'", s->name);
  return s->status;
}

void sp_cuda_graph_close(void *graph) {
  cuda_graph *g = graph;
  if (g->exec) cudaGraphExecDestroy(g->exec);
  (void)cudaGetLastError();
  free(g);
}
