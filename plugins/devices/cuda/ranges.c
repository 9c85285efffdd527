/* SPDX-License-Identifier: MIT
 * ranges.c - "spcore.ranges/1": ranges and names of streams for Nsight Systems and others that listen to NVTX, whose
 * headers find them. */
#include "dev.h"

#ifdef DEVICE_CUDA_NVTX
#include <nvtx3/nvToolsExtCudaRt.h>

/* NULL where nobody listens. Devices are opened by one thread. */
static nvtxDomainHandle_t domain(void) {
  static nvtxDomainHandle_t it;
  static bool asked;
  if (!asked) it = nvtxDomainCreateA("spcore");
  asked = true;
  return it;
}

static void range_push(const char *name, uint64_t step) {
  nvtxEventAttributes_t event = {.version = NVTX_VERSION,
                                 .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                 .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                 .payload.ullValue = step,
                                 .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                 .message.ascii = name};
  nvtxDomainRangePushEx(domain(), &event);
}

static void range_pop(void) { nvtxDomainRangePop(domain()); }

void sp_cuda_name_stream(cudaStream_t native, const char *name) { nvtxNameCudaStreamA(native, name); }

const sp_ranges *sp_cuda_ranges(void) {
  static const sp_ranges ranges = {.size = sizeof ranges, .push = range_push, .pop = range_pop};
  return domain() ? &ranges : NULL;
}

#else

void sp_cuda_name_stream(cudaStream_t native, const char *name) { (void)native, (void)name; }
const sp_ranges *sp_cuda_ranges(void) { return NULL; }

#endif
