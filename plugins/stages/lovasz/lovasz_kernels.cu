/* SPDX-License-Identifier: MIT
 * lovasz_kernels.cu - the Lovasz-softmax loss on CUDA: the softmax of each position, the errors of each class, which a
 * radix sort brings into order, what each place is worth, the gradient. The sort keeps the order of equals, so nothing
 * depends on which block comes first. */
#include "lovasz_kernels.h"

#include "../../kits/loss/softmax.cuh"
#include "lovasz_step.h"

constexpr int DIGITS = THREADS, BITS = 8; /* of a key, in each of four passes over it; a thread has a digit */
constexpr int TILE = 16 * THREADS;        /* positions of a class that a block has */
constexpr int AT_ONCE = 64;               /* classes, at most, that are sorted side by side: as many as have */
constexpr int64_t ROOM = 1 << 22;         /* so many positions together, or a single one */

/* Of a position, as it is sorted: times 4, and whether its label is the class, or another one. */
enum { IS_TRUE = 1, IS_OTHER = 2 };

struct lovasz_work : loss_work {
  int hinge, all_classes;
  int64_t positions, classes;
  int tiles;
  double *part;                /* loss, of each class and tile */
  double *scale;               /* one: of the gradient */
  float *slope;                /* of each class and position */
  float *top, *inv;            /* of each position: the largest logit, 1 / the sum of exponentials */
  unsigned *truth;             /* labels of each class */
  uint32_t *key[2], *which[2]; /* of the classes that are sorted now: positions of each */
  unsigned *digits;            /* of the same: DIGITS x tiles */
  unsigned long long
      *seen;     /* of the same: of each tile, in the high half positions of its class, in the low half others */
  int64_t first; /* class of those */
};

static __device__ bool is_there(const lovasz_work &w, int64_t c) { return w.hinge || w.all_classes || w.truth[c]; }

/* The sum of what threads before this one have, in its block; all of it in *sum. */
static __device__ unsigned long long block_before(unsigned long long v, unsigned long long *sum) {
  __shared__ unsigned long long part[WARPS];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned long long upto = v, before = 0;
  for (int d = 1; d < 32; d <<= 1) {
    unsigned long long other = __shfl_up_sync(0xffffffffu, upto, d);
    if (lane >= d) upto += other;
  }
  if (lane == 31) part[warp] = upto;
  __syncthreads();
  *sum = 0;
  for (int i = 0; i < WARPS; i++) {
    if (i < warp) before += part[i];
    *sum += part[i];
  }
  __syncthreads();
  return before + upto - v;
}

static __global__ void __launch_bounds__(THREADS) begin(const lovasz_work w) {
  for (int64_t c = (int64_t)blockIdx.x * THREADS + threadIdx.x; c < w.classes; c += (int64_t)gridDim.x * THREADS)
    w.truth[c] = 0;
}

/* ---- one class each along the grid's y: the sort ---- */

static __global__ void __launch_bounds__(THREADS) errors(const lovasz_work w) {
  const loss_job &j = w.j;
  int64_t c = w.first + blockIdx.y, to = blockIdx.y * w.positions;
  double truth = 0;
  for (int64_t i = threadIdx.x; i < TILE; i += THREADS) {
    int64_t p = (int64_t)blockIdx.x * TILE + i;
    if (p >= w.positions) break;
    int64_t y = label_of(j, p);
    int is_true = y == (w.hinge ? 1 : c);
    float x = j.x[logit_index(&j.shape, j.shape.rows, p, c)];
    float error = lovasz_error(w.hinge, is_true, w.hinge ? x : probability(x, w.top[p], w.inv[p]));
    w.key[0][to + p] = lovasz_key(y < 0 ? 0.0f : error);
    w.which[0][to + p] = (uint32_t)p << 2 | (uint32_t)(y < 0 ? 0 : is_true ? IS_TRUE : IS_OTHER);
    truth += is_true;
  }
  truth = block_sum(truth);
  if (threadIdx.x == 0 && truth > 0) atomicAdd(&w.truth[c], (unsigned)truth);
}

static __global__ void __launch_bounds__(THREADS) count_digits(const lovasz_work w, int from, int shift) {
  __shared__ unsigned counts[DIGITS];
  if (!is_there(w, w.first + blockIdx.y)) return;
  const uint32_t *key = w.key[from] + blockIdx.y * w.positions;
  counts[threadIdx.x] = 0;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < TILE; i += THREADS) {
    int64_t p = (int64_t)blockIdx.x * TILE + i;
    if (p < w.positions) atomicAdd(&counts[key[p] >> shift & (DIGITS - 1)], 1u);
  }
  __syncthreads();
  w.digits[((int64_t)blockIdx.y * DIGITS + threadIdx.x) * w.tiles + blockIdx.x] = counts[threadIdx.x];
}

/* A block a class: from how many there are of a digit in a tile to where the first of them goes. */
static __global__ void __launch_bounds__(THREADS) place_digits(const lovasz_work w) {
  if (!is_there(w, w.first + blockIdx.x)) return;
  unsigned *own = w.digits + ((int64_t)blockIdx.x * DIGITS + threadIdx.x) * w.tiles;
  unsigned long long all, count = 0;
  for (int i = 0; i < w.tiles; i++) count += own[i];
  unsigned at = (unsigned)block_before(count, &all);
  for (int i = 0; i < w.tiles; i++) {
    unsigned here = own[i];
    own[i] = at, at += here;
  }
}

/* Lanes of the warp whose digit is the same. */
static __device__ unsigned peers_of(unsigned digit, bool there) {
  unsigned peers = __ballot_sync(0xffffffffu, there);
  for (int b = 0; b < BITS; b++) {
    unsigned set = __ballot_sync(0xffffffffu, digit >> b & 1);
    peers &= digit >> b & 1 ? set : ~set;
  }
  return peers;
}

static __global__ void __launch_bounds__(THREADS) move(const lovasz_work w, int from, int shift) {
  __shared__ unsigned next[DIGITS], at[WARPS][DIGITS];
  if (!is_there(w, w.first + blockIdx.y)) return;
  int64_t room = blockIdx.y * w.positions;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  next[threadIdx.x] = w.digits[((int64_t)blockIdx.y * DIGITS + threadIdx.x) * w.tiles + blockIdx.x];
  for (int i = 0; i < TILE; i += THREADS) {
    int64_t p = (int64_t)blockIdx.x * TILE + i + threadIdx.x;
    bool there = p < w.positions;
    uint32_t key = there ? w.key[from][room + p] : 0, which = there ? w.which[from][room + p] : 0;
    unsigned digit = key >> shift & (DIGITS - 1);
    for (int k = 0; k < WARPS; k++) at[k][threadIdx.x] = 0;
    __syncthreads();
    unsigned peers = peers_of(digit, there), before = __popc(peers & ((1u << lane) - 1));
    if (there && before == 0) at[warp][digit] = __popc(peers);
    __syncthreads();
    unsigned place = next[threadIdx.x];
    for (int k = 0; k < WARPS; k++) {
      unsigned here = at[k][threadIdx.x];
      at[k][threadIdx.x] = place, place += here;
    }
    next[threadIdx.x] = place;
    __syncthreads();
    if (there) {
      int64_t to = room + at[warp][digit] + before;
      w.key[!from][to] = key, w.which[!from][to] = which;
    }
    __syncthreads();
  }
}

/* ---- one class each along the grid's y: what each place is worth ---- */

static __device__ unsigned long long seen_of(uint32_t which) {
  return which & IS_TRUE ? 1ull << 32 : which & IS_OTHER ? 1ull : 0ull;
}

static __global__ void __launch_bounds__(THREADS) count_seen(const lovasz_work w) {
  if (!is_there(w, w.first + blockIdx.y)) return;
  unsigned long long seen = 0, all;
  for (int64_t i = threadIdx.x; i < TILE; i += THREADS) {
    int64_t p = (int64_t)blockIdx.x * TILE + i;
    if (p < w.positions) seen += seen_of(w.which[0][blockIdx.y * w.positions + p]);
  }
  block_before(seen, &all);
  if (threadIdx.x == 0) w.seen[(int64_t)blockIdx.y * w.tiles + blockIdx.x] = all;
}

/* A block a class: from what a tile has to what is in those before it. */
static __global__ void __launch_bounds__(THREADS) place_seen(const lovasz_work w) {
  if (!is_there(w, w.first + blockIdx.x)) return;
  unsigned long long *own = w.seen + (int64_t)blockIdx.x * w.tiles, before = 0, all;
  for (int from = 0; from < w.tiles; from += THREADS) {
    int i = from + (int)threadIdx.x;
    unsigned long long v = i < w.tiles ? own[i] : 0, at = block_before(v, &all);
    if (i < w.tiles) own[i] = before + at;
    before += all;
  }
}

static __global__ void __launch_bounds__(THREADS) steps(const lovasz_work w) {
  int64_t c = w.first + blockIdx.y, room = blockIdx.y * w.positions;
  double loss = 0;
  if (!is_there(w, c)) return;
  float *slope = w.slope + c * w.positions;
  unsigned long long before = w.seen[(int64_t)blockIdx.y * w.tiles + blockIdx.x], all;
  for (int i = 0; i < TILE; i += THREADS) {
    int64_t p = (int64_t)blockIdx.x * TILE + i + threadIdx.x;
    bool there = p < w.positions;
    uint32_t which = there ? w.which[0][room + p] : 0;
    unsigned long long own = seen_of(which), upto = before + block_before(own, &all) + own;
    before += all;
    if (!own) continue;
    int is_true = which & IS_TRUE;
    float error = lovasz_error_of(w.key[0][room + p]);
    double step = lovasz_step(w.truth[c], (int64_t)(upto >> 32), (int64_t)(upto & 0xffffffffu), is_true);
    loss += error * step;
    slope[which >> 2] = w.hinge && error == 0 ? 0.0f : (float)(is_true ? -step : step);
  }
  loss = block_sum(loss);
  if (threadIdx.x == 0) w.part[c * w.tiles + blockIdx.x] = loss;
}

/* ---- all classes ---- */

/* One block: the mean over the classes. */
static __global__ void __launch_bounds__(THREADS) sum_up(const lovasz_work w) {
  double loss = 0, there = 0;
  for (int64_t c = threadIdx.x; c < w.classes; c += THREADS) {
    double own = 0;
    if (!is_there(w, c)) continue;
    for (int i = 0; i < w.tiles; i++) own += w.part[c * w.tiles + i];
    loss += own, there += 1;
  }
  loss = block_sum(loss);
  there = block_sum(there);
  if (threadIdx.x >= 32) return;
  label_sum s = all_labels(w);
  if (threadIdx.x) return;
  loss_result(w, s, s.counted ? (float)(w.j.weight * (loss / there)) : 0.0f);
  if (w.j.total) *w.j.total = s.counted ? 1 : 0; /* each batch has a score of its own */
  *w.scale = s.counted ? w.j.weight / there * (double)w.j.step->loss_scale : 0.0;
}

/* Through the softmax: p[c] * (slope of c - mean of the slopes under p). */
template <int MOST> static __global__ void __launch_bounds__(THREADS) gradients(const lovasz_work w) {
  const logit_shape &s = w.j.shape;
  float scale = (float)*w.scale;
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < w.positions; p += (int64_t)gridDim.x * THREADS) {
    int64_t stride, first = logits_at(s, p, &stride), label = label_of(w.j, p);
    float top = w.top[p], inv = w.inv[p], *g = w.j.g + first;
    some_logits<MOST> x(w.j.x + first, stride, s.classes);
    double mean = 0;
    each_class<MOST>(label >= 0 ? s.classes : 0, [&](int64_t c) {
      if (is_there(w, c)) mean += (double)probability(x.at(c), top, inv) * w.slope[c * w.positions + p];
    });
    each_class<MOST>(s.classes, [&](int64_t c) {
      double own = label >= 0 && is_there(w, c) ? w.slope[c * w.positions + p] : 0.0;
      float v = (float)(probability(x.at(c), top, inv) * (own - mean)), to = label >= 0 ? __fmul_rn(v, scale) : 0.0f;
      g[c * stride] = w.j.acc ? g[c * stride] + to : to;
    });
  }
}

static __global__ void __launch_bounds__(THREADS) hinge_gradients(const lovasz_work w) {
  float scale = (float)*w.scale;
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < w.positions; p += (int64_t)gridDim.x * THREADS) {
    float v = label_of(w.j, p) >= 0 ? __fmul_rn(w.slope[p], scale) : 0.0f;
    w.j.g[p] = w.j.acc ? w.j.g[p] + v : v;
  }
}

/* ---- the host's part ---- */

static int tiles_of(int64_t positions) { return (int)((positions + TILE - 1) / TILE); }

static int64_t at_once_of(int64_t positions, int64_t classes) {
  int64_t most = positions ? ROOM / positions : AT_ONCE;
  if (most > AT_ONCE) most = AT_ONCE;
  if (most > classes) most = classes;
  return most < 1 ? 1 : most;
}

/* Places of the classes that are sorted at once, of this batch or a smaller one. */
static int64_t room_of(int64_t positions, int64_t classes) {
  int64_t most = positions * (classes < AT_ONCE ? classes : AT_ONCE);
  return positions >= ROOM ? positions : most < ROOM ? most : ROOM;
}

size_t lovaszk_scratch(const logit_shape *s) {
  int64_t positions = s->n * s->px, room = room_of(positions, s->classes), tiles = tiles_of(positions);
  int64_t room_tiles = room / TILE + AT_ONCE; /* the last of a class may have few */
  return loss_sums_bytes() + (size_t)(s->classes * tiles + 1) * sizeof(double) +
         (size_t)room_tiles * (sizeof(unsigned long long) + DIGITS * sizeof(unsigned)) +
         (size_t)((s->classes + 2) * positions) * sizeof(float) + (size_t)s->classes * sizeof(unsigned) +
         (size_t)room * 4 * sizeof(uint32_t);
}

static void lay_out(lovasz_work *w) {
  int64_t positions = w->positions, room = room_of(positions, w->classes), room_tiles = room / TILE + AT_ONCE;
  w->s = (loss_sums *)w->j.scratch;
  w->part = (double *)((char *)w->j.scratch + loss_sums_bytes());
  w->scale = w->part + w->classes * w->tiles;
  w->seen = (unsigned long long *)(w->scale + 1);
  w->digits = (unsigned *)(w->seen + room_tiles);
  w->truth = w->digits + room_tiles * DIGITS;
  w->slope = (float *)(w->truth + w->classes);
  w->top = w->slope + w->classes * positions;
  w->inv = w->top + positions;
  w->key[0] = (uint32_t *)(w->inv + positions);
  w->key[1] = w->key[0] + room;
  w->which[0] = w->key[1] + room;
  w->which[1] = w->which[0] + room;
}

static void launch_classes(void *stream, const lovasz_work &w, unsigned n) {
  dim3 grid((unsigned)w.tiles, n);
  SP_LAUNCH(errors, grid, THREADS, 0, stream, w);
  for (int k = 0; k < 4; k++) {
    SP_LAUNCH(count_digits, grid, THREADS, 0, stream, w, k % 2, k * BITS);
    SP_LAUNCH(place_digits, n, THREADS, 0, stream, w);
    SP_LAUNCH(move, grid, THREADS, 0, stream, w, k % 2, k * BITS);
  }
  SP_LAUNCH(count_seen, grid, THREADS, 0, stream, w);
  SP_LAUNCH(place_seen, n, THREADS, 0, stream, w);
  SP_LAUNCH(steps, grid, THREADS, 0, stream, w);
}

template <int MOST> static void launch_all(void *stream, lovasz_work w) {
  int blocks = blocks_of(w.positions, THREADS, LOSS_BLOCKS);
  int64_t at_once = at_once_of(w.positions, w.classes);
  SP_LAUNCH(begin, blocks_of(w.classes, THREADS, LOSS_BLOCKS), THREADS, 0, stream, w);
  if (!w.hinge) SP_LAUNCH(softmaxes<MOST>, blocks, THREADS, 0, stream, w.j, w.top, w.inv);
  for (w.first = 0; w.first < w.classes; w.first += at_once)
    launch_classes(stream, w, (unsigned)(w.classes - w.first < at_once ? w.classes - w.first : at_once));
  SP_LAUNCH(sum_up, 1, THREADS, 0, stream, w);
  if (w.j.g && w.hinge) SP_LAUNCH(hinge_gradients, blocks, THREADS, 0, stream, w);
  else if (w.j.g) SP_LAUNCH(gradients<MOST>, blocks, THREADS, 0, stream, w);
}

int lovaszk_loss(void *stream, const loss_job *job, int all_classes) {
  lovasz_work w = {};
  w.j = *job;
  w.hinge = lovasz_is_hinge(&job->shape), w.all_classes = all_classes;
  w.positions = job->shape.n * job->shape.px, w.classes = job->shape.classes;
  w.tiles = tiles_of(w.positions);
  lay_out(&w);
  sum_all_labels(stream, &w);
  if (w.classes <= 4) launch_all<4>(stream, w);
  else if (w.classes <= 10) launch_all<10>(stream, w);
  else if (w.classes <= 24) launch_all<24>(stream, w);
  else launch_all<0>(stream, w);
  return cudaPeekAtLastError();
}
