/* SPDX-License-Identifier: MIT
 * augment_kernels.cu - windows enlarged, turned, blurred and normalized on CUDA: one kernel a batch.
 *
 * A block draws the parameters of its sample once and goes over tiles of the result. What a tile is made of lies in a
 * small part of the window, the patch: that is brought to shared memory as pixels of the window. Then each pixel of the
 * tile, and as many around it as the blur reaches, is mixed of four pixels of the patch; the place is computed once for
 * up to three channels. Rows are blurred along where they lie, then columns into the result. Sums have the order and
 * the roundings of the stages one by one.
 */
#include "augment_kernels.h"

#include "tile.cuh"

static __device__ __forceinline__ float pair(float sum, float w, float a, float b) {
  return __fadd_rn(sum, __fmul_rn(w, __fadd_rn(a, b)));
}

/* Rows along, each in its place, from its first element on: a row is one warp's, so all of it is read before it is
 * written. */
template <int R, int PLANES, int PIX>
static __device__ __forceinline__ void along(float *loaded, const memory &m, const tile &t) {
  lie<R, PLANES, PIX> l(m.c);
  int high = t.high + 2 * t.ry, rows = high * PLANES;
  enum { GROUP = 4 * PIX, ROWS = 32 / QUADS };
  int lane = (int)threadIdx.x % 32, e = lane % QUADS * GROUP;
  const float *w = m.w[0];
#pragma unroll 1
  for (int first = (int)threadIdx.x / 32 * ROWS; first < rows; first += WARPS * ROWS) {
    int row = first + lane / QUADS;
    bool there = row < rows && e < t.wide * PIX;
    int plane = PLANES == 1 ? 0 : (row >= high) + (row >= 2 * high);
    float *to = loaded + plane * l.plane + (row - plane * high) * l.pitch, sum[GROUP];
    if constexpr (R > 0) {
      constexpr int HALO = (R * PIX + 3) / 4 * 4;
      if (there) {
        float v[GROUP + 2 * HALO];
#pragma unroll
        for (int i = 0; i < GROUP + 2 * HALO; i += 4) {
          quad q = quad_at(to + e + i);
#pragma unroll
          for (int k = 0; k < 4; k++) v[i + k] = q.v[k];
        }
#pragma unroll
        for (int i = 0; i < GROUP; i++) {
          sum[i] = __fmul_rn(w[0], v[HALO + i]);
#pragma unroll
          for (int k = 1; k <= R; k++) sum[i] = pair(sum[i], w[k], v[HALO + i - k * PIX], v[HALO + i + k * PIX]);
        }
      }
    } else if (there) {
      const float *x = to + l.halo + e;
#pragma unroll
      for (int i = 0; i < GROUP; i++) sum[i] = __fmul_rn(w[0], x[i]);
#pragma unroll 1
      for (int k = 1; k <= t.rx; k++)
#pragma unroll
        for (int i = 0; i < GROUP; i++) sum[i] = pair(sum[i], w[k], x[i - k * PIX], x[i + k * PIX]);
    }
    __syncwarp();
    if (!there) continue;
#pragma unroll
    for (int i = 0; i < GROUP; i += 4) {
      quad q;
#pragma unroll
      for (int k = 0; k < 4; k++) q.v[k] = sum[i + k];
      *reinterpret_cast<quad *>(to + e + i) = q;
    }
  }
}

/* Where a column of quads goes, and what is done to its values. */
template <int PIX, bool PLAIN> struct column {
  float *to; /* the next row */
  int64_t pitch;
  int some, step; /* elements that are there; from one to the next */
  bool together;
  float by, mean[PIX], std[PIX]; /* of element k: [k % PIX] */
  __device__ __forceinline__ void keep(const quad &q) {
    quad v = q;
    if (!PLAIN) {
#pragma unroll
      for (int k = 0; k < 4; k++) v.v[k] = __fdiv_rn(__fsub_rn(__fmul_rn(v.v[k], by), mean[k % PIX]), std[k % PIX]);
    }
    if (together) {
      *reinterpret_cast<quad *>(to) = v;
    } else {
#pragma unroll
      for (int k = 0; k < 4; k++)
        if (k < some) to[k * step] = v.v[k];
    }
    to += pitch;
  }
};

/* STRIP rows of a column of quads, as far as there are `rows`; `x` is the first row that the first of them needs. */
template <int R, typename Column>
static __device__ __forceinline__ void down(Column &to, int rows, const float *x, int pitch, const float *w, int r) {
  if constexpr (R > 0) {
    quad v[STRIP + 2 * R];
#pragma unroll
    for (int i = 0; i < 2 * R; i++) v[i] = quad_at(x + i * pitch);
#pragma unroll
    for (int i = 0; i < STRIP; i++) {
      quad sum;
      v[i + 2 * R] = quad_at(x + (i + 2 * R) * pitch);
#pragma unroll
      for (int k = 0; k < 4; k++) {
        sum.v[k] = __fmul_rn(w[0], v[i + R].v[k]);
#pragma unroll
        for (int n = 1; n <= R; n++) sum.v[k] = pair(sum.v[k], w[n], v[i + R - n].v[k], v[i + R + n].v[k]);
      }
      if (i < rows) to.keep(sum);
    }
  } else if constexpr (R == 0) {
    quad v[STRIP];
#pragma unroll
    for (int i = 0; i < STRIP; i++) v[i] = quad_at(x + i * pitch);
#pragma unroll
    for (int i = 0; i < STRIP; i++)
      if (i < rows) to.keep(v[i]);
  } else {
#pragma unroll 1
    for (int i = 0; i < min(rows, (int)STRIP); i++) {
      const float *middle = x + (i + r) * pitch;
      quad sum = quad_at(middle);
#pragma unroll
      for (int k = 0; k < 4; k++) sum.v[k] = __fmul_rn(w[0], sum.v[k]);
#pragma unroll 1
      for (int n = 1; n <= r; n++) {
        quad a = quad_at(middle - n * pitch), b = quad_at(middle + n * pitch);
#pragma unroll
        for (int k = 0; k < 4; k++) sum.v[k] = pair(sum.v[k], w[n], a.v[k], b.v[k]);
      }
      to.keep(sum);
    }
  }
}

/* The tile, from `loaded` to the result. PLAIN: values are not changed on the way. */
template <int R, int PLANES, int PIX, bool PLAIN>
static __device__ __forceinline__ void finish(const float *loaded, const memory &m, const augment_call &call,
                                              const spot &at, bool blurred) {
  const aug_job &j = m.j;
  const tile &t = at.t;
  const norm_terms &norm = call.norm;
  lie<R, PLANES, PIX> l(m.c);
  int64_t pixels = (int64_t)j.out_h * j.out_w;
  int strips = (t.high + STRIP - 1) / STRIP, all = strips * PLANES;
  float *out = static_cast<float *>(j.out) + blockIdx.y * pixels * j.planes * j.pix;
  out += j.pix > 1 ? at.channel : at.channel * pixels;
  out += ((int64_t)t.y * j.out_w + t.x) * j.pix;
  column<PIX, PLAIN> to;
  to.pitch = (int64_t)j.out_w * j.pix;
  to.step = PIX == j.pix ? 1 : j.pix;
  to.by = norm.by;
  bool quads = to.step == 1 && to.pitch % 4 == 0 && reinterpret_cast<uintptr_t>(j.out) % sizeof(quad) == 0;
#pragma unroll 1
  for (walk i(QUADS * PIX); i.row < all; i.next(QUADS * PIX)) {
    int plane = PLANES == 1 ? 0 : (i.row >= strips) + (i.row >= 2 * strips), y = (i.row - plane * strips) * STRIP;
    int e = i.col * 4;
    to.some = t.wide * PIX - e;
    if (to.some <= 0) continue;
    to.to = out + plane * pixels + (int64_t)e * to.step + y * to.pitch;
    to.together = quads && to.some >= 4;
#pragma unroll
    for (int k = 0; !PLAIN && k < PIX; k++) {
      int c = norm.n == 1 ? 0 : at.channel + plane + (e + k) % PIX;
      to.mean[k] = norm.mean[c];
      to.std[k] = norm.std[c];
    }
    const float *x = loaded + plane * l.plane + y * l.pitch + e;
    if (R && blurred) down<R>(to, t.high - y, x, l.pitch, m.w[1], t.ry);
    else down<0>(to, t.high - y, x + l.halo, l.pitch, m.w[1], 0);
  }
}

template <int R, int PLANES, int PIX, typename T> static __device__ void tiles(memory &m, const augment_call &call) {
  SP_DYNAMIC_SHARED(float, patch);
  typedef lie<R, PLANES, PIX> lies;
  const aug_job &j = m.j;
  const augment_how &how = call.how;
  const norm_terms &norm = call.norm;
  float *loaded = patch + m.c.patch;
  int64_t pixels = (int64_t)j.h * j.w;
  bool blurred = R && m.d.sigma > 0.0f, moves = how.x.in != how.x.out || how.y.in != how.y.out;
  bool plain = norm.n == 1 && norm.by == 1.0f && norm.mean[0] == 0.0f && norm.std[0] == 1.0f;
  const T *corner = static_cast<const T *>(j.in) + blockIdx.y * pixels * j.planes * j.pix +
                    ((int64_t)m.d.top * j.w + m.d.left) * j.pix;
  window<T> from = {(int64_t)j.w * j.pix, pixels, j.pix, j.w - m.d.left, j.h - m.d.top, how.mode == CROP_ROI_ALIGN};
#pragma unroll 1
  for (int64_t next = blockIdx.x; next < m.c.tiles; next += (int64_t)SPOTS * gridDim.x) {
    __syncthreads(); /* the spots before are not needed any more */
    if (threadIdx.x < SPOTS) look_at<PLANES, PIX>(m, how, next + (int64_t)threadIdx.x * gridDim.x, blurred);
    __syncthreads();
#pragma unroll 1
    for (int s = 0; s < SPOTS && next + (int64_t)s * gridDim.x < m.c.tiles; s++) {
      const spot &at = m.at[s];
      const T *from_at = corner + (j.pix > 1 ? at.channel : at.channel * pixels);
      make_tables(m, how, at.t, at.c, lies::DEPTH);
      if (at.c.fits) {
        if (from.mean) fetch<PLANES, PIX, true>(patch, from, from_at, at.c);
        else fetch<PLANES, PIX, false>(patch, from, from_at, at.c);
      }
      __syncthreads();
      if (at.c.fits) turn<R, PLANES, PIX>(loaded, patch, m, how, at, moves);
      else turn_direct<R, PLANES, PIX>(loaded, m, how, from, from_at, at, moves);
      __syncthreads();
      if (blurred) {
        along<R, PLANES, PIX>(loaded, m, at.t);
        __syncthreads();
      }
      if (plain) finish<R, PLANES, PIX, true>(loaded, m, call, at, blurred);
      else finish<R, PLANES, PIX, false>(loaded, m, call, at, blurred);
    }
  }
}

template <typename T> static __device__ void turn_mask(const memory &m, const augment_how &how) {
  const aug_job &j = m.j;
  const rotate_turn &turn = m.turn;
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    const T *in = aug_row<T>(j, blockIdx.y, plane, m.d.top) + m.d.left;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      int sx = __float2int_rn(rotate_x(&turn, e + k, y)), sy = __float2int_rn(rotate_y(&turn, e + k, y));
      bool inside = sx >= 0 && sx < j.out_w && sy >= 0 && sy < j.out_h;
      v[k] =
          inside ? in[(int64_t)resize_nearest(&how.y, sy) * j.w + resize_nearest(&how.x, sx)] : (T)how.turn.mask_fill;
    }
  });
}

/* wx[0 .. rx] and wy[0 .. ry], for all threads after the next barrier but one. */
static __device__ void make_bells(memory &m, const augment_how &how) {
  int axis = (int)threadIdx.x / BLUR_WEIGHTS, i = (int)threadIdx.x % BLUR_WEIGHTS;
  if (axis < 2 && i <= (axis ? how.ry : how.rx)) m.bell[axis][i] = blur_bell(i, m.d.sigma);
}
static __device__ void make_weights(memory &m, const augment_how &how) {
  int axis = (int)threadIdx.x / BLUR_WEIGHTS, i = (int)threadIdx.x % BLUR_WEIGHTS, r = axis ? how.ry : how.rx;
  if (axis >= 2 || i > r) return;
  double sum = m.bell[axis][0];
  for (int k = 1; k <= r; k++) sum = blur_sum(sum, m.bell[axis][k]);
  m.w[axis][i] = (float)(m.bell[axis][i] / sum);
}

static __device__ void judge(const augment_call &call, int64_t n) {
  const augment_given &g = call.given;
  aug_judge(call.status, n, call.dice.ids, g.boxes || g.angles || g.sigmas,
            [&](int64_t i, int64_t &value, int64_t &limit) {
              augment_drawn d = augment_draw(&call.dice, &g, &call.how, i);
              return augment_judge(&d, &call.how, &value, &limit) != 0;
            });
  /* 0 is always a possible beginning of a box, so it was something else */
  if (threadIdx.x == 0 && call.status[0] && call.status[2] == 0) call.status[0] = SP_E_RANGE;
}

/* Images of one kind: others are left to another launch. `lead`: the first launch,
 * which does what is to be done once. */
template <int R, int PLANES, int PIX, typename T>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    augment(const aug_jobs jobs, const augment_call call, const int lead) {
  static_assert(2 * BLUR_WEIGHTS <= THREADS && THREADS > 96, "one weight a thread, and a warp for each draw");
  __shared__ memory m;
  bool first = lead && blockIdx.x == 0 && blockIdx.z == 0;
  if (threadIdx.x == 0) {
    m.j = jobs.job[blockIdx.z];
    m.c = cut_of(m.j, call.how);
  }
  /* each by a warp of its own: they take their time */
  if (threadIdx.x == 32) {
    augment_drawn d = {0, 0, 0.0f, 0.0f};
    augment_box(&call.dice, &call.given, &call.how, blockIdx.y, &d);
    if (first && call.boxes) call.boxes[2 * blockIdx.y] = d.top;
    if (first && call.boxes) call.boxes[2 * blockIdx.y + 1] = d.left;
    augment_tame(&d, &call.how);
    m.d.top = d.top;
    m.d.left = d.left;
  }
  if (threadIdx.x == 64) {
    float angle = augment_angle(&call.dice, &call.given, &call.how, blockIdx.y);
    if (first && call.angles) call.angles[blockIdx.y] = angle;
    m.turn = rotate_turn_of(isfinite(angle) ? angle : 0.0f, call.how.y.out, call.how.x.out);
  }
  if (threadIdx.x == 96) {
    float sigma = augment_sigma(&call.dice, &call.given, &call.how, blockIdx.y);
    if (first && call.sigmas) call.sigmas[blockIdx.y] = sigma;
    m.d.sigma = blur_bad(sigma) ? 0.0f : sigma;
  }
  if (first && blockIdx.y == 0) judge(call, jobs.n);
  __syncthreads();
  if (m.j.mask ? !lead : m.c.kind != kind_of<PLANES, PIX, T>()) return;
  if (R) {
    if (m.d.sigma > 0.0f) make_bells(m, call.how);
    __syncthreads();
    if (m.d.sigma > 0.0f) make_weights(m, call.how);
  }
  __syncthreads();
  if (m.j.mask) aug_by_size(m.j.dtype, [&](auto t) { turn_mask<decltype(t)>(m, call.how); });
  else tiles<R, PLANES, PIX, T>(m, call);
}

template <int R, int PLANES, int PIX, typename T>
static void launch_kind(void *stream, dim3 grid, const aug_jobs &jobs, const augment_call &call, unsigned *kinds) {
  unsigned mine = 1u << kind_of<PLANES, PIX, T>();
  int lead = (*kinds & LED) == 0;
  if (!(*kinds & mine)) return;
  *kinds |= LED;
  /* more than 48 KiB must be asked for, on each device; a failure shows at the launch */
  cudaFuncSetAttribute(reinterpret_cast<const void *>(&augment<R, PLANES, PIX, T>),
                       cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
  SP_LAUNCH((augment<R, PLANES, PIX, T>), grid, THREADS, SHARED, stream, jobs, call, lead);
}

template <int R>
static void launch(void *stream, dim3 grid, const aug_jobs &jobs, const augment_call &call, unsigned kinds) {
  launch_kind<R, 3, 1, uint8_t>(stream, grid, jobs, call, &kinds);
  launch_kind<R, 3, 1, float>(stream, grid, jobs, call, &kinds);
  launch_kind<R, 1, 3, uint8_t>(stream, grid, jobs, call, &kinds);
  launch_kind<R, 1, 3, float>(stream, grid, jobs, call, &kinds);
  launch_kind<R, 1, 1, uint8_t>(stream, grid, jobs, call, &kinds);
  launch_kind<R, 1, 1, float>(stream, grid, jobs, call, &kinds);
}

int augment_launch(void *stream, const aug_jobs *jobs, const augment_call *call) {
  int64_t most = 1, samples = jobs->n * jobs->count;
  unsigned kinds = 0;
  for (int i = 0; i < jobs->count; i++) {
    const aug_job *j = &jobs->job[i];
    cut c = cut_of(*j, call->how);
    int64_t tiles = j->mask ? (int64_t)j->out_h * ((j->out_w + 3) / 4) / THREADS : c.tiles;
    most = tiles > most ? tiles : most;
    if (!j->mask) kinds |= 1u << c.kind;
  }
  /* About as many blocks as a large GPU has room for at a time: what each makes first,
   * it makes for all of its tiles. */
  int64_t blocks = ONE_WAVE / samples;
  blocks = blocks < 1 ? 1 : blocks > most ? most : blocks;
  int64_t turns = (most + blocks - 1) / blocks;
  blocks = (most + turns - 1) / turns;
  dim3 grid((unsigned)blocks, (unsigned)jobs->n, (unsigned)jobs->count);
  int rx = call->how.rx, ry = call->how.ry;
  if (!rx && !ry) launch<0>(stream, grid, *jobs, *call, kinds);
  else if (rx == 3 && ry == 3) launch<3>(stream, grid, *jobs, *call, kinds);
  else launch<ANY>(stream, grid, *jobs, *call, kinds);
  return cudaPeekAtLastError();
}
