/* SPDX-License-Identifier: MIT
 * rig.c - one stage with guarded, poisoned memory around it. */
#include "check/rig.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <spcore/rng.h>

#include "params/params.h"

#define GUARD 256
#define OUTSIDE (1u << 18)    /* bytes, at least, on both sides of a block's pages that nobody may touch */
#define UNWRITTEN 0xA5        /* what memory holds at first */
#define MEMORY_MAX (1u << 28) /* of one tensor: what is larger is not exercised */
#define KEY 42

/* ---- the instance ------------------------------------------------------------------------------------------------ */

static bool least_value(sp_value *v, const sp_param *e);

static bool least_table(sp_value *v, const sp_param *table) {
  v->type = SP_V_TABLE;
  for (const sp_param *e = table; e && e->name; e++) {
    if (!(e->flags & SP_PARAM_REQUIRED)) continue;
    sp_value *f = sp_value_put(v, e->name);
    if (!f || !least_value(f, e)) return false;
  }
  return true;
}

static bool least_value(sp_value *v, const sp_param *e) {
  bool whole = e->type == SP_PARAM_INT || e->type == SP_PARAM_INTS;
  sp_value least = {.type = whole ? SP_V_INT : SP_V_NUM};
  if (whole) least.i = !e->imin && !e->imax ? 1 : e->imin != INT64_MIN ? e->imin : e->imax < 1 ? e->imax : 1;
  else least.d = e->min == 0 && e->max == 0 ? 1 : e->min > -1e18 ? e->min : e->max < 1 ? e->max : 1;
  switch (e->type) {
    case SP_PARAM_BOOL: v->type = SP_V_BOOL; return true;
    case SP_PARAM_STRING: return sp_value_set_str(v, "");
    case SP_PARAM_CHOICE: return sp_value_set_str(v, e->choices[0]);
    case SP_PARAM_INT:
    case SP_PARAM_FLOAT: *v = least; return true;
    default: break;
  }
  v->type = SP_V_TABLE;
  for (uint32_t i = 0; i < (e->min_n ? e->min_n : 1); i++) {
    sp_value *item = sp_value_push(v);
    if (!item) return false;
    if (e->type == SP_PARAM_LIST) {
      if (!least_table(item, e->fields)) return false;
    } else {
      *item = least;
    }
  }
  return true;
}

static uint32_t count_ports(const sp_port *ports) {
  uint32_t n = 0;
  while (ports && ports[n].name) n++;
  return n;
}

/* What of `set` the stage has a parameter for. */
static bool copy_set(sp_value *v, const sp_param *table, const sp_value *set) {
  for (const sp_param *e = table; set && e && e->name; e++) {
    const sp_value *from = sp_value_get(set, e->name);
    if (!from) continue;
    sp_value *to = sp_value_put(v, e->name);
    if (!to) return false;
    sp_value_free(to);
    if (from->type == SP_V_STR) {
      if (!sp_value_set_str(to, from->s)) return false;
    } else {
      *to = (sp_value){.type = from->type, .i = from->i, .d = from->d};
    }
  }
  return true;
}

int rig_open(rig *r, const sp_stage_host *host, const sp_stage_type *type, const sp_plugin_file *file,
             const sp_value *set, sp_solo *solo, sp_err *err) {
  sp_value params = {0};
  memset(r, 0, sizeof *r);
  r->solo = solo;
  r->n_in = count_ports(type->inputs);
  r->n_out = count_ports(type->outputs);
  if (r->n_in > RIG_PORTS || r->n_out > RIG_PORTS)
    return sp_fail(err, SP_E_UNSUPPORTED, "more than %d ports", RIG_PORTS);
  bool filled = least_table(&params, type->params) && copy_set(&params, type->params, set);
  int rc = filled ? SP_OK : sp_nomem(err, sizeof params, "parameters");
  if (!rc) rc = sp_inst_new(&r->inst, host, type->name, type, file, &params, NULL, err);
  sp_value_free(&params);
  for (uint32_t i = 0; !rc && i < RIG_PORTS; i++) {
    r->in_specs[i].cap = r->out_specs[i].cap = RIG_LIST;
    r->in_specs[i].spec = sp_calloc(RIG_LIST, sizeof(sp_spec));
    r->out_specs[i].spec = sp_calloc(RIG_LIST, sizeof(sp_spec));
    if (!r->in_specs[i].spec || !r->out_specs[i].spec) rc = sp_nomem(err, RIG_LIST * sizeof(sp_spec), "specs");
  }
  if (rc) rig_close(r);
  return rc;
}

/* In an mmap of its own: pages that nobody may touch, then those of the block, which ends where they end, and others
 * that nobody may touch. What is written far from the block crashes in the callback that does it. */
typedef struct extent {
  size_t block, pages, outside; /* bytes */
} extent;

static extent extent_of(const rig_tensor *t) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  extent e = {.block = (t->bytes + 2 * GUARD + GUARD - 1) / GUARD * GUARD};
  e.pages = (e.block + page - 1) / page * page;
  e.outside = (e.pages + OUTSIDE + page - 1) / page * page; /* as far as the next batch, too */
  return e;
}

static void tensor_free(rig *r, rig_tensor *t) {
  extent e = extent_of(t);
  if (t->twin) sp_solo_free(r->solo, t->twin);
  if (t->block) munmap(t->block + e.block - e.pages - e.outside, e.pages + 2 * e.outside);
  free(t->copy);
}

static void list_free(rig *r, rig_list *list) {
  for (uint32_t i = 0; i < list->n; i++) tensor_free(r, &list->t[i]);
  free(list->t);
  *list = (rig_list){0};
}

void rig_close(rig *r) {
  rig_list *lists[] = {&r->in, &r->out, &r->dout, &r->din, &r->weights, &r->dweights, &r->rows};
  for (size_t i = 0; i < SP_ARRAY(lists); i++) list_free(r, lists[i]);
  rig_tensor *single[] = {&r->scratch, &r->saved, &r->consts, &r->step,  &r->ids,
                          &r->scale,   &r->own,   &r->sums,   &r->sum_at};
  for (size_t i = 0; i < SP_ARRAY(single); i++) tensor_free(r, single[i]);
  for (uint32_t i = 0; i < RIG_PORTS; i++) {
    free(r->in_specs[i].spec);
    free(r->out_specs[i].spec);
  }
  sp_inst_free(r->inst);
  memset(r, 0, sizeof *r);
}

/* ---- inputs that are accepted ------------------------------------------------------------------------------------ */

/* Channels, height, width of what is tried, in this order. */
static const int64_t images[][3] = {{3, 16, 16}, {8, 16, 16},  {1, 16, 16},  {8, 4, 4}, {3, 256, 256},
                                    {64, 1, 1},  {4096, 1, 1}, {1024, 1, 1}, {1, 1, 1}};

static int pick_dtype(const sp_port *p, bool integers) {
  static const int floats_first[] = {SP_F32, SP_F64, SP_F16, SP_BF16, SP_I32, SP_I64, SP_U8, SP_I8};
  static const int ints_first[] = {SP_I32, SP_I64, SP_U8, SP_I8, SP_F32, SP_F64, SP_F16, SP_BF16};
  const int *order = integers && (p->flags & SP_PORT_NOGRAD) ? ints_first : floats_first;
  for (size_t i = 0; i < SP_ARRAY(floats_first); i++)
    if (!p->dtypes || (p->dtypes & SP_DT(order[i]))) return order[i];
  return SP_F32;
}

/* N,C,H,W cut to the port's dimensions: labels are N,H,W, rows are N,C. */
static sp_spec make_spec(const sp_port *p, const int64_t *image, bool integers) {
  sp_spec s = {.dtype = pick_dtype(p, integers), .ndim = p->ndim};
  bool labels = s.dtype != SP_F32 && integers && (p->flags & SP_PORT_NOGRAD);
  if (s.ndim < 0) s.ndim = labels ? 3 : 4;
  const int64_t full[] = {RIG_BATCH, image[0], image[1], image[2], 1, 1, 1, 1}, map[] = {RIG_BATCH, image[1], image[2]};
  for (int d = 0; d < s.ndim; d++) s.shape[d] = s.ndim == 3 ? map[d] : full[d];
  return s;
}

int rig_replan(rig *r, sp_err *err) {
  r->plan = (sp_plan){.size = sizeof(sp_plan),
                      .training = 1,
                      .n_in = r->n_in,
                      .n_out = r->n_out,
                      .batch = RIG_BATCH,
                      .frozen = r->frozen,
                      .in = r->in_specs,
                      .out = r->out_specs,
                      .max_parts = r->max_parts,
                      .shards = r->shards,
                      .slices = r->slices,
                      .groups = r->groups,
                      .group_of = r->group_of,
                      .n_groups = r->n_groups};
  return sp_inst_plan(r->inst, &r->plan, err);
}

static int try_plan(rig *r, const int64_t *image, bool integers, uint32_t list_n, bool optional, sp_err *err) {
  const sp_stage_type *t = r->inst->type;
  for (uint32_t i = 0; i < r->n_in; i++) {
    const sp_port *p = &t->inputs[i];
    uint32_t n = (p->flags & SP_PORT_LIST) ? list_n : 1;
    if ((p->flags & SP_PORT_OPTIONAL) && !optional) n = 0;
    r->in_specs[i].n = n;
    for (uint32_t k = 0; k < n; k++) r->in_specs[i].spec[k] = make_spec(p, image, integers);
  }
  return rig_replan(r, err);
}

int rig_plan(rig *r, sp_err *err) {
  sp_err first = {0}, why;
  bool taken = false;
  for (int integers = 1; integers >= 0; integers--)
    for (int optional = 0; optional < 2; optional++)
      for (uint32_t list_n = 2; list_n + 1 > 0; list_n--)
        for (size_t i = 0; i < SP_ARRAY(images); i++) {
          if (try_plan(r, images[i], integers, list_n, optional, &why) == SP_OK) {
            if (r->shards < 2 || r->plan.n_factors) return SP_OK;
            taken = true;
            continue;
          }
          if (!first.status || why.status == SP_E_INTERNAL) first = why;
          if (why.status == SP_E_INTERNAL)
            goto refused; /* not the inputs are wrong, but what the stage makes of them */
        }
  r->plan.n_factors = 0;
  if (taken) return SP_OK;
refused:
  *err = first;
  return first.status;
}

int rig_plan_as(rig *r, const rig *other, sp_err *err) {
  for (uint32_t i = 0; i < r->n_in; i++) {
    r->in_specs[i].n = other->in_specs[i].n;
    memcpy(r->in_specs[i].spec, other->in_specs[i].spec, other->in_specs[i].n * sizeof *r->in_specs[i].spec);
  }
  return rig_replan(r, err);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Other bytes for each tensor and each place, `at` bytes from its data: what is copied from one guard into another is
 * seen. No byte of poison, no zero, and no part of a float's NaN, which arithmetic would change. */
static unsigned char guard_byte(const rig_tensor *t, ptrdiff_t at) {
  uint32_t h = (uint32_t)at * 0x9E3779B1u;
  h = (h ^ h >> 15) * 0x85EBCA77u;
  return (unsigned char)(0x81 + ((h >> 16) + t->number) % 126);
}

static char *map_block(const extent *e) {
  size_t all = e->pages + 2 * e->outside;
  char *from = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (from == MAP_FAILED) return NULL;
  if (mprotect(from + e->outside, e->pages, PROT_READ | PROT_WRITE) == 0)
    return from + e->outside + e->pages - e->block;
  munmap(from, all);
  return NULL;
}

static int tensor_alloc(rig *r, rig_tensor *t, size_t bytes, bool keeps, sp_err *err) {
  t->bytes = bytes;
  if (bytes > MEMORY_MAX)
    return sp_fail(err, SP_E_UNSUPPORTED, "a tensor of %zu bytes is too large to be exercised", bytes);
  extent e = extent_of(t);
  t->block = map_block(&e);
  t->copy = keeps ? sp_calloc(1, bytes) : NULL;
  if (!t->block || (keeps && !t->copy)) return sp_nomem(err, e.pages, "a tensor");
  t->data = t->block + GUARD;
  t->number = r->n_tensors++;
  char *first = t->block + e.block - e.pages, *end = t->block + e.block;
  for (char *p = first; p < t->data; p++) *p = (char)guard_byte(t, p - t->data);
  memset(t->data, UNWRITTEN, bytes);
  for (char *p = t->data + bytes; p < end; p++) *p = (char)guard_byte(t, p - t->data);
  void *twin = NULL;
  int rc = r->solo ? sp_solo_alloc(r->solo, e.block, &twin, err) : SP_OK;
  t->twin = twin;
  return rc;
}

static bool guards_intact(const rig_tensor *t) {
  if (!t->block) return true;
  extent e = extent_of(t);
  const char *first = t->block + e.block - e.pages, *end = t->block + e.block;
  for (const char *p = first; p < t->data; p++)
    if ((unsigned char)*p != guard_byte(t, p - t->data)) return false;
  for (const char *p = t->data + t->bytes; p < end; p++)
    if ((unsigned char)*p != guard_byte(t, p - t->data)) return false;
  return true;
}

static int list_alloc(rig_list *list, uint32_t n, sp_err *err) {
  list->t = sp_calloc(n, sizeof *list->t);
  if (!list->t) return sp_nomem(err, n * sizeof *list->t, "tensors");
  list->n = n;
  return SP_OK;
}

static int ports_alloc(rig *r, rig_list *list, const sp_speclist *specs, uint32_t n_ports, const sp_port *ports,
                       sp_err *err) {
  uint32_t n = 0, k = 0;
  for (uint32_t i = 0; i < n_ports; i++) n += specs[i].n;
  int rc = list_alloc(list, n, err);
  for (uint32_t i = 0; !rc && i < n_ports; i++)
    for (uint32_t j = 0; !rc && j < specs[i].n; j++, k++) {
      list->t[k].spec = specs[i].spec[j];
      list->t[k].port = i;
      list->t[k].batch = specs[i].spec[j].ndim > 0 && specs[i].spec[j].shape[0] == RIG_BATCH &&
                         !(ports[i].flags & (SP_PORT_METRIC | SP_PORT_STATUS | SP_PORT_TOTAL));
      rc = tensor_alloc(r, &list->t[k], (size_t)sp_spec_bytes(&specs[i].spec[j]), true, err);
    }
  return rc;
}

static int weights_alloc(rig *r, rig_list *list, const sp_plan *plan, sp_err *err) {
  int rc = list_alloc(list, plan->n_weights, err);
  for (uint32_t i = 0; !rc && i < plan->n_weights; i++) {
    list->t[i].spec = plan->weights[i].spec;
    rc = tensor_alloc(r, &list->t[i], (size_t)sp_spec_bytes(&plan->weights[i].spec), true, err);
  }
  return rc;
}

static int rows_alloc(rig *r, sp_err *err) {
  int rc = list_alloc(&r->rows, r->plan.n_factors, err);
  for (uint32_t i = 0; !rc && i < r->plan.n_factors; i++) {
    rig_tensor *t = &r->rows.t[i];
    t->spec = r->plan.factors[i].spec;
    t->spec.shape[0] *= r->shards;
    rc = tensor_alloc(r, t, (size_t)sp_spec_bytes(&t->spec), true, err);
  }
  return rc;
}

int rig_alloc(rig *r, sp_err *err) {
  const sp_port *ins = r->inst->type->inputs, *outs = r->inst->type->outputs;
  int rc = ports_alloc(r, &r->in, r->in_specs, r->n_in, ins, err);
  if (!rc) rc = ports_alloc(r, &r->din, r->in_specs, r->n_in, ins, err);
  if (!rc) rc = ports_alloc(r, &r->out, r->out_specs, r->n_out, outs, err);
  if (!rc) rc = ports_alloc(r, &r->dout, r->out_specs, r->n_out, outs, err);
  if (!rc) rc = weights_alloc(r, &r->weights, &r->plan, err);
  if (!rc) rc = weights_alloc(r, &r->dweights, &r->plan, err);
  if (!rc) rc = rows_alloc(r, err);
  if (!rc) rc = tensor_alloc(r, &r->scratch, r->plan.scratch_bytes, false, err);
  if (!rc) rc = tensor_alloc(r, &r->saved, r->plan.saved_bytes, false, err);
  if (!rc) rc = tensor_alloc(r, &r->consts, r->plan.const_bytes, true, err);
  if (!rc) rc = tensor_alloc(r, &r->step, sizeof(sp_step), true, err);
  if (!rc) rc = tensor_alloc(r, &r->ids, RIG_BATCH * sizeof(uint64_t), true, err);
  if (!rc) rc = tensor_alloc(r, &r->scale, sizeof(float), false, err);
  if (!rc) rc = tensor_alloc(r, &r->own, r->n_own * sizeof(double), true, err);
  if (!rc) rc = tensor_alloc(r, &r->sums, r->n_all * sizeof(double), true, err);
  if (!rc) rc = tensor_alloc(r, &r->sum_at, r->n_sums * sizeof(uint32_t), true, err);
  void **data = rc ? NULL : sp_calloc(r->weights.n, sizeof *data);
  if (!rc && !data) rc = sp_nomem(err, r->weights.n * sizeof *data, "weights");
  if (rc) return rc;
  for (uint32_t i = 0; i < r->weights.n; i++) data[i] = r->weights.t[i].data;
  rc = sp_init_weights(r->plan.weights, r->weights.n, data, r->inst->name, 1, NULL, err);
  free(data);
  rig_fill(&r->in, 1);
  rig_fill(&r->dout, 2);
  return rc;
}

double rig_value(const rig_tensor *t, const char *data, size_t i) {
  float f;
  double d;
  if (t->spec.dtype == SP_F64) {
    memcpy(&d, data + 8 * i, 8);
    return d;
  }
  memcpy(&f, data + 4 * i, 4);
  return f;
}

void rig_poison(rig_list *list, int byte) {
  for (uint32_t i = 0; i < list->n; i++) memset(list->t[i].data, byte, list->t[i].bytes);
}

static void fill_tensor(rig_tensor *t, uint64_t key) {
  size_t n = (size_t)sp_spec_count(&t->spec);
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = sp_rng(key, i / 4, 0).v[i % 4];
    float f = sp_rng_float(bits) * 2 - 1;
    switch (t->spec.dtype) {
      case SP_F32: memcpy(t->data + 4 * i, &f, 4); break;
      case SP_F64: memcpy(t->data + 8 * i, &(double){f}, 8); break;
      case SP_F16: memcpy(t->data + 2 * i, &(uint16_t){(uint16_t)(0x3800 | (bits & 0x83ff))}, 2); break;
      case SP_BF16: memcpy(t->data + 2 * i, &(uint16_t){(uint16_t)(0x3f00 | (bits & 0x807f))}, 2); break;
      case SP_I32: memcpy(t->data + 4 * i, &(int32_t){bits & 1}, 4); break;
      case SP_I64: memcpy(t->data + 8 * i, &(int64_t){bits & 1}, 8); break;
      default: t->data[i] = (char)(bits & 1); break;
    }
  }
}

void rig_fill(rig_list *list, uint64_t seed) {
  for (uint32_t i = 0; i < list->n; i++) fill_tensor(&list->t[i], seed << 32 | i);
}

void rig_keep(rig_list *list) {
  for (uint32_t i = 0; i < list->n; i++) memcpy(list->t[i].copy, list->t[i].data, list->t[i].bytes);
}

bool rig_same(const rig_list *list) {
  for (uint32_t i = 0; i < list->n; i++)
    if (memcmp(list->t[i].copy, list->t[i].data, list->t[i].bytes) != 0) return false;
  return true;
}

void rig_restore(rig_list *list) {
  for (uint32_t i = 0; i < list->n; i++) memcpy(list->t[i].data, list->t[i].copy, list->t[i].bytes);
}

/* ---- to the device and back -------------------------------------------------------------------------------------- */

static int move(rig *r, const rig_tensor *t, bool up, sp_err *err) {
  if (!t->twin) return SP_OK;
  return sp_solo_copy(r->solo, up ? t->twin : t->block, up ? t->block : t->twin, extent_of(t).block, err);
}

static int move_list(rig *r, const rig_list *list, bool up, sp_err *err) {
  int rc = SP_OK;
  for (uint32_t i = 0; i < list->n && !rc; i++) rc = move(r, &list->t[i], up, err);
  return rc;
}

static int move_all(rig *r, bool up, sp_err *err) {
  const rig_list *const lists[] = {&r->in, &r->out, &r->dout, &r->din, &r->weights, &r->dweights, &r->rows};
  const rig_tensor *const single[] = {&r->scratch, &r->saved, &r->consts, &r->step,  &r->ids,
                                      &r->scale,   &r->own,   &r->sums,   &r->sum_at};
  int rc = SP_OK;
  for (size_t i = 0; i < SP_ARRAY(lists) && !rc; i++) rc = move_list(r, lists[i], up, err);
  for (size_t i = 0; i < SP_ARRAY(single) && !rc; i++) rc = move(r, single[i], up, err);
  return rc;
}

static void *lent(const rig_tensor *t) { return (t->twin ? t->twin : t->block) + GUARD; }

/* ---- one call ---------------------------------------------------------------------------------------------------- */

typedef struct view { /* an sp_io and what it points to */
  sp_io io;
  sp_tensor *t, *factors;
  sp_list lists[4 * RIG_PORTS]; /* as sp_io_parts has them */
  const uint8_t *acc_of[RIG_PORTS];
  uint8_t acc[RIG_LIST];
} view;

static bool is_float(int dtype) { return dtype == SP_F32 || dtype == SP_F64 || dtype == SP_F16 || dtype == SP_BF16; }

/* wanted: bit i of a port that is to have data; the others get NULL. */
static size_t put_lists(view *v, sp_list *lists, const rig_list *from, uint32_t n_ports, int64_t n, uint64_t wanted,
                        size_t at) {
  uint32_t k = 0;
  for (uint32_t i = 0; i < n_ports; i++) {
    lists[i].t = v->t + at;
    for (; k < from->n && from->t[k].port == i; k++, at++) {
      bool give = (wanted >> i & 1) != 0;
      v->t[at].spec = from->t[k].spec;
      if (from->t[k].batch) v->t[at].spec.shape[0] = n;
      v->t[at].data = give ? lent(&from->t[k]) : NULL;
      lists[i].n++;
    }
  }
  return at;
}

static uint64_t ports_with_gradient(const sp_port *ports, const rig_list *list) {
  uint64_t bits = 0;
  for (uint32_t i = 0; i < list->n; i++)
    if (is_float(list->t[i].spec.dtype) &&
        !(ports[list->t[i].port].flags & (SP_PORT_NOGRAD | SP_PORT_METRIC | SP_PORT_STATUS | SP_PORT_TOTAL)))
      bits |= UINT64_C(1) << list->t[i].port;
  return bits;
}

/* Gradients, or weights, of other calls have no data. */
static void leave_out(view *v, const sp_list *list, const rig_call *c) {
  sp_tensor *t = v->t + (list->t - v->t);
  for (uint32_t i = 0; i < list->n; i++)
    if ((list->n - 1 - i) % c->calls != c->part) t[i].data = NULL;
}

static bool gives_din(const rig *r, const rig_call *c) {
  const sp_stage_type *type = r->inst->type;
  return c->kind == SP_CALL_BACKWARD || (c->kind != SP_CALL_APPLY && type->flags & SP_STAGE_LOSS && !type->backward);
}

static size_t put_ports(view *v, const rig *r, const rig_call *c) {
  const sp_stage_type *type = r->inst->type;
  uint64_t dout = type->flags & SP_STAGE_LOSS ? 1 : ports_with_gradient(type->outputs, &r->out);
  uint64_t din = c->want_din && gives_din(r, c) ? ports_with_gradient(type->inputs, &r->in) : 0;
  sp_list *in = v->lists, *out = in + r->n_in, *grads = out + r->n_out;
  size_t at = put_lists(v, in, &r->in, r->n_in, c->n, ~UINT64_C(0), 0);
  at = put_lists(v, out, &r->out, r->n_out, c->n, ~UINT64_C(0), at);
  if (c->calls > 1) leave_out(v, in, c), leave_out(v, out, c);
  at = put_lists(v, grads, &r->dout, r->n_out, c->n, dout, at);
  return put_lists(v, grads + r->n_out, &r->din, r->n_in, c->n, din, at);
}

/* all: of all shards, else of the call's. */
static void put_factors(sp_tensor *to, const rig *r, const rig_call *c, bool all) {
  for (uint32_t i = 0; i < r->rows.n; i++) {
    const sp_spec *one = &r->plan.factors[i].spec;
    char *data = lent(&r->rows.t[i]);
    to[i] = all ? (sp_tensor){r->rows.t[i].spec, data}
                : (sp_tensor){*one, data + (size_t)c->shard * (size_t)sp_spec_bytes(one)};
  }
}

static void put_step(rig *r, const rig_call *c) {
  for (uint32_t i = 0; i < RIG_BATCH; i++) memcpy(r->ids.data + i * sizeof(uint64_t), &(uint64_t){SP_ID(0, i)}, 8);
  sp_step step = {.step = 3, .key = KEY, .n = (uint32_t)c->n, .training = 1, .loss_scale = 1};
  if (c->sharded) step.batch = RIG_BATCH, step.shard = c->shard;
  sp_params_live(r->inst->type->params, r->inst->params.data, step.live);
  memcpy(r->step.data, &step, sizeof step);
  memcpy(r->step.copy, r->step.data, r->step.bytes);
  memcpy(r->ids.copy, r->ids.data, r->ids.bytes);
  memcpy(r->scale.data, &c->scale, sizeof c->scale);
}

static int open_view(view *v, rig *r, const rig_call *c, sp_err *err) {
  const sp_stage_type *type = r->inst->type;
  bool apply = c->kind == SP_CALL_APPLY;
  memset(v, 0, sizeof *v);
  size_t n_t = 2 * ((size_t)r->in.n + r->out.n + r->weights.n) + r->rows.n, at = 0;
  v->t = sp_calloc(n_t, sizeof *v->t);
  if (!v->t) return sp_nomem(err, n_t * sizeof *v->t, "tensors");
  if (!apply) at = put_ports(v, r, c);
  sp_tensor *w = v->t + at;
  for (uint32_t i = 0; i < r->weights.n; i++, at++) {
    const sp_weight *own = &r->plan.weights[i];
    bool there = !apply || (own->flags & SP_WEIGHT_FACTORS && own->part == c->part);
    v->t[at] = (sp_tensor){r->weights.t[i].spec, there ? lent(&r->weights.t[i]) : NULL};
  }
  sp_tensor *dw = v->t + at;
  for (uint32_t i = 0; i < r->weights.n; i++, at++) {
    uint32_t flags = r->plan.weights[i].flags;
    bool give = c->want_dw && flags & SP_WEIGHT_TRAINED && !(flags & SP_WEIGHT_FACTORS) == !apply;
    v->t[at] = (sp_tensor){r->dweights.t[i].spec, give ? lent(&r->dweights.t[i]) : NULL};
  }
  v->factors = v->t + at;
  put_factors(v->factors, r, c, apply || c->kind == SP_CALL_PREPARE);
  memset(v->acc, c->acc, sizeof v->acc);
  for (uint32_t i = 0; i < RIG_PORTS; i++) v->acc_of[i] = v->acc;
  put_step(r, c);
  bool sums = c->kind == SP_CALL_FORWARD && r->n_all && type->survey;
  const sp_io_parts parts = {.training = true,
                             .n_in = r->n_in,
                             .n_out = r->n_out,
                             .lists = v->lists,
                             .din_acc = gives_din(r, c) ? v->acc_of : NULL,
                             .n_weights = r->weights.n,
                             .n_factors = r->rows.n,
                             .weights = w,
                             .dweights = dw,
                             .factors = v->factors,
                             .dw_acc = c->acc,
                             .part = c->part,
                             .dw_scale = apply ? lent(&r->scale) : NULL,
                             .step = r->plan.stepless ? NULL : lent(&r->step),
                             .ids = r->plan.stepless ? NULL : lent(&r->ids),
                             .scratch = r->scratch.bytes ? lent(&r->scratch) : NULL,
                             .saved = r->saved.bytes ? lent(&r->saved) : NULL,
                             .consts = r->consts.bytes ? lent(&r->consts) : NULL,
                             .sums = sums                        ? lent(&r->sums)
                                     : c->kind == SP_CALL_SURVEY ? lent(&r->own)
                                                                 : NULL,
                             .sum_at = sums ? lent(&r->sum_at) : NULL,
                             .n_sums = sums ? r->n_sums : 0};
  sp_io_fill(&v->io, c->kind, &parts);
  return SP_OK;
}

int rig_prepare(rig *r, int64_t n, sp_err *err) {
  view v;
  const rig_call c = {.n = n, .kind = SP_CALL_PREPARE};
  int rc = open_view(&v, r, &c, err);
  if (rc) return rc;
  if (r->solo) rc = move_all(r, true, err);
  if (!rc) rc = sp_inst_prepare(r->inst, &v.io, r->solo ? sp_solo_native(r->solo) : NULL, err);
  free(v.t);
  if (rc || !r->solo) return rc;
  rc = move_list(r, &r->weights, false, err);
  if (!rc) rc = move(r, &r->consts, false, err);
  return rc ? rc : sp_solo_sync(r->solo, err);
}

static int look_at_guards(const rig *r, const char *what, sp_err *err) {
  const struct {
    const char *name;
    const rig_list *list;
  } all[] = {{"an input", &r->in},
             {"an output", &r->out},
             {"an output's gradient", &r->dout},
             {"an input's gradient", &r->din},
             {"a weight", &r->weights},
             {"a weight's gradient", &r->dweights},
             {"a factor", &r->rows}};
  for (size_t i = 0; i < SP_ARRAY(all); i++)
    for (uint32_t k = 0; k < all[i].list->n; k++)
      if (!guards_intact(&all[i].list->t[k]))
        return sp_fail(err, SP_E_INTERNAL, "%s wrote before or behind %s (number %u)", what, all[i].name, k + 1);
  if (!guards_intact(&r->scratch)) return sp_fail(err, SP_E_INTERNAL, "%s wrote before or behind scratch", what);
  if (!guards_intact(&r->saved)) return sp_fail(err, SP_E_INTERNAL, "%s wrote before or behind saved", what);
  if (!guards_intact(&r->consts)) return sp_fail(err, SP_E_INTERNAL, "%s wrote before or behind consts", what);
  if (!guards_intact(&r->step) || memcmp(r->step.copy, r->step.data, r->step.bytes) || !guards_intact(&r->ids) ||
      memcmp(r->ids.copy, r->ids.data, r->ids.bytes))
    return sp_fail(err, SP_E_INTERNAL, "%s wrote to step or ids", what);
  if (!guards_intact(&r->scale)) return sp_fail(err, SP_E_INTERNAL, "%s wrote before or behind dw_scale", what);
  if (!guards_intact(&r->own) || !guards_intact(&r->sums) || !guards_intact(&r->sum_at))
    return sp_fail(err, SP_E_INTERNAL, "%s wrote before or behind sums", what);
  return SP_OK;
}

/* What the device has afterwards lies on the host when this returns. */
static int run_on_device(rig *r, sp_solo_call *call, sp_err *err) {
  int rc = move_all(r, true, err);
  if (!rc) rc = sp_solo_run(r->solo, call, err);
  if (!rc) rc = move_all(r, false, err);
  return rc ? rc : sp_solo_sync(r->solo, err);
}

int rig_run(rig *r, const rig_call *c, sp_err *err) {
  static const char *const names[] = {"forward()", "backward()", "apply()", "survey()"};
  view v;
  int rc = open_view(&v, r, c, err);
  if (rc) return rc;
  if (!c->part || c->kind != SP_CALL_BACKWARD) memset(r->scratch.data, c->poison, r->scratch.bytes);
  if (c->kind == SP_CALL_FORWARD) memset(r->saved.data, c->poison, r->saved.bytes);
  sp_solo_call call = {.inst = r->inst, .io = &v.io, .step = 3, .kind = c->kind};
  rc = r->solo ? run_on_device(r, &call, err) : sp_inst_call(r->inst, c->kind, &v.io, call.step, NULL, NULL, err);
  free(v.t);
  int guards = look_at_guards(r, names[c->kind], rc ? &(sp_err){0} : err);
  return rc ? rc : guards;
}

bool rig_fault(char words[RIG_WORDS], const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(words, RIG_WORDS, fmt, args);
  va_end(args);
  return false;
}
