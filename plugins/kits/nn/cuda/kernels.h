/* SPDX-License-Identifier: MIT
 * kernels.h - the kernels of networks on CUDA, as C functions that enqueue on a stream.
 *
 * Maps lie as n x pixels x channels (channels innermost) in the pixel order `layout` of lower.h: NN_PLANAR is N,C,H,W;
 * 0 is row-major pixels; d > 0 has the pixels of each 2^d x 2^d tile in Z order. Pixel y, x of a map of width w is at
 *   (((y >> d) * (w >> d) + (x >> d)) << 2 d) + interleave(y & (2^d - 1), x & (2^d - 1)),  x in the even bits.
 * All results are deterministic: sums are cut in pieces that depend on shapes, and where a function takes them on the
 * number of multiprocessors, and are added in a fixed order; no floating-point atomics. `work` is garbage memory of the
 * size that the NAME_work function gives (0: none needed), for the same number of multiprocessors. What a kernel needs
 * of the device the caller knows (ways/device.h): TF32 or bfloat16 products, warp groups.
 * Every function returns a cudaError_t as int, never synchronizes and never allocates, so it may be captured.
 */
#ifndef NN_CUDA_KERNELS_H
#define NN_CUDA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include <spcore/ext/precision.h>
#include <spcore/plugin.h>

#include "../lower/fold.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NNK_F32 = 0, NNK_BF16 = 1 }; /* type of activations and their gradients; sums are float32 */

typedef struct nnk_map { /* one value, or its gradient */
  void *p;
  int elt, layout;
  int64_t n, c, h, w;
} nnk_map;

/* Where a sum goes: p = beta * p + alpha * sum; alpha is *scale where scale (device memory) is not NULL, else 1. */
typedef struct nnk_sum {
  float *p;
  const float *scale;
  int add; /* beta: 0 or 1 */
} nnk_sum;

/* ---- moving and elementwise. `mask`, where not NULL, is a map of the same layout and type as the gradient that is
 * written: where it is not > 0 the gradient is 0 (a ReLU's output is its own mask). add: to what is there. ---- */
int nnk_copy(void *stream, const nnk_map *dst, const nnk_map *src, int add); /* any layout and type to any */
/* Of a convolution of stride 1 whose maps are of one size: place ky, kx of its kernel meets, at pixel y, x, pixel
 * y + ky dil - p and so on. Maps of layout 0, pixels of a multiple of 16 bytes, at 16 bytes. */
typedef struct nnk_taps {
  int k[2], dil[2], p[2]; /* {y, x} */
} nnk_taps;
/* For each place a map as `from`, in which what is at y, x is where the place meets it; 0 where none does. */
int nnk_shift(void *stream, void *to, const nnk_map *from, const nnk_taps *taps);
/* The sum over the places of what each meets in its own map; float32. */
int nnk_shift_sum(void *stream, const nnk_map *to, const void *from, const nnk_taps *taps);
/* Of a map's rows every dy-th, of its columns every dx-th, beginning at each of the first so many: maps that lie apart,
 * one behind the other in a batch, all as large as the largest; what is beyond the map's border is 0. Layout 0. */
typedef struct nnk_lattice {
  int64_t dy, dx, rows, cols;
} nnk_lattice;
nnk_lattice nnk_lattice_of(const int *every, const nnk_map *a, const nnk_map *b); /* for two maps, {y, x} */
nnk_map nnk_apart(const nnk_map *m, nnk_lattice l);                               /* its shape, without a place */
int nnk_space_to_batch(void *stream, const nnk_map *dst, const nnk_map *src, nnk_lattice l);
int nnk_batch_to_space(void *stream, const nnk_map *dst, const nnk_map *src, nnk_lattice l, int add);
int nnk_relu(void *stream, const nnk_map *y, const nnk_map *x);
/* dx = or += mask > 0 ? dy : 0; dx and dy may be one, or of two layouts. mask NULL: a copy. */
int nnk_mask(void *stream, const nnk_map *dx, const nnk_map *dy, const nnk_map *mask, int add);
int nnk_add(void *stream, const nnk_map *y, const nnk_map *a, const nnk_map *b, int relu);
/* n maps, up to NNK_PARTS, all of one layout; c of y is theirs together. With rows and columns that are so many times a
 * part's, layout 0 only, each of the part's pixels is there as often; its gradient is the sum over these. */
enum { NNK_PARTS = 16 };
int nnk_concat(void *stream, const nnk_map *y, int n, const nnk_map *parts);
/* Channels first .. first + dx->c - 1 of dy go to dx. */
int nnk_split(void *stream, const nnk_map *dx, const nnk_map *dy, int64_t first, const nnk_map *mask, int add);
/* enum nn_act of act.h; all of one layout. dx = or += dy times the slope at x. */
int nnk_act_forward(void *stream, int act, float k, const nnk_map *y, const nnk_map *x);
int nnk_act_backward(void *stream, int act, float k, const nnk_map *dx, const nnk_map *dy, const nnk_map *x,
                     const nnk_map *mask, int add);
/* y = or += a times b, channels innermost; b may be of one pixel, which is then for all. */
int nnk_mul(void *stream, const nnk_map *y, const nnk_map *a, const nnk_map *b, const nnk_map *mask, int add);
/* The gradient of such a b: db = or += the sum over the pixels of dy times a. */
int nnk_mul_sum(void *stream, const nnk_map *db, const nnk_map *dy, const nnk_map *a, const nnk_map *mask, int add);
/* y = x + bias (c numbers, NULL: none) + plus (as y; NULL: nothing), then ReLU; x and y may be one. */
int nnk_bias_relu(void *stream, const nnk_map *y, const nnk_map *x, const float *bias, const nnk_map *plus, int relu);
/* dst[i] as nnk_sum from src[i], which is of elt. */
int nnk_axpy(void *stream, nnk_sum dst, int elt, const void *src, int64_t n);
/* Where 0 and 1 lie on the current GPU, as long as the plugin is loaded. Not while a stream is captured. */
int nnk_numbers(const float **numbers);
/* float32 to bfloat16, up to NNK_LIST arrays in one launch. */
enum { NNK_LIST = 32 };
int nnk_cast(void *stream, int n, void *const *dst, const float *const *src, const int64_t *count);
/* dst[i] = src[i mod period], up to NNK_LIST arrays in one launch: a bias for each of the pixels under a kernel. */
int nnk_repeat(void *stream, int n, float *const *dst, const float *const *src, const int64_t *count,
               const int64_t *period);

/* ---- sums over pixels, and sums in pieces ---- */
/* `count` sums that lie in pieces: dst[i] as nnk_sum from the sum of parts[k * stride + i] over k < pieces. */
typedef struct nnk_pieces {
  nnk_sum dst;
  const float *parts;
  int64_t count, stride, pieces;
} nnk_pieces;
/* Up to NNK_LIST of them in one launch. */
int nnk_add_pieces(void *stream, int n, const nnk_pieces *list);
/* work: pieces of the sum over all rows of dy (n x pixels x c), which may be NNK_PLANAR too; their stride is c. */
size_t nnk_bias_grad_work(const nnk_map *dy);
int nnk_bias_pieces(void *stream, const nnk_map *dy, float *work, int64_t *pieces);
/* nnk_mask without `add`, and the pieces of dx in the same pass. */
int nnk_mask_pieces(void *stream, const nnk_map *dx, const nnk_map *dy, const nnk_map *mask, float *work,
                    int64_t *pieces);
/* g[c] from dy, pieces and sum. */
int nnk_bias_grad(void *stream, nnk_sum g, const nnk_map *dy, void *work);

/* ---- batch norm over a map (any layout), as nn.BatchNorm2d. stats: 2c floats, mean and 1/sqrt(var + eps) ---- */
size_t nnk_norm_work(const nnk_map *x);
/* stats of the batch; running mean and (unbiased) variance are moved by `momentum`, *count is raised by 1. */
int nnk_norm_stats(void *stream, float *stats, const nnk_map *x, double eps, double momentum, float *mean, float *var,
                   int64_t *count, void *work);
/* stats from the running mean and variance */
int nnk_norm_running(void *stream, float *stats, int64_t c, const float *mean, const float *var, double eps);
int nnk_norm_forward(void *stream, const nnk_map *y, const nnk_map *x, const float *stats, const float *gamma,
                     const float *beta, int relu);
/* batch: stats were of this batch (the gradient flows through them), else they were constants. dx->p NULL: not wanted;
 * mask and add as above. dgamma.p, dbeta.p NULL: not wanted. x is the input of forward, dy is masked already. */
int nnk_norm_backward(void *stream, const nnk_map *dx, const nnk_map *dy, const nnk_map *x, const float *stats,
                      const float *gamma, nnk_sum dgamma, nnk_sum dbeta, int batch, const nnk_map *mask, int add,
                      void *work);

/* ---- group norm, channels innermost, as nn.GroupNorm. stats: mean and 1/sqrt(var + eps) of each sample's groups; else
 * as batch norm over a batch ---- */
size_t nnk_group_work(const nnk_map *x);
int nnk_group_forward(void *stream, const nnk_map *y, const nnk_map *x, int64_t groups, double eps, float *stats,
                      const float *gamma, const float *beta, int relu, void *work);
int nnk_group_backward(void *stream, const nnk_map *dx, const nnk_map *dy, const nnk_map *x, int64_t groups,
                       const float *stats, const float *gamma, nnk_sum dgamma, nnk_sum dbeta, const nnk_map *mask,
                       int add, void *work);

/* A batch norm of running statistics in the weights w (`count` of them, of the channels that fold.h says) and the bias
 * (NULL: none) of the product before it. */
typedef struct nnk_folded {
  float *to_w, *to_b;
  const float *w, *bias, *gamma, *beta, *mean, *var;
  double eps;
  int64_t count, c;
  nn_channels channels;
} nnk_folded;
int nnk_fold(void *stream, const nnk_folded *f);

/* ---- pooling; layouts 0 only. k, s, p: {y, x}. avg counts the padding, as nn.AvgPool2d ---- */
typedef struct nnk_window {
  int k[2], s[2], p[2];
} nnk_window;
int nnk_pool_forward(void *stream, int max, const nnk_map *y, const nnk_map *x, nnk_window w);
/* max: the first of equal values gets the gradient, found again from x. */
int nnk_pool_backward(void *stream, int max, const nnk_map *dx, const nnk_map *dy, const nnk_map *x, nnk_window w,
                      const nnk_map *mask, int add);

/* ---- to another size; layouts 0 only. mode: enum nn_resize of axis.h ---- */
int nnk_upsample_forward(void *stream, int mode, const nnk_map *y, const nnk_map *x);
int nnk_upsample_backward(void *stream, int mode, const nnk_map *dx, const nnk_map *dy, const nnk_map *mask, int add);
/* dst, of one pixel, = or += the sum over src's: what such a map had as its share of any larger one. */
int nnk_sum_pixels(void *stream, const nnk_map *dst, const nnk_map *src, const nnk_map *mask, int add);
/* The same for bilinear modes that enlarge maps of few channels; nnk_zoom says whether maps are such. */
int nnk_zoom(int mode, const nnk_map *y, const nnk_map *x);
int nnk_zoom_forward(void *stream, int mode, const nnk_map *y, const nnk_map *x);
int nnk_zoom_backward(void *stream, int mode, const nnk_map *dx, const nnk_map *dy, const nnk_map *mask, int add);

/* ---- dropout, as ../drop.h says; channels innermost. step and ids are of the device; step NULL, or not of a training:
 * nothing is dropped ---- */
typedef struct nnk_drop {
  const sp_step *step;
  const uint64_t *ids;
  uint64_t salt; /* of the key */
  uint32_t limit;
  float scale;
  int maps; /* a unit is a channel, else an element */
} nnk_drop;
int nnk_dropout(void *stream, const nnk_drop *d, const nnk_map *to, const nnk_map *from, const nnk_map *mask, int add);

/* ---- narrow convolutions: stride 1, kernel 1x1 or 3x3 with pad (k-1)/2, few channels, any layouts of in and output.
 * w: float32 [out][ky][kx][in]. precision: SP_PRECISION_..., what products round their factors to. nnk_narrow says
 * whether these kernels take such a layer with SP_PRECISION_FP32,
 * the others whether they do with SP_PRECISION_TF32 and _BF16. ---- */
int nnk_narrow(int k, int64_t in, int64_t out);
int nnk_narrow_tf32(int k, int64_t in, int64_t out);
int nnk_narrow_bf16(int k, int64_t in, int64_t out);
int nnk_narrow_prepare(void); /* before the first call in bfloat16, and not into a capture */
int nnk_narrow_forward(void *stream, int k, const nnk_map *y, const nnk_map *x, const float *w, const float *bias,
                       int relu, int precision, int multiprocessors);
int nnk_narrow_data(void *stream, int k, const nnk_map *dx, const nnk_map *dy, const float *w, const nnk_map *mask,
                    int add, int precision, int multiprocessors);
size_t nnk_narrow_weight_work(int k, const nnk_map *x, const nnk_map *dy, int multiprocessors);
/* dW and the bias' gradient (db.p NULL: none) in one pass. */
int nnk_narrow_weight(void *stream, int k, nnk_sum dw, nnk_sum db, const nnk_map *x, const nnk_map *dy, int precision,
                      void *work, int multiprocessors);

/* ---- the first convolution of a network: 7x7 or 3x3 with pad (k-1)/2, stride 2, of three channels to 16, 32, 48 or
 * 64; maps in bfloat16, row-major pixels, images as wide as a multiple of four. nnk_first_shape says whether the layer
 * is such (pointers do not matter; they begin at 8 bytes, y's and w at 16).
 * nnk_first_pack() makes of w ([out][ky][kx][in]) the nnk_first_bytes() that the call takes; as with nnk_wide_forward()
 * they and bias have to be there when it is made. ---- */
int nnk_first_shape(const nnk_map *y, const nnk_map *x, const int *k, const int *stride, const int *pad);
size_t nnk_first_bytes(int k, int64_t out);
int nnk_first_pack(void *stream, void *to, const void *w, int k, int64_t out);
int nnk_first_forward(void *stream, const nnk_map *y, const nnk_map *x, int k, const void *w, const float *bias,
                      int relu, int multiprocessors);

/* ---- convolutions of many channels in a frozen network, in bfloat16 by warp groups: 3x3 with pad 1 and 1x1,
 * stride 1 or 2; from a multiple of 64 channels to one of 32 (1x1 with stride 2: 64); row-major pixels at 16 bytes;
 * bias may be NULL, plus (as y) too.
 * nnk_wide_shape says whether the layer is such, nnk_has_warp_groups whether this module has the code for the current
 * device's. ---- */
int nnk_wide_shape(const nnk_map *y, const nnk_map *x, const int *k, const int *stride, const int *pad);
int nnk_has_warp_groups(void);
int nnk_wide_prepare(void); /* before the first call, and not into a capture */
/* What nnk_wide_forward() takes for w ([out][ky][kx][in], out a multiple of 32), of the same size, at 16 bytes;
 * `own_order`: its depth is in the order in which a kernel's own sums are. A call may read it before kernels ahead
 * of it in the stream have ended, so that it has to be there when the call is made. */
int nnk_wide_pack(void *stream, void *to, const void *w, int64_t out, int k, int64_t in, int own_order);
int nnk_wide_forward(void *stream, const nnk_map *y, const nnk_map *x, int k, int stride, const void *w,
                     const float *bias, const nnk_map *plus, int relu, int multiprocessors);

/* ---- of a frozen residual network, from the 3x3 convolution of a block to the first 1x1 one of the next, at once; in
 * bfloat16 by warp groups, row-major pixels at 16 bytes:
 *   i = ReLU(3x3 of x, 64 to 64 channels), y = ReLU(1x1 of i, to 256 + plus), z = ReLU(1x1 of y, to 64 or 128),
 * where with w[2] `plus` is not as y, but has 64 channels and a 1x1 convolution of its own (z: 64). Weights are
 * nnk_wide_pack()'s, w[1] to w[3] in their own order; biases may be NULL.
 * They have to be there when the call is made. ---- */
typedef struct nnk_neck {
  nnk_map x, plus, y, z;
  const void *w[4];     /* of x, of i, of `plus` or NULL, of y */
  const float *bias[4]; /* likewise */
} nnk_neck;
int nnk_neck_shape(const nnk_neck *of); /* is it such a part? of pointers only w[2] matters, and whether it is NULL */
int nnk_neck_prepare(void);             /* before the first call, and not into a capture */
int nnk_neck_forward(void *stream, const nnk_neck *of, int multiprocessors);

/* ---- matrix products with few rows, bound by reading the weights: y[m][n] = x[m][k] w[n][k], all row-major, m up to
 * NNK_SKINNY; sums in float32 (x, y of `elt`, w of welt) ---- */
enum { NNK_SKINNY = 32 };
size_t nnk_skinny_work(int64_t m, int64_t n, int64_t k);
/* bias has n numbers or is NULL */
int nnk_skinny_forward(void *stream, int elt, void *y, const void *x, int welt, const void *w, const float *bias,
                       int relu, int64_t m, int64_t n, int64_t k, void *work);
/* dx[m][k] = (+=) dy[m][n] w[n][k], then the mask ([m][k], of elt) */
int nnk_skinny_data(void *stream, int elt, void *dx, const void *dy, int welt, const void *w, const void *mask, int add,
                    int64_t m, int64_t n, int64_t k, void *work);
/* dw[n][k] as nnk_sum from dy[m][n] x[m][k] */
int nnk_skinny_weight(void *stream, int elt, nnk_sum dw, const void *dy, const void *x, int64_t m, int64_t n,
                      int64_t k);

/* ---- the gradient of large weights over up to NNK_OUTER rows, float32, factors rounded to TF32, n and k multiples of
 * 64: nnk_outer_takes; tf32: they may be, and the device can ---- */
enum { NNK_OUTER = 256 };
typedef struct nnk_outer {
  const float *dy, *x; /* [m][n], [m][k]; these and dw begin at 16 bytes */
  int64_t m, n, k;
  nnk_sum dw;   /* [n][k]; p NULL: not wanted, and n and k are any */
  nnk_sum db;   /* p NULL: not wanted; else the sums of dy's columns i, i + cols, ... for each i < cols */
  int64_t cols; /* divides n */
} nnk_outer;
int nnk_outer_takes(int64_t m, int64_t n, int64_t k, int elt, int tf32);
int nnk_outer_weight(void *stream, const nnk_outer *of);

/* ---- dx[m][k] = dy[m][n] w[n][k], 0 where x is not > 0, float32, factors rounded to TF32, with the sums of dx's
 * columns; by tiles of NNK_MASKED_LESS or NNK_MASKED_MORE rows. nnk_masked_takes says whether the shapes are such
 * and blocks have so much shared memory; nnk_masked_prepare() goes before the first call,
 * and not into a capture. ---- */
enum { NNK_MASKED_LESS = 64, NNK_MASKED_MORE = 128 };
typedef struct nnk_masked {
  float *dx;
  const float *dy, *w, *x; /* x: [m][k], as dx; all begin at 16 bytes */
  int64_t m, n, k, cols;
  float *sums; /* NULL: not wanted; else pieces of the sums of dx's columns i, i + cols, ..., cols numbers each */
} nnk_masked;
int nnk_masked_takes(int64_t m, int64_t n, int64_t k, int64_t cols, int elt, int tf32, size_t shared_bytes);
int nnk_masked_prepare(void);
/* Bytes of `sums`, for fewer rows, too; 0: it takes no such shapes. */
size_t nnk_masked_work(int64_t m, int64_t n, int64_t k, int64_t cols);
int nnk_masked_data(void *stream, int rows, const nnk_masked *of, int64_t *pieces);

/* ---- the whole backward of a product y[m][n] = x[m][k] w[n][k] with many rows and small weights, all row-major and
 * float32, factors rounded to TF32, in one pass over dy and x. nnk_patch says whether there is a kernel and
 * blocks have so much shared memory; nnk_patch_prepare() goes before the first call, and not into a capture. ---- */
int nnk_patch(int64_t m, int64_t n, int64_t k, int elt, int tf32, size_t shared_bytes);
int nnk_patch_prepare(int64_t n, int64_t k);
/* dx[m][k] = (+=) dy w; relu: 0 where x is not > 0. work: pieces of n * k + cols + data_cols numbers, first of
 * dw = dy^T x, then of the sums of dy's columns i, i + cols, ... for each i < cols, then of those of dx, by data_cols.
 * All maps and w begin at 16 bytes. */
size_t nnk_patch_work(int64_t m, int64_t n, int64_t k, int multiprocessors);
int nnk_patch_backward(void *stream, float *dx, int add, int relu, const float *dy, const float *x, const float *w,
                       int64_t cols, int64_t data_cols, int64_t m, int64_t n, int64_t k, float *work, int64_t *pieces,
                       int multiprocessors);

/* ---- a 1x1 convolution to 16 channels with ReLU and a patch convolution of that to 32, in one pass that does not
 * store the map between; x of 1 or 3 channels, row-major or channels-last, y in Z order, all float32, factors rounded
 * to TF32. nnk_stem says whether the shapes are such (their pointers do not matter); nnk_stem_prepare() goes before the
 * first call, and not into a capture. x, y, dy and w1 begin at 16 bytes. ---- */
typedef struct nnk_layers {
  const float *w0, *b0; /* [16][c] and [16], NULL: no bias */
  const float *w1, *b1; /* [32][2][2][16] and [32], NULL: no bias */
  int relu;             /* of y */
} nnk_layers;
int nnk_stem(const nnk_map *x, int64_t middle, const nnk_map *y);
int nnk_stem_prepare(void);
int nnk_stem_forward(void *stream, const nnk_map *y, const nnk_map *x, const nnk_layers *s, int multiprocessors);
size_t nnk_stem_work(const nnk_map *x, const nnk_map *y, int multiprocessors);
/* dx NULL: not wanted. sums: pieces of the gradients of w1, b1, w0, b0; their dst is the caller's. */
int nnk_stem_backward(void *stream, const nnk_map *dx, int add, const nnk_map *dy, const nnk_map *x,
                      const nnk_layers *s, float *work, nnk_pieces *sums, int multiprocessors);

#ifdef __cplusplus
}
#endif
#endif
