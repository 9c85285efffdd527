/* SPDX-License-Identifier: MIT
 * warp_maps.cuh - the kernel of stages that have a map for each sample. */
#ifndef SP_PLUGINS_WARP_MAPS_CUH
#define SP_PLUGINS_WARP_MAPS_CUH

#include "warp.cuh"

/* Every tensor by a map for each sample. */
static __global__ void __launch_bounds__(WARP_THREADS)
    warp_by_maps(const aug_jobs jobs, const warp_how how, const warp_map *maps) {
  const aug_job &j = jobs.job[blockIdx.z];
  const warp_by_map where = {maps[blockIdx.y]};
  if (where.m.kind == WARP_NONE) warp_copy(j);
  else warp_tensor(j, where, how);
}

#endif
