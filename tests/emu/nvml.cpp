/* SPDX-License-Identifier: MIT
 * nvml.cpp - the calls of NVML that device_cuda.so makes for a trace, of the emulator's device: its memory is the
 * emulator's, its power rises by a watt each time it is read, and its load is not to be had, as where a GPU is cut into
 * parts.
 */
#include <cuda_runtime.h>

#include <cstring>

struct nvml_utilization {
  unsigned gpu, memory;
};
struct nvml_memory {
  unsigned long long total, free, used;
};

static int users;
static unsigned watts = 100;
static char device;

extern "C" {

enum { nvml_success = 0, nvml_uninitialized = 1, nvml_not_supported = 3, nvml_not_found = 6 };

int nvmlInit_v2(void) {
  users++;
  return nvml_success;
}

int nvmlShutdown(void) { return users-- > 0 ? nvml_success : nvml_uninitialized; }

const char *nvmlErrorString(int) { return "it was refused"; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **out) {
  *out = &device;
  return !users ? nvml_uninitialized : strcmp(bus_id, "ffff:ff:ff.0") ? nvml_not_found : nvml_success;
}

int nvmlDeviceGetUtilizationRates(void *, nvml_utilization *) { return nvml_not_supported; }

int nvmlDeviceGetPowerUsage(void *of, unsigned *milliwatts) {
  *milliwatts = ++watts * 1000;
  return users && of == &device ? nvml_success : nvml_uninitialized;
}

int nvmlDeviceGetMemoryInfo(void *, nvml_memory *out) {
  size_t available = 0, total = 0;
  cudaMemGetInfo(&available, &total);
  *out = {total, available, total - available};
  return users ? nvml_success : nvml_uninitialized;
}
}
