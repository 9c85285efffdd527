/* SPDX-License-Identifier: MIT
 * harness_mem.c - the buffers of a stage under test, on the host and on a device, and the devices themselves. */
#include "harness_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu.h"

#define GUARD_BYTE 0xA5
#define POISON_BYTE 0xFF /* NaN in every float type */

/* ---- devices ---- */
/* Opening a device can take seconds, so one serves all stages of a process, until another is asked for. */
static struct {
  char name[64];
  sp_registry *reg;
  sp_solo solo;
  int users;
} device;

void spt_device_close(void) {
  if (device.users) return;
  if (device.solo.dev) sp_solo_close(&device.solo);
  if (device.reg) sp_registry_free(device.reg);
  memset(&device, 0, sizeof device);
}

static int open_device(const char *name, sp_err *err) {
  int rc;
  if (strlen(name) >= sizeof device.name) return sp_fail(err, SP_E_INVALID, "harness: device '%s'", name);
  if (strcmp(device.name, name) == 0) return SP_OK;
  if (device.users) return sp_fail(err, SP_E_STATE, "harness: device '%s' is in use still", device.name);
  spt_device_close();
  if ((rc = sp_registry_new(&device.reg, err)) || (rc = sp_registry_add_device(device.reg, &sp_device_cpu, err)) ||
      (rc = spt_add_dirs(device.reg, err)) ||
      (rc = sp_solo_open(&device.solo, device.reg, strcmp(name, "copy") ? name : "cpu", err))) {
    spt_device_close();
    return rc;
  }
  snprintf(device.name, sizeof device.name, "%s", name);
  return SP_OK;
}

int spt_open_device(const char *name, sp_solo **solo, char *stages, size_t n, sp_err *err) {
  *solo = NULL;
  snprintf(stages, n, "cpu");
  if (!strcmp(name, "cpu")) return SP_OK;
  int rc = open_device(name, err);
  if (rc) return rc;
  snprintf(stages, n, "%s", device.solo.type->name);
  device.users++;
  *solo = &device.solo;
  return SP_OK;
}

void spt_release_device(sp_solo *solo) {
  if (solo) device.users--;
}

int spt_device_ready(const char *name, char *why, size_t n) {
  sp_err err = {0};
  int rc = strcmp(name, "cpu") ? open_device(name, &err) : SP_OK;
  snprintf(why, n, "%s", err.msg);
  return rc;
}

int spt_device_flags(const char *name) {
  sp_err err;
  return strcmp(name, "cpu") && !open_device(name, &err) ? (int)device.solo.type->flags : 0;
}

/* ---- buffers ---- */
int spt_buf_new(spt *t, spt_buf *b, int64_t bytes) {
  void *p = NULL;
  if (bytes < 0 || bytes > INT64_C(1) << 34)
    return SPT_FAIL(t, SP_E_SHAPE, "harness: a buffer of %lld bytes was asked for", (long long)bytes);
  size_t all = (size_t)bytes + 2 * SPT_GUARD;
  if (posix_memalign(&p, SPT_GUARD, all)) return spt_oops(t, sp_nomem(&t->err, all, "a test buffer"));
  memset(p, GUARD_BYTE, all);
  memset((uint8_t *)p + SPT_GUARD, POISON_BYTE, (size_t)bytes);
  *b = (spt_buf){p, NULL, (size_t)bytes};
  if (!t->solo) return SP_OK;
  void *twin;
  int rc = sp_solo_alloc(t->solo, all, &twin, &t->err);
  if (rc) {
    spt_buf_free(t, b);
    return spt_oops(t, rc);
  }
  b->twin = twin;
  return SP_OK;
}

void spt_buf_free(spt *t, spt_buf *b) {
  free(b->base);
  if (b->twin) sp_solo_free(t->solo, b->twin);
  *b = (spt_buf){NULL, NULL, 0};
}

void *spt_buf_data(const spt_buf *b) { return b->base && b->bytes ? b->base + SPT_GUARD : NULL; }

void *spt_buf_lent(const spt_buf *b) {
  if (!b->base || !b->bytes) return NULL;
  return (b->twin ? b->twin : b->base) + SPT_GUARD;
}

bool spt_buf_intact(const spt_buf *b) {
  if (!b->base) return true;
  for (size_t i = 0; i < SPT_GUARD; i++)
    if (b->base[i] != GUARD_BYTE || b->base[SPT_GUARD + b->bytes + i] != GUARD_BYTE) return false;
  return true;
}

void spt_buf_poison(spt_buf *b) {
  if (b->base) memset(b->base + SPT_GUARD, POISON_BYTE, b->bytes);
}

int spt_port_add(spt *t, spt_port *p, const sp_spec *spec) {
  if (p->n >= SPT_WEIGHTS) return SPT_FAIL(t, SP_E_RANGE, "harness: more than %d tensors on a port", SPT_WEIGHTS);
  int rc = spt_buf_new(t, &p->mem[p->n], sp_spec_bytes(spec));
  if (rc) return rc;
  p->t[p->n].spec = *spec;
  p->t[p->n].data = p->mem[p->n].base + SPT_GUARD;
  p->n++;
  return SP_OK;
}

void spt_port_clear(spt *t, spt_port *p) {
  if (!p->n) return; /* it is large, and untouched */
  for (uint32_t i = 0; i < p->n; i++) spt_buf_free(t, &p->mem[i]);
  memset(p, 0, sizeof *p);
}

/* ---- to the device and back ---- */
static int move(spt *t, const spt_buf *b, bool up) {
  if (!b->twin) return SP_OK;
  return sp_solo_copy(t->solo, up ? b->twin : b->base, up ? b->base : b->twin, b->bytes + 2 * SPT_GUARD, &t->err);
}

static int move_ports(spt *t, const spt_port *ports, int n, bool up) {
  int rc = SP_OK;
  for (int p = 0; p < n; p++)
    for (uint32_t i = 0; i < ports[p].n && !rc; i++) rc = move(t, &ports[p].mem[i], up);
  return rc;
}

static int move_all(spt *t, bool up) {
  const spt_buf *const single[] = {&t->scratch, &t->saved, &t->consts, &t->scale_mem, &t->step_mem, &t->ids_mem};
  int rc;
  if ((rc = move_ports(t, t->in, t->n_in, up)) || (rc = move_ports(t, t->out, t->n_out, up)) ||
      (rc = move_ports(t, t->din, t->n_in, up)) || (rc = move_ports(t, t->dout, t->n_out, up)) ||
      (rc = move_ports(t, &t->weight, 1, up)) || (rc = move_ports(t, &t->dweight, 1, up)) ||
      (rc = move_ports(t, &t->rows, 1, up)))
    return rc;
  for (size_t i = 0; i < SP_ARRAY(single) && !rc; i++) rc = move(t, single[i], up);
  return rc;
}

int spt_upload(spt *t) { return t->solo ? spt_oops(t, move_all(t, true)) : SP_OK; }

int spt_download(spt *t, bool weights_only) {
  if (!t->solo) return SP_OK;
  int rc = weights_only ? move_ports(t, &t->weight, 1, false) : move_all(t, false);
  if (!rc && weights_only) rc = move(t, &t->consts, false); /* of prepare() */
  if (!rc) rc = sp_solo_sync(t->solo, &t->err);
  return spt_oops(t, rc);
}
