/* SPDX-License-Identifier: MIT
 * nvtx.cpp - a profiler that listens to NVTX, as NVTX_INJECTION64_PATH names one: a line in the file SPCORE_EMU_NVTX
 * for each range of a domain that begins or ends, and for each stream that gets a name. THREAD is a number.
 *
 *   push THREAD DOMAIN STEP NAME
 *   pop THREAD DOMAIN
 *   stream NAME
 */
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExtCudaRt.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace {

std::mutex lock;
FILE *out;

int thread() {
  static int threads;
  thread_local int mine = ++threads;
  return mine;
}

const char *name_of(nvtxDomainHandle_t domain) {
  return domain ? reinterpret_cast<std::string *>(domain)->c_str() : "none";
}

nvtxDomainHandle_t create(const char *name) { return reinterpret_cast<nvtxDomainHandle_t>(new std::string(name)); }

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
  std::lock_guard<std::mutex> in(lock);
  fprintf(out, "push %d %s %llu %s\n", thread(), name_of(domain),
          static_cast<unsigned long long>(event->payload.ullValue), event->message.ascii);
  return 0;
}

int pop(nvtxDomainHandle_t domain) {
  std::lock_guard<std::mutex> in(lock);
  fprintf(out, "pop %d %s\n", thread(), name_of(domain));
  return 0;
}

void name_stream(nvtx_cudaStream_t, const char *name) {
  std::lock_guard<std::mutex> in(lock);
  fprintf(out, "stream %s\n", name);
  fflush(out);
}

template <typename function>
bool attach(const NvtxExportTableCallbacks *of, NvtxCallbackModule module, unsigned id, function fn) {
  NvtxFunctionTable table = nullptr;
  unsigned n = 0;
  if (!of->GetModuleFunctionTable(module, &table, &n) || id >= n) return false;
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(fn);
  return true;
}

} // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
  auto callbacks = static_cast<const NvtxExportTableCallbacks *>(get(NVTX_ETID_CALLBACKS));
  const char *path = getenv("SPCORE_EMU_NVTX");
  if (!callbacks || !path || !(out = fopen(path, "w"))) return 0;
  return attach(callbacks, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainCreateA, create) &&
         attach(callbacks, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePushEx, push) &&
         attach(callbacks, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePop, pop) &&
         attach(callbacks, NVTX_CB_MODULE_CUDART, NVTX_CBID_CUDART_NameCudaStreamA, name_stream);
}
