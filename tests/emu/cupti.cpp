/* SPDX-License-Identifier: MIT
 * cupti.cpp - the calls of CUPTI that device_cuda.so makes for a trace, on the emulator: callbacks as nodes of graphs
 * are made and copied and as graphs are launched, and records of what ran in them, in buffers of the caller's.
 *
 * As with CUPTI, times are those of CLOCK_REALTIME unless the caller brings a clock, records come when a buffer is full
 * or at a flush, and a callback or record that was not asked for does not come. SPCORE_EMU_CUPTI=busy: another has it
 * already.
 */
#include "emu.h"

#include <cupti.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <set>
#include <utility>

namespace {

#if CUPTI_API_VERSION >= 130000
using kernel_record = CUpti_ActivityKernel10;
using copy_record = CUpti_ActivityMemcpy6;
#else
using kernel_record = CUpti_ActivityKernel9;
using copy_record = CUpti_ActivityMemcpy5;
#endif
using fill_record = CUpti_ActivityMemset4;

uint64_t real_time() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

struct client : sp_emu::profiler {
  CUpti_CallbackFunc callback = nullptr;
  void *arg = nullptr;
  std::set<std::pair<CUpti_CallbackDomain, CUpti_CallbackId>> wanted = {};
  std::set<CUpti_ActivityKind> kinds = {};
  CUpti_TimestampCallbackFunc clock = real_time;
  CUpti_BuffersCallbackRequestFunc give = nullptr;
  CUpti_BuffersCallbackCompleteFunc take = nullptr;
  uint8_t *buffer = nullptr;
  size_t size = 0, used = 0;

  void call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data) {
    if (callback && wanted.count({domain, id})) callback(arg, domain, id, data);
  }
  void node(CUpti_CallbackId id, cudaGraphNode_t made, cudaGraphNode_t from) {
    CUpti_GraphData graph = {};
    graph.node = made;
    graph.originalNode = from;
    CUpti_ResourceData data = {};
    data.resourceDescriptor = &graph;
    call(CUPTI_CB_DOMAIN_RESOURCE, id, &data);
  }
  void node_made(cudaGraphNode_t made) override { node(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, made, nullptr); }
  void node_copied(cudaGraphNode_t made, cudaGraphNode_t from) override {
    node(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, made, from);
  }
  void launch(unsigned number) override {
    CUpti_CallbackData data = {};
    data.correlationId = number;
    for (CUpti_ApiCallbackSite site : {CUPTI_API_ENTER, CUPTI_API_EXIT}) {
      data.callbackSite = site;
      call(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, &data);
      call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, &data);
    }
  }
  uint64_t now() override { return clock(); }

  void flush() {
    if (buffer) take(nullptr, 0, buffer, size, used);
    buffer = nullptr;
    used = 0;
  }
  template <typename record> void put(record &r, CUpti_ActivityKind kind, const sp_emu::ran_node &ran) {
    if (!kinds.count(kind)) return;
    r.kind = kind;
    r.start = ran.begin;
    r.end = ran.end;
    r.correlationId = ran.number;
    r.graphNodeId = ran.node;
    if (buffer && used + sizeof r > size) flush();
    size_t most = 0;
    if (!buffer) give(&buffer, &size, &most);
    memcpy(buffer + used, &r, sizeof r);
    used += sizeof r;
  }
  void ran(const sp_emu::ran_node &ran) override {
    kernel_record kernel = {};
    copy_record copy = {};
    fill_record fill = {};
    kernel.name = "_ZN3emu12_GLOBAL__N_16kernelILi4EEEvPf"; /* functions have no names here */
    copy.copyKind = ran.what == sp_emu::activity_in    ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
                    : ran.what == sp_emu::activity_out ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
                                                       : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
    if (ran.what == sp_emu::activity_kernel) put(kernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, ran);
    else if (ran.what == sp_emu::activity_fill) put(fill, CUPTI_ACTIVITY_KIND_MEMSET, ran);
    else put(copy, CUPTI_ACTIVITY_KIND_MEMCPY, ran);
  }
};

client only;
bool subscribed;

size_t bytes_of(const CUpti_Activity *a) {
  return a->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ? sizeof(kernel_record)
         : a->kind == CUPTI_ACTIVITY_KIND_MEMSET          ? sizeof(fill_record)
                                                          : sizeof(copy_record);
}

} // namespace

extern "C" {

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *arg) {
  const char *how = getenv("SPCORE_EMU_CUPTI");
  if (subscribed || (how && !strcmp(how, "busy"))) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  subscribed = true;
  only = client();
  only.callback = callback;
  only.arg = arg;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&only);
  sp_emu::watch(&only);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  sp_emu::watch(nullptr);
  subscribed = false;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                CUpti_CallbackId id) {
  if (enable) only.wanted.insert({domain, id});
  else only.wanted.erase({domain, id});
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t *id) {
  *id = sp_emu::node_id(node);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **words) {
  *words = result ? "it was refused" : "no error";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give,
                                           CUpti_BuffersCallbackCompleteFunc take) {
  only.give = give;
  only.take = take;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  only.clock = clock;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  only.kinds.insert(kind);
  return only.give ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_OPERATION;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  only.kinds.erase(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t) {
  only.flush();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record) {
  uint8_t *next = *record ? reinterpret_cast<uint8_t *>(*record) + bytes_of(*record) : buffer;
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity *>(next);
  return CUPTI_SUCCESS;
}
}
