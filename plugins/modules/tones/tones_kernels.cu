/* SPDX-License-Identifier: MIT
 * tones_kernels.cu - the steps of the module `tones` on CUDA. One kernel draws what is done to all samples; for each
 * step one looks at whole channels, where some operation may need it, a block each, and one changes all tensors; a
 * last one says whether values of float images were outside of their range. Counts and sums are of whole numbers:
 * their order has no say.
 */
#include "tones_kernels.h"

#include "jpeg.cuh"
#include "point.h"

enum { THREADS = 256 };

/* Floats as whole numbers of the same order. */
static __device__ __forceinline__ uint32_t ordered(float v) {
  uint32_t bits = point_bits(v);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
static __device__ __forceinline__ float unordered(uint32_t v) { return point_of_bits(v >> 31 ? v & 0x7fffffffu : ~v); }

static __global__ void __launch_bounds__(THREADS) begin(int64_t n, aug_dice dice, tones_how how, const float *given,
                                                        float *changes, int64_t *status, float *rows, uint32_t *reach) {
  int columns = tones_columns(&how);
  for (int64_t i = threadIdx.x; i < n; i += THREADS) {
    float *row = rows + i * columns;
    if (!given) tones_draw(&dice, i, &how, row);
    for (int k = 0; k < columns; k++) {
      if (given) row[k] = given[i * columns + k];
      if (changes) changes[i * columns + k] = row[k];
    }
    if (reach) reach[2 * i] = reach[2 * i + 1] = ordered(0.0f);
  }
  aug_judge(status, n, dice.ids, given != nullptr, [&](int64_t i, int64_t &value, int64_t &limit) {
    value = tones_bad(&how, given + i * columns);
    limit = columns;
    return value != 0;
  });
}

static __global__ void __launch_bounds__(THREADS)
    end(int64_t n, const uint64_t *ids, float max, int64_t *status, const uint32_t *reach) {
  __shared__ unsigned long long first;
  if (threadIdx.x == 0) first = ~0ull;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < n; i += THREADS)
    if (tones_outside(unordered(reach[2 * i]), unordered(reach[2 * i + 1]), max)) {
      atomicMin(&first, (unsigned long long)i);
      break;
    }
  __syncthreads();
  if (threadIdx.x || first == ~0ull || status[0]) return;
  int64_t i = (int64_t)first;
  status[0] = SP_E_RANGE;
  status[1] = ids ? (int64_t)ids[i] : i;
  status[2] = tones_reach(unordered(reach[2 * i]), unordered(reach[2 * i + 1]), max);
  status[3] = (int64_t)max;
}

/* The step of this block's sample and tensor; all threads call it. */
static __device__ __forceinline__ tones_step step_of(const aug_job &j, const tones_how &how, const float *rows, int k) {
  tones_step s = tones_step_of(&how, rows + (int64_t)blockIdx.y * tones_columns(&how), k);
  if (j.mask && !tones_moves(s.op)) s.op = TONES_LEAVE;
  return s;
}

/* ---- looks: blockIdx.x is the channel, blockIdx.z an image ---- */
template <typename T> static __device__ void find(const aug_job &j, int op, float max, tones_look *look) {
  __shared__ uint32_t count[256], lo, hi;
  __shared__ unsigned long long sum;
  int64_t pixels = (int64_t)j.h * j.w, channel = blockIdx.x;
  const T *in = aug_row<T>(j, blockIdx.y, 0, 0), *own = in + (j.pix == 1 ? channel * pixels : channel);
  for (int i = (int)threadIdx.x; i < 256; i += THREADS) count[i] = 0;
  if (threadIdx.x == 0) lo = ~0u, hi = 0, sum = 0;
  __syncthreads();
  if (op == TONES_AUTOCONTRAST) {
    float least = (float)own[0], most = least;
    for (int64_t i = threadIdx.x; i < pixels; i += THREADS) {
      float v = (float)own[i * j.pix];
      least = v < least ? v : least;
      most = v > most ? v : most;
    }
    atomicMin(&lo, ordered(least));
    atomicMax(&hi, ordered(most));
  } else if (op == TONES_EQUALIZE) {
    for (int64_t i = threadIdx.x; i < pixels; i += THREADS) {
      T v = own[i * j.pix];
      atomicAdd(&count[sizeof(T) == 1 ? (int32_t)v : point_byte((float)v, max)], 1u);
    }
  } else if (channel == 0) {
    int64_t mine = 0, apart = j.pix == 1 ? pixels : 1;
    bool three = j.planes * j.pix == 3;
    for (int64_t i = threadIdx.x; i < pixels; i += THREADS) {
      const T *p = in + i * j.pix;
      float grey = (float)p[0];
      if (three) grey = pixel_grey(grey, (float)p[apart], (float)p[2 * apart], sizeof(T) == 1);
      mine += sizeof(T) == 1 ? (int64_t)grey : point_grey_sum(grey, max);
    }
    atomicAdd(&sum, (unsigned long long)mine);
  }
  __syncthreads();
  if (threadIdx.x) return;
  if (op == TONES_AUTOCONTRAST) {
    look->lo = __fadd_rn(unordered(lo), 0.0f);
    look->hi = __fadd_rn(unordered(hi), 0.0f);
  } else if (op == TONES_EQUALIZE) {
    point_equalize(count, look->table);
  } else if (channel == 0) {
    if (sizeof(T) == 1) look->mean = (float)((double)(int64_t)sum / (double)pixels);
    else look->mean = point_grey_mean((int64_t)sum, pixels, max);
  }
}

static __device__ __forceinline__ tones_look *looks_of(tones_look *looks, int channels) {
  return looks + ((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * channels;
}

static __global__ void __launch_bounds__(THREADS)
    look(const aug_jobs jobs, tones_how how, const float *rows, int k, tones_look *looks, int channels) {
  const aug_job &j = jobs.job[blockIdx.z];
  tones_step s = step_of(j, how, rows, k);
  if ((int64_t)blockIdx.x >= j.planes * j.pix || !tones_looks(s.op)) return;
  tones_look *own = looks_of(looks, channels) + blockIdx.x;
  if (j.dtype == SP_U8) find<uint8_t>(j, s.op, 255.0f, own);
  else find<float>(j, s.op, how.max, own);
}

/* ---- changes ---- */
template <typename T> struct picture {
  const T *in; /* of the sample */
  int64_t plane;
  int w, h, pix;
  __device__ __forceinline__ explicit picture(const aug_job &j)
      : in(aug_row<T>(j, blockIdx.y, 0, 0)), plane((int64_t)j.h * j.w), w(j.w), h(j.h), pix(j.pix) {}
  __device__ __forceinline__ const T *row(int64_t p, int64_t y) const { return in + (p * plane + y * w) * pix; }
  /* Channel c of the pixel that has element e of row y. */
  __device__ __forceinline__ float colour(int c, int y, int e) const {
    return (float)(pix == 1 ? row(c, y)[e] : row(0, y)[e - e % pix + c]);
  }
};

/* Elements e .. e + 3 of a row of n, as far as they are there. */
template <typename T> static __device__ __forceinline__ void load(T (&v)[4], const T *row, int e, int n) {
  if (n % 4 == 0 && reinterpret_cast<uintptr_t>(row) % sizeof(aug_quad<T>) == 0) {
    aug_quad<T> q = *reinterpret_cast<const aug_quad<T> *>(row + e);
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = q.v[k];
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++) v[k] = row[e + k < n ? e + k : n - 1];
}

static __device__ void copy_mask(const aug_job &j) {
  aug_by_size(j.dtype, [&](auto t) {
    typedef decltype(t) T;
    aug_each_quad<T>(j, [&](int64_t, int y, int e, T(&v)[4]) { load(v, aug_row<T>(j, blockIdx.y, 0, y), e, j.w); });
  });
}

/* What is filled in, as an element of the image. */
template <typename T> static __device__ __forceinline__ T fill_of(T, float v) {
  return sizeof(T) == 1 ? (T)__float2int_rn(v) : (T)v;
}

template <typename T> static __device__ void move(const aug_job &j, const tones_how &how, const tones_step &s) {
  picture<T> from(j);
  __shared__ point_move shared;
  if (threadIdx.x == 0) shared = point_move_of(s.op, s.by, j.h, j.w);
  __syncthreads();
  const point_move m = shared;
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
      int x = j.pix == 1 ? e + k : (e + k) / j.pix, c = e + k - x * j.pix;
      if (x >= j.w) break;
      int at = point_from(&m, x, y, j.h, j.w);
      if (at >= 0) v[k] = from.row(plane, 0)[(int64_t)at * j.pix + c];
      else v[k] = j.mask ? (T)how.mask_fill : fill_of(T(), how.fill[(plane + c) % how.fills]);
    }
  });
}

template <typename T>
static __device__ __forceinline__ T changed_value(int op, float by, const tones_how &how, float max,
                                                  const tones_look *look, const uint8_t *table, T v) {
  if (sizeof(T) == 1) return (T)(look ? point_entry(op, by, how.gain, look, (int)v) : table[(int)v]);
  return (T)point_value(op, by, how.gain, max, look, (float)v);
}

template <typename T>
static __device__ __forceinline__ T sharpened(const picture<T> &from, int64_t plane, int y, int e, float by,
                                              float max) {
  const T *b = from.row(plane, y) + e;
  int n = from.w * from.pix;
  float v = (float)*b, smooth = v;
  if (y > 0 && y < from.h - 1 && e >= from.pix && e < n - from.pix) {
    const T *a = b - n, *c = b + n;
    float p[3] = {(float)a[-from.pix], (float)a[0], (float)a[from.pix]};
    float q[3] = {(float)b[-from.pix], v, (float)b[from.pix]};
    float r[3] = {(float)c[-from.pix], (float)c[0], (float)c[from.pix]};
    if (sizeof(T) == 1)
      smooth = point_smooth_byte((int)p[0] + (int)p[1] + (int)p[2] + (int)q[0] + (int)q[1] + (int)q[2] + (int)r[0] +
                                     (int)r[1] + (int)r[2],
                                 (int)v);
    else smooth = point_smooth(p, q, r);
  }
  return (T)point_sharpen(v, smooth, by, sizeof(T) == 1, max);
}

static __device__ __forceinline__ uint8_t noisy(uint8_t v, float z, const tones_how &how, float sigma, float) {
  return point_noisy_byte((float)v, z, sigma, how.mean);
}
static __device__ __forceinline__ float noisy(float v, float z, const tones_how &how, float sigma, float max) {
  return point_noisy(v, z, sigma, how.mean, max, how.clip);
}

/* Four normal numbers of a channel, of columns from 4 * four on. */
static __device__ __forceinline__ void normals(const aug_dice &dice, int64_t channel, int y, int w, int four,
                                               float (&z)[4]) {
  sp_rng4 r = sp_rng(point_noise_key(dice.step->key, channel), dice.ids[dice.same ? 0 : blockIdx.y],
                     point_noise_draw(y, w, four));
  point_normal(r.v[0], r.v[1], &z[0], &z[1]);
  point_normal(r.v[2], r.v[3], &z[2], &z[3]);
}

/* Values as they come in, where some would be cut. */
struct limits {
  float lo, hi;
  __device__ __forceinline__ void take(float v) {
    lo = v < lo ? v : lo;
    hi = v > hi ? v : hi;
  }
};

template <typename T>
static __device__ void change_image(const aug_job &j, const aug_dice &dice, const tones_how &how, tones_step s,
                                    const tones_look *looks, uint32_t *reach) {
  picture<T> from(j);
  float max = sizeof(T) == 1 ? 255.0f : how.max, by = s.by;
  int64_t channels = j.planes * j.pix;
  bool own = s.op == TONES_AUTOCONTRAST || s.op == TONES_EQUALIZE, mixes = s.op == TONES_GREY || s.op == TONES_COLOUR;
  bool still = s.op == TONES_LEAVE || (mixes && channels != 3) || (s.op == TONES_SHARPNESS && (j.h <= 2 || j.w <= 2));
  __shared__ uint8_t table[256];
  limits seen = {0.0f, 0.0f};
  if (sizeof(T) == 1 && point_is_table(s.op) && !own)
    for (int i = (int)threadIdx.x; i < 256; i += THREADS) table[i] = point_entry(s.op, by, how.gain, looks, i);
  __syncthreads();
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    int n = j.w * j.pix;
    load(v, from.row(plane, y), e, n);
    if (reach && sizeof(T) > 1)
#pragma unroll
      for (int k = 0; k < 4; k++) seen.take((float)v[k]);
    if (still) return;
    if (s.op == TONES_NOISE && j.pix == 1) {
      float z[4];
      normals(dice, plane, y, j.w, e / 4, z);
#pragma unroll
      for (int k = 0; k < 4; k++) v[k] = noisy(v[k], z[k], how, by, max);
      return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
      if (e + k >= n) break;
      int c = j.pix == 1 ? (int)plane : (e + k) % j.pix;
      if (s.op == TONES_DROP) {
        if ((uint32_t)by >> c & 1u) v[k] = fill_of(T(), how.fill[c % how.fills]);
      } else if (s.op == TONES_SHARPNESS) {
        v[k] = sharpened<T>(from, plane, y, e + k, by, max);
      } else if (s.op == TONES_NOISE) {
        float z[4];
        int x = (e + k) / j.pix;
        normals(dice, c, y, j.w, x / 4, z);
        v[k] = noisy(v[k], x % 4 == 0 ? z[0] : x % 4 == 1 ? z[1] : x % 4 == 2 ? z[2] : z[3], how, by, max);
      } else if (mixes) {
        pixel p = {from.colour(0, y, e + k), from.colour(1, y, e + k), from.colour(2, y, e + k)};
        if (s.op == TONES_GREY) p.r = p.g = p.b = pixel_grey(p.r, p.g, p.b, sizeof(T) == 1);
        else p = pixel_saturate(p, by, sizeof(T) == 1, max);
        v[k] = (T)(c == 0 ? p.r : c == 1 ? p.g : p.b);
      } else {
        v[k] = changed_value<T>(s.op, by, how, max, own ? looks + c : sizeof(T) == 1 ? nullptr : looks, table, v[k]);
      }
    }
  });
  if (!reach || sizeof(T) == 1) return;
  for (int lanes = 16; lanes; lanes /= 2) {
    seen.take(__shfl_xor_sync(0xffffffffu, seen.lo, lanes));
    seen.take(__shfl_xor_sync(0xffffffffu, seen.hi, lanes));
  }
  if (threadIdx.x % 32) return;
  atomicMin(&reach[2 * blockIdx.y], ordered(seen.lo));
  atomicMax(&reach[2 * blockIdx.y + 1], ordered(seen.hi));
}

static __global__ void __launch_bounds__(THREADS)
    change(const aug_jobs jobs, aug_dice dice, tones_how how, const float *rows, int k, tones_look *looks, int channels,
           uint32_t *reach) {
  const aug_job &j = jobs.job[blockIdx.z];
  __shared__ tones_step s;
  if (threadIdx.x == 0) s = step_of(j, how, rows, k);
  __syncthreads();
  if (!tones_bounded(s.op)) reach = nullptr;
  if (tones_moves(s.op)) {
    if (j.dtype == SP_U8) move<uint8_t>(j, how, s);
    else if (j.dtype == SP_F32) move<float>(j, how, s);
    else if (j.dtype == SP_I32) move<int32_t>(j, how, s);
    else move<int64_t>(j, how, s);
  } else if (j.mask) {
    copy_mask(j);
  } else if (j.dtype == SP_U8) {
    change_image<uint8_t>(j, dice, how, s, looks_of(looks, channels), reach);
  } else {
    change_image<float>(j, dice, how, s, looks_of(looks, channels), reach);
  }
}

/* ---- JPEG ---- */
static __global__ void __launch_bounds__(JPEG_THREADS)
    jpeg_in(const aug_jobs jobs, tones_how how, const float *rows, uint8_t *planes) {
  const aug_job &j = jobs.job[blockIdx.z];
  __shared__ int32_t v[JPEG_BLOCKS][8][JPEG_PITCH];
  tones_step s = step_of(j, how, rows, 0);
  if (s.op != TONES_JPEG) return;
  jpeg_size size = jpeg_size_of(j.h, j.w, 1);
  planes = jpeg_planes(planes, size);
  if (j.dtype == SP_U8) jpeg_block<uint8_t>(j, size, (int)s.by, 255.0f, planes, v);
  else jpeg_block<float>(j, size, (int)s.by, how.max, planes, v);
}

template <typename T>
static __device__ void jpeg_image(const aug_job &j, const jpeg_size &size, const uint8_t *planes, float max, bool still,
                                  uint32_t *reach) {
  int three = j.planes * j.pix == 3;
  limits seen = {0.0f, 0.0f};
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    int n = j.w * j.pix;
    load(v, aug_row<T>(j, blockIdx.y, plane, y), e, n);
    if (still) return;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      seen.take((float)v[k]);
      int x = j.pix == 1 ? e + k : (e + k) / j.pix, c = j.pix == 1 ? (int)plane : e + k - x * j.pix;
      if (x < j.w) v[k] = jpeg_to(T(), jpeg_pixel(planes, size, three, c, x, y), max);
    }
  });
  if (!reach || sizeof(T) == 1 || still) return;
  atomicMin(&reach[2 * blockIdx.y], ordered(seen.lo));
  atomicMax(&reach[2 * blockIdx.y + 1], ordered(seen.hi));
}

static __global__ void __launch_bounds__(THREADS)
    jpeg_out(const aug_jobs jobs, tones_how how, const float *rows, uint8_t *planes, uint32_t *reach) {
  const aug_job &j = jobs.job[blockIdx.z];
  tones_step s = step_of(j, how, rows, 0);
  jpeg_size size = jpeg_size_of(j.h, j.w, 1);
  planes = jpeg_planes(planes, size);
  if (j.mask) copy_mask(j);
  else if (j.dtype == SP_U8) jpeg_image<uint8_t>(j, size, planes, 255.0f, s.op == TONES_LEAVE, nullptr);
  else jpeg_image<float>(j, size, planes, how.max, s.op == TONES_LEAVE, reach);
}

/* ---- launches ---- */
static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

tones_room tones_room_of(const tones_how *how, int64_t n, int64_t images, int64_t channels) {
  tones_room r;
  r.reach = rounded((size_t)(n * tones_columns(how)) * sizeof(float));
  r.looks = r.reach + rounded((size_t)n * 2 * sizeof(uint32_t));
  r.planes = r.looks + (tones_may_look(how) ? rounded((size_t)(images * n * channels) * sizeof(tones_look)) : 0);
  r.copy =
      r.planes + (how->op == TONES_JPEG ? rounded((size_t)(images * n * jpeg_size_of(how->h, how->w, 1).bytes)) : 0);
  r.all = r.copy;
  return r;
}

static size_t job_bytes(const aug_job *j, int64_t n) {
  return rounded((size_t)(n * j->planes * j->h * j->w * j->pix) * (j->dtype == SP_U8 ? 1 : j->dtype == SP_I64 ? 8 : 4));
}

/* The tensors of a step: those of the first come from the input, those of the last go to the output. */
static void jobs_of_step(const aug_jobs *all, int step, int steps, char *copy, aug_jobs *jobs) {
  *jobs = *all;
  for (int i = 0; i < all->count; i++) {
    aug_job *j = &jobs->job[i];
    if ((steps - step) % 2 == 0) j->out = copy;
    if (step > 0) j->in = (steps - step) % 2 ? (void *)copy : all->job[i].out;
    copy += job_bytes(j, all->n);
  }
}

int tones_launch(void *stream, const aug_jobs *jobs, int images, int channels, int floats, const aug_dice *dice,
                 const tones_how *how, const float *given, float *changes, int64_t *status, char *room) {
  tones_room r = tones_room_of(how, jobs->n, images, channels);
  float *rows = reinterpret_cast<float *>(room);
  uint32_t *reach = floats ? reinterpret_cast<uint32_t *>(room + r.reach) : nullptr;
  tones_look *looks = reinterpret_cast<tones_look *>(room + r.looks);
  uint8_t *planes = reinterpret_cast<uint8_t *>(room + r.planes);
  dim3 grid = aug_grid(jobs, 2 * THREADS);
  unsigned n = (unsigned)jobs->n;
  SP_LAUNCH(begin, 1, THREADS, 0, stream, jobs->n, *dice, *how, given, changes, status, rows, reach);
  if (how->op == TONES_JPEG) {
    jpeg_size s = jpeg_size_of(how->h, how->w, 1);
    int blocks = s.pitch / 8 * (s.rows / 8) + 2 * (s.c_pitch / 8) * (s.c_rows / 8);
    SP_LAUNCH(jpeg_in, dim3((unsigned)((blocks + JPEG_BLOCKS - 1) / JPEG_BLOCKS), n, (unsigned)images), JPEG_THREADS, 0,
              stream, *jobs, *how, rows, planes);
    SP_LAUNCH(jpeg_out, grid, THREADS, 0, stream, *jobs, *how, rows, planes, reach);
  } else {
    for (int k = 0; k < how->steps; k++) {
      aug_jobs some;
      jobs_of_step(jobs, k, how->steps, room + r.copy, &some);
      if (tones_may_look(how))
        SP_LAUNCH(look, dim3((unsigned)channels, n, (unsigned)images), THREADS, 0, stream, some, *how, rows, k, looks,
                  channels);
      SP_LAUNCH(change, grid, THREADS, 0, stream, some, *dice, *how, rows, k, looks, channels, k ? nullptr : reach);
    }
  }
  if (reach) SP_LAUNCH(end, 1, THREADS, 0, stream, jobs->n, dice->ids, how->max, status, reach);
  return cudaPeekAtLastError();
}
