/* SPDX-License-Identifier: MIT
 * stream.cpp - the emulator's streams, events and graphs.
 *
 * Streams execute at once, in the order of submission. With SPCORE_EMU_TIMING=late all work waits in one queue until
 * somebody asks for a result: what must outlive its submission, or be waited for, then shows. Both are timings that
 * a GPU may have. SPCORE_EMU_SLOWER=N makes events tell N times the time that went by: who measures what is fast often
 * enough for a GPU then measures it once. SPCORE_EMU_FAIL=N makes the N-th operation fail with an illegal address,
 * after which everything does.
 */
#include "emu.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <time.h>
#include <utility>
#include <vector>

struct capture;
using clock_of = std::map<CUstream_st *, unsigned>; /* of each stream's operations, how many come before */

struct CUstream_st {
  int priority;
  capture *in = nullptr;
  clock_of known = {};
  std::vector<cudaGraphNode_t> last = {}; /* what its next node is behind */
};

struct CUgraphNode_st {
  sp_emu::operation what;
  sp_emu::activity is;
  std::vector<cudaGraphNode_t> after;
  uint64_t id;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> list;
};

struct CUgraphExec_st {
  std::shared_ptr<std::vector<std::unique_ptr<CUgraphNode_st>>> list;
};

struct capture {
  CUstream_st *origin;
  CUgraph_st *graph = new CUgraph_st();
  std::map<CUstream_st *, unsigned> recorded = {}; /* operations of each stream that takes part */
  bool invalid = false;
};

struct CUevent_st {
  bool timing;
  unsigned wanted = 0, reached = 0; /* records issued, records executed */
  double ms = 0;
  capture *in = nullptr; /* where the last record was captured; only compared */
  bool captured = false;
  clock_of known = {};
  std::vector<cudaGraphNode_t> last = {};
};

namespace sp_emu {

static std::set<CUstream_st *> streams;
static std::set<CUevent_st *> events;
static std::set<capture *> captures;
static std::deque<operation> queue;
static uint64_t nodes; /* that were made; the latest has this id */
static profiler *watcher;

void watch(profiler *who) { watcher = who; }
uint64_t node_id(cudaGraphNode_t node) { return node->id; }

static bool late() {
  static const bool yes = [] {
    const char *text = getenv("SPCORE_EMU_TIMING");
    return text && !strcmp(text, "late");
  }();
  return yes;
}

static void run(const operation &what) {
  static const long fails = [] {
    const char *text = getenv("SPCORE_EMU_FAIL");
    return text ? strtol(text, nullptr, 10) : 0;
  }();
  static long count;
  if (fails && ++count == fails) fall_sick(cudaErrorIllegalAddress);
  if (fails && count >= fails) return;
  what();
}

static bool run_one() {
  if (queue.empty()) return false;
  operation what = std::move(queue.front());
  queue.pop_front();
  run(what);
  return true;
}

void drain() {
  entered in;
  if (queue.empty()) return;
  memory_open();
  while (run_one()) {}
  memory_shut();
}

cudaError_t usable(cudaStream_t s) {
  entered in;
  if (!s) return streams.empty() ? cudaSuccess : cudaErrorInvalidResourceHandle;
  return streams.count(s) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

bool capturing(cudaStream_t s) { return s && s->in; }

/* CUDA refuses what would synchronize while the thread captures, and gives the capture up. */
cudaError_t while_not_capturing() {
  entered in;
  for (capture *c : captures) c->invalid = true;
  return captures.empty() ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}

cudaError_t submit(cudaStream_t s, operation what, activity is) {
  entered in;
  cudaError_t error = note(cudaSuccess);
  if (error) return error;
  if (s && s->in) {
    if (s->in->invalid) return cudaErrorStreamCaptureInvalidated;
    s->in->graph->list.emplace_back(new CUgraphNode_st{std::move(what), is, std::move(s->last), ++nodes});
    s->last = {s->in->graph->list.back().get()};
    if (watcher) watcher->node_made(s->last[0]);
    s->known[s] = ++s->in->recorded[s];
  } else if (late()) {
    queue.push_back(std::move(what));
  } else {
    run(what);
  }
  return note(cudaSuccess);
}

static void merge(clock_of &into, const clock_of &from) {
  for (auto &it : from) {
    unsigned &n = into[it.first];
    if (it.second > n) n = it.second;
  }
}

static cudaError_t sync_all() {
  cudaError_t error = while_not_capturing();
  if (error) return note(error);
  drain();
  memory_check();
  return note(cudaSuccess);
}

} // namespace sp_emu

using namespace sp_emu;

extern "C" {

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
  entered in;
  if (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) return note(cudaErrorInvalidValue);
  *out = new CUstream_st{priority};
  streams.insert(*out);
  return note(cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
  entered in;
  return cudaStreamCreateWithPriority(out, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *out) { return cudaStreamCreateWithPriority(out, 0, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t s) {
  entered in;
  if (!streams.count(s)) return note(cudaErrorInvalidResourceHandle);
  drain();
  if (s->in) s->in->invalid = true;
  streams.erase(s);
  delete s;
  return note(cudaSuccess);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  entered in;
  *least = 0;
  *greatest = -5;
  return note(cudaSuccess);
}

cudaError_t cudaStreamGetPriority(cudaStream_t s, int *priority) {
  entered in;
  *priority = s ? s->priority : 0;
  return note(usable(s));
}

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  entered in;
  if (s && !streams.count(s)) return note(cudaErrorInvalidResourceHandle);
  if (capturing(s)) {
    s->in->invalid = true;
    return note(cudaErrorStreamCaptureUnsupported);
  }
  drain();
  return note(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t s) {
  entered in;
  if (s && !streams.count(s)) return note(cudaErrorInvalidResourceHandle);
  if (capturing(s)) {
    s->in->invalid = true;
    return note(cudaErrorStreamCaptureUnsupported);
  }
  run_one();
  return note(queue.empty() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize(void) { return sync_all(); }

cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void *arg) {
  entered in;
  cudaError_t error = usable(s);
  if (error) return note(error);
  return note(submit(s, [=] {
    int paused = memory_pause(); /* a host function sees what the host sees */
    fn(arg);
    memory_resume(paused);
  }));
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
  entered in;
  *out = new CUevent_st{!(flags & cudaEventDisableTiming)};
  events.insert(*out);
  return note(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t *out) { return cudaEventCreateWithFlags(out, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t e) {
  entered in;
  if (!events.count(e)) return note(cudaErrorInvalidResourceHandle);
  drain();
  events.erase(e);
  delete e;
  return note(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  entered in;
  if (!events.count(e)) return note(cudaErrorInvalidResourceHandle);
  cudaError_t error = usable(s);
  if (error) return note(error);
  e->captured = capturing(s);
  if (e->captured) {
    e->in = s->in;
    e->known = s->known;
    e->last = s->last;
    return note(s->in->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
  }
  unsigned record = ++e->wanted;
  return note(submit(s, [=] {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    e->ms = static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
    e->reached = record;
  }));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned) { return cudaEventRecord(e, s); }

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  entered in;
  if (!events.count(e)) return note(cudaErrorInvalidResourceHandle);
  cudaError_t error = usable(s);
  if (error) return note(error);
  if (e->captured) {
    if (!captures.count(e->in) || (s && s->in && s->in != e->in)) return note(cudaErrorStreamCaptureIsolation);
    if (s) {
      if (!s->in) {
        s->in = e->in;
        s->known.clear();
        s->last.clear();
        s->in->recorded[s] = 0;
      }
      merge(s->known, e->known);
      for (cudaGraphNode_t node : e->last)
        if (std::find(s->last.begin(), s->last.end(), node) == s->last.end()) s->last.push_back(node);
    }
    return note(cudaSuccess);
  }
  if (capturing(s) && e->wanted) {
    s->in->invalid = true;
    return note(cudaErrorStreamCaptureIsolation);
  }
  return note(cudaSuccess); /* in either timing, what was submitted before has run before */
}

cudaError_t cudaEventQuery(cudaEvent_t e) {
  entered in;
  if (!events.count(e)) return note(cudaErrorInvalidResourceHandle);
  if (e->captured) return note(cudaErrorCapturedEvent);
  if (e->reached != e->wanted) run_one();
  return note(e->reached == e->wanted ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  entered in;
  if (!events.count(e)) return note(cudaErrorInvalidResourceHandle);
  if (e->captured) return note(cudaErrorCapturedEvent);
  while (e->reached != e->wanted && run_one()) {}
  return note(cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
  entered in;
  if (!events.count(from) || !events.count(to)) return note(cudaErrorInvalidResourceHandle);
  if (!from->timing || !to->timing || !from->wanted || !to->wanted) return note(cudaErrorInvalidResourceHandle);
  if (from->reached != from->wanted || to->reached != to->wanted) return note(cudaErrorNotReady);
  static const double slower = [] {
    const char *text = getenv("SPCORE_EMU_SLOWER");
    return text ? strtod(text, nullptr) : 1;
  }();
  *ms = static_cast<float>((to->ms - from->ms) * slower);
  return note(cudaSuccess);
}

/* ---- capture ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  entered in;
  if (!s) return note(cudaErrorStreamCaptureUnsupported);
  cudaError_t error = usable(s);
  if (error) return note(error);
  if (s->in) return note(cudaErrorIllegalState);
  s->in = new capture{s};
  s->known.clear();
  s->last.clear();
  s->in->recorded[s] = 0;
  captures.insert(s->in);
  return note(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out) {
  entered in;
  *out = nullptr;
  if (!capturing(s)) return note(cudaErrorIllegalState);
  capture *c = s->in;
  if (c->origin != s) return note(cudaErrorStreamCaptureUnmatched);
  cudaError_t error = c->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  for (auto &it : c->recorded)
    if (!error && it.second > s->known[it.first]) error = cudaErrorStreamCaptureUnjoined;
  for (CUstream_st *other : streams)
    if (other->in == c) other->in = nullptr;
  if (error) delete c->graph;
  else *out = c->graph;
  captures.erase(c);
  delete c;
  return note(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *out) {
  entered in;
  cudaError_t error = usable(s);
  if (error) return note(error);
  *out = !capturing(s)    ? cudaStreamCaptureStatusNone
         : s->in->invalid ? cudaStreamCaptureStatusInvalidated
                          : cudaStreamCaptureStatusActive;
  return note(cudaSuccess);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *) { return note(cudaSuccess); }

/* Before CUDA 13 edges have no data, and the call another name. */
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **last, const cudaGraphEdgeData **data,
                                     size_t *n) {
  if (data) *data = nullptr;
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t s, cudaStreamCaptureStatus *status, unsigned long long *id,
                                        cudaGraph_t *graph, const cudaGraphNode_t **last, size_t *n) {
#endif
  entered in;
  cudaError_t error = cudaStreamIsCapturing(s, status);
  if (error || *status != cudaStreamCaptureStatusActive) return error;
  if (id) *id = 1;
  if (graph) *graph = s->in->graph;
  if (last) *last = s->last.data();
  if (n) *n = s->last.size();
  return note(cudaSuccess);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n) {
  entered in;
  size_t room = nodes ? *n : 0;
  *n = graph->list.size();
  for (size_t i = 0; i < room; i++) nodes[i] = i < *n ? graph->list[i].get() : nullptr;
  return note(cudaSuccess);
}

static void get_edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *n) {
  size_t room = from && to ? *n : 0;
  *n = 0;
  for (auto &node : graph->list)
    for (cudaGraphNode_t before : node->after) {
      if (*n < room) {
        from[*n] = before;
        to[*n] = node.get();
      }
      ++*n;
    }
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *data,
                              size_t *n) {
  entered in;
  if (data) memset(data, 0, *n * sizeof *data);
#else
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *n) {
  entered in;
#endif
  get_edges(graph, from, to, n);
  return note(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long) {
  entered in;
  auto list = std::make_shared<std::vector<std::unique_ptr<CUgraphNode_st>>>();
  for (auto &node : graph->list) {
    list->emplace_back(new CUgraphNode_st{node->what, node->is, {}, ++nodes});
    if (watcher) watcher->node_copied(list->back().get(), node.get());
  }
  *out = new CUgraphExec_st{list};
  return note(cudaSuccess);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags) {
  entered in;
  return cudaGraphInstantiate(out, graph, flags);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t s) { return note(usable(s)); }

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
  entered in;
  cudaError_t error = usable(s);
  if (error) return note(error);
  static unsigned launches;
  unsigned number = ++launches;
  if (watcher) watcher->launch(number);
  return note(submit(s, opened([list = exec->list, number] {
                       for (auto &node : *list) {
                         uint64_t begin = watcher ? watcher->now() : 0;
                         node->what();
                         if (watcher) watcher->ran({node->id, begin, watcher->now(), number, node->is});
                       }
                     })));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  entered in;
  delete exec;
  return note(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  entered in;
  delete graph;
  return note(cudaSuccess);
}
}
