/* SPDX-License-Identifier: MIT
 * adamw_kernels.cu - the update of `adamw` on CUDA. */
#include "../../kits/optim/optim_adam.cuh"
#include "adamw.h"

int adamwk_update(void *stream, const opk_table *t, const void *rule, const opk_head *head, int64_t *status) {
  const opk_adam_rule r = *(const opk_adam_rule *)rule;
  opk_adam<false, false> plain = {r, 0, 0, 0, 0};
  opk_adam<true, false> largest = {r, 0, 0, 0, 0};
  unsigned grid = t->first[t->n];
  if (!grid) return cudaSuccess;
  if (r.amsgrad)
    SP_LAUNCH((opk_update<3, opk_adam<true, false>>), grid, OPK_THREADS, 0, stream, *t, largest, head, status);
  else SP_LAUNCH((opk_update<2, opk_adam<false, false>>), grid, OPK_THREADS, 0, stream, *t, plain, head, status);
  return cudaPeekAtLastError();
}
