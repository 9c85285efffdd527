/* SPDX-License-Identifier: MIT
 * predict.h - how long a step takes under a list of operations, from what each operation costs alone and how much lanes
 * slow each other down: the list is played with a clock. */
#ifndef SP_CORE_PREDICT_H
#define SP_CORE_PREDICT_H

#include "schedule/ops.h"

typedef struct sp_predict_in {
  const sp_ops *ops;
  const sp_sched_input *in;
  const double *cost;   /* [task] seconds that its CALL or COPY keeps its lane's stream busy, alone on the device */
  const double *submit; /* [task] seconds that the host needs to submit it */
  double launch, other; /* seconds of the host for a LAUNCH, and for any other operation */
  const double *share;  /* [lane][lane] symmetric. a and b seconds of work in two lanes at the same time take
                           max(a, b) + share * min(a, b): 0, they do not feel each other; 1,
                           no less than one after another */
} sp_predict_in;

/* Seconds of a step, in the long run. */
typedef struct sp_predicted {
  double step;
  double host;  /* for which the host submits */
  double *busy; /* [lane] for which the lane's stream works; the caller's */
  double *work; /* [lane] which that work would take alone; the caller's */
} sp_predicted;

int sp_predict(const sp_predict_in *in, sp_predicted *out, sp_err *err);

#endif
