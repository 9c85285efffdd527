/* SPDX-License-Identifier: MIT
 * conv.cpp - cuDNN's convolutions in the emulator: patches of the input as a matrix, then a matrix product.
 *
 * Algorithms differ in the last bits. Those that cuDNN documents as not deterministic give other bits from call to
 * call here too, and about the half is refused, as on a GPU.
 */
#include "emu.h"
#include "gemm.h"

#include <cudnn.h>

#include <cstdlib>
#include <cstring>
#include <vector>

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

struct cudnnTensorStruct {
  int type = -1; /* CUDA_R_...; -1: not one that convolutions take */
  int64_t n = 0, c = 0, h = 0, w = 0, dn = 0, dc = 0, dh = 0, dw = 0;
};

struct cudnnFilterStruct {
  cudnnTensorStruct t = {}; /* n: outputs, c: inputs */
};

struct cudnnConvolutionStruct {
  int pad_y = 0, pad_x = 0, step_y = 1, step_x = 1, dilation_y = 1, dilation_x = 1;
  bool flipped = false;
  int groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

struct cudnnActivationStruct {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_IDENTITY;
};

namespace sp_emu {

static int type_of(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT ? CUDA_R_32F : type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF : -1;
}

static bool packed_tensor(cudnnTensorStruct *t, cudnnTensorFormat_t format, cudnnDataType_t type, int n, int c, int h,
                          int w) {
  if (n < 1 || c < 1 || h < 1 || w < 1) return false;
  *t = {type_of(type), n, c, h, w, int64_t{c} * h * w, 0, 0, 0};
  if (format == CUDNN_TENSOR_NHWC) {
    t->dc = 1;
    t->dw = c;
    t->dh = int64_t{w} * c;
  } else {
    t->dw = 1;
    t->dh = w;
    t->dc = int64_t{h} * w;
  }
  return t->type >= 0;
}

static bool lies_there(const cudnnTensorStruct &t, const void *p) {
  int64_t last = (t.n - 1) * t.dn + (t.c - 1) * t.dc + (t.h - 1) * t.dh + (t.w - 1) * t.dw;
  return kind_of(p, static_cast<size_t>(last + 1) * (t.type == CUDA_R_32F ? 4 : 2)) == memory_device;
}

struct problem {
  cudnnTensorStruct x, y, w;
  cudnnConvolutionStruct c;
  int64_t patch, places; /* numbers under the kernel in a group, pixels of a result */
  int64_t outputs;       /* channels of a group's result */
  bool tf32;
};

static int64_t size_after(int64_t in, int pad, int64_t kernel, int dilation, int step) {
  return (in + 2 * pad - (dilation * (kernel - 1) + 1)) / step + 1;
}

static cudnnStatus_t make(problem *p, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                          cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t y) {
  *p = {*x, *y, w->t, *c, w->t.c * w->t.h * w->t.w, y->h * y->w, y->c / c->groups, false};
  p->tf32 = x->type == CUDA_R_32F && c->math != CUDNN_FMA_MATH;
  if (c->flipped) return CUDNN_STATUS_NOT_SUPPORTED;
  if (x->type != y->type || x->type != w->t.type || x->n != y->n || x->c != w->t.c * c->groups || y->c != w->t.n ||
      y->c % c->groups || y->h != size_after(x->h, c->pad_y, w->t.h, c->dilation_y, c->step_y) ||
      y->w != size_after(x->w, c->pad_x, w->t.w, c->dilation_x, c->step_x))
    return CUDNN_STATUS_BAD_PARAM;
  return CUDNN_STATUS_SUCCESS;
}

/* Calls fn(place of the result, place in the patch, offset in x) for every number of a group under the kernel that is
 * not padding. */
template <typename F> static void each_patch(const problem &p, int64_t group, F fn) {
  for (int64_t oy = 0; oy < p.y.h; oy++)
    for (int64_t ox = 0; ox < p.y.w; ox++)
      for (int64_t ky = 0; ky < p.w.h; ky++)
        for (int64_t kx = 0; kx < p.w.w; kx++) {
          int64_t iy = oy * p.c.step_y - p.c.pad_y + ky * p.c.dilation_y;
          int64_t ix = ox * p.c.step_x - p.c.pad_x + kx * p.c.dilation_x;
          if (iy < 0 || iy >= p.x.h || ix < 0 || ix >= p.x.w) continue;
          for (int64_t c = 0; c < p.w.c; c++)
            fn(oy * p.y.w + ox, (ky * p.w.w + kx) * p.w.c + c,
               (group * p.w.c + c) * p.x.dc + iy * p.x.dh + ix * p.x.dw);
        }
}

static std::vector<float> patches(const problem &p, const void *x, int64_t sample, int64_t group) {
  std::vector<float> out(static_cast<size_t>(p.places * p.patch), 0.0f);
  each_patch(p, group, [&](int64_t place, int64_t k, int64_t at) {
    out[static_cast<size_t>(place * p.patch + k)] = number_at(x, p.x.type, sample * p.x.dn + at);
  });
  return out;
}

static int64_t weight_at(const problem &p, int64_t o, int64_t k) {
  int64_t c = k % p.w.c, kx = k / p.w.c % p.w.w, ky = k / p.w.c / p.w.w;
  return o * p.w.dn + c * p.w.dc + ky * p.w.dh + kx * p.w.dw;
}

static std::vector<float> weights(const problem &p, const void *w, int64_t group) { /* outputs x patch */
  std::vector<float> out;
  for (int64_t o = group * p.outputs; o < (group + 1) * p.outputs; o++)
    for (int64_t k = 0; k < p.patch; k++) out.push_back(number_at(w, p.w.type, weight_at(p, o, k)));
  return out;
}

static std::vector<float> gradients(const problem &p, const void *dy, int64_t sample,
                                    int64_t group) { /* places x outputs */
  std::vector<float> out;
  for (int64_t y = 0; y < p.y.h; y++)
    for (int64_t x = 0; x < p.y.w; x++)
      for (int64_t o = group * p.outputs; o < (group + 1) * p.outputs; o++)
        out.push_back(number_at(dy, p.y.type, sample * p.y.dn + o * p.y.dc + y * p.y.dh + x * p.y.dw));
  return out;
}

static matrix view(const std::vector<float> &v, int64_t rows, int64_t cols, bool transposed) {
  if (transposed) return {v.data(), CUDA_R_32F, cols, rows, 1, cols};
  return {v.data(), CUDA_R_32F, rows, cols, cols, 1};
}

static void blend(void *p, int type, int64_t at, float alpha, float v, float beta) {
  float sum = alpha * v;
  if (beta != 0.0f) sum += beta * number_at(p, type, at);
  put_number(p, type, at, sum);
}

/* put(offset in y, channel, number) */
template <typename F> static void forward(const problem &p, const void *x, const void *w, int pieces, F put) {
  for (int64_t g = 0; g < p.c.groups; g++) {
    std::vector<float> kernel = weights(p, w, g), out;
    for (int64_t n = 0; n < p.x.n; n++) {
      std::vector<float> columns = patches(p, x, n, g);
      product(out, view(columns, p.places, p.patch, false), view(kernel, p.outputs, p.patch, true), p.tf32, pieces);
      for (int64_t i = 0; i < p.places; i++)
        for (int64_t o = 0; o < p.outputs; o++) {
          int64_t channel = g * p.outputs + o;
          int64_t at = channel * p.y.dc + i / p.y.w * p.y.dh + i % p.y.w * p.y.dw;
          put(n * p.y.dn + at, channel, out[static_cast<size_t>(i * p.outputs + o)]);
        }
    }
  }
}

static void backward_data(const problem &p, const void *dy, const void *w, void *dx, float alpha, float beta,
                          int pieces) {
  for (int64_t n = 0; n < p.x.n; n++) {
    std::vector<float> sum(static_cast<size_t>(p.x.dn), 0.0f), out;
    for (int64_t g = 0; g < p.c.groups; g++) {
      std::vector<float> kernel = weights(p, w, g), grad = gradients(p, dy, n, g);
      product(out, view(grad, p.places, p.outputs, false), view(kernel, p.outputs, p.patch, false), p.tf32, pieces);
      each_patch(p, g, [&](int64_t place, int64_t k, int64_t at) {
        sum[static_cast<size_t>(at)] += out[static_cast<size_t>(place * p.patch + k)];
      });
    }
    for (int64_t i = 0; i < p.x.dn; i++) blend(dx, p.x.type, n * p.x.dn + i, alpha, sum[static_cast<size_t>(i)], beta);
  }
}

static void backward_filter(const problem &p, const void *x, const void *dy, void *dw, float alpha, float beta,
                            int pieces) {
  for (int64_t g = 0; g < p.c.groups; g++) {
    std::vector<float> sum(static_cast<size_t>(p.outputs * p.patch), 0.0f), out;
    for (int64_t n = 0; n < p.x.n; n++) {
      std::vector<float> columns = patches(p, x, n, g), grad = gradients(p, dy, n, g);
      product(out, view(grad, p.places, p.outputs, true), view(columns, p.places, p.patch, false), p.tf32, pieces);
      for (size_t i = 0; i < sum.size(); i++) sum[i] += out[i];
    }
    for (int64_t o = 0; o < p.outputs; o++)
      for (int64_t k = 0; k < p.patch; k++)
        blend(dw, p.w.type, weight_at(p, g * p.outputs + o, k), alpha, sum[static_cast<size_t>(o * p.patch + k)], beta);
  }
}

/* ---- algorithms: 0 to 3 work; 1 asks for a workspace ---- */

enum part { of_forward, of_data, of_filter };

/* SPCORE_EMU_CONV: bytes that each asks for on top, for every sample. */
static size_t workspace_of(int algo, int64_t samples) {
  static const long each = [] {
    const char *text = getenv("SPCORE_EMU_CONV");
    return text ? strtol(text, nullptr, 10) : 0;
  }();
  return (algo == 1 ? 64 << 10 : 0) + static_cast<size_t>(each * samples);
}

static bool deterministic(part which, int algo) {
  if (which == of_data) return algo != CUDNN_CONVOLUTION_BWD_DATA_ALGO_0;
  if (which == of_filter)
    return algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 && algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
  return true;
}

static cudnnStatus_t workspace_size(int algo, const problem &p, size_t *bytes) {
  if (algo < 0 || algo > 3) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = workspace_of(algo, p.x.n);
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t enqueue(cudnnHandle_t handle, const problem &p, part which, int algo, void *workspace,
                             size_t bytes, const void *x, const void *w, const void *y,
                             std::function<void(int pieces)> what) {
  size_t needed = workspace_of(algo, p.x.n);
  if (algo < 0 || algo > 3) return CUDNN_STATUS_NOT_SUPPORTED;
  if (needed > bytes || (needed && kind_of(workspace, needed) != memory_device)) return CUDNN_STATUS_BAD_PARAM;
  if (!lies_there(p.x, x) || !lies_there(p.w, w) || !lies_there(p.y, y)) return CUDNN_STATUS_BAD_PARAM;
  if (usable(handle->stream)) return CUDNN_STATUS_EXECUTION_FAILED;
  cudaError_t error = submit(handle->stream, opened([=] {
                               static int calls;
                               if (needed) memset(workspace, 0xcb, needed);
                               what(deterministic(which, algo) ? 1 + algo : 1 + calls++ % 4);
                             }));
  return error ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}

} // namespace sp_emu

using namespace sp_emu;

extern "C" {

size_t cudnnGetVersion(void) { return CUDNN_VERSION; }

cudnnStatus_t cudnnGetProperty(libraryPropertyType what, int *value) {
  *value = what == MAJOR_VERSION ? CUDNN_MAJOR : what == MINOR_VERSION ? CUDNN_MINOR : CUDNN_PATCHLEVEL;
  return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "a cuDNN status that the emulator does not give";
  }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *out) {
  *out = new cudnnContext();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return usable(stream) ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}

/* ---- descriptors ---- */

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *out) {
  *out = new cudnnTensorStruct();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) {
  delete t;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t, cudnnTensorFormat_t format, cudnnDataType_t type,
                                         int n, int c, int h, int w) {
  return packed_tensor(t, format, type, n, c, h, w) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *out) {
  *out = new cudnnFilterStruct();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t w) {
  delete w;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t w, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int outputs, int inputs, int y, int x) {
  return packed_tensor(&w->t, format, type, outputs, inputs, y, x) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *out) {
  *out = new cudnnConvolutionStruct();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) {
  delete c;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t c, int pad_y, int pad_x, int step_y,
                                              int step_x, int dilation_y, int dilation_x, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (pad_y < 0 || pad_x < 0 || step_y < 1 || step_x < 1 || dilation_y < 1 || dilation_x < 1)
    return CUDNN_STATUS_BAD_PARAM;
  if (compute != CUDNN_DATA_FLOAT) return CUDNN_STATUS_NOT_SUPPORTED;
  c->pad_y = pad_y;
  c->pad_x = pad_x;
  c->step_y = step_y;
  c->step_x = step_x;
  c->dilation_y = dilation_y;
  c->dilation_x = dilation_x;
  c->flipped = mode != CUDNN_CROSS_CORRELATION;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
  c->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
  c->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

/* ---- convolutions ---- */

/* Some channels-last maps cuDNN 9.14 takes without dilation only, or is slow with it. */
static bool refused(const problem &p, cudnnConvolutionDescriptor_t c) {
  return p.tf32 && (c->dilation_y > 1 || c->dilation_x > 1) && c->groups == 1 && p.x.c % 8 == 0;
}

static cudnnStatus_t workspace_of(int algo, const problem &p, cudnnConvolutionDescriptor_t c, size_t *bytes) {
  return refused(p, c) ? CUDNN_STATUS_NOT_SUPPORTED : workspace_size(algo, p, bytes);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t c,
                                                      cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algo,
                                                      size_t *bytes) {
  problem p;
  cudnnStatus_t status = make(&p, x, w, c, y);
  return status ? status : workspace_of(algo, p, c, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t c,
                                                           cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algo, size_t *bytes) {
  problem p;
  cudnnStatus_t status = make(&p, dx, w, c, dy);
  bool other = c->pad_y % c->dilation_y == 0 && c->pad_x % c->dilation_x == 0; /* there is a way without dilation */
  return status ? status : other ? workspace_of(algo, p, c, bytes) : workspace_size(algo, p, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                             cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t c,
                                                             cudnnFilterDescriptor_t dw,
                                                             cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes) {
  problem p;
  cudnnStatus_t status = make(&p, x, dw, c, dy);
  return status ? status : workspace_of(algo, p, c, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x,
                                      const void *xp, cudnnFilterDescriptor_t w, const void *wp,
                                      cudnnConvolutionDescriptor_t c, cudnnConvolutionFwdAlgo_t algo, void *workspace,
                                      size_t bytes, const void *beta, cudnnTensorDescriptor_t y, void *yp) {
  problem p;
  cudnnStatus_t status = make(&p, x, w, c, y);
  float by = *static_cast<const float *>(alpha), keep = *static_cast<const float *>(beta);
  if (status) return status;
  return enqueue(handle, p, of_forward, algo, workspace, bytes, xp, wp, yp, [=](int pieces) {
    forward(p, xp, wp, pieces, [=](int64_t at, int64_t, float v) { blend(yp, p.y.type, at, by, v, keep); });
  });
}

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *out) {
  *out = new cudnnActivationStruct();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t a) {
  delete a;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t a, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t, double) {
  a->mode = mode;
  return CUDNN_STATUS_SUCCESS;
}

/* As cuDNN's: without an activation only algorithm 1 has it; the bias is of the maps' type. */
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x, const void *xp, cudnnFilterDescriptor_t w,
    const void *wp, cudnnConvolutionDescriptor_t c, cudnnConvolutionFwdAlgo_t algo, void *workspace, size_t bytes,
    const void *alpha2, cudnnTensorDescriptor_t z, const void *zp, cudnnTensorDescriptor_t bias, const void *bp,
    cudnnActivationDescriptor_t a, cudnnTensorDescriptor_t y, void *yp) {
  problem p;
  cudnnStatus_t status = make(&p, x, w, c, y);
  float by = *static_cast<const float *>(alpha), plus = *static_cast<const float *>(alpha2);
  bool relu = a->mode == CUDNN_ACTIVATION_RELU;
  if (status) return status;
  if (!relu && (a->mode != CUDNN_ACTIVATION_IDENTITY || algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM))
    return CUDNN_STATUS_NOT_SUPPORTED;
  if (z->type != y->type || z->n != y->n || z->c != y->c || z->h != y->h || z->w != y->w || bias->type != y->type ||
      bias->c != y->c || !lies_there(*z, zp) || !lies_there(*bias, bp))
    return CUDNN_STATUS_BAD_PARAM;
  return enqueue(handle, p, of_forward, algo, workspace, bytes, xp, wp, yp, [=](int pieces) {
    forward(p, xp, wp, pieces, [=](int64_t at, int64_t channel, float v) {
      float sum = by * v + number_at(bp, p.y.type, channel);
      if (plus != 0.0f) sum += plus * number_at(zp, p.y.type, at);
      put_number(yp, p.y.type, at, relu && sum < 0 ? 0 : sum);
    });
  });
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha, cudnnFilterDescriptor_t w,
                                           const void *wp, cudnnTensorDescriptor_t dy, const void *dyp,
                                           cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdDataAlgo_t algo,
                                           void *workspace, size_t bytes, const void *beta, cudnnTensorDescriptor_t dx,
                                           void *dxp) {
  problem p;
  cudnnStatus_t status = make(&p, dx, w, c, dy);
  float by = *static_cast<const float *>(alpha), keep = *static_cast<const float *>(beta);
  if (status) return status;
  return enqueue(handle, p, of_data, algo, workspace, bytes, dxp, wp, dyp,
                 [=](int pieces) { backward_data(p, dyp, wp, dxp, by, keep, pieces); });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x,
                                             const void *xp, cudnnTensorDescriptor_t dy, const void *dyp,
                                             cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdFilterAlgo_t algo,
                                             void *workspace, size_t bytes, const void *beta,
                                             cudnnFilterDescriptor_t dw, void *dwp) {
  problem p;
  cudnnStatus_t status = make(&p, x, dw, c, dy);
  float by = *static_cast<const float *>(alpha), keep = *static_cast<const float *>(beta);
  if (status) return status;
  return enqueue(handle, p, of_filter, algo, workspace, bytes, xp, dwp, dyp,
                 [=](int pieces) { backward_filter(p, xp, dyp, dwp, by, keep, pieces); });
}
}
