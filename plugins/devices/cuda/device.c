/* SPDX-License-Identifier: MIT
 * device.c - NVIDIA GPUs as a device, plain C on the CUDA runtime: what there is, memory, the plugin's table.
 *
 * Everything is submitted by one thread; event_sync() alone may be called by others. The primary context is used, so
 * that the libraries' handles see the same memory. */
#include "dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/plugin.h>

#define WORKSPACE ((size_t)64 << 20)

/* ---- what there is ----------------------------------------------------------------------------------------------- */

#define DOTTED(v) (v) / 1000, (v) % 1000 / 10

/* Streams share hardware queues; with the usual 8, one that waits can hold up another.
 * Read when the context is made. */
static void set_connections(void) { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

static int no_device(sp_ctx *ctx, cudaError_t rc) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  int driver = 0, runtime = 0;
  (void)cudaGetLastError();
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (rc == cudaErrorInsufficientDriver && !driver)
    return ctx->host->fail(ctx, SP_E_DEVICE, "there is no NVIDIA driver (its libcuda.so.1 does not load)");
  if (rc == cudaErrorInsufficientDriver)
    return ctx->host->fail(ctx, SP_E_DEVICE, "the driver (for CUDA %d.%d) is older than the runtime (CUDA %d.%d) needs",
                           DOTTED(driver), DOTTED(runtime));
  if ((rc == cudaErrorNoDevice || rc == cudaSuccess) && visible)
    return ctx->host->fail(ctx, SP_E_DEVICE, "no GPU is visible: CUDA_VISIBLE_DEVICES is '%s'", visible);
  if (rc == cudaErrorNoDevice || rc == cudaSuccess)
    return ctx->host->fail(ctx, SP_E_DEVICE, "the driver (for CUDA %d.%d) sees no GPU", DOTTED(driver));
  return sp_cuda_failed(ctx, rc, "CUDA does not start");
}

static int cuda_count(sp_ctx *ctx, int *n) {
  set_connections();
  *n = 0;
  cudaError_t rc = cudaGetDeviceCount(n);
  if (rc == cudaSuccess && *n > 0) return SP_OK;
  *n = 0;
  return no_device(ctx, rc);
}

static int check_index(sp_ctx *ctx, int index) {
  int n, status = cuda_count(ctx, &n);
  if (status) return status;
  if (index >= 0 && index < n) return SP_OK;
  if (n == 1) return ctx->host->fail(ctx, SP_E_NOTFOUND, "there is no device cuda:%d, only cuda:0", index);
  return ctx->host->fail(ctx, SP_E_NOTFOUND, "there is no device cuda:%d, only cuda:0 to cuda:%d", index, n - 1);
}

static int cuda_describe(sp_ctx *ctx, int index, sp_device_info *info) {
  struct cudaDeviceProp prop;
  size_t free_bytes = 0, bytes = 0;
  int driver = 0, runtime = 0, status = check_index(ctx, index);
  if (status) return status;
  cudaError_t rc = cudaGetDeviceProperties(&prop, index);
  if (rc == cudaSuccess) rc = sp_cuda_make_current(index);
  if (rc == cudaSuccess) rc = cudaMemGetInfo(&free_bytes, &bytes);
  if (rc == cudaSuccess) rc = cudaDriverGetVersion(&driver);
  if (rc == cudaSuccess) rc = cudaRuntimeGetVersion(&runtime);
  if (rc != cudaSuccess) return sp_cuda_failed(ctx, rc, "device cuda:%d", index);
  *info = (sp_device_info){.size = sizeof *info,
                           .units = prop.multiProcessorCount,
                           .copy_engines = prop.asyncEngineCount,
                           .memory = bytes,
                           .free_memory = free_bytes};
  snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, prop.name);
  snprintf(info->detail, sizeof info->detail,
           "compute capability %d.%d, %d SMs, %d copy engine%s, driver %d.%d, runtime %d.%d, %s", prop.major,
           prop.minor, prop.multiProcessorCount, prop.asyncEngineCount, prop.asyncEngineCount == 1 ? "" : "s",
           DOTTED(driver), DOTTED(runtime), sp_cuda_library_versions());
  return SP_OK;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static cudaError_t fill_dev(cuda_dev *dev, int index) {
  struct cudaDeviceProp prop;
  cudaError_t rc = sp_cuda_make_current(index);
  if (rc == cudaSuccess) rc = cudaFree(NULL); /* makes the context here and now, in front of every stage's file */
  if (rc == cudaSuccess) rc = cudaGetDeviceProperties(&prop, index);
  if (rc == cudaSuccess) rc = cudaDeviceGetStreamPriorityRange(&dev->least, &dev->most);
  if (rc != cudaSuccess) return rc;
  snprintf(dev->gpu, sizeof dev->gpu, "%.*s", (int)sizeof dev->gpu - 1, prop.name);
  dev->ext = (sp_cuda){.size = sizeof dev->ext,
                       .device = index,
                       .capability = 10 * prop.major + prop.minor,
                       .multiprocessors = prop.multiProcessorCount,
                       .l2_bytes = (size_t)prop.l2CacheSize,
                       .shared_bytes = prop.sharedMemPerBlockOptin,
                       .workspace_bytes = WORKSPACE,
                       .cublas = sp_cuda_cublas,
                       .cublaslt = sp_cuda_cublaslt,
                       .cudnn = sp_cuda_cudnn,
                       .workspace = sp_cuda_workspace,
                       .tuned = sp_cuda_get_tuned,
                       .set_tuned = sp_cuda_set_tuned};
  return cudaSuccess;
}

static int cuda_open(sp_ctx *ctx, int index, void **out) {
  int status = check_index(ctx, index);
  if (status) return status;
  cuda_dev *dev = calloc(1, sizeof *dev);
  if (!dev) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for a device");
  cudaError_t rc = fill_dev(dev, index);
  if (rc != cudaSuccess) {
    free(dev);
    return sp_cuda_failed(ctx, rc, "device cuda:%d does not open", index);
  }
  sp_cuda_devs_add(dev);
  *out = dev;
  return SP_OK;
}

static void cuda_close(void *d) {
  cuda_dev *dev = d;
  sp_cuda_times.close(dev);
  sp_cuda_counters_close(dev);
  sp_cuda_devs_remove(dev);
  free(dev);
}

static const void *cuda_extension(void *dev, const char *id) {
  if (!strcmp(id, SP_EXT_CHOICES)) return &sp_cuda_choices;
  if (!strcmp(id, SP_EXT_TIMES)) return &sp_cuda_times;
  if (!strcmp(id, SP_EXT_RANGES)) return sp_cuda_ranges();
  if (!strcmp(id, SP_EXT_COUNTERS)) return &sp_cuda_counters;
  return strcmp(id, SP_EXT_CUDA) == 0 ? &((cuda_dev *)dev)->ext : NULL;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static int cuda_alloc(sp_ctx *ctx, void *d, int kind, size_t bytes, void **ptr) {
  cuda_dev *dev = d;
  if (kind != SP_MEM_DEVICE && kind != SP_MEM_PINNED)
    return ctx->host->fail(ctx, SP_E_INVALID, "there is no kind of memory %d", kind);
  int status = sp_cuda_enter(ctx, dev);
  if (status) return status;
  cudaError_t rc = bytes > SIZE_MAX / 2 ? cudaErrorMemoryAllocation
                   : kind == SP_MEM_DEVICE
                       ? cudaMalloc(ptr, bytes ? bytes : 1)
                       : cudaHostAlloc(ptr, bytes ? bytes : 1, cudaHostAllocPortable | cudaHostAllocMapped);
  if (rc == cudaSuccess) return SP_OK;
  (void)cudaGetLastError();
  if (rc != cudaErrorMemoryAllocation) return sp_cuda_failed(ctx, rc, "%zu bytes of memory", bytes);
  if (kind == SP_MEM_PINNED)
    return ctx->host->fail(ctx, SP_E_NOMEM, "out of pinned memory: %zu bytes asked for", bytes);
  return sp_cuda_no_memory(ctx, dev, bytes, "");
}

static void cuda_free(void *d, int kind, void *ptr) {
  cuda_dev *dev = d;
  if (sp_cuda_make_current(dev->ext.device) == cudaSuccess && kind == SP_MEM_DEVICE) cudaFree(ptr);
  else if (kind == SP_MEM_PINNED) cudaFreeHost(ptr);
  (void)cudaGetLastError();
}

/* ---- the plugin -------------------------------------------------------------------------------------------------- */

static const sp_device_type cuda_type = {
    .size = sizeof(sp_device_type),
    .flags = SP_DEVICE_CAPTURE | SP_DEVICE_FORK,
    .name = "cuda",
    .doc = "NVIDIA GPUs; a stream is a CUDA stream",
    .count = cuda_count,
    .describe = cuda_describe,
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .stream_open = sp_cuda_stream_open,
    .stream_close = sp_cuda_stream_close,
    .stream_submit = sp_cuda_stream_submit,
    .stream_wait = sp_cuda_stream_wait,
    .stream_copy = sp_cuda_stream_copy,
    .stream_sync = sp_cuda_stream_sync,
    .stream_native = sp_cuda_stream_native,
    .event_open = sp_cuda_event_open,
    .event_close = sp_cuda_event_close,
    .event_record = sp_cuda_event_record,
    .event_query = sp_cuda_event_query,
    .event_sync = sp_cuda_event_sync,
    .event_elapsed = sp_cuda_event_elapsed,
    .capture_begin = sp_cuda_capture_begin,
    .capture_end = sp_cuda_capture_end,
    .graph_launch = sp_cuda_graph_launch,
    .graph_close = sp_cuda_graph_close,
    .extension = cuda_extension,
    .stream_hash = sp_cuda_stream_hash,
};

static const sp_device_type *const devices[] = {&cuda_type, NULL};

SP_PLUGIN_WITH("device_cuda", "NVIDIA GPUs as a device", NULL, devices, NULL);
