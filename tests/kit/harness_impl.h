/* SPDX-License-Identifier: MIT
 * harness_impl.h - what the files of the harness share. */
#ifndef SP_TESTS_HARNESS_IMPL_H
#define SP_TESTS_HARNESS_IMPL_H

#include <spcore/ext/precision.h>

#include "host/registry.h"
#include "check/solo.h"
#include "host/stage.h"
#include "harness.h"

#define SPT_GUARD 256 /* bytes before and behind each buffer; keeps SP_ALIGN */
#define SPT_WEIGHTS 1024

/* Host memory that tests read and write, and, where the stage runs on a device, its twin there. The whole of it, guards
 * and all, travels to the device before a call and back after it. */
typedef struct spt_buf {
  uint8_t *base, *twin; /* guard, data, guard */
  size_t bytes;
} spt_buf;

typedef struct spt_port {
  uint32_t n;
  sp_tensor t[SPT_WEIGHTS]; /* data: the host's */
  spt_buf mem[SPT_WEIGHTS];
  uint8_t hidden[SPT_WEIGHTS]; /* not wanted: data NULL in the call */
} spt_port;

/* One sp_io and what it points to. */
typedef struct spt_call {
  sp_io io;
  sp_list *lists; /* as sp_io_parts has them */
  const uint8_t **acc;
  uint8_t flags[SP_MAX_LIST];
  sp_tensor *store;
  sp_tensor weights[SPT_WEIGHTS], dweights[SPT_WEIGHTS], factors[SP_MAX_FACTORS];
  sp_solo_call solo;
} spt_call;

struct spt {
  sp_err err, msg; /* scratch for calls; the first failure since the last call that was well */
  sp_registry *reg;
  sp_team *team;
  sp_stage_host host;
  double seconds; /* of the latest call */
  sp_inst *inst;
  int shared; /* inst is another's */
  const sp_stage_type *type;
  int n_in, n_out;
  spt_port *in, *out, *din, *dout, weight, dweight;
  spt_port rows; /* factors, of all shards */
  sp_weight *w;  /* as planned; names are copies */
  uint32_t n_w;
  sp_attr *attrs;
  uint32_t n_attrs;
  uint64_t length;
  uint32_t inplace, restores, stepless, averages;
  uint32_t max_parts, n_parts, part; /* the part that is called */
  uint64_t part_bytes;
  uint32_t shards;
  const sp_group *groups;
  uint32_t n_groups;
  spt_buf scratch, saved, consts, scale_mem, step_mem, ids_mem;
  uint64_t consts_of; /* hash of the weights that constants were made of */
  int64_t batch, run_n;
  int training, frozen, torch, planned, forwarded, din_acc, dw_acc, capture;
  uint64_t seed, epoch;
  sp_step step;
  sp_precision precision;
  sp_solo *solo;     /* NULL: calls and memory are the host's */
  void *graph[3];    /* captured forward(), backward(), apply() */
  spt_call *kept[3]; /* their calls */
};

#define SPT_FAIL(t, ...) spt_oops(t, sp_fail(&(t)->err, __VA_ARGS__))
int spt_oops(spt *t, int rc); /* keeps the words of t->err */
int spt_add_dirs(sp_registry *reg, sp_err *err);

int spt_prepare(spt *t);
void spt_free_graphs(spt *t);

/* ---- harness_plan.c ---- */
void spt_free_plan(spt *t);

/* ---- harness_mem.c ---- */
/* The device that a name stands for, opened once per process; NULL for "cpu". *stages: whose stages run on it. */
int spt_open_device(const char *name, sp_solo **solo, char *stages, size_t n, sp_err *err);
void spt_release_device(sp_solo *solo);

int spt_buf_new(spt *t, spt_buf *b, int64_t bytes);
void spt_buf_free(spt *t, spt_buf *b);
void *spt_buf_data(const spt_buf *b); /* the host's; NULL: no bytes */
void *spt_buf_lent(const spt_buf *b); /* the stage's; NULL: no bytes */
bool spt_buf_intact(const spt_buf *b);
void spt_buf_poison(spt_buf *b);

int spt_port_add(spt *t, spt_port *p, const sp_spec *spec);
void spt_port_clear(spt *t, spt_port *p);

int spt_upload(spt *t);
int spt_download(spt *t, bool weights_only);

/* ---- harness_get.c ---- */
const spt_port *spt_find_port(const spt *t, int what, int p);

#endif
