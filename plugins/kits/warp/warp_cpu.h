/* SPDX-License-Identifier: MIT
 * warp_cpu.h - images whose pixels come from elsewhere in them, on the CPU. */
#ifndef SP_PLUGINS_WARP_CPU_H
#define SP_PLUGINS_WARP_CPU_H

#include "../aug/cpu.h"
#include "warp.h"

/* Where pixels of a row of h x w come from: n <= WARP_BLOCK of them. */
enum { WARP_BLOCK = 256 };

typedef struct warp_places {
  _Alignas(64) float x[WARP_BLOCK], y[WARP_BLOCK];
  int32_t n;
} warp_places;

/* Makes row y of all planes of a sample, from pixel x on, of what `at` says; behind its last place it may write. */
void warp_block(const aug_job *j, const warp_how *how, int64_t sample, int32_t y, int32_t x, warp_places *at);

/* The rows of a part by a map: all that a stage or a step of one has to call. */
void warp_part(const aug_part *part, const warp_how *how, const warp_map *map);

/* All tensors of a call, with a map for each sample. */
int warp_all(sp_ctx *ctx, const aug_jobs *jobs, const warp_how *how, const warp_map *maps);

#endif
