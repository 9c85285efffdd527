/* SPDX-License-Identifier: MIT
 * drop.cu - dropout in training, with the draws of the CPU.
 */
#include "../../drop.h"
#include "kit.cuh"

namespace nnk {

enum { THREADS = 256 };

struct drop_args {
  nnk_map to, from;
  nnk_drop d;
  const void *mask;
  int add;
  int64_t blocks; /* of a sample */
};

/* A thread takes V channels of a pixel. */
template <int V> __global__ void __launch_bounds__(THREADS) drop(drop_args p) {
  const nnk_map &m = p.to;
  int64_t sample = blockIdx.x / p.blocks, px = pixels(m);
  uint32_t u = static_cast<uint32_t>(blockIdx.x - sample * p.blocks) * THREADS + threadIdx.x;
  uint32_t per = static_cast<uint32_t>(m.c / V), place = u / per, ch = (u - place * per) * V, y, x;
  if (place >= px) return;
  int64_t at = (sample * px + place) * m.c + ch;
  float v[V], t[V];
  load<V>(v, p.from.p, p.from.elt, at);
  if (p.d.step && p.d.step->training) {
    uint64_t key = p.d.step->key ^ p.d.salt, id = drop_id(p.d.step, p.d.ids, sample);
    pixel_at(place, m.layout, static_cast<uint32_t>(m.w), &y, &x);
    for (int j = 0; j < V; j++) {
      int64_t unit = p.d.maps ? ch + j : (ch + j) * px + y * m.w + x;
      sp_rng4 draws = sp_rng(key, id, static_cast<uint32_t>(unit / 4));
      uint32_t low = unit & 1 ? draws.v[1] : draws.v[0], high = unit & 1 ? draws.v[3] : draws.v[2];
      v[j] = drop_keeps(p.d.limit, unit & 2 ? high : low) ? __fmul_rn(v[j], p.d.scale) : 0;
    }
  }
  if (p.mask) load<V>(t, p.mask, m.elt, at);
  for (int j = 0; j < V && p.mask; j++) v[j] = t[j] > 0 ? v[j] : 0;
  if (p.add) load<V>(t, m.p, m.elt, at);
  for (int j = 0; j < V && p.add; j++) v[j] += t[j];
  store<V>(m.p, m.elt, at, v);
}

template <int V> static int run_drop(void *stream, drop_args p) {
  p.blocks = up(pixels(p.to) * (p.to.c / V), THREADS);
  SP_LAUNCH(drop<V>, static_cast<unsigned>(p.blocks * p.to.n), THREADS, 0, stream, p);
  return launched();
}

} // namespace nnk

using namespace nnk;

int nnk_dropout(void *stream, const nnk_drop *d, const nnk_map *to, const nnk_map *from, const nnk_map *mask, int add) {
  if (!same_order(to, from) || to->layout == PLANAR) return refused();
  if (elements(*to) == 0) return cudaSuccess;
  drop_args p = {*to, *from, *d, mask ? mask->p : nullptr, add, 0};
  int v = access(access(access(4, to, to->c), from, to->c), mask, to->c);
  return v == 4 ? run_drop<4>(stream, p) : v == 2 ? run_drop<2>(stream, p) : run_drop<1>(stream, p);
}
