/* SPDX-License-Identifier: MIT
 * solo.c - one open device with one stream, for a stage that runs outside a graph. */
#include "check/solo.h"

#include <stdlib.h>
#include <string.h>

int sp_solo_open(sp_solo *s, sp_registry *reg, const char *name, sp_err *err) {
  int index, n = 0;
  sp_ctx_holder h;
  memset(s, 0, sizeof *s);
  s->reg = reg;
  int rc = sp_registry_device_at(reg, name, &s->type, &index, err);
  if (rc) return rc;
  rc = s->type->count(sp_ctx_for(&h, s->type->name, err), &n);
  if (rc || n <= index) {
    if (!*err->msg) sp_fail(err, SP_E_NOTFOUND, "there are %d of them", n);
    sp_prefix(err, "device '%s'", name);
    return err->status = rc ? rc : SP_E_NOTFOUND;
  }
  rc = s->type->open(sp_ctx_for(&h, s->type->name, err), index, &s->dev);
  if (!rc) rc = s->type->stream_open(sp_ctx_for(&h, s->type->name, err), s->dev, "solo", 0, &s->stream);
  if (!rc) return SP_OK;
  sp_solo_close(s);
  sp_prefix(err, "device '%s'", name);
  return err->status = rc;
}

void sp_solo_close(sp_solo *s) {
  if (s->stream) s->type->stream_close(s->stream);
  if (s->dev) s->type->close(s->dev);
  memset(s, 0, sizeof *s);
}

int sp_solo_alloc(sp_solo *s, size_t bytes, void **ptr, sp_err *err) {
  sp_ctx_holder h;
  return s->type->alloc(sp_ctx_for(&h, s->type->name, err), s->dev, SP_MEM_DEVICE, bytes, ptr);
}

void sp_solo_free(sp_solo *s, void *ptr) {
  if (ptr) s->type->free(s->dev, SP_MEM_DEVICE, ptr);
}

int sp_solo_copy(sp_solo *s, void *dst, const void *src, size_t bytes, sp_err *err) {
  sp_ctx_holder h;
  if (!s->stream) return sp_fail(err, SP_E_DEVICE, "device '%s' gave no new stream after a failure", s->type->name);
  return s->type->stream_copy(sp_ctx_for(&h, s->type->name, err), s->stream, dst, src, bytes);
}

int sp_solo_sync(sp_solo *s, sp_err *err) {
  sp_ctx_holder h;
  return s->type->stream_sync(sp_ctx_for(&h, s->type->name, err), s->stream);
}

void *sp_solo_native(const sp_solo *s) { return s->type->stream_native(s->stream); }

/* A stage's failure stays in the call: the stream is to serve the next one. */
static int run_call(void *arg, void *native) {
  sp_solo_call *c = arg;
  c->rc = sp_inst_call(c->inst, c->kind, c->io, c->step, native, NULL, &c->err);
  return SP_OK;
}

int sp_solo_submit(sp_solo *s, sp_solo_call *c, sp_err *err) {
  sp_ctx_holder h;
  c->rc = SP_OK;
  return s->type->stream_submit(sp_ctx_for(&h, s->type->name, err), s->stream, run_call, c);
}

/* The device's own failure would stay with the stream. */
static void renew(sp_solo *s) {
  sp_ctx_holder h;
  sp_err err;
  s->type->stream_close(s->stream);
  if (s->type->stream_open(sp_ctx_for(&h, s->type->name, &err), s->dev, "solo", 0, &s->stream)) s->stream = NULL;
}

int sp_solo_finish(sp_solo *s, const sp_solo_call *c, int rc, sp_err *err) {
  sp_err late;
  int sync = sp_solo_sync(s, &late);
  if (rc || sync) renew(s);
  if (!rc && c->rc) {
    *err = c->err;
    rc = c->rc;
  }
  if (rc || !sync) return rc;
  *err = late;
  return sync;
}

int sp_solo_run(sp_solo *s, sp_solo_call *c, sp_err *err) {
  return sp_solo_finish(s, c, sp_solo_submit(s, c, err), err);
}

const void *sp_solo_extension(const sp_solo *s, const char *id) {
  return s->type && s->type->extension ? s->type->extension(s->dev, id) : NULL;
}
