/* SPDX-License-Identifier: MIT
 * hand.c - a device with what lies on it: memory that outlives every operation that uses it, and the end of all. */
#include "hand/impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "device/cpu.h"
#include "device/host.h"

#define UNUSED_MAX ((size_t)1 << 28) /* bytes that may wait for their last use before the host does */

sp_place *hand_place(const sp_hand *h) { return &h->g->main; }

int hand_check_open(const sp_hand *h, sp_err *err) {
  return h->open ? SP_OK : sp_fail(err, SP_E_STATE, "its device is closed");
}

const char *hand_thread_name(const sp_hand *h, int thread) {
  for (const sp_hstream *s = h->streams; s; s = s->next)
    if (s->own && s->thread == thread) return s->name;
  return "?";
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static int get_memory(sp_hand *h, size_t bytes, int at, void **ptr, sp_err *err) {
  sp_ctx_holder holder;
  sp_place *p = hand_place(h);
  sp_ctx *ctx = sp_ctx_for(&holder, p->type->name, err);
  *ptr = NULL;
  if (at == SP_AT_HOST_PAGEABLE) return sp_hostdev_alloc(ctx, NULL, SP_MEM_DEVICE, bytes, ptr);
  return p->type->alloc(ctx, p->dev, at == SP_AT_DEVICE ? SP_MEM_DEVICE : SP_MEM_PINNED, bytes ? bytes : 1, ptr);
}

static void put_memory(hand_block *b) {
  void *ptr = b->ptr;
  b->ptr = NULL;
  if (!ptr || b->borrowed) return;
  const sp_place *p = hand_place(b->h);
  if (b->at == SP_AT_HOST_PAGEABLE) sp_hostdev_free(NULL, SP_MEM_DEVICE, ptr);
  else p->type->free(p->dev, b->at == SP_AT_DEVICE ? SP_MEM_DEVICE : SP_MEM_PINNED, ptr);
}

bool hand_block_busy(const hand_block *b, const hand_use **use) {
  for (size_t i = 0; i < b->n_uses; i++) {
    if (sp_races_known(b->h->races, b->uses[i].thread, b->uses[i].number)) continue;
    if (use) *use = &b->uses[i];
    return true;
  }
  return false;
}

int hand_block_use(hand_block *b, int thread, uint64_t number, sp_err *err) {
  size_t i = 0;
  while (i < b->n_uses && b->uses[i].thread != thread) i++;
  if (i == b->n_uses) {
    if (!sp_grow(&b->uses, &b->cap_uses, i + 1, sizeof *b->uses)) return sp_nomem(err, 64, b->name);
    b->n_uses++;
  }
  b->uses[i] = (hand_use){thread, number};
  return SP_OK;
}

static void unlink_block(hand_block *b) {
  *(b->prev ? &b->prev->next : &b->h->blocks) = b->next;
  if (b->next) b->next->prev = b->prev;
  if (b->ptr) sp_races_forget_buffer(b->h->races, b->race);
  put_memory(b);
  free(b->uses);
  free(b->name);
  free(b);
}

static void free_unused(sp_hand *h, bool all) {
  for (hand_block *b = h->n_unused ? h->blocks : NULL, *next; b; b = next) {
    next = b->next;
    if (b->refs || (!all && hand_block_busy(b, NULL))) continue;
    h->n_unused--;
    h->unused_bytes -= b->bytes;
    unlink_block(b);
  }
}

void hand_collect(sp_hand *h) { free_unused(h, false); }

static int add_block(sp_hand *h, const hand_block *proto, const char *name, const char *where, hand_block **out,
                     sp_err *err) {
  hand_block *b = sp_calloc(1, sizeof *b);
  char *copy = sp_strdup(name);
  *out = NULL;
  if (!b || !copy) {
    free(b);
    free(copy);
    return sp_nomem(err, sizeof *b, name);
  }
  *b = *proto;
  b->h = h;
  b->name = copy;
  b->refs = 1;
  int st = sp_races_buffer(h->races, name, b->bytes, where, &b->race, err);
  if (st) {
    free(copy);
    free(b);
    return st;
  }
  b->next = h->blocks;
  if (b->next) b->next->prev = b;
  h->blocks = b;
  *out = b;
  return SP_OK;
}

int hand_block_new(sp_hand *h, size_t bytes, int at, const char *name, const char *where, hand_block **out,
                   sp_err *err) {
  hand_block b = {.bytes = bytes, .at = at};
  hand_collect(h);
  if (h->unused_bytes + bytes > UNUSED_MAX && h->unused_bytes) hand_quiet(h);
  int st = get_memory(h, bytes, at, &b.ptr, err);
  if (st == SP_E_NOMEM && h->unused_bytes) { /* some may be free as soon as nothing is in flight */
    hand_quiet(h);
    st = get_memory(h, bytes, at, &b.ptr, err);
  }
  if (st) return sp_prefix(err, "%s needs %zu bytes", name, bytes);
  b.h = h;
  if ((st = add_block(h, &b, name, where, out, err))) put_memory(&b);
  return st;
}

int hand_block_borrow(sp_hand *h, void *ptr, size_t bytes, const char *name, hand_block **out, sp_err *err) {
  return add_block(h, &(hand_block){.ptr = ptr, .bytes = bytes, .borrowed = true}, name, "", out, err);
}

void hand_block_drop(hand_block *b) {
  if (!b || --b->refs) return;
  if (!b->h->open || !hand_block_busy(b, NULL)) {
    unlink_block(b);
    return;
  }
  b->h->n_unused++;
  b->h->unused_bytes += b->bytes;
}

int hand_block_free(hand_block *b, const char *where, sp_err *err) {
  const hand_use *use;
  int st = sp_races_end_buffer(b->h->races, b->race, where, err);
  if (st) return st;
  if (hand_block_busy(b, &use))
    return sp_fail(err, SP_E_STATE,
                   "'%s' is in use: nothing says that what stream '%s' does with it is over; sync the stream, or an "
                   "event recorded on it behind that",
                   b->name, hand_thread_name(b->h, use->thread));
  put_memory(b);
  return SP_OK;
}

/* ---- the hand ---------------------------------------------------------------------------------------------------- */

void hand_quiet(sp_hand *h) {
  sp_err ignored; /* it comes again when the script waits */
  for (sp_hstream *s = h->streams; s; s = s->next)
    if (s->own) hand_stream_quiet(s, &ignored);
  free_unused(h, true);
}

static bool plays_gpu(const sp_device_type *type) { return type == &sp_device_sim || type == &sp_device_simmock; }

int sp_hand_new(sp_hand **out, sp_env *env, const sp_hand_opts *o, sp_err *err) {
  sp_graph_opts opts = {.device = o->device,
                        .seed = o->seed,
                        .init = o->init,
                        .precision = o->precision,
                        .prefetch = 1,
                        .capture = SP_CAPTURE_AUTO};
  sp_hand *h = sp_calloc(1, sizeof *h);
  *out = NULL;
  if (!h) return sp_nomem(err, sizeof *h, "streams by hand");
  sp_device_sim_seed(o->order);
  int st = sp_graph_new(&h->g, env, &opts, err);
  sp_device_sim_seed(0);
  if (!st && o->order && !plays_gpu(hand_place(h)->type))
    st = sp_fail(err, SP_E_INVALID, "order: device '%s' draws none; sim and simmock do", h->g->device);
  if (!st) st = sp_races_new(&h->races, o->check_races, err);
  if (st) {
    sp_graph_free(h->g);
    free(h);
    return st;
  }
  h->refs = 1;
  h->open = true;
  h->check_races = o->check_races;
  h->by_torch = !strcmp(h->g->init, "torch");
  if (h->by_torch) sp_mt19937_seed(&h->torch, o->seed);
  *out = h;
  return SP_OK;
}

bool sp_hand_is_open(const sp_hand *h) { return h->open; }
bool sp_hand_checks(const sp_hand *h) { return h->check_races; }
const char *sp_hand_device(const sp_hand *h) { return h->open ? h->g->device : "none"; }

/* Streams end first; nothing is in flight behind them. Blocks that are held stay, without memory. */
void sp_hand_close(sp_hand *h) {
  sp_err ignored;
  if (!h->open) return;
  for (sp_hstream *s = h->streams; s; s = s->next) sp_hstream_close(s, &ignored);
  for (sp_hevent *e = h->events; e; e = e->next) sp_hevent_close(e, &ignored);
  for (sp_hstage *st = h->stages; st; st = st->next) {
    hand_slots_free(st);
    hand_stage_let_go(st);
  }
  for (hand_block *b = h->blocks; b; b = b->next) {
    sp_races_forget_buffer(h->races, b->race);
    b->race = -1;
    put_memory(b);
  }
  h->open = false;
  sp_graph_free(h->g);
  h->g = NULL;
}

static void free_stage(sp_hstage *st) {
  free(st->in);
  free(st->out);
  free(st->made);
  free(st->first_in);
  free(st->first_out);
  free(st->w);
  free(st->dw);
  free(st->ids);
  free(st->updates);
  sp_params_free(&st->from);
  free(st);
}

/* Objects of a closed hand may be dropped in any order: the last one takes the rest along. */
void hand_release(sp_hand *h) {
  if (--h->refs) return;
  sp_hand_close(h);
  while (h->stages) {
    sp_hstage *st = h->stages;
    h->stages = st->next;
    free_stage(st);
  }
  while (h->blocks) unlink_block(h->blocks);
  while (h->streams) {
    sp_hstream *s = h->streams;
    h->streams = s->next;
    free(s->name);
    free(s);
  }
  while (h->events) {
    sp_hevent *e = h->events;
    h->events = e->next;
    free(e);
  }
  sp_races_free(h->races);
  free(h);
}

void sp_hand_drop(sp_hand *h) {
  sp_hand_close(h);
  hand_release(h);
}
