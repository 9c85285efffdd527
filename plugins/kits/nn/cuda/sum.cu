/* SPDX-License-Identifier: MIT
 * sum.cu - sums per channel, by themselves or on the way of a mask, and the sums of the pieces that these
 * and other kernels leave.
 */
#include "rows.cuh"

namespace nnk {

enum { COLUMNS = 32, TEAM = 32, FEW = 32 * TEAM };

struct pieces_args {
  nnk_pieces list[NNK_LIST];
  uint32_t start[NNK_LIST + 1]; /* first block of each */
};

__global__ void __launch_bounds__(COLUMNS *TEAM) add_pieces(pieces_args p, int n) {
  __shared__ float sums[TEAM][COLUMNS];
  int lane = static_cast<int>(threadIdx.x) % COLUMNS, member = static_cast<int>(threadIdx.x) / COLUMNS, k = 0;
  while (k + 1 < n && blockIdx.x >= p.start[k + 1]) k++;
  const nnk_pieces &q = p.list[k];
  int64_t i = static_cast<int64_t>(blockIdx.x - p.start[k]) * COLUMNS + lane;
  float s = 0;
  if (i < q.count) {
    const float *parts = q.parts + i;
#pragma unroll 8
    for (int64_t piece = member; piece < q.pieces; piece += TEAM) s += parts[piece * q.stride];
  }
  sums[member][lane] = s;
  for (int half = TEAM / 2; half > 0; half /= 2) {
    __syncthreads();
    if (member < half) sums[member][lane] += sums[member + half][lane];
  }
  if (member == 0 && i < q.count) sum_into(q.dst, i, sums[0][lane]);
}

int sum_pieces(void *stream, nnk_sum dst, int64_t count, nnk_sum dst2, int64_t count2, const float *parts,
               int64_t pieces) {
  nnk_pieces list[2] = {{dst, parts, count, count + count2, pieces},
                        {dst2, parts + count, count2, count + count2, pieces}};
  return nnk_add_pieces(stream, dst2.p ? 2 : 1, list);
}

struct sums_to_work {
  float *work;

  typedef float part;
  template <int V> struct zeros {
    float s[V];
    __device__ void begin(const sums_to_work &, int64_t) {
      for (int j = 0; j < V; j++) s[j] = 0;
    }
    __device__ float part_of(int j) const { return s[j]; }
  };
  static __device__ void merge(float *a, float b) { *a += b; }
  __device__ void finish(const cut &q, int64_t piece, int64_t ch, float s) const { work[piece * q.c + ch] = s; }
};

/* Of a gradient that lies there complete. */
template <typename T> struct plain_sum : sums_to_work {
  const T *dy;

  enum { EACH = 8, RESIDENT = 4 };
  template <int V> struct sum : zeros<V> {
    struct item {
      float v[V];
    };
    __device__ void get(const plain_sum &p, int64_t at, item *i) const { load<V>(i->v, p.dy, at); }
    __device__ void take(const plain_sum &, int64_t, const item &i) {
#pragma unroll
      for (int j = 0; j < V; j++) this->s[j] += i.v[j];
    }
  };
};

/* Stores that stay whole: the compiler takes plain ones apart where it knows the type. */
template <int V> __device__ inline void put(float *p, const float *v) {
  if constexpr (V == 4) __stwb(reinterpret_cast<float4 *>(p), make_float4(v[0], v[1], v[2], v[3]));
  else if constexpr (V == 2) __stwb(reinterpret_cast<float2 *>(p), make_float2(v[0], v[1]));
  else *p = v[0];
}

template <int V> __device__ inline void put(__nv_bfloat16 *p, const float *v) {
  if constexpr (V == 4) __stwb(reinterpret_cast<uint2 *>(p), make_uint2(two_bf16(v[0], v[1]), two_bf16(v[2], v[3])));
  else if constexpr (V == 2) __stwb(reinterpret_cast<uint32_t *>(p), two_bf16(v[0], v[1]));
  else *p = __float2bfloat16_rn(v[0]);
}

/* Of a gradient that is masked on the way; dx and dy may be one. */
template <typename T> struct masked_sum : sums_to_work {
  T *dx;
  const T *dy, *mask;

  enum { EACH = 4, RESIDENT = 4 };
  template <int V> struct sum : zeros<V> {
    struct item {
      float v[V], mask[V];
    };
    __device__ void get(const masked_sum &p, int64_t at, item *i) const {
      load<V>(i->v, p.dy, at);
      load<V>(i->mask, p.mask, at);
    }
    __device__ void take(const masked_sum &p, int64_t at, const item &i) {
      float v[V];
#pragma unroll
      for (int j = 0; j < V; j++) v[j] = i.mask[j] > 0 ? i.v[j] : 0;
      put<V>(p.dx + at, v);
#pragma unroll
      for (int j = 0; j < V; j++) this->s[j] += v[j];
    }
  };
};

template <typename T> static int run_plain(void *stream, const nnk_map *dy, float *work, const cut &q) {
  plain_sum<T> p = {{work}, static_cast<const T *>(dy->p)};
  return run_rows(stream, p, q);
}

template <typename T>
static int run_masked(void *stream, const nnk_map *dx, const nnk_map *dy, const nnk_map *mask, float *work,
                      const cut &q) {
  masked_sum<T> p = {{work}, static_cast<T *>(dx->p), static_cast<const T *>(dy->p), static_cast<const T *>(mask->p)};
  return run_rows(stream, p, q);
}

} // namespace nnk

using namespace nnk;

int nnk_add_pieces(void *stream, int n, const nnk_pieces *list) {
  pieces_args p = {};
  if (n < 0 || n > NNK_LIST) return refused();
  for (int k = 0; k < n; k++) {
    p.list[k] = list[k];
    p.start[k + 1] = p.start[k] + static_cast<uint32_t>(up(list[k].count, COLUMNS));
  }
  if (n == 0 || p.start[n] == 0) return cudaSuccess;
  SP_LAUNCH(add_pieces, p.start[n], COLUMNS * TEAM, 0, stream, p, n);
  return launched();
}

size_t nnk_bias_grad_work(const nnk_map *dy) { return static_cast<size_t>(most_parts(dy)) * sizeof(float); }

int nnk_bias_pieces(void *stream, const nnk_map *dy, float *work, int64_t *pieces) {
  *pieces = 0;
  if (elements(*dy) == 0) return cudaSuccess;
  cut q = cut_of(dy, access(4, dy, dy->c));
  *pieces = q.pieces;
  return dy->elt == NNK_F32 ? run_plain<float>(stream, dy, work, q) : run_plain<__nv_bfloat16>(stream, dy, work, q);
}

int nnk_mask_pieces(void *stream, const nnk_map *dx, const nnk_map *dy, const nnk_map *mask, float *work,
                    int64_t *pieces) {
  if (!same_order(dx, dy) || dx->elt != dy->elt || elements(*dx) == 0) {
    int st = nnk_mask(stream, dx, dy, mask, 0);
    return st ? st : nnk_bias_pieces(stream, dx, work, pieces);
  }
  cut q = cut_of(dx, access(access(access(4, dx, dx->c), dy, dx->c), mask, dx->c));
  *pieces = q.pieces;
  return dx->elt == NNK_F32 ? run_masked<float>(stream, dx, dy, mask, work, q)
                            : run_masked<__nv_bfloat16>(stream, dx, dy, mask, work, q);
}

int nnk_bias_grad(void *stream, nnk_sum g, const nnk_map *dy, void *work) {
  nnk_pieces p = {g, static_cast<float *>(work), dy->c, dy->c, 0};
  int64_t rows = dy->n * pixels(*dy);
  bool apart = dy->layout == PLANAR && pixels(*dy) > 1;
  if (dy->elt == NNK_F32 && rows <= FEW && !apart) { /* each is a piece: one launch in the place of two */
    p.parts = static_cast<const float *>(dy->p);
    p.pieces = rows;
    return nnk_add_pieces(stream, 1, &p);
  }
  int st = nnk_bias_pieces(stream, dy, static_cast<float *>(work), &p.pieces);
  return st ? st : nnk_add_pieces(stream, 1, &p);
}
