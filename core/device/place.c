/* SPDX-License-Identifier: MIT
 * place.c - calls into a device with the words of the caller around them. */
#include "device/place.h"

#include "base/ctx.h"
#include "base/fpmode.h"
#include "base/util.h"
#include "device/cpu.h"

#include <spcore/checksum.h>

#include <stdlib.h>
#include <string.h>

int sp_place_open(sp_place *p, const sp_device_type *type, int index, sp_err *err) {
  sp_ctx_holder h;
  *p = (sp_place){.type = type};
  sp_fpmode mode = sp_fpmode_get(); /* a driver's libraries are loaded and may set it for good */
  int st = type->open(sp_ctx_for(&h, type->name, err), index, &p->dev);
  sp_fpmode_set(mode);
  if (st) p->dev = NULL;
  return st;
}

/* What plays a GPU in drawn order plays the processors beside it too, or their order would not be drawn. */
int sp_place_open_cpu(sp_place *p, const sp_place *main, sp_err *err) {
  if (main->type != &sp_device_simmock) return sp_place_open(p, &sp_device_cpu, 0, err);
  *p = (sp_place){.type = &sp_device_sim, .dev = main->dev, .borrowed = true};
  return SP_OK;
}

void sp_place_close(sp_place *p) {
  if (!p->dev) return;
  if (p->transfer) p->type->stream_close(p->transfer);
  if (p->sum) p->type->free(p->dev, SP_MEM_PINNED, p->sum);
  if (!p->borrowed) p->type->close(p->dev);
  *p = (sp_place){0};
}

int sp_place_describe(const sp_place *p, int index, sp_device_info *info, sp_err *err) {
  sp_ctx_holder h;
  return p->type->describe(sp_ctx_for(&h, p->type->name, err), index, info);
}

bool sp_place_is_host(const sp_place *p) { return p->type->flags & SP_DEVICE_HOSTMEM; }

int sp_place_alloc(const sp_place *p, size_t bytes, const char *what, void **ptr, sp_err *err) {
  sp_ctx_holder h;
  *ptr = NULL;
  if (!p->type->alloc(sp_ctx_for(&h, what, err), p->dev, SP_MEM_DEVICE, bytes ? bytes : 1, ptr)) return SP_OK;
  *ptr = NULL;
  return sp_prefix(err, "%s needs %zu bytes", what, bytes);
}

void sp_place_free(const sp_place *p, void *ptr) {
  if (ptr) p->type->free(p->dev, SP_MEM_DEVICE, ptr);
}

static int transfer(sp_place *p, void *dst, const void *src, size_t bytes, sp_err *err) {
  int st = SP_OK;
  if (!bytes) return SP_OK;
  if (sp_place_is_host(p)) {
    memcpy(dst, src, bytes);
    return SP_OK;
  }
  if (!p->transfer) st = sp_place_stream(p, "transfer", 0, &p->transfer, err);
  if (!st) st = sp_place_copy(p, p->transfer, dst, src, bytes, "transfer", err);
  return st ? st : sp_place_sync(p, p->transfer, "transfer", err);
}

int sp_place_upload(sp_place *p, void *dst, const void *src, size_t bytes, sp_err *err) {
  return transfer(p, dst, src, bytes, err);
}

int sp_place_download(sp_place *p, void *dst, const void *src, size_t bytes, sp_err *err) {
  return transfer(p, dst, src, bytes, err);
}

static int hash_copy(sp_place *p, const void *data, size_t bytes, const char *what, uint64_t *sum, sp_err *err) {
  void *copy = sp_calloc(1, bytes + 1);
  if (!copy) return sp_nomem(err, bytes, what);
  int st = sp_place_download(p, copy, data, bytes, err);
  if (!st) *sum = sp_checksum(copy, bytes);
  free(copy);
  return st;
}

int sp_place_checksum(sp_place *p, const void *data, size_t bytes, const char *what, uint64_t *sum, sp_err *err) {
  sp_ctx_holder h;
  void *word = NULL;
  int st = SP_OK;
  *sum = 0;
  if (sp_place_is_host(p)) {
    *sum = sp_checksum(data, bytes);
    return SP_OK;
  }
  if (!p->type->stream_hash) return hash_copy(p, data, bytes, what, sum, err);
  if (!p->sum) st = p->type->alloc(sp_ctx_for(&h, what, err), p->dev, SP_MEM_PINNED, sizeof *p->sum, &word);
  if (st) return st;
  if (word) p->sum = word;
  if (!p->transfer) st = sp_place_stream(p, "transfer", 0, &p->transfer, err);
  if (!st) st = sp_place_hash(p, p->transfer, data, bytes, p->sum, what, err);
  if (!st) st = sp_place_sync(p, p->transfer, what, err);
  if (!st) *sum = *p->sum;
  return st;
}

int sp_place_stream(const sp_place *p, const char *name, int priority, void **stream, sp_err *err) {
  sp_ctx_holder h;
  return p->type->stream_open(sp_ctx_for(&h, name, err), p->dev, name, priority, stream);
}

int sp_place_event(const sp_place *p, uint32_t flags, const char *what, void **event, sp_err *err) {
  sp_ctx_holder h;
  return p->type->event_open(sp_ctx_for(&h, what, err), p->dev, flags, event);
}

int sp_place_record(const sp_place *p, void *event, void *stream, const char *what, sp_err *err) {
  sp_ctx_holder h;
  return p->type->event_record(sp_ctx_for(&h, what, err), event, stream);
}

int sp_place_wait(const sp_place *p, void *stream, void *event, const char *what, sp_err *err) {
  sp_ctx_holder h;
  return p->type->stream_wait(sp_ctx_for(&h, what, err), stream, event);
}

int sp_place_sync(const sp_place *p, void *stream, const char *what, sp_err *err) {
  sp_ctx_holder h;
  return p->type->stream_sync(sp_ctx_for(&h, what, err), stream);
}

int sp_place_sync_event(const sp_place *p, void *event, const char *what, sp_err *err) {
  sp_ctx_holder h;
  return p->type->event_sync(sp_ctx_for(&h, what, err), event);
}

int sp_place_submit(const sp_place *p, void *stream, sp_op_fn fn, void *arg, const char *what, sp_err *err) {
  sp_ctx_holder h;
  return p->type->stream_submit(sp_ctx_for(&h, what, err), stream, fn, arg);
}

int sp_place_copy(const sp_place *p, void *stream, void *dst, const void *src, size_t bytes, const char *what,
                  sp_err *err) {
  sp_ctx_holder h;
  return p->type->stream_copy(sp_ctx_for(&h, what, err), stream, dst, src, bytes);
}

int sp_place_hash(const sp_place *p, void *stream, const void *data, size_t bytes, uint64_t *sum, const char *what,
                  sp_err *err) {
  sp_ctx_holder h;
  return p->type->stream_hash(sp_ctx_for(&h, what, err), stream, data, bytes, sum);
}
