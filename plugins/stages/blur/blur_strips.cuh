/* SPDX-License-Identifier: MIT
 * blur_strips.cuh - square kernels of 3, 5 or 7 pixels over images of one or three channels, three side by side.
 *
 * A thread has a few pixels side by side and walks down a strip of rows. What it has blurred along of the last 2 R + 1
 * rows stays in its registers, and of these it makes a row of the output. No thread waits for others of its block; what
 * neighbours load too comes from the cache. Sums have the order and the roundings of the cpu.
 */
#ifndef BLUR_STRIPS_CUH
#define BLUR_STRIPS_CUH

#include "../../kits/aug/kit.cuh"

enum {
  THREADS = 128,       /* of a block; three blocks fit on a multiprocessor, with 168 registers a thread */
  SIDE = 4,            /* pixels of a thread */
  STRIPS_MAX = 3,      /* R: less than SIDE, so that what is mirrored at an edge is among the thread's own pixels */
  STRIPS_MANY = 49152, /* threads that fill a large GPU once */
};

/* How a tensor is cut into strips. */
struct strips {
  int32_t groups, down, high; /* threads for a row, strips one below the other, rows of a strip */
  int32_t quads;              /* rows begin at multiples of four elements */
  uint32_t all;               /* threads for a sample; 0: it goes by tiles */
};

/* Floats of three channels would be 48 bytes a thread, slow to load and store as they lie. So a warp has a part of one
 * row, loads and stores it side by side, and hands it round in shared memory. */
static __host__ __device__ constexpr bool strip_staged(size_t element, int step) { return element == 4 && step == 3; }

/* Four elements as they lie in memory. */
template <typename T> struct four_of;

template <> struct four_of<float> {
  aug_quad<float> q;
  __device__ __forceinline__ void set(int k, float v) { q.v[k] = v; }
  __device__ __forceinline__ float element(int k) const { return q.v[k]; }
  __device__ __forceinline__ float load(int k) const { return q.v[k]; }
  __device__ __forceinline__ void keep(int k, float v) { q.v[k] = v; }
  static __device__ __forceinline__ float times(float w, float, float v) { return __fmul_rn(w, v); }
};

/* Bytes stay in one register until they are wanted, and then become BIAS + byte: its bits between those of BIAS. A sum
 * of two of these is exact, and the fused operation takes the bias away again (`off` is minus the weight times that)
 * before it rounds: the same bits as a product of the byte. What is kept is 0 .. 255: the last bits of the sum are the
 * nearest integer, half to even. */
#define BIAS 32768.0f /* 0x47000000 */
template <> struct four_of<uint8_t> {
  uint32_t word;
  __device__ __forceinline__ void set(int k, uint32_t v) {
    word = k ? __byte_perm(word, v, 0x3210 + ((4 - k) << 4 * k)) : v; /* byte k of the word is byte 0 of v */
  }
  __device__ __forceinline__ uint8_t element(int k) const { return (uint8_t)(word >> 8 * k); }
  __device__ __forceinline__ float load(int k) const {
    return __uint_as_float(__byte_perm(word, 0x47000000u, 0x7404u + (k << 4)));
  }
  __device__ __forceinline__ void keep(int k, float v) { set(k, __float_as_uint(__fadd_rn(v, 12582912.0f))); }
  static __device__ __forceinline__ float times(float w, float off, float v) { return __fmaf_rn(w, v, off); }
};

/* Where pixel i of n lies when an image is mirrored at the middle of its outermost pixels. */
static __device__ __forceinline__ int mirror(int i, int n) {
  i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
  return max(0, min(i, n - 1)); /* further out nothing is kept */
}

static __device__ __forceinline__ float pair(float sum, float w, float a, float b) {
  return __fadd_rn(sum, __fmul_rn(w, __fadd_rn(a, b)));
}

template <typename T, int R, int STEP, bool QUADS> struct strip {
  enum {
    STAGED = QUADS && strip_staged(sizeof(T), STEP),
    OWN = SIDE * STEP, /* elements of a thread */
    REACH = R * STEP,
    MINE = OWN / 4,         /* in quads */
    NEAR = (REACH + 3) / 4, /* quads that are wanted of a neighbour */
    WIDE = MINE + 2 * NEAR,
    K = 2 * R + 1,
    /* The loop does some rows a turn, so that the ring of the last K needs few moves of registers, or none; and loads
     * some rows ahead, as many as there are registers for. AHEAD_ROWS divides ROWS. */
    ROWS = STEP == 1        ? K
           : !QUADS         ? 1
           : sizeof(T) == 1 ? 4
                            : 2,
    AHEAD_ROWS = !QUADS           ? 1
                 : STEP == 1      ? K
                 : sizeof(T) == 1 ? 2
                                  : 1,
    RING = ROWS == K ? K : 2 * R + ROWS,
    PEELED = ROWS == K, /* the rows before the first that is stored are not part of the loop */
  };
  struct window {
    four_of<T> q[WIDE];
  };
  struct loaded { /* the window, or what is the thread's to load of the warp's */
    four_of<T> q[STAGED ? MINE + 1 : WIDE];
  };

  const T *from;    /* the thread's first element in row `at`; staged: the row */
  int at, last;     /* row of the next fetch, which may lie outside; last row that is needed */
  int n, h, x, w;   /* elements of a row, rows; first pixel of the thread, pixels of a row */
  int lane, before; /* staged: quads of the row before those of the warp */
  four_of<T> *box;  /* staged: the warp's part of a row */

  /* Loads of a row and goes on to the next. What lies outside of the image is left open. */
  __device__ __forceinline__ loaded fetch() {
    loaded r = {};
    const four_of<T> *q = reinterpret_cast<const four_of<T> *>(from);
    if constexpr (STAGED) {
#pragma unroll
      for (int i = 0; i <= MINE; i++)
        if (i < MINE || lane < 2 * NEAR) r.q[i] = q[max(0, min(before - NEAR + lane + 32 * i, n / 4 - 1))];
    } else if constexpr (QUADS) {
#pragma unroll
      for (int i = 0; i < WIDE; i++)
        if ((i >= NEAR || x > 0) && (i < NEAR + MINE || x + SIDE < w)) r.q[i] = q[i - NEAR];
    } else {
#pragma unroll
      for (int i = -R; i < SIDE + R; i++) {
        const T *pixel = from + (mirror(x + i, w) - x) * STEP;
#pragma unroll
        for (int c = 0; c < STEP; c++) {
          int e = 4 * NEAR + i * STEP + c;
          r.q[e / 4].set(e % 4, pixel[c]);
        }
      }
    }
    int step = (unsigned)at < (unsigned)(h - 1) ? n : -n;
    from += at < last ? step : 0;
    at++;
    return r;
  }

  __device__ __forceinline__ window hand_round(const loaded &r) const {
    window v;
    if constexpr (STAGED) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i <= MINE; i++)
        if (i < MINE || lane < 2 * NEAR) box[lane + 32 * i] = r.q[i];
      __syncwarp();
#pragma unroll
      for (int i = 0; i < WIDE; i++) v.q[i] = box[lane * MINE + i];
    } else {
#pragma unroll
      for (int i = 0; i < WIDE; i++) v.q[i] = r.q[i];
    }
    return v;
  }

  __device__ __forceinline__ void store(T *to, const window &out) const {
    four_of<T> *q = reinterpret_cast<four_of<T> *>(to);
    if constexpr (STAGED) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i < MINE; i++) box[lane * MINE + i] = out.q[i];
      __syncwarp();
#pragma unroll
      for (int i = 0; i < MINE; i++)
        if (before + lane + 32 * i < n / 4) q[before + lane + 32 * i] = box[lane + 32 * i];
    } else if constexpr (QUADS) {
#pragma unroll
      for (int i = 0; i < MINE; i++) q[i] = out.q[i];
    } else {
#pragma unroll
      for (int e = 0; e < OWN; e++) to[e] = out.q[e / 4].element(e % 4);
    }
  }

  __device__ __forceinline__ void along(float (&y)[OWN], const window &from, const float (&weight)[R + 1],
                                        const float (&off)[R + 1]) const {
    float v[OWN + 2 * REACH];
#pragma unroll
    for (int i = 0; i < OWN + 2 * REACH; i++) {
      int e = 4 * NEAR - REACH + i;
      v[i] = from.q[e / 4].load(e % 4);
    }
    if constexpr (QUADS) {
#pragma unroll
      for (int i = 0; i < REACH; i++) {
        int out = (i / STEP + 1) * STEP, first = REACH + i % STEP, end = first + OWN - STEP;
        if (x == 0) v[first - out] = v[first + out];
        if (x + SIDE == w) v[end + out] = v[end - out];
      }
    }
#pragma unroll
    for (int i = 0; i < OWN; i++) {
      const float *m = v + REACH + i;
      y[i] = four_of<T>::times(weight[0], off[0], m[0]);
#pragma unroll
      for (int t = 1; t <= R; t++)
        y[i] = __fadd_rn(y[i], four_of<T>::times(weight[t], off[t], __fadd_rn(m[-t * STEP], m[t * STEP])));
    }
  }

  /* weigh() makes the weights, which takes about as long as the first rows are on their way; all threads call it. */
  template <typename Weigh>
  static __device__ __forceinline__ void go(const aug_job &j, const strips &s, const float *weights, Weigh weigh) {
    if (blockIdx.x * THREADS >= s.all) return;
    uint32_t thread = blockIdx.x * THREADS + threadIdx.x, item = min(thread, s.all - 1);
    int line = (int)(item / (uint32_t)s.groups), plane = line / s.down, y = (line - plane * s.down) * s.high;
    int group = (int)(item - (uint32_t)line * (uint32_t)s.groups);
    int64_t first = ((int64_t)blockIdx.y * j.planes + plane) * j.h;
    strip me;
    me.n = j.w * STEP;
    me.h = j.h;
    me.w = j.w;
    me.x = STAGED ? group * SIDE : min(group * SIDE, j.w - SIDE); /* the last two may overlap, or be outside */
    me.at = y - R;
    me.last = min(y + s.high, j.h) - 1 + R;
    me.from = static_cast<const T *>(j.in) + (first + mirror(me.at, j.h)) * me.n;
    T *to = static_cast<T *>(j.out) + (first + y) * me.n;
    if constexpr (STAGED) {
      __shared__ four_of<T> boxes[THREADS / 32][32 * MINE + 2 * NEAR];
      me.lane = (int)threadIdx.x % 32;
      me.before = (group - me.lane) * MINE;
      me.box = boxes[threadIdx.x / 32];
    } else {
      me.from += me.x * STEP;
      to += me.x * STEP;
    }
    loaded ahead[AHEAD_ROWS];
#pragma unroll
    for (int k = 0; k < AHEAD_ROWS; k++) ahead[k] = me.fetch();
    weigh();
    if (thread >= s.all) return; /* it was needed for the weights only */
    float weight[R + 1], off[R + 1], ring[RING][OWN];
#pragma unroll
    for (int t = 0; t <= R; t++) {
      weight[t] = weights[t];
      off[t] = __fmul_rn(weight[t], t ? -2 * BIAS : -BIAS);
    }
    auto next = [&](float(&y)[OWN], loaded &r) {
      loaded now = r;
      r = me.fetch();
      me.along(y, me.hand_round(now), weight, off);
    };
    if constexpr (PEELED) {
#pragma unroll
      for (int k = 0; k < 2 * R; k++) next(ring[k], ahead[k % AHEAD_ROWS]);
    }
#pragma unroll 1
    for (int i = PEELED ? 0 : -2 * R;; i += ROWS) {
#pragma unroll
      for (int k = 0; k < ROWS; k++) {
        next(ring[(k + 2 * R) % RING], ahead[(k + (PEELED ? 2 * R : 0)) % AHEAD_ROWS]);
        if (!PEELED && i + k < 0) continue;
        window out = {};
#pragma unroll
        for (int e = 0; e < OWN; e++) {
          float sum = __fmul_rn(weight[0], ring[(k + R) % RING][e]);
#pragma unroll
          for (int t = 1; t <= R; t++)
            sum = pair(sum, weight[t], ring[(k + R - t) % RING][e], ring[(k + R + t) % RING][e]);
          out.q[e / 4].keep(e % 4, sum);
        }
        me.store(to, out);
        to += me.n;
        if (me.at > me.last + AHEAD_ROWS) return; /* that was the strip's last row */
      }
      if constexpr (!PEELED) {
#pragma unroll
        for (int k = 0; k < 2 * R; k++) {
#pragma unroll
          for (int e = 0; e < OWN; e++) ring[k][e] = ring[k + ROWS][e];
        }
      }
    }
  }
};

/* All strips of this block's sample and tensor. */
template <typename T, int R, typename Weigh>
static __device__ __forceinline__ void go_down(const aug_job &j, const strips &s, const float *weights, Weigh weigh) {
  if (j.pix == 1) {
    if (s.quads) strip<T, R, 1, true>::go(j, s, weights, weigh);
    else strip<T, R, 1, false>::go(j, s, weights, weigh);
  } else {
    if (s.quads) strip<T, R, 3, true>::go(j, s, weights, weigh);
    else strip<T, R, 3, false>::go(j, s, weights, weigh);
  }
}

/* As many strips as make STRIPS_MANY threads, but of 8 .. 64 rows. False: the image is not for strips. */
static bool cut_strips(strips *s, const aug_job *j, int64_t n) {
  size_t element = j->dtype == SP_U8 ? 1 : 4;
  if ((j->pix != 1 && j->pix != 3) || j->w < SIDE) return false;
  uintptr_t at = reinterpret_cast<uintptr_t>(j->in) | reinterpret_cast<uintptr_t>(j->out);
  s->quads = j->w % 4 == 0 && at % (4 * element) == 0;
  s->groups = (j->w + SIDE - 1) / SIDE;
  if (s->quads && strip_staged(element, j->pix)) s->groups = (s->groups + 31) / 32 * 32;
  int64_t each = n * j->planes * s->groups, down = (STRIPS_MANY + each / 2) / each;
  if (down > j->h / 8) down = j->h / 8;
  if (down < (j->h + 63) / 64) down = (j->h + 63) / 64;
  s->high = (int32_t)((j->h + down - 1) / down);
  s->down = (j->h + s->high - 1) / s->high;
  s->all = (uint32_t)(j->planes * s->down * s->groups); /* images of so many pixels fit no GPU */
  return true;
}

#endif
