/* SPDX-License-Identifier: MIT
 * solo.h - one open device with one stream, for a stage that runs outside a graph: `spcore check`,
 * tests/kit/harness.c. */
#ifndef SP_CORE_SOLO_H
#define SP_CORE_SOLO_H

#include "host/registry.h"
#include "host/stage.h"

typedef struct sp_solo {
  sp_registry *reg;
  const sp_device_type *type;
  void *dev, *stream;
} sp_solo;

/* name: "cuda", or "cuda:1" for another than the first. Fails with the reason where the device is not there. */
int sp_solo_open(sp_solo *solo, sp_registry *reg, const char *name, sp_err *err);
void sp_solo_close(sp_solo *solo); /* also of one that did not open */

int sp_solo_alloc(sp_solo *solo, size_t bytes, void **ptr, sp_err *err);
void sp_solo_free(sp_solo *solo, void *ptr);
/* Enqueues; either side may be the host's memory, which must live until sp_solo_sync(). */
int sp_solo_copy(sp_solo *solo, void *dst, const void *src, size_t bytes, sp_err *err);
int sp_solo_sync(sp_solo *solo, sp_err *err);
void *sp_solo_native(const sp_solo *solo);

/* One call of a stage. It lives as long as a graph that was captured with it. */
typedef struct sp_solo_call {
  sp_inst *inst;
  const sp_io *io;
  uint64_t step;
  sp_call_kind kind;
  int rc; /* out */
  sp_err err;
} sp_solo_call;

/* Submits the call and waits for it. */
int sp_solo_run(sp_solo *solo, sp_solo_call *call, sp_err *err);
/* The same in two: rc is what came of submitting, and a stream that has failed is replaced. */
int sp_solo_submit(sp_solo *solo, sp_solo_call *call, sp_err *err);
int sp_solo_finish(sp_solo *solo, const sp_solo_call *call, int rc, sp_err *err);

/* Services of the device for its stages, to be called by sp_stage_host.extension. */
const void *sp_solo_extension(const sp_solo *solo, const char *id);

#endif
