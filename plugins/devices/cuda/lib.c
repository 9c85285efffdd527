/* SPDX-License-Identifier: MIT
 * lib.c - handles and workspace of a lane for cuBLAS, cuBLASLt and cuDNN.
 *
 * The libraries are hundreds of megabytes, so they are opened when a stage first asks,
 * not when this module is loaded. */
#include "dev.h"

#include <cublas_v2.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <stdio.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

typedef struct library {
  const char *file, *words;
  bool open;
  char why[128]; /* it does not open */
  const char *symbol[5];
  void *fn[5];
} library;

enum { BLAS_CREATE, BLAS_DESTROY, BLAS_STREAM, BLAS_WORKSPACE, BLAS_PROPERTY };
enum { LT_CREATE, LT_DESTROY };
enum { DNN_CREATE, DNN_DESTROY, DNN_STREAM, DNN_PROPERTY };

static library blas = {.file = "libcublas.so." TEXT(CUBLAS_VER_MAJOR),
                       .words = "cuBLAS",
                       .symbol = {"cublasCreate_v2", "cublasDestroy_v2", "cublasSetStream_v2", "cublasSetWorkspace_v2",
                                  "cublasGetProperty"}};
static library lt = {.file = "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR),
                     .words = "cuBLASLt",
                     .symbol = {"cublasLtCreate", "cublasLtDestroy"}};
static library dnn = {.file = "libcudnn.so." TEXT(CUDNN_MAJOR),
                      .words = "cuDNN",
                      .symbol = {"cudnnCreate", "cudnnDestroy", "cudnnSetStream", "cudnnGetProperty"}};

typedef int (*create_fn)(void **handle);
typedef int (*destroy_fn)(void *handle);
typedef int (*stream_fn)(void *handle, cudaStream_t stream);
typedef int (*workspace_fn)(void *handle, void *workspace, size_t bytes);
typedef int (*property_fn)(libraryPropertyType type, int *value);

/* A pointer to a function out of dlsym's void *, as POSIX has it. */
#define CALL(lib, index, type) (*(type *)&(lib)->fn[index])

/* What is linked already counts first: the emulator of the tests brings the three libraries as one. */
static bool library_open(library *lib) {
  if (lib->open) return true;
  void *handle = NULL;
  bool linked = dlsym(RTLD_DEFAULT, lib->symbol[0]) != NULL;
  if (!linked && !(handle = dlopen(lib->file, RTLD_NOW | RTLD_LOCAL))) {
    const char *why = dlerror();
    snprintf(lib->why, sizeof lib->why, "%s", why ? why : lib->file);
    return false;
  }
  for (size_t i = 0; i < sizeof lib->fn / sizeof lib->fn[0] && lib->symbol[i]; i++) {
    lib->fn[i] = dlsym(linked ? RTLD_DEFAULT : handle, lib->symbol[i]);
    if (lib->fn[i]) continue;
    snprintf(lib->why, sizeof lib->why, "%s has no %s", lib->file, lib->symbol[i]);
    return false;
  }
  lib->open = true;
  return true;
}

static void put_version(library *lib, int property, const char *name, char *text, size_t n) {
  int v[3] = {0};
  if (!library_open(lib)) {
    snprintf(text, n, "no %s", name);
    return;
  }
  for (int i = 0; i < 3; i++) CALL(lib, property, property_fn)((libraryPropertyType)i, &v[i]);
  snprintf(text, n, "%s %d.%d.%d", name, v[MAJOR_VERSION], v[MINOR_VERSION], v[PATCH_LEVEL]);
}

const char *sp_cuda_library_versions(void) {
  static char text[80];
  char cublas[32], cudnn[32];
  put_version(&blas, BLAS_PROPERTY, "cuBLAS", cublas, sizeof cublas);
  put_version(&dnn, DNN_PROPERTY, "cuDNN", cudnn, sizeof cudnn);
  snprintf(text, sizeof text, "%s, %s", cublas, cudnn);
  return text;
}

/* ---- what a stage asks for --------------------------------------------------------------------------------------- */

static int lane(sp_ctx *ctx, cuda_stream **s) {
  *s = ctx->stream ? sp_cuda_stream_of(ctx->stream) : NULL;
  if (!*s) return ctx->host->fail(ctx, SP_E_STATE, "spcore.cuda: called outside of a lane of the device");
  return sp_cuda_enter(ctx, (*s)->dev);
}

static int lib_failed(sp_ctx *ctx, const library *lib, const char *what, int rc) {
  (void)cudaGetLastError();
  return ctx->host->fail(ctx, SP_E_DEVICE, "%s: %s failed with its status %d", lib->words, what, rc);
}

/* Creates the handle of a lane. */
static int make(sp_ctx *ctx, library *lib, int create, void **handle) {
  if (!library_open(lib)) return ctx->host->fail(ctx, SP_E_DEVICE, "%s is missing: %s", lib->words, lib->why);
  int rc = CALL(lib, create, create_fn)(handle);
  return rc ? lib_failed(ctx, lib, lib->symbol[create], rc) : SP_OK;
}

int sp_cuda_workspace(sp_ctx *ctx, void **ptr) {
  cuda_stream *s;
  int status = lane(ctx, &s);
  if (status) return status;
  if (!s->workspace) {
    cudaError_t rc = cudaMalloc(&s->workspace, s->dev->ext.workspace_bytes);
    if (rc != cudaSuccess) {
      s->workspace = NULL;
      if (rc == cudaErrorMemoryAllocation)
        return sp_cuda_no_memory(ctx, s->dev, s->dev->ext.workspace_bytes,
                                 ", for the workspace of a lane; take a smaller --batch or --depth");
      return sp_cuda_failed(ctx, rc, "a workspace of %zu bytes for lane '%s'", s->dev->ext.workspace_bytes, s->name);
    }
  }
  *ptr = s->workspace;
  return SP_OK;
}

/* The stream first: cublasSetStream would take the workspace away again. */
static int bind_blas(sp_ctx *ctx, const cuda_stream *s, void *handle, void *workspace) {
  int rc = CALL(&blas, BLAS_STREAM, stream_fn)(handle, s->native);
  if (rc) return lib_failed(ctx, &blas, blas.symbol[BLAS_STREAM], rc);
  rc = CALL(&blas, BLAS_WORKSPACE, workspace_fn)(handle, workspace, s->dev->ext.workspace_bytes);
  return rc ? lib_failed(ctx, &blas, blas.symbol[BLAS_WORKSPACE], rc) : SP_OK;
}

int sp_cuda_cublas(sp_ctx *ctx, void **handle) {
  cuda_stream *s;
  void *workspace, *made;
  int status = lane(ctx, &s);
  if (status) return status;
  if (!s->cublas) {
    status = sp_cuda_workspace(ctx, &workspace);
    if (!status) status = make(ctx, &blas, BLAS_CREATE, &made);
    if (status) return status;
    status = bind_blas(ctx, s, made, workspace);
    if (status) {
      CALL(&blas, BLAS_DESTROY, destroy_fn)(made);
      return status;
    }
    s->cublas = made;
  }
  *handle = s->cublas;
  return SP_OK;
}

int sp_cuda_cublaslt(sp_ctx *ctx, void **handle) {
  cuda_stream *s;
  void *made;
  int status = lane(ctx, &s);
  if (status) return status;
  if (!s->cublaslt) {
    status = make(ctx, &lt, LT_CREATE, &made);
    if (status) return status;
    s->cublaslt = made;
  }
  *handle = s->cublaslt;
  return SP_OK;
}

int sp_cuda_cudnn(sp_ctx *ctx, void **handle) {
  cuda_stream *s;
  void *made;
  int status = lane(ctx, &s);
  if (status) return status;
  if (!s->cudnn) {
    status = make(ctx, &dnn, DNN_CREATE, &made);
    if (status) return status;
    int rc = CALL(&dnn, DNN_STREAM, stream_fn)(made, s->native);
    if (rc) {
      CALL(&dnn, DNN_DESTROY, destroy_fn)(made);
      return lib_failed(ctx, &dnn, dnn.symbol[DNN_STREAM], rc);
    }
    s->cudnn = made;
  }
  *handle = s->cudnn;
  return SP_OK;
}

void sp_cuda_handles_free(cuda_stream *s) {
  if (s->cublas) CALL(&blas, BLAS_DESTROY, destroy_fn)(s->cublas);
  if (s->cublaslt) CALL(&lt, LT_DESTROY, destroy_fn)(s->cublaslt);
  if (s->cudnn) CALL(&dnn, DNN_DESTROY, destroy_fn)(s->cudnn);
  cudaFree(s->workspace);
}
