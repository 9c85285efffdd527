/* SPDX-License-Identifier: MIT
 * first.cu - the first convolution of a network: of images, three channels, stride 2, to few channels, in bfloat16.
 *
 * Three channels of a row of the kernel lie side by side in an image, so a row of the kernel is a run of numbers there,
 * and the product's depth is K runs with one number in front of each, which is taken as 0 and makes all pairs of
 * numbers begin at even places. A warp has a row of 32 pixels of y.
 */
#include "bf16.cuh"

namespace nnk {

enum { THREADS = 256, HIGH = THREADS / 32, WIDE = 32, CHANNELS = 3, PER_SM = 2, STAGES = 2 };

struct first_args {
  nnk_map y, x;
  const uint32_t *w; /* as the product takes them: [step][nt][lane][2] */
  const float *bias;
  int relu;
  tiling tiles;
};

/* A tile in shared memory begins four pixels before twice its first pixel: at 8 bytes in rows of images that are
 * multiples of four pixels wide. */
template <int K> struct window {
  enum { PAD = (K - 1) / 2, RUN = K * CHANNELS + 1, DEPTH = K * RUN, STEPS = (DEPTH + 15) / 16 };
  enum {
    START = (4 - PAD) * CHANNELS - 1,
    LINES = (HIGH - 1) * 2 + K,
    CHUNKS = (6 * (WIDE - 1) + START + RUN + 3) / 4
  };
  enum { PITCH = CHUNKS * 4 + 4, TILE = LINES * PITCH };
  static_assert(START % 2 == 0 && RUN % 2 == 0, "pairs begin at even places");
};

/* Lane (g, t) has of pixels g and g + 8 as many channels side by side as one store takes: those of four eights, from
 * t * 8 on, then those of the eights that are left. */
template <int NT> __device__ inline int channel_of(int nt, int g) {
  int group = nt / 4, size = NT - group * 4 < 4 ? NT - group * 4 : 4;
  return group * 32 + g / 2 * 2 * size + nt % 4 * 2 + g % 2;
}

/* Two numbers of the depth, of w as [channel][K][K][3]. */
template <int K> __device__ inline uint32_t weights_of(const __nv_bfloat16 *w, int channel, int k) {
  typedef window<K> W;
  uint32_t two[2];
  for (int i = 0; i < 2; i++) {
    int row = (k + i) / W::RUN, j = (k + i) % W::RUN;
    bool none = j == 0 || k + i >= W::DEPTH;
    two[i] = none ? 0 : __bfloat16_as_ushort(w[(channel * K + row) * K * CHANNELS + j - 1]);
  }
  return two[0] | two[1] << 16;
}

template <int K, int NT> __global__ void __launch_bounds__(THREADS) pack_first(uint32_t *to, const __nv_bfloat16 *w) {
  for (int i = static_cast<int>(threadIdx.x); i < window<K>::STEPS * NT * 64; i += THREADS) {
    int lane = i / 2 % 32, nt = i / 64 % NT, step = i / (64 * NT);
    to[i] = weights_of<K>(w, channel_of<NT>(nt, lane / 4), step * 16 + lane % 4 * 2 + i % 2 * 8);
  }
}

/* They arrive with the first tile. */
template <int K, int NT> __device__ inline void take_weights(uint32_t *factor, const first_args &p) {
  for (int i = static_cast<int>(threadIdx.x) * 4; i < window<K>::STEPS * NT * 64; i += THREADS * 4)
    copy_chunk(factor + i, p.w + i, true);
}

__device__ inline void copy_half_chunk(__nv_bfloat16 *to, const __nv_bfloat16 *from, bool valid) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
               :
               : "r"(in_shared(to)), "l"(from), "r"(valid ? 8 : 0)
               : "memory");
#else
  *reinterpret_cast<uint2 *>(to) = valid ? *reinterpret_cast<const uint2 *>(from) : make_uint2(0, 0);
#endif
}

template <int K> __device__ inline void fetch_tile(__nv_bfloat16 *to, const first_args &p, const corner &at) {
  typedef window<K> W;
  int h = static_cast<int>(p.x.h), row = static_cast<int>(p.x.w) * CHANNELS;
  const __nv_bfloat16 *from = static_cast<const __nv_bfloat16 *>(p.x.p) + static_cast<int64_t>(at.sample) * h * row;
  for (int i = static_cast<int>(threadIdx.x); i < W::LINES * W::CHUNKS; i += THREADS) {
    int line = i / W::CHUNKS, chunk = (i - line * W::CHUNKS) * 4;
    int y = at.y * 2 - W::PAD + line, x = (at.x * 2 - 4) * CHANNELS + chunk;
    bool valid = y >= 0 && y < h && x >= 0 && x < row;
    copy_half_chunk(to + line * W::PITCH + chunk, from + (valid ? static_cast<int64_t>(y) * row + x : 0), valid);
  }
}

/* Two numbers of the depth, from F + 2 t on, of the pixel at `from`. What weights of 0 meet is made 0:
 * it may be NaN. */
template <int K, int F> __device__ inline uint32_t pair_at(const __nv_bfloat16 *from, int t) {
  typedef window<K> W;
  constexpr int row = F / W::RUN, j = F % W::RUN, next = (W::RUN - j) / 2; /* the first t of the next run */
  uint32_t v = 0;
  if (F + 2 * t < W::DEPTH)
    v = *reinterpret_cast<const uint32_t *>(from + row * W::PITCH + j + 2 * t + (t >= next ? W::PITCH - W::RUN : 0));
  if (j == 0 || next < 4) v = t == (j == 0 ? 0 : next) ? v & 0xffff0000u : v;
  return v;
}

template <int K, int NT, int S> struct steps {
  static __device__ void run(float (*sums)[NT][4], const __nv_bfloat16 *from, const uint2 *factor, int t) {
    uint32_t a[2][4];
#pragma unroll
    for (int m = 0; m < 2; m++) {
      const __nv_bfloat16 *at = from + m * 16 * 6;
      a[m][0] = pair_at<K, S * 16>(at, t), a[m][1] = pair_at<K, S * 16>(at + 8 * 6, t);
      a[m][2] = pair_at<K, S * 16 + 8>(at, t), a[m][3] = pair_at<K, S * 16 + 8>(at + 8 * 6, t);
    }
#pragma unroll
    for (int nt = 0; nt < NT; nt++) {
      uint2 f = factor[(S * NT + nt) * 32];
      uint32_t b[2] = {f.x, f.y};
      product16(sums[0][nt], a[0], b);
      product16(sums[1][nt], a[1], b);
    }
    if constexpr (S + 1 < window<K>::STEPS) steps<K, NT, S + 1>::run(sums, from, factor, t);
  }
};

template <int NT>
__device__ inline void leave(const first_args &p, const corner &at, float (*sums)[NT][4], const float *bias, int lane) {
  int y = at.y + static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
  if (y >= p.y.h) return;
  __nv_bfloat16 *to = static_cast<__nv_bfloat16 *>(p.y.p) + (at.sample * p.y.h + y) * p.y.w * (NT * 8);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    int x = at.x + i * 8 + g;
    if (x >= p.y.w) continue;
    uint32_t two[NT];
#pragma unroll
    for (int nt = 0; nt < NT; nt++) {
      float v[2];
      for (int j = 0; j < 2; j++) {
        v[j] = sums[i / 2][nt][i % 2 * 2 + j] + bias[channel_of<NT>(nt, t * 2 + j)];
        v[j] = p.relu ? relu_of(v[j]) : v[j];
      }
      two[nt] = two_bf16(v[0], v[1]);
    }
    __nv_bfloat16 *here = to + x * (NT * 8);
#pragma unroll
    for (int nt = 0; nt + 4 <= NT; nt += 4) store_words<4>(here + channel_of<NT>(nt, t * 2), two + nt);
    if constexpr (NT % 4 == 2) store_words<2>(here + channel_of<NT>(NT - 2, t * 2), two + NT - 2);
  }
}

template <int K, int NT> __global__ void __launch_bounds__(THREADS, PER_SM) first(first_args p) {
  typedef window<K> W;
  __shared__ __align__(16) uint32_t factor[W::STEPS * NT * 64];
  __shared__ __align__(16) __nv_bfloat16 tile[STAGES][W::TILE];
  __shared__ float bias[NT * 8];
  int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, t = lane % 4, stage = 0;
  int i = static_cast<int>(blockIdx.x);
  sp_launch_next();
  take_weights<K, NT>(factor, p);
  for (int j = static_cast<int>(threadIdx.x); j < NT * 8; j += THREADS) bias[j] = p.bias ? p.bias[j] : 0;
  sp_launch_wait();
  fetch_tile<K>(tile[0], p, corner_of<HIGH, WIDE>(p.tiles, i));
  end_stage();
  for (; i < p.tiles.count; i += static_cast<int>(gridDim.x), stage ^= 1) {
    int next = i + static_cast<int>(gridDim.x);
    if (next < p.tiles.count) fetch_tile<K>(tile[stage ^ 1], p, corner_of<HIGH, WIDE>(p.tiles, next));
    end_stage();
    wait_stage<1>();
    __syncthreads();
    float sums[2][NT][4];
#pragma unroll
    for (int j = 0; j < 8 * NT; j++) sums[j / (4 * NT)][j / 4 % NT][j % 4] = 0;
    steps<K, NT, 0>::run(sums, tile[stage] + 2 * warp * W::PITCH + W::START + 6 * (lane / 4),
                         reinterpret_cast<const uint2 *>(factor) + lane, t);
    leave<NT>(p, corner_of<HIGH, WIDE>(p.tiles, i), sums, bias, lane);
    __syncthreads(); /* before the tile is overwritten */
  }
}

template <int K, int NT> static int run(void *stream, const first_args &p, int multiprocessors) {
  int most = multiprocessors * PER_SM;
  unsigned grid = static_cast<unsigned>(p.tiles.count < most ? p.tiles.count : most);
  SP_LAUNCH_EARLY((first<K, NT>), grid, THREADS, 0, stream, p);
  return launched();
}

template <int K> static int run_for(void *stream, const first_args &p, int multiprocessors) {
  switch (p.y.c) {
    case 16: return run<K, 2>(stream, p, multiprocessors);
    case 32: return run<K, 4>(stream, p, multiprocessors);
    case 48: return run<K, 6>(stream, p, multiprocessors);
    default: return run<K, 8>(stream, p, multiprocessors);
  }
}

template <int K> static void pack_for(void *stream, uint32_t *to, const __nv_bfloat16 *w, int64_t out) {
  switch (out) {
    case 16: SP_LAUNCH((pack_first<K, 2>), 1, THREADS, 0, stream, to, w); break;
    case 32: SP_LAUNCH((pack_first<K, 4>), 1, THREADS, 0, stream, to, w); break;
    case 48: SP_LAUNCH((pack_first<K, 6>), 1, THREADS, 0, stream, to, w); break;
    default: SP_LAUNCH((pack_first<K, 8>), 1, THREADS, 0, stream, to, w);
  }
}

} // namespace nnk

using namespace nnk;

int nnk_first_shape(const nnk_map *y, const nnk_map *x, const int *k, const int *stride, const int *pad) {
  for (int i = 0; i < 2; i++)
    if ((k[i] != 3 && k[i] != 7) || k[i] != k[0] || stride[i] != 2 || pad[i] != (k[i] - 1) / 2) return 0;
  int64_t tiles = y->n * up(y->h, HIGH) * up(y->w, WIDE);
  return x->c == CHANNELS && y->c % 16 == 0 && y->c <= 64 && x->elt == NNK_BF16 && y->elt == NNK_BF16 &&
         x->layout == 0 && y->layout == 0 && x->w % 4 == 0 && x->w < 1 << 20 && x->h < 1 << 20 && tiles < INT32_MAX;
}

size_t nnk_first_bytes(int k, int64_t out) {
  int steps = k == 3 ? static_cast<int>(window<3>::STEPS) : static_cast<int>(window<7>::STEPS);
  return static_cast<size_t>(steps * out) * 32;
}

int nnk_first_pack(void *stream, void *to, const void *w, int k, int64_t out) {
  if ((k != 3 && k != 7) || out % 16 || out < 16 || out > 64) return refused();
  if (k == 3) pack_for<3>(stream, static_cast<uint32_t *>(to), static_cast<const __nv_bfloat16 *>(w), out);
  else pack_for<7>(stream, static_cast<uint32_t *>(to), static_cast<const __nv_bfloat16 *>(w), out);
  return launched();
}

int nnk_first_forward(void *stream, const nnk_map *y, const nnk_map *x, int k, const void *w, const float *bias,
                      int relu, int multiprocessors) {
  int ks[2] = {k, k}, stride[2] = {2, 2}, pad[2] = {(k - 1) / 2, (k - 1) / 2};
  if (!nnk_first_shape(y, x, ks, stride, pad)) return refused();
  if (elements(*y) == 0) return cudaSuccess;
  first_args p = {*y, *x, static_cast<const uint32_t *>(w), bias, relu, tiling_of<HIGH, WIDE>(y)};
  return k == 3 ? run_for<3>(stream, p, multiprocessors) : run_for<7>(stream, p, multiprocessors);
}
