/* SPDX-License-Identifier: MIT
 * init.h - first values of weights. */
#ifndef SP_CORE_INIT_H
#define SP_CORE_INIT_H

#include <spcore/plugin.h>

#include "base/err.h"

/* PyTorch's CPU generator: one stream of numbers for a whole graph, drawn in order of construction. */
typedef struct sp_mt19937 {
  uint32_t state[624];
  uint32_t next;
} sp_mt19937;

void sp_mt19937_seed(sp_mt19937 *mt, uint64_t seed); /* the low 32 bits, as torch.manual_seed */
uint32_t sp_mt19937_draw(sp_mt19937 *mt);

/* Fills the n weights of one stage. data[i] is laid out as w[i].spec says; values are assigned in logical row-major
 * order, so that the memory order changes none of them. CONST takes any dtype, UNIFORM float32.
 *
 * torch NULL: element k of a weight is word k % 4 of sp_rng(key, k / 4, 0), key = sp_rng_key(seed, "STAGE.WEIGHT"): it
 * depends on nothing else in the graph. Else: the numbers come from that generator, bit for bit as PyTorch's
 * reset_parameters() of conv, transposed conv and linear draws them, and `seed` is not used. */
int sp_init_weights(const sp_weight *w, size_t n, void *const *data, const char *stage_name, uint64_t seed,
                    sp_mt19937 *torch, sp_err *err);

#endif
