/* SPDX-License-Identifier: MIT
 * batch_crop_kernels.cu - windows out of images on CUDA: one kernel a batch.
 *
 * A thread makes one unit of ROWS rows: an element, or four bytes at once. Rows of bytes are read as words where rows
 * begin on words, so that the four bytes of a unit are in two neighbouring words, at the same place in each row. */
#include "batch_crop_kernels.h"

#include "../../kits/aug/kit.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS, ROWS = 8 };

struct box {
  int top, left;
};

/* Units of a row: bytes by fours, int64 as two words. */
static __host__ __device__ __forceinline__ uint32_t units_of(const aug_job &j) {
  uint32_t n = (uint32_t)j.out_w * (uint32_t)j.pix;
  return j.dtype == SP_U8 ? (n + 3) / 4 : j.dtype == SP_I64 ? 2 * n : n;
}

static __host__ __device__ __forceinline__ bool by_words(const aug_job &j) {
  return (j.out_w * j.pix | j.w * j.pix) % 4 == 0 &&
         (reinterpret_cast<uintptr_t>(j.in) | reinterpret_cast<uintptr_t>(j.out)) % 4 == 0;
}

/* Whether means of bytes are made of words. */
static __host__ __device__ __forceinline__ bool means_words(const aug_job &j) { return j.pix <= 4 && by_words(j); }

/* ---- four bytes of a row, from any byte on ---- */
struct four_bytes {
  int low, high; /* words of a row */
  unsigned shift;
};

static __device__ __forceinline__ four_bytes bytes_from(int at, int words) {
  int low = min(at / 4, words - 1);
  return {low, min(low + 1, words - 1), at % 4 * 8u};
}

/* ---- exact ---- */
/* `each` words are an element, or four bytes are a word: each = 0. */
static __device__ __forceinline__ void copy_words(const aug_job &j, const aug_place &p, box b, int each) {
  int units = (int)units_of(j), words = each ? j.w * j.pix * each : j.w * j.pix / 4, left = b.left * j.pix;
  if (p.x >= units) return;
  int64_t image = blockIdx.y * j.planes + p.plane;
  const uint32_t *in = static_cast<const uint32_t *>(j.in) + (image * j.h + b.top + p.y) * words;
  uint32_t *out = static_cast<uint32_t *>(j.out) + (image * j.out_h + p.y) * units + p.x, v[ROWS];
  four_bytes from = {left * each + p.x, 0, 0};
  if (!each) from = bytes_from(left + 4 * p.x, words);
#pragma unroll
  for (int r = 0; r < ROWS; r++)
    if (p.y + r < j.out_h) v[r] = in[(int64_t)r * words + from.low];
  if (from.shift)
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      if (p.y + r < j.out_h) v[r] = __funnelshift_r(v[r], in[(int64_t)r * words + from.high], from.shift);
#pragma unroll
  for (int r = 0; r < ROWS; r++)
    if (p.y + r < j.out_h) out[(int64_t)r * units] = v[r];
}

/* Bytes where rows are not words. */
static __device__ void copy_bytes(const aug_job &j, const aug_place &p, box b) {
  int n = j.out_w * j.pix;
  const uint8_t *in = aug_row<uint8_t>(j, blockIdx.y, p.plane, b.top + p.y) + (int64_t)b.left * j.pix;
  uint8_t *out = static_cast<uint8_t *>(j.out) + ((blockIdx.y * j.planes + p.plane) * j.out_h + p.y) * n;
  for (int r = 0; r < ROWS && p.y + r < j.out_h; r++, in += (int64_t)j.w * j.pix, out += n)
    for (int e = 4 * p.x; e < min(4 * p.x + 4, n); e++) out[e] = in[e];
}

/* ---- the mean of 2 x 2: the order of the sum is that of the cpu ---- */
static __device__ __forceinline__ void mean_floats(const aug_job &j, const aug_place &p, box b) {
  int n = j.out_w * j.pix, pitch = j.w * j.pix;
  if (p.x >= n) return;
  int here = b.left * j.pix + p.x, right = here + j.pix < pitch ? here + j.pix : here;
  const float *in = aug_row<float>(j, blockIdx.y, p.plane, 0);
  float *out = static_cast<float *>(j.out) + ((blockIdx.y * j.planes + p.plane) * j.out_h + p.y) * n + p.x;
  float v[ROWS + 1][2];
#pragma unroll
  for (int r = 0; r <= ROWS; r++) {
    const float *row = in + (int64_t)min(b.top + p.y + r, j.h - 1) * pitch;
    v[r][0] = row[here];
    v[r][1] = row[right];
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
    if (p.y + r < j.out_h)
      out[(int64_t)r * n] = __fadd_rn(__fadd_rn(__fadd_rn(v[r][0], v[r][1]), v[r + 1][0]), v[r + 1][1]) / 4;
}

static __device__ __forceinline__ uint32_t quarter(uint32_t sum) { /* to the nearest, half to even */
  return (sum + 1 + (sum >> 2 & 1)) >> 2;
}

/* Of two sums in the halves of a word, the same in the upper byte of each. */
static __device__ __forceinline__ uint32_t quarters(uint32_t sums) {
  sums = sums * 64u + 0x007f007fu;
  return sums + (sums >> 8 & 0x00010001u);
}

/* Sums of bytes are exact, so four of them are made at once in halves of words. */
static __device__ __forceinline__ void mean_words(const aug_job &j, const aug_place &p, box b) {
  int units = (int)units_of(j), words = j.w * j.pix / 4, rows = min((int)ROWS, j.out_h - p.y);
  if (p.x >= units) return;
  int at = b.left * j.pix + 4 * p.x, inside = max(0, min((j.w - 1) * j.pix - at, 4)); /* have a right neighbour */
  uint32_t mask = (uint32_t)((1ull << 8 * inside) - 1), next = 0x3210u + 0x1111u * (uint32_t)j.pix;
  four_bytes here = bytes_from(at, words);
  uint32_t pitch = 4 * (uint32_t)words;
  int64_t image = blockIdx.y * j.planes + p.plane;
  const char *in = static_cast<const char *>(j.in) + image * j.h * (int64_t)pitch;
  const char *low = in + 4 * here.low, *high = in + 4 * here.high, *third = in + 4 * min(here.high + 1, words - 1);
  uint32_t *out = static_cast<uint32_t *>(j.out) + (image * j.out_h + p.y) * units + p.x, v[ROWS + 1][3];
#pragma unroll
  for (int r = 0; r <= ROWS; r++) {
    uint64_t row = (uint64_t)(uint32_t)min(b.top + p.y + r, j.h - 1) * pitch;
    v[r][0] = *reinterpret_cast<const uint32_t *>(low + row);
    v[r][1] = *reinterpret_cast<const uint32_t *>(high + row);
    v[r][2] = *reinterpret_cast<const uint32_t *>(third + row);
  }
  uint32_t even[2], odd[2];
#pragma unroll
  for (int r = 0; r <= ROWS; r++) {
    uint32_t a = __funnelshift_r(v[r][0], v[r][1], here.shift);
    uint32_t c = __byte_perm(a, __funnelshift_r(v[r][1], v[r][2], here.shift), next);
    c = (c & mask) | (a & ~mask);
    even[r % 2] = (a & 0x00ff00ffu) + (c & 0x00ff00ffu);
    odd[r % 2] = __byte_perm(a, 0, 0x4341) + __byte_perm(c, 0, 0x4341);
    if (!r) continue;
    if (r <= rows) *out = __byte_perm(quarters(even[0] + even[1]), quarters(odd[0] + odd[1]), 0x7351);
    out += units;
  }
}

static __device__ void mean_bytes(const aug_job &j, const aug_place &p, box b) {
  int n = j.out_w * j.pix, pitch = j.w * j.pix;
  uint8_t *out = static_cast<uint8_t *>(j.out) + ((blockIdx.y * j.planes + p.plane) * j.out_h + p.y) * n;
  for (int r = 0; r < ROWS && p.y + r < j.out_h; r++, out += n) {
    const uint8_t *in = aug_row<uint8_t>(j, blockIdx.y, p.plane, b.top + p.y + r);
    const uint8_t *below = b.top + p.y + r + 1 < j.h ? in + pitch : in;
    for (int e = 4 * p.x; e < min(4 * p.x + 4, n); e++) {
      int here = b.left * j.pix + e, right = here + j.pix < pitch ? here + j.pix : here;
      out[e] = (uint8_t)quarter((uint32_t)in[here] + in[right] + below[here] + below[right]);
    }
  }
}

/* Images of a call: only floats, only bytes whose rows are words, any. */
enum { FLOATS, WORDS, ANY };

/* `mode` and `images` are constants so that what is not needed takes no registers. */
template <int mode, int images>
static __global__ void __launch_bounds__(THREADS, 8)
    crop(const aug_jobs jobs, aug_dice dice, const int32_t *given, int32_t *boxes, int64_t *status) {
  __shared__ box drawn;
  const aug_job &j = jobs.job[blockIdx.z];
  int high = j.h - j.out_h, wide = j.w - j.out_w;
  bool first = blockIdx.x == 0 && blockIdx.z == 0;
  /* What the draw needs is on its way while the place is computed. */
  sp_step step = {};
  uint64_t id = 0;
  box b = {0, 0};
  if (given) b = {given[2 * blockIdx.y], given[2 * blockIdx.y + 1]};
  else {
    step.key = dice.step->key;
    step.training = dice.step->training;
    id = dice.ids[dice.same ? 0 : blockIdx.y];
  }
  aug_place p = aug_place_of(j, units_of(j), WARPS, ROWS);
  if (threadIdx.x == 0) {
    if (!given) {
      aug_dice near = {&step, &id, 1, dice.always, dice.first};
      crop_draw(&near, 0, high, wide, &b.top, &b.left);
    }
    if (boxes && first) {
      boxes[2 * blockIdx.y] = b.top;
      boxes[2 * blockIdx.y + 1] = b.left;
    }
    drawn = b;
  }
  if (first && blockIdx.y == 0)
    aug_judge(status, jobs.n, dice.ids, given != nullptr, [&](int64_t i, int64_t &value, int64_t &limit) {
      int top = given[2 * i], left = given[2 * i + 1];
      bool above = top < 0 || top > high;
      value = above ? top : left;
      limit = above ? high : wide;
      return above || left < 0 || left > wide;
    });
  __syncthreads();
  if (p.plane < 0) return;
  b = drawn;
  b.top = max(0, min(b.top, high)); /* what the status tells must not be read outside before */
  b.left = max(0, min(b.left, wide));
  bool words = by_words(j), copied = j.mask || mode == CROP_EXACT;
  if (copied && j.dtype == SP_U8 && !words) copy_bytes(j, p, b);
  else if (copied) copy_words(j, p, b, j.dtype == SP_U8 ? 0 : j.dtype == SP_I64 ? 2 : 1);
  else if (images == FLOATS || (images == ANY && j.dtype != SP_U8)) mean_floats(j, p, b);
  else if (images == WORDS || means_words(j)) mean_words(j, p, b);
  else mean_bytes(j, p, b);
}

static int images_of(const aug_jobs *jobs) {
  int floats = 0, words = 0, all = 0;
  for (int i = 0; i < jobs->count; i++) {
    const aug_job &j = jobs->job[i];
    if (j.mask) continue;
    all++;
    floats += j.dtype != SP_U8;
    words += j.dtype == SP_U8 && means_words(j);
  }
  return floats == all ? FLOATS : words == all ? WORDS : ANY;
}

int crop_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const int32_t *given, int32_t *boxes,
                int64_t *status, int mode) {
  dim3 grid = aug_tile_grid(jobs, WARPS, ROWS, units_of);
  int images = images_of(jobs);
  if (mode == CROP_EXACT)
    SP_LAUNCH((crop<CROP_EXACT, ANY>), grid, THREADS, 0, stream, *jobs, *dice, given, boxes, status);
  else if (images == FLOATS)
    SP_LAUNCH((crop<CROP_ROI_ALIGN, FLOATS>), grid, THREADS, 0, stream, *jobs, *dice, given, boxes, status);
  else if (images == WORDS)
    SP_LAUNCH((crop<CROP_ROI_ALIGN, WORDS>), grid, THREADS, 0, stream, *jobs, *dice, given, boxes, status);
  else SP_LAUNCH((crop<CROP_ROI_ALIGN, ANY>), grid, THREADS, 0, stream, *jobs, *dice, given, boxes, status);
  return cudaPeekAtLastError();
}
