/* SPDX-License-Identifier: MIT
 * device.cpp - what the emulated device says of itself, and names of errors.
 */
#include "emu.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

namespace sp_emu {

static std::map<const void *, size_t> shared_limits;

size_t shared_limit(const void *kernel) {
  auto it = shared_limits.find(kernel);
  return it == shared_limits.end() ? shared_default : it->second;
}

/* All of them are one: only which is current tells them apart. */
static int devices() {
  const char *text = getenv("SPCORE_EMU_DEVICES");
  int n = text ? atoi(text) : 1;
  return n > 1 ? n : 1;
}

static bool there(int device) { return device >= 0 && device < devices(); }

/* A fact of the device that a test may set, so that what depends on it is seen without such a device. */
static int fact(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  int n = text ? atoi(text) : 0;
  return n > 0 ? n : otherwise;
}

static thread_local int current;

static cudaDeviceProp properties() {
  cudaDeviceProp p;
  memset(&p, 0, sizeof p);
  snprintf(p.name, sizeof p.name, "CUDA emulator (tests)");
  size_t available;
  cudaMemGetInfo(&available, &p.totalGlobalMem);
  p.sharedMemPerBlock = shared_default;
  p.sharedMemPerBlockOptin = p.sharedMemPerMultiprocessor = shared_most;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  int capability = fact("SPCORE_EMU_CAPABILITY", 90);
  p.major = capability / 10;
  p.minor = capability % 10;
  /* few, so that loops over what a grid leaves over are run */
  p.multiProcessorCount = fact("SPCORE_EMU_MULTIPROCESSORS", 4);
  p.asyncEngineCount = 2;
  p.l2CacheSize = 4 << 20;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.concurrentKernels = p.unifiedAddressing = p.canMapHostMemory = p.streamPrioritiesSupported = 1;
  return p;
}

} // namespace sp_emu

using namespace sp_emu;

extern "C" {

cudaError_t cudaGetDeviceCount(int *n) {
  *n = devices();
  return note(cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  if (!there(device)) return note(cudaErrorInvalidDevice);
  current = device;
  return note(cudaSuccess);
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return note(there(device) ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaSetDeviceFlags(unsigned) { return note(cudaSuccess); }

cudaError_t cudaGetDevice(int *device) {
  *device = current;
  return note(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device) {
  if (!there(device)) return note(cudaErrorInvalidDevice);
  *out = properties();
  return note(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int device) {
  if (!there(device)) return note(cudaErrorInvalidDevice);
  cudaDeviceProp p = properties();
  switch (what) {
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrAsyncEngineCount: *value = p.asyncEngineCount; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(p.sharedMemPerBlockOptin); break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = static_cast<int>(p.sharedMemPerMultiprocessor); break;
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrClockRate: *value = 1000000; break;
    case cudaDevAttrMemoryClockRate: *value = 1000000; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = 64; break;
    default: return note(cudaErrorInvalidValue);
  }
  return note(cudaSuccess);
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int bytes, int device) {
  if (!there(device)) return note(cudaErrorInvalidDevice);
  snprintf(out, static_cast<size_t>(bytes), "ffff:ff:ff.0");
  return note(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return note(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return note(cudaSuccess);
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute what, int value) {
  if (what != cudaFuncAttributeMaxDynamicSharedMemorySize) return note(cudaSuccess);
  if (value < 0 || static_cast<size_t>(value) > shared_most) return note(cudaErrorInvalidValue);
  shared_limits[kernel] = static_cast<size_t>(value);
  return note(cudaSuccess);
}

cudaError_t cudaFuncSetCacheConfig(const void *, cudaFuncCache) { return note(cudaSuccess); }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *, int threads, size_t shared_bytes) {
  int by_threads = threads > 0 ? 2048 / threads : 0;
  int by_shared = shared_bytes ? static_cast<int>(shared_most / shared_bytes) : by_threads;
  *n = by_threads < by_shared ? by_threads : by_shared;
  return note(cudaSuccess);
}

struct error_name {
  cudaError_t error;
  const char *name, *words;
};
static const error_name names[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "capture was not initiated in this stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
};

const char *cudaGetErrorName(cudaError_t error) {
  for (const error_name &n : names)
    if (n.error == error) return n.name;
  return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
  for (const error_name &n : names)
    if (n.error == error) return n.words;
  return "unrecognized error code";
}
}
