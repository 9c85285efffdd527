/* SPDX-License-Identifier: MIT
 * call.c - a call of a stage on a stream: its record, what it is told of its step, and the status that it leaves. */
#include "hand/impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/cure.h"

#define MAX_CALLS \
  256 /* of a stream that may be in flight; then the host waits, as a GPU's driver does at some number */
#define SLOT_ALIGN 64

struct hand_call {
  hand_call *next;
  sp_hstage *st;
  int done; /* atomic */
  sp_call_kind kind;
  sp_io io;
  sp_step block;
  uint64_t *ids;
  const int64_t *status; /* NULL: none that the host can read */
  sp_tensor *t;
  sp_list *lists;
  const uint8_t **acc;
  int rc;
  sp_err err;
};

/* ---- records ----------------------------------------------------------------------------------------------------- */

hand_layout hand_layout_of(const sp_hstage *st) {
  hand_layout l = {0};
  l.out = st->n_in;
  l.dout = l.out + st->n_out;
  l.din = l.dout + st->n_out;
  l.w = l.din + st->n_in;
  l.dw = l.w + st->n->params.n_weights;
  l.saved = l.dw + st->n->params.n_weights;
  l.scratch = l.saved + 1;
  l.state = l.scratch + 1;
  l.n = l.state + 1;
  return l;
}

static void free_call(hand_call *c) {
  if (!c) return;
  free(c->ids);
  free(c->t);
  free(c->lists);
  free(c->acc);
  free(c);
}

void hand_reclaim(sp_hstream *s, bool all) {
  while (s->calls && (all || (__atomic_load_n(&s->calls->done, __ATOMIC_ACQUIRE) && !s->calls->rc))) {
    hand_call *c = s->calls;
    s->calls = c->next;
    s->n_calls--;
    free_call(c);
  }
  if (!s->calls) s->last_call = &s->calls;
}

const sp_err *hand_call_failed(const sp_hstream *s) {
  for (const hand_call *c = s->calls; c; c = c->next)
    if (__atomic_load_n(&c->done, __ATOMIC_ACQUIRE) && c->rc) return &c->err;
  return NULL;
}

static void *data_of(const hand_arg *a) { return a->b ? (char *)a->b->ptr + a->offset : NULL; }

static void put_lists(hand_call *c, sp_list *lists, const uint32_t *first, uint32_t n_ports, size_t at) {
  for (uint32_t i = 0; i < n_ports; i++) lists[i] = (sp_list){.n = first[i + 1] - first[i], .t = c->t + at + first[i]};
}

static const uint8_t overwrite[SP_MAX_LIST];

static hand_call *new_call(sp_hstage *st, const hand_arg *args, sp_call_kind kind, bool training, bool accumulate) {
  bool backward = kind == SP_CALL_BACKWARD;
  const sp_node *n = st->n;
  hand_layout l = hand_layout_of(st);
  hand_call *c = sp_calloc(1, sizeof *c);
  if (!c) return NULL;
  c->st = st;
  c->kind = kind;
  c->t = sp_calloc(l.saved + 1, sizeof *c->t);
  c->lists = sp_calloc(2 * ((size_t)n->n_in + n->n_out) + 1, sizeof *c->lists);
  c->acc = sp_calloc((size_t)n->n_in + 1, sizeof *c->acc);
  if (!c->t || !c->lists || !c->acc) {
    free_call(c);
    return NULL;
  }
  for (size_t i = 0; i < l.saved; i++) c->t[i] = (sp_tensor){args[i].spec, data_of(&args[i])};
  sp_list *in = c->lists, *out = in + n->n_in, *dout = out + n->n_out, *din = dout + n->n_out;
  put_lists(c, in, st->first_in, n->n_in, l.in);
  put_lists(c, out, st->first_out, n->n_out, l.out);
  put_lists(c, dout, st->first_out, n->n_out, l.dout);
  put_lists(c, din, st->first_in, n->n_in, l.din);
  for (unsigned i = 0; i < n->n_in; i++) c->acc[i] = overwrite;
  bool gives = backward || (n->loss && training);
  for (size_t i = l.din; !gives && i < l.w; i++) c->t[i].data = NULL;
  const sp_io_parts parts = {.training = training,
                             .n_in = n->n_in,
                             .n_out = n->n_out,
                             .lists = c->lists,
                             .din_acc = gives ? c->acc : NULL,
                             .n_weights = (uint32_t)n->params.n_weights,
                             .weights = c->t + l.w,
                             .dweights = c->t + l.dw,
                             .dw_acc = accumulate,
                             .scratch = data_of(&args[l.scratch]),
                             .saved = data_of(&args[l.saved]),
                             .consts = n->params.consts};
  sp_io_fill(&c->io, kind, &parts);
  return c;
}

static void fill_block(sp_step *block, const sp_hstage *st, const sp_hrun *how) {
  *block = (sp_step){
      .step = how->step, .key = st->n->key, .n = (uint32_t)st->samples, .training = !how->evaluate, .loss_scale = 1};
  memcpy(block->live, st->n->live, sizeof block->live);
}

static void fill_ids(uint64_t *ids, const sp_hstage *st, const sp_hrun *how) {
  for (int64_t i = 0; i < st->samples; i++)
    ids[i] = how->ids ? how->ids[i] : SP_ID(0, how->step * (uint64_t)st->samples + (uint64_t)i);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int check_status(const sp_hstage *st, uint64_t step, const int64_t *status, sp_err *err) {
  sp_sb sb = {0};
  if (!status[0]) return SP_OK;
  sp_status_text(st->n->inst->type, status, &sb);
  sp_fail(err, (int)status[0], "stage '%s' step %" PRIu64 ": %s", st->n->name, sp_step_said(step), sp_sb_str(&sb));
  sp_sb_free(&sb);
  sp_cure_words(err->msg, sizeof err->msg, st->n->inst->type->name);
  return err->status;
}

static int run_call(void *arg, void *native) {
  hand_call *c = arg;
  sp_inst *inst = c->st->n->inst;
  c->rc = sp_inst_call(inst, c->kind, &c->io, c->block.step, native, NULL, &c->err);
  if (!c->rc && c->status && c->kind == SP_CALL_FORWARD) c->rc = check_status(c->st, c->block.step, c->status, &c->err);
  int rc = c->rc;
  __atomic_store_n(&c->done, 1, __ATOMIC_RELEASE); /* from here on it may be gone */
  return rc;
}

static int append(sp_hstream *s, hand_call *c, sp_err *err) {
  if (s->n_calls >= MAX_CALLS && hand_stream_quiet(s, err)) return err->status;
  *s->last_call = c;
  s->last_call = &c->next;
  s->n_calls++;
  return SP_OK;
}

static int submit(sp_hstream *s, hand_call *c, sp_err *err) {
  hand_reclaim(s, false);
  if (append(s, c, err)) {
    free_call(c);
    return err->status;
  }
  int st = sp_place_submit(hand_place(s->h), s->own, run_call, c, c->st->n->name, err);
  if (!st) return SP_OK;
  if (__atomic_load_n(&c->done, __ATOMIC_ACQUIRE) && c->rc) *err = c->err;
  if (!s->h->failure.status) s->h->failure = *err;
  return st;
}

/* ---- what a stage behind a border is told ------------------------------------------------------------------------ */

static size_t ids_at(void) { return (sizeof(sp_step) + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN; }
static size_t n_ids(const sp_hstage *st) { return st->n->stepless ? 0 : (size_t)st->batch; }
static size_t told_bytes(const sp_hstage *st) { return ids_at() + n_ids(st) * sizeof(uint64_t); }
static size_t status_at(const sp_hstage *st) { return (told_bytes(st) + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN; }
static size_t slot_bytes(const sp_hstage *st) { return status_at(st) + 4 * sizeof(int64_t); }

static int make_slots(sp_hstage *st, sp_err *err) {
  sp_place *p = hand_place(st->h);
  sp_ctx_holder h;
  int rc = SP_OK;
  st->slots = sp_calloc(HAND_SLOTS, sizeof *st->slots);
  if (!st->slots) return sp_nomem(err, sizeof *st->slots, "step blocks");
  for (int i = 0; i < HAND_SLOTS && !rc; i++) {
    hand_slot *slot = &st->slots[i];
    void *ptr = NULL;
    rc = p->type->alloc(sp_ctx_for(&h, st->n->name, err), p->dev, SP_MEM_PINNED, slot_bytes(st), &ptr);
    slot->pinned = rc ? NULL : ptr;
    if (!rc) rc = sp_place_alloc(p, slot_bytes(st), "step blocks", &ptr, err);
    slot->device = rc ? NULL : ptr;
    if (!rc) rc = sp_place_event(p, 0, st->n->name, &slot->event, err);
  }
  return rc;
}

void hand_slots_free(sp_hstage *st) {
  const sp_place *p = hand_place(st->h);
  for (int i = 0; st->slots && i < HAND_SLOTS; i++) {
    hand_slot *slot = &st->slots[i];
    if (slot->event) p->type->event_close(slot->event);
    if (slot->pinned) p->type->free(p->dev, SP_MEM_PINNED, slot->pinned);
    sp_place_free(p, slot->device);
  }
  free(st->slots);
  st->slots = NULL;
}

static int look(sp_hstage *st, hand_slot *slot, sp_err *err) {
  int64_t status[4];
  if (!slot->status) return SP_OK;
  slot->status = false;
  memcpy(status, slot->pinned + status_at(st), sizeof status);
  return check_status(st, slot->step, status, err);
}

/* Those of stream s whose calls are over, NULL: of any stream that the host knows to be so far. */
int hand_slots_look(sp_hand *h, const sp_hstream *s, sp_err *err) {
  int rc = SP_OK;
  for (sp_hstage *st = h->stages; st; st = st->next)
    for (int i = 0; st->slots && i < HAND_SLOTS && !rc; i++) {
      hand_slot *slot = &st->slots[i];
      if (!slot->stream || (s && slot->stream != s)) continue;
      if (sp_races_known(h->races, slot->stream->thread, slot->number)) rc = look(st, slot, err);
    }
  return rc;
}

static bool reusable(const sp_hstage *st, const hand_slot *slot, const sp_hstream *s, const char *told) {
  return slot->filled && slot->stream == s && !memcmp(slot->pinned, told, told_bytes(st));
}

/* The slot that was used longest ago, as soon as that is over. */
static int oldest_slot(sp_hstage *st, hand_slot **out, sp_err *err) {
  hand_slot *slot = &st->slots[0];
  int last = HAND_SLOTS - 1;
  hand_slot first = *slot;
  memmove(slot, slot + 1, (size_t)last * sizeof *slot);
  st->slots[last] = first;
  *out = slot = &st->slots[last];
  if (!slot->stream) return SP_OK;
  int rc = sp_place_sync_event(hand_place(st->h), slot->event, st->n->name, err);
  return rc ? rc : look(st, slot, err);
}

/* A slot that holds what the call is to be told: uploaded on the call's stream, unless it was before. */
static int tell(sp_hstage *st, sp_hstream *s, const sp_hrun *how, bool status, hand_slot **out, sp_err *err) {
  int rc = st->slots ? SP_OK : make_slots(st, err);
  char *told = rc ? NULL : sp_calloc(1, told_bytes(st));
  *out = NULL;
  if (rc) return rc;
  if (!told) return sp_nomem(err, told_bytes(st), "step blocks");
  fill_block((sp_step *)told, st, how);
  if (n_ids(st)) fill_ids((uint64_t *)(told + ids_at()), st, how);
  for (int i = 0; !status && i < HAND_SLOTS && !*out; i++)
    if (reusable(st, &st->slots[i], s, told)) *out = &st->slots[i];
  if (!*out && !(rc = oldest_slot(st, out, err))) {
    memcpy((*out)->pinned, told, told_bytes(st));
    (*out)->filled = true;
    rc = sp_place_copy(hand_place(st->h), s->own, (*out)->device, (*out)->pinned, told_bytes(st), st->n->name, err);
  }
  free(told);
  return rc;
}

/* Behind the call: its status comes back, and an event says when the slot is free. */
static int end_slot(sp_hstage *st, sp_hstream *s, hand_slot *slot, const hand_arg *status, uint64_t number,
                    uint64_t step, sp_err *err) {
  const sp_place *p = hand_place(st->h);
  slot->stream = s;
  slot->number = number;
  slot->step = step;
  slot->status = status != NULL;
  int rc = SP_OK;
  if (status)
    rc = sp_place_copy(p, s->own, slot->pinned + status_at(st), data_of(status), 4 * sizeof(int64_t), st->n->name, err);
  return rc ? rc : sp_place_record(p, slot->event, s->own, st->n->name, err);
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

static const hand_arg *status_of(const sp_hstage *st, const hand_arg *args) {
  hand_layout l = hand_layout_of(st);
  for (unsigned i = 0; i < st->n->n_out; i++)
    if (sp_node_out_port(st->n, i)->flags & SP_PORT_STATUS && st->first_out[i + 1] > st->first_out[i])
      return &args[l.out + st->first_out[i]];
  return NULL;
}

/* A stream's own, so that stages that run side by side have each one; it grows. */
static int fit_scratch(sp_hstage *st, sp_hstream *s, hand_arg *arg, sp_err *err) {
  size_t bytes = st->n->scratch;
  sp_sb name = {0};
  if (!bytes) return SP_OK;
  if (!s->scratch || s->scratch->bytes < bytes) {
    hand_block *more;
    sp_sb_putf(&name, "the scratch memory of stream '%s'", s->name);
    int rc = hand_block_new(s->h, bytes, SP_AT_DEVICE, sp_sb_str(&name), "", &more, err);
    sp_sb_free(&name);
    if (rc) return rc;
    hand_block_drop(s->scratch);
    s->scratch = more;
  }
  *arg = (hand_arg){
      .b = s->scratch, .spec = {.dtype = SP_U8, .ndim = 1, .shape = {(int64_t)bytes}}, .mode = SP_RACE_WRITE};
  return SP_OK;
}

static int fill_own(hand_call *c, sp_hstage *st, const sp_hrun *how, const hand_arg *status, sp_err *err) {
  c->status = status ? data_of(status) : NULL;
  if (st->n->stepless) return SP_OK;
  c->ids = sp_calloc((size_t)st->samples + 1, sizeof *c->ids);
  if (!c->ids) return sp_nomem(err, (size_t)st->samples * sizeof *c->ids, "sample ids");
  fill_ids(c->ids, st, how);
  c->io.step = &c->block;
  c->io.ids = c->ids;
  return SP_OK;
}

int hand_call_submit(sp_hstage *st, sp_hstream *s, hand_arg *args, const sp_hrun *how, bool backward, const char *where,
                     sp_err *err) {
  hand_layout l = hand_layout_of(st);
  const hand_arg *status = backward ? NULL : status_of(st, args);
  bool border = !sp_place_is_host(hand_place(st->h)), training = st->trains && !how->evaluate;
  hand_slot *slot = NULL;
  uint64_t number;
  if (fit_scratch(st, s, &args[l.scratch], err)) return err->status;
  hand_call *c =
      new_call(st, args, backward ? SP_CALL_BACKWARD : SP_CALL_FORWARD, training || st->n->optimizer, how->accumulate);
  if (!c) return sp_nomem(err, sizeof *c, "a call");
  fill_block(&c->block, st, how);
  int rc = border ? SP_OK : fill_own(c, st, how, status, err);
  if (!rc) rc = hand_submit(s, args, l.n, st->n->inst->label, where, &number, err);
  if (!rc && border && (status || !st->n->stepless)) rc = tell(st, s, how, status != NULL, &slot, err);
  if (rc) {
    free_call(c);
    return rc;
  }
  if (slot && !st->n->stepless) {
    c->io.step = (const sp_step *)slot->device;
    c->io.ids = (const uint64_t *)(slot->device + ids_at());
  }
  rc = submit(s, c, err);
  return rc || !slot ? rc : end_slot(st, s, slot, status, number, how->step, err);
}

int hand_call_prepare(sp_hstage *st, sp_hstream *s, hand_arg *args, int64_t n, bool training, sp_err *err) {
  hand_layout l = hand_layout_of(st);
  for (int i = 0; i < st->n_prepared; i++)
    if (st->prepared[i][0] == n && st->prepared[i][1] == training) return SP_OK;
  if (st->n_prepared == (int)SP_ARRAY(st->prepared))
    return sp_fail(err, SP_E_RANGE, "stage '%s' has been run with %d numbers of samples: make another for more",
                   st->n->name, st->n_prepared);
  if (fit_scratch(st, s, &args[l.scratch], err)) return err->status;
  hand_quiet(st->h);
  if (hand_stream_ready(s, err)) return err->status; /* it has failed meanwhile */
  hand_call *c = new_call(st, args, SP_CALL_PREPARE, training, false);
  if (!c) return sp_nomem(err, sizeof *c, "a call");
  int rc = sp_inst_prepare(st->n->inst, &c->io, hand_place(st->h)->type->stream_native(s->own), err);
  free_call(c);
  if (!rc) rc = sp_place_sync(hand_place(st->h), s->own, s->name, err);
  if (rc) return rc;
  st->prepared[st->n_prepared][0] = n;
  st->prepared[st->n_prepared++][1] = training;
  return SP_OK;
}
