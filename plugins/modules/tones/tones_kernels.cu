/* SPDX-License-Identifier: MIT
 * tones_kernels.cu - the steps of the module `tones` on CUDA. One kernel draws what is done to all samples; for each
 * step one looks at whole channels, where some operation may need it, a block each, and one changes all tensors; a
 * last one says whether values of float images were outside of their range. Counts and sums are of whole numbers:
 * their order has no say.
 */
#include "tones_kernels.h"

#include "change.cuh"
#include "jpeg.cuh"
#include "look.cuh"

enum { MAX_STEPS = 2 * TONES_STEPS };

static __global__ void __launch_bounds__(THREADS) begin(int64_t n, aug_dice dice, tones_how how, const float *given,
                                                        float *changes, int64_t *status, tones_step *steps,
                                                        uint32_t *reach) {
  int columns = tones_columns(&how);
  sp_launch_next();
  for (int64_t i = threadIdx.x; i < n; i += THREADS) {
    float row[MAX_STEPS];
    if (!given) tones_draw(&dice, i, &how, row);
    for (int k = 0; k < columns; k++) {
      if (given) row[k] = given[i * columns + k];
      if (changes) changes[i * columns + k] = row[k];
    }
    for (int k = 0; k < how.steps; k++) steps[i * how.steps + k] = tones_step_of(&how, row, k);
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

/* The step of this block's sample and tensor. */
static __device__ __forceinline__ tones_step step_of(const aug_job &j, const tones_how &how, const tones_step *steps,
                                                     int k) {
  tones_step s = steps[blockIdx.y * how.steps + k];
  if (j.mask && !tones_moves(s.op)) s.op = TONES_LEAVE;
  return s;
}

static __device__ __forceinline__ tones_look *looks_of(tones_look *looks, int channels) {
  return looks + ((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * channels;
}

static __global__ void __launch_bounds__(LOOKERS)
    look(const aug_jobs jobs, tones_how how, const tones_step *steps, int k, tones_look *looks, int channels) {
  const aug_job &j = jobs.job[blockIdx.z];
  sp_launch_wait();
  tones_step s = step_of(j, how, steps, k);
  if ((int64_t)blockIdx.x >= j.planes * j.pix || !tones_looks(s.op)) return;
  tones_look *own = looks_of(looks, channels) + blockIdx.x;
  if (j.dtype == SP_U8) find<uint8_t>(j, s.op, 255.0f, own);
  else find<float>(j, s.op, how.max, own);
}

template <int KIND, typename T>
static __device__ __forceinline__ void change_image(const aug_job &j, const aug_dice &dice, const tones_how &how,
                                                    tones_step s, const tones_look *looks, uint32_t *reach) {
  int64_t channels = j.planes * j.pix;
  limits seen = {0.0f, 0.0f};
  bool three = channels == 3, inner = j.h > 2 && j.w > 2;
  int kind = KIND == ANY ? kind_of(s.op) : KIND;
  if (s.op == TONES_LEAVE || (kind == MIX && !three) || (kind == SHARP && !inner)) kind = COPY;
  if (kind == COPY) copied<T>(j, seen);
  else if (kind == POINT && (KIND == ANY || KIND == POINT)) points<T>(j, how, s, looks, seen);
  else if (kind == MIX && (KIND == ANY || KIND == MIX) && j.pix == 1) mixed<true, T>(j, how, s, seen);
  else if (kind == MIX && (KIND == ANY || KIND == MIX)) mixed<false, T>(j, how, s, seen);
  else if (kind == SHARP && (KIND == ANY || KIND == SHARP)) sharpened<T>(j, how, s, seen);
  else if (kind == NOISE && KIND == NOISE) noisy<T>(j, dice, how, s, seen);
  else if (kind == DROP && KIND == DROP) dropped<T>(j, how, s);
  if (reach && sizeof(T) > 1 && tones_bounded(s.op)) report(seen, how.max, reach + 2 * blockIdx.y);
}

/* KIND: what all samples have done to them, or ANY of what can be drawn. */
template <int KIND>
static __global__ void __launch_bounds__(THREADS, AUG_PER_SM(THREADS, 4))
    change(const aug_jobs jobs, aug_dice dice, tones_how how, const tones_step *steps, int k, tones_look *looks,
           int channels, uint32_t *reach) {
  const aug_job &j = jobs.job[blockIdx.z];
  sp_launch_wait();
  tones_step s = step_of(j, how, steps, k);
  limits none = {0.0f, 0.0f};
  if (KIND == ANY && tones_moves(s.op)) {
    if (j.dtype == SP_U8) moved<uint8_t>(j, how, s);
    else if (j.dtype == SP_F32) moved<float>(j, how, s);
    else if (j.dtype == SP_I32) moved<int32_t>(j, how, s);
    else moved<int64_t>(j, how, s);
  } else if (j.mask) {
    aug_by_size(j.dtype, [&](auto t) { copied<decltype(t)>(j, none); });
  } else if (j.dtype == SP_U8) {
    change_image<KIND, uint8_t>(j, dice, how, s, looks_of(looks, channels), reach);
  } else {
    change_image<KIND, float>(j, dice, how, s, looks_of(looks, channels), reach);
  }
}

/* ---- JPEG ---- */
static __global__ void __launch_bounds__(JPEG_THREADS)
    jpeg_in(const aug_jobs jobs, tones_how how, const tones_step *steps, uint8_t *planes) {
  const aug_job &j = jobs.job[blockIdx.z];
  __shared__ int32_t v[JPEG_BLOCKS][8][JPEG_PITCH];
  sp_launch_wait();
  tones_step s = step_of(j, how, steps, 0);
  if (s.op != TONES_JPEG) return;
  jpeg_size size = jpeg_size_of(j.h, j.w, 1);
  planes = jpeg_planes(planes, size);
  if (j.dtype == SP_U8) jpeg_block<uint8_t>(j, size, (int)s.by, 255.0f, planes, v);
  else jpeg_block<float>(j, size, (int)s.by, how.max, planes, v);
}

template <typename T>
static __device__ void jpeg_image(const aug_job &j, const jpeg_size &size, const uint8_t *planes, float max,
                                  uint32_t *reach) {
  int three = j.planes * j.pix == 3;
  limits seen = {0.0f, 0.0f};
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    int n = j.w * j.pix;
    load(v, aug_row<T>(j, blockIdx.y, plane, y), e, n);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      seen.take((float)v[k]);
      int x = j.pix == 1 ? e + k : (e + k) / j.pix, c = j.pix == 1 ? (int)plane : e + k - x * j.pix;
      if (x < j.w) v[k] = jpeg_to(T(), jpeg_pixel(planes, size, three, c, x, y), max);
    }
  });
  if (reach && sizeof(T) > 1) report(seen, max, reach + 2 * blockIdx.y);
}

static __global__ void __launch_bounds__(THREADS, AUG_PER_SM(THREADS, 4))
    jpeg_out(const aug_jobs jobs, tones_how how, const tones_step *steps, uint8_t *planes, uint32_t *reach) {
  const aug_job &j = jobs.job[blockIdx.z];
  sp_launch_wait();
  tones_step s = step_of(j, how, steps, 0);
  jpeg_size size = jpeg_size_of(j.h, j.w, 1);
  limits none = {0.0f, 0.0f};
  planes = jpeg_planes(planes, size);
  if (s.op == TONES_LEAVE) aug_by_size(j.dtype, [&](auto t) { copied<decltype(t)>(j, none); });
  else if (j.dtype == SP_U8) jpeg_image<uint8_t>(j, size, planes, 255.0f, nullptr);
  else jpeg_image<float>(j, size, planes, how.max, reach);
}

/* ---- launches ---- */
static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

tones_room tones_room_of(const tones_how *how, int64_t n, int64_t images, int64_t channels) {
  tones_room r;
  r.reach = rounded((size_t)(n * how->steps) * sizeof(tones_step));
  r.looks = r.reach + rounded((size_t)n * 2 * sizeof(uint32_t));
  r.planes = r.looks + (tones_may_look(how) ? rounded((size_t)(images * n * channels) * sizeof(tones_look)) : 0);
  r.copy =
      r.planes + (how->op == TONES_JPEG ? rounded((size_t)(images * n * jpeg_size_of(how->h, how->w, 1).bytes)) : 0);
  r.all = r.copy;
  return r;
}

static size_t bytes_of(const aug_job *j) {
  return (size_t)(j->planes * j->h * j->w * j->pix) * (j->dtype == SP_U8 ? 1 : j->dtype == SP_I64 ? 8 : 4);
}

/* The tensors of a step: those of the first come from the input, those of the last go to the output. */
static void jobs_of_step(const aug_jobs *all, int step, int steps, char *copy, aug_jobs *jobs) {
  *jobs = *all;
  for (int i = 0; i < all->count; i++) {
    aug_job *j = &jobs->job[i];
    if ((steps - step) % 2 == 0) j->out = copy;
    if (step > 0) j->in = (steps - step) % 2 ? (void *)copy : all->job[i].out;
    copy += rounded((size_t)all->n * bytes_of(j));
  }
}

/* A block for each TILE bytes of a sample of the largest tensor; it strides where there would be too many. */
static dim3 tiles(const aug_jobs *jobs) {
  size_t most = 1;
  for (int i = 0; i < jobs->count; i++) most = bytes_of(&jobs->job[i]) > most ? bytes_of(&jobs->job[i]) : most;
  size_t blocks = (most + TILE - 1) / TILE;
  return dim3((unsigned)(blocks < 65535 ? blocks : 65535), (unsigned)jobs->n, (unsigned)jobs->count);
}

int tones_launch(void *stream, const aug_jobs *jobs, int images, int channels, int floats, const aug_dice *dice,
                 const tones_how *how, const float *given, float *changes, int64_t *status, char *room) {
  tones_room r = tones_room_of(how, jobs->n, images, channels);
  tones_step *steps = reinterpret_cast<tones_step *>(room);
  uint32_t *reach = floats ? reinterpret_cast<uint32_t *>(room + r.reach) : nullptr;
  tones_look *looks = reinterpret_cast<tones_look *>(room + r.looks);
  uint8_t *planes = reinterpret_cast<uint8_t *>(room + r.planes);
  dim3 grid = tiles(jobs);
  unsigned n = (unsigned)jobs->n;
  SP_LAUNCH(begin, 1, THREADS, 0, stream, jobs->n, *dice, *how, given, changes, status, steps, reach);
  if (how->op == TONES_JPEG) {
    jpeg_size s = jpeg_size_of(how->h, how->w, 1);
    int blocks = s.pitch / 8 * (s.rows / 8) + 2 * (s.c_pitch / 8) * (s.c_rows / 8);
    SP_LAUNCH_EARLY(jpeg_in, dim3((unsigned)((blocks + JPEG_BLOCKS - 1) / JPEG_BLOCKS), n, (unsigned)images),
                    JPEG_THREADS, 0, stream, *jobs, *how, steps, planes);
    SP_LAUNCH_EARLY(jpeg_out, grid, THREADS, 0, stream, *jobs, *how, steps, planes, reach);
  } else {
    int kind = how->op >= TONES_OPS ? ANY : kind_of(how->op);
    auto run = kind == POINT   ? change<POINT>
               : kind == MIX   ? change<MIX>
               : kind == SHARP ? change<SHARP>
               : kind == NOISE ? change<NOISE>
               : kind == DROP  ? change<DROP>
                               : change<ANY>;
    for (int k = 0; k < how->steps; k++) {
      aug_jobs some;
      jobs_of_step(jobs, k, how->steps, room + r.copy, &some);
      if (tones_may_look(how))
        SP_LAUNCH_EARLY(look, dim3((unsigned)channels, n, (unsigned)images), LOOKERS, 0, stream, some, *how, steps,
                        k, looks, channels);
      SP_LAUNCH_EARLY(run, grid, THREADS, 0, stream, some, *dice, *how, steps, k, looks, channels, k ? nullptr : reach);
    }
  }
  if (reach) SP_LAUNCH(end, 1, THREADS, 0, stream, jobs->n, dice->ids, how->max, status, reach);
  return cudaPeekAtLastError();
}
