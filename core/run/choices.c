/* SPDX-License-Identifier: MIT
 * choices.c - see choices.h. Two ranks may have measured on other days, or beside other work, and another algorithm has
 * other last bits. What all have taken in the end is compared, since a library may refuse what that of rank 0 has
 * chosen. */
#include "run/choices.h"

#include <spcore/ext/choices.h>

#include <stdio.h>
#include <stdlib.h>

#include "params/params.h"

typedef struct shared {
  const sp_choices *ext;
  sp_ranks *ranks;
  void *dev;
  sp_ctx_holder holder;
  sp_ctx *ctx;
} shared;

/* The k-th that was taken here; an empty key: there are no more. */
static int taken(shared *s, uint64_t k, sp_choice *c, sp_err *err) {
  *c = (sp_choice){0};
  int st = s->ext->taken(s->ctx, s->dev, k, c);
  return st == SP_E_NOTFOUND ? SP_OK : st ? err->status : SP_OK;
}

static int tell(shared *s, sp_err *err) {
  sp_choice c;
  int st = SP_OK;
  for (uint64_t k = 0; !st && (!k || *c.key); k++)
    if (!(st = taken(s, k, &c, err))) st = sp_ranks_broadcast(s->ranks, &c, sizeof c, err);
  return st;
}

static int hear(shared *s, sp_err *err) {
  sp_choice c = {.key = "?"};
  while (*c.key) {
    if (sp_ranks_broadcast(s->ranks, &c, sizeof c, err)) return err->status;
    c.key[sizeof c.key - 1] = c.value[sizeof c.value - 1] = 0;
    if (*c.key && s->ext->hold(s->ctx, s->dev, &c)) return err->status;
  }
  return SP_OK;
}

static int compare(shared *s, sp_err *err) {
  sp_rank_text *texts = NULL;
  char(*words)[2 * SP_CHOICE_MAX + 2] = NULL;
  sp_choice c;
  uint64_t n = 0;
  int st;
  while (!(st = taken(s, n, &c, err)) && *c.key) n++;
  if (st) return st;
  texts = sp_calloc((size_t)n + 1, sizeof *texts);
  words = sp_calloc((size_t)n + 1, sizeof *words);
  if (!texts || !words) st = sp_nomem(err, (size_t)n * sizeof *words, "choices of algorithms");
  for (uint64_t k = 0; k < n && !st; k++) {
    st = taken(s, k, &c, err);
    snprintf(words[k], sizeof words[k], "%s: %s", c.key, c.value);
    texts[k] = (sp_rank_text){"an algorithm (the same GPUs and libraries are wanted)", words[k]};
  }
  if (!st) st = sp_ranks_same(s->ranks, texts, (size_t)n, err);
  free(texts);
  free(words);
  return st;
}

int sp_choices_build(sp_machine *m, const sp_machine *beside, sp_err *err) {
  const sp_place *main = &m->g->main;
  const sp_reduce *r = m->g->store.reduce;
  shared s = {.dev = main->dev};
  if (r && main->type->extension) s.ext = main->type->extension(main->dev, SP_EXT_CHOICES);
  if (!s.ext) return sp_machine_build(m, beside, err);
  s.ranks = r->ranks;
  s.ctx = sp_ctx_for(&s.holder, "choices of algorithms", err);
  int st = r->rank ? hear(&s, err) : sp_machine_build(m, beside, err);
  if (!st) st = r->rank ? sp_machine_build(m, beside, err) : tell(&s, err);
  return st ? st : compare(&s, err);
}
