/* SPDX-License-Identifier: MIT
 * rig.h - one stage with guarded, poisoned memory around it, for the conformance suite. */
#ifndef SP_CORE_CONFORM_RIG_H
#define SP_CORE_CONFORM_RIG_H

#include "check/solo.h"
#include "host/stage.h"

#define RIG_PORTS 64
#define RIG_BATCH 6 /* no usual extent of anything else */
#define RIG_LIST 16 /* most tensors of an output LIST that is exercised */

typedef struct rig_tensor {
  sp_spec spec;
  uint32_t port;
  bool batch; /* shape[0] is N */
  size_t bytes;
  uint32_t number; /* among those of its rig: guards differ by it */
  char *block;     /* guard, data, guard */
  char *data;
  char *twin; /* on a device: the block there, to which a call brings this one, and from where it takes it back */
  char *copy; /* bytes: what keep() kept */
} rig_tensor;

typedef struct rig_list {
  rig_tensor *t;
  uint32_t n;
} rig_list;

typedef struct rig {
  sp_inst *inst;
  sp_plan plan;
  sp_speclist in_specs[RIG_PORTS], out_specs[RIG_PORTS];
  uint32_t n_in, n_out;
  rig_list in, out, dout, din, weights, dweights;
  rig_list rows;                /* factors, of all shards */
  rig_tensor own, sums, sum_at; /* of slices: what survey() writes, and what forward() has of all */
  rig_tensor scratch, saved, consts, step, ids, scale;
  uint32_t n_tensors;     /* that have memory */
  uint32_t max_parts;     /* that plan() is offered; 0 is 1 */
  uint32_t shards;        /* the same: of a step; 0 is 1 */
  bool frozen;            /* the same */
  bool slices;            /* the same */
  const sp_group *groups; /* the same; NULL: none */
  const uint32_t *group_of;
  uint32_t n_groups;
  size_t n_own, n_all, n_sums; /* numbers in own, sums and sum_at, before rig_alloc() */
  sp_solo *solo;               /* NULL: the stage is for the cpu */
} rig;

/* solo: the device that the stage is for, NULL for the cpu. Makes the instance: parameters that are required and not in
 * `set` (a TABLE or NULL) get the least legal value. */
int rig_open(rig *r, const sp_stage_host *host, const sp_stage_type *type, const sp_plugin_file *file,
             const sp_value *set, sp_solo *solo, sp_err *err);
void rig_close(rig *r);
/* Looks for inputs that the stage accepts, and with shards for some of which it makes factors; where there are none it
 * has no plan, but n_factors is 0. err has the words of the first refusal. */
int rig_plan(rig *r, sp_err *err);
/* Once more, with what is in `in_specs` and the fields that plan() is offered. */
int rig_replan(rig *r, sp_err *err);
/* With the inputs of the other, which is of the same type. */
int rig_plan_as(rig *r, const rig *other, sp_err *err);
/* Memory for what was planned, inputs and weights filled. */
int rig_alloc(rig *r, sp_err *err);

void rig_poison(rig_list *list, int byte);    /* also shows bytes that are read before they are written */
void rig_fill(rig_list *list, uint64_t seed); /* floats in -1..1, integers 0 or 1 */
void rig_keep(rig_list *list);                /* copies the data aside */
bool rig_same(const rig_list *list);          /* is the data what was kept? */
void rig_restore(rig_list *list);

typedef struct rig_call {
  int64_t n; /* samples */
  sp_call_kind kind;
  bool want_din, want_dw;
  bool acc;   /* add to din, dweights */
  int poison; /* of scratch, but in a part behind the first; of saved too in forward() */
  uint32_t part;
  uint32_t
      calls; /* of an optimizer's update, of which this is `part`: every so many-th gradient is there, from the last one
                     on; 0 or 1: all */
  bool sharded; /* it is one of a step's passes */
  uint32_t shard;
  float scale; /* of apply() */
} rig_call;
int rig_prepare(rig *r, int64_t n, sp_err *err);
/* Of float32 or float64: the i-th of `data`, which is the tensor's or a copy of it. */
double rig_value(const rig_tensor *t, const char *data, size_t i);
/* Calls, then looks at the guards. */
int rig_run(rig *r, const rig_call *call, sp_err *err);

#define RIG_WORDS 512
/* The words of a fault, for `return rig_fault(...)`: false. */
SP_PRINTF(2, 3)
bool rig_fault(char words[RIG_WORDS], const char *fmt, ...);

#endif
