/* SPDX-License-Identifier: MIT
 * counters.c - "spcore.counters/1": load, power and memory of a GPU, from the driver's NVML, which is opened when a
 * trace asks.
 *
 * Its header is in no package of the toolkit's runtime, so what is used of it is declared here. */
#include "dev.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

#ifndef DEVICE_CUDA_NVML_FILE
#define DEVICE_CUDA_NVML_FILE "libnvidia-ml.so.1"
#endif

typedef struct nvml_utilization {
  unsigned gpu, memory; /* percent of the time */
} nvml_utilization;

typedef struct nvml_memory {
  unsigned long long total, free, used; /* bytes */
} nvml_memory;

static struct {
  void *handle;
  int (*init)(void);
  int (*shutdown)(void);
  const char *(*words)(int result);
  int (*find)(const char *bus_id, void **device);
  int (*utilization)(void *device, nvml_utilization *out);
  int (*power)(void *device, unsigned *milliwatts);
  int (*memory)(void *device, nvml_memory *out);
} lib;

static bool get(void *to, const char *name) {
  void *symbol = dlsym(lib.handle, name);
  memcpy(to, &symbol, sizeof symbol);
  return symbol;
}

static int open_library(sp_ctx *ctx) {
  if (lib.handle) return SP_OK;
  lib.handle = dlopen(DEVICE_CUDA_NVML_FILE, RTLD_NOW | RTLD_LOCAL);
  if (!lib.handle) return ctx->host->fail(ctx, SP_E_NOTFOUND, "%s", dlerror());
  if (get(&lib.init, "nvmlInit_v2") && get(&lib.shutdown, "nvmlShutdown") && get(&lib.words, "nvmlErrorString") &&
      get(&lib.find, "nvmlDeviceGetHandleByPciBusId_v2") && get(&lib.memory, "nvmlDeviceGetMemoryInfo") &&
      get(&lib.utilization, "nvmlDeviceGetUtilizationRates") && get(&lib.power, "nvmlDeviceGetPowerUsage"))
    return SP_OK;
  dlclose(lib.handle);
  lib.handle = NULL;
  return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "%s lacks functions of NVML", DEVICE_CUDA_NVML_FILE);
}

/* ---- the extension ----------------------------------------------------------------------------------------------- */

enum { LOAD, POWER, MEMORY, COUNTERS };
static const char *const names[COUNTERS] = {"GPU load (%)", "GPU power (W)", "GPU memory (MiB)"};

static int counters_open(sp_ctx *ctx, void *d) {
  cuda_dev *dev = d;
  char bus_id[32];
  int status = dev->nvml ? SP_OK : open_library(ctx);
  if (status || dev->nvml) return status;
  cudaError_t rc = cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, dev->ext.device);
  if (rc != cudaSuccess) return sp_cuda_failed(ctx, rc, "device cuda:%d", dev->ext.device);
  int result = lib.init();
  if (result) return ctx->host->fail(ctx, SP_E_DEVICE, "NVML: %s", lib.words(result));
  if (!(result = lib.find(bus_id, &dev->nvml))) return SP_OK;
  dev->nvml = NULL;
  lib.shutdown();
  return ctx->host->fail(ctx, SP_E_DEVICE, "NVML, device %s: %s", bus_id, lib.words(result));
}

static void counters_read(void *d, double *values) {
  cuda_dev *dev = d;
  nvml_utilization load;
  nvml_memory memory;
  unsigned power;
  values[LOAD] = lib.utilization(dev->nvml, &load) ? NAN : load.gpu;
  values[POWER] = lib.power(dev->nvml, &power) ? NAN : power * 1e-3;
  values[MEMORY] = lib.memory(dev->nvml, &memory) ? NAN : (double)memory.used / (1 << 20);
}

/* NVML counts how often it was asked for. */
void sp_cuda_counters_close(cuda_dev *dev) {
  if (dev->nvml) lib.shutdown();
  dev->nvml = NULL;
}

const sp_counters sp_cuda_counters = {
    .size = sizeof sp_cuda_counters, .n = COUNTERS, .names = names, .open = counters_open, .read = counters_read};
