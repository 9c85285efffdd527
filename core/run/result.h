/* SPDX-License-Identifier: MIT
 * result.h - what a loop tells of a step. */
#ifndef SP_CORE_RESULT_H
#define SP_CORE_RESULT_H

#include <spcore/plugin.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct sp_metric {
  const char
      *name; /* the port's name, or NODE.PORT where two nodes have one of that name; [i] behind it in a longer list */
  const char *node, *port;
  sp_spec spec;     /* row-major */
  const void *data; /* host memory, valid until the next call */
  bool result;      /* one of sp_graph_result: `spec` is of the step's own samples, in any order of memory */
  uint32_t flags;   /* of its port */
  double weight; /* what a mean is over: the TOTAL of its stage, or samples; 0: nothing counted, and it is no number */
} sp_metric;

typedef struct sp_hash {
  const char *name; /* "encoder.features", "encoder.maps[2]", "decoder.0.weight" */
  uint64_t hash;
} sp_hash;

/* What ranks wait for each other, over about the last 20 steps. */
typedef struct sp_pace {
  int slowest;   /* rank whose own time of a step, in which it waits for no other one, is the longest */
  double behind; /* seconds that this is longer than the median of all ranks */
  double waited; /* share of the time in which a rank waits, the mean of all */
} sp_pace;

typedef struct sp_result {
  uint64_t step, epoch;
  uint64_t of;    /* steps of the loop or the evaluation; 0: it has no end */
  uint32_t n;     /* samples in the step */
  bool between;   /* it is none of a step: requests were answered that no step has done; n is 0 */
  bool updated;   /* the optimizer ran */
  uint32_t asked; /* of a job of several ranks: what they have asked each other, see sp_engine_ask */
  double lr;      /* of the last update up to that step, at first the optimizer's own; NaN without an optimizer */
  double time;    /* sp_now() when the host saw it complete */
  const sp_metric *metrics;
  size_t n_metrics;
  const sp_pace *pace;   /* of several ranks, behind the second step; NULL: nothing is known */
  const sp_hash *hashes; /* with opts.checksums, in a fixed order */
  size_t n_hashes;
  const char *const *absent; /* outputs that have none, as nobody reads them or a cache spares their stage;
                                the same each step */
  size_t n_absent;
} sp_result;

/* What is a mean gets its weight, and TOTALs, which are weights, go. `metrics` are those of the result. */
void sp_result_weigh(sp_result *res, sp_metric *metrics);
/* A mean over nothing: there is no such number. */
static inline bool sp_metric_is_none(const sp_metric *m) {
  bool mean = (m->spec.dtype == SP_F32 || m->spec.dtype == SP_F64) && !(m->flags & SP_PORT_SUM);
  return mean && !m->result && m->weight == 0;
}

#endif
