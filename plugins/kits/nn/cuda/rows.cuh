/* SPDX-License-Identifier: MIT
 * rows.cuh - sums per channel over all pixels of a map, in pieces that depend on the shape alone.
 *
 * What is summed is a policy P: P::sum is one thread's state per channel (which begin() has as run * c + channel),
 * P::sum::item what it reads of a pixel, P::EACH how many of them are under way together, P::part what threads merge in
 * shared memory; P::RESIDENT blocks share a multiprocessor.
 */
#ifndef NN_CUDA_ROWS_CUH
#define NN_CUDA_ROWS_CUH

#include "kit.cuh"

namespace nnk {

enum { ROW_THREADS = 256, ROW_BLOCKS = 512 };

/* A block takes `lanes` units of V channels; `rows` threads share the pixels of a piece. The pixels are one run, or one
 * a sample, which is then cut by itself. */
struct cut {
  int v, lanes, rows;
  int64_t columns, pieces, each; /* blocks side by side; pieces of the pixels; pixels of a piece */
  int64_t run, per_run;          /* pixels of a run; its pieces */
  int64_t count, c, plane;       /* pixels; channels; pixels of a plane where the map is N,C,H,W, else 0 */
};

/* v: as access() gave it for what is read. */
inline cut cut_of(const nnk_map *m, int v, int blocks = ROW_BLOCKS) {
  cut q = {};
  bool planar = m->layout == PLANAR;
  q.v = planar ? 1 : v;
  q.c = m->c;
  q.count = m->n * pixels(*m);
  q.plane = planar ? pixels(*m) : 0;
  int64_t units = m->c / q.v;
  q.lanes = planar ? 1 : static_cast<int>(units < 32 ? units : 32);
  q.rows = ROW_THREADS / q.lanes;
  q.columns = up(units, q.lanes);
  int64_t most = up(blocks, q.columns), wanted = up(q.count, q.rows * 2);
  q.pieces = wanted < most ? wanted : most;
  q.each = up(q.count, q.pieces);
  q.pieces = q.per_run = up(q.count, q.each);
  q.run = q.count;
  return q;
}

/* At least pieces * c, whatever the alignment, for this batch and any smaller one. */
inline int64_t most_parts(const nnk_map *m, int blocks = ROW_BLOCKS) {
  int64_t side_by_side = m->layout == PLANAR ? m->c : up(m->c, 4 * 32); /* fewest blocks: the widest accesses */
  int64_t pieces = up(blocks, side_by_side), all = m->n * pixels(*m);
  return m->c * (pieces < all ? pieces : all);
}

/* Where channel ch of pixel r of all samples lies. */
template <int V> __device__ inline int64_t place_in(const cut &q, int64_t r, int64_t ch) {
  if (V > 1 || !q.plane) return r * q.c + ch;
  int64_t sample = r / q.plane;
  return (sample * q.c + ch) * q.plane + (r - sample * q.plane);
}

template <class P, int V> __global__ void __launch_bounds__(ROW_THREADS, P::RESIDENT) rows(P p, cut q) {
  __shared__ typename P::part parts[V][ROW_THREADS];
  int thread = static_cast<int>(threadIdx.x), row = thread / q.lanes, lane = thread - row * q.lanes;
  int64_t piece = blockIdx.x / q.columns, ch = ((blockIdx.x - piece * q.columns) * q.lanes + lane) * V;
  int64_t run = piece / q.per_run, first = run * q.run + (piece - run * q.per_run) * q.each;
  int64_t end = min(first + q.each, (run + 1) * q.run);
  bool mine = row < q.rows && ch < q.c;
  typename P::template sum<V> s;
  if (mine) {
    s.begin(p, run * q.c + ch);
    for (int64_t r = first + row; r < end; r += P::EACH * q.rows) {
      typename P::template sum<V>::item items[P::EACH];
#pragma unroll
      for (int e = 0; e < P::EACH; e++) {
        if (r + e * q.rows >= end) break;
        s.get(p, place_in<V>(q, r + e * q.rows, ch), &items[e]);
      }
#pragma unroll
      for (int e = 0; e < P::EACH; e++) {
        if (r + e * q.rows >= end) break;
        s.take(p, place_in<V>(q, r + e * q.rows, ch), items[e]);
      }
    }
#pragma unroll
    for (int j = 0; j < V; j++) parts[j][thread] = s.part_of(j);
  }
  for (int half = ROW_THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (mine && row < half && row + half < q.rows) {
#pragma unroll
      for (int j = 0; j < V; j++) P::merge(&parts[j][thread], parts[j][thread + half * q.lanes]);
    }
  }
  if (mine && row == 0) {
#pragma unroll
    for (int j = 0; j < V; j++) p.finish(q, piece, ch + j, parts[j][thread]);
  }
}

template <class P> int run_rows(void *stream, const P &p, const cut &q) {
  unsigned grid = static_cast<unsigned>(q.columns * q.pieces);
  if (q.v == 4) SP_LAUNCH((rows<P, 4>), grid, ROW_THREADS, 0, stream, p, q);
  else if (q.v == 2) SP_LAUNCH((rows<P, 2>), grid, ROW_THREADS, 0, stream, p, q);
  else SP_LAUNCH((rows<P, 1>), grid, ROW_THREADS, 0, stream, p, q);
  return launched();
}

} // namespace nnk
#endif
