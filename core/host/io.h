/* SPDX-License-Identifier: MIT
 * io.h - the record of a call into a stage: what each kind of call is given of all that a stage has. */
#ifndef SP_CORE_IO_H
#define SP_CORE_IO_H

#include <stdbool.h>

#include <spcore/plugin.h>

typedef enum sp_call_kind {
  SP_CALL_FORWARD,
  SP_CALL_BACKWARD,
  SP_CALL_APPLY,
  SP_CALL_SURVEY,
  SP_CALL_PREPARE
} sp_call_kind;

/* What a stage has, wherever it runs: in a step loop, by hand, under test. */
typedef struct sp_io_parts {
  bool training;
  uint32_t n_in, n_out;
  /* Those of inputs, outputs, gradients of outputs and gradients of inputs, in one row; of the last ones data is NULL
   * where no gradient is wanted. */
  const sp_list *lists;
  const uint8_t *const *din_acc;
  uint32_t n_weights, n_factors;
  const sp_tensor *weights, *dweights, *factors; /* factors as this kind of call has them */
  bool dw_acc;
  uint32_t part;
  const float *dw_scale;
  const sp_step *step; /* with ids: NULL where plan() said `stepless` */
  const uint64_t *ids;
  void *scratch, *saved, *consts;
  double *sums; /* of this kind of call; with sum_at and n_sums for an update of slices */
  const uint32_t *sum_at;
  uint64_t n_sums;
} sp_io_parts;

/* The only function that says which kind of call has what: see sp_io of plugin.h. */
void sp_io_fill(sp_io *io, sp_call_kind kind, const sp_io_parts *parts);

#endif
