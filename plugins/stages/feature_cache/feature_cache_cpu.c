/* SPDX-License-Identifier: MIT
 * feature_cache_cpu.c - the stage `feature_cache` on the CPU. */
#include <string.h>

#include "../../kits/par.h"
#include "../../kits/stateless.h"
#include "feature_cache.h"

typedef struct job {
  const sp_io *io;
  const cache_move *m;
} job;

static int move_row(void *arg, int64_t i, int worker) {
  const job *j = arg;
  char *batch = j->m->batch + (size_t)i * j->m->row;
  char *table = j->m->table + (size_t)SP_ID_INDEX(j->io->ids[i]) * j->m->row;
  (void)worker;
  memcpy(j->m->put ? table : batch, j->m->put ? batch : table, j->m->row);
  return SP_OK;
}

static int move_rows(sp_ctx *ctx, const sp_io *io, const cache_move *m) {
  job j = {io, m};
  return par_run(ctx, m->n, move_row, &j);
}

CACHE_STAGE("cpu", "feature_cache", move_rows);
