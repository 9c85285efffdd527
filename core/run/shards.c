/* SPDX-License-Identifier: MIT
 * shards.c - the results of a step's passes, put together: counts add up, means are weighted by what they are over, in
 * the order of shards, so that the numbers are those of the step. Where a job has several ranks they first give each
 * other the results of all passes: scripts see the same numbers everywhere,
 * and what they decide by them is found out if it differs. */
#include "params/params.h"
#include "run/comm_clock.h"
#include "run/machine.h"
#include "run/pace.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VERDICT 3 /* seconds in which the rank whose data are bad says so */

/* One metric. */
typedef struct part {
  const sp_metric_slot *slot;
  bool sum, seen;
  size_t n;      /* elements */
  double weight; /* of a mean so far */
  double *add;   /* [n] */
  int64_t *count;
  void *out;
} part;

/* A pass as ranks tell it each other; behind it the hashes, and each metric: 8 bytes whether it is there,
 * and its data. */
typedef struct packed {
  uint64_t step, end; /* end: of the loop */
  double lr;
  uint32_t n, asked;
  uint32_t bad, reserved; /* BAD_ */
  sp_rank_time time;      /* of the last pass */
} packed;

enum { BAD_NOTHING, BAD_STAGE, BAD_UPDATE };

struct sp_shards {
  part *parts; /* as the program's metrics */
  size_t n;
  sp_metric *shown;
  uint64_t samples;
  sp_hash *hashes;
  bool *update;    /* [the machine's n_hashes] what it is of */
  sp_ranks *ranks; /* NULL: the passes of this process are all */
  int rank, n_ranks;
  size_t bytes;   /* of a pass, packed */
  char *all;      /* [ranks][micro] of them */
  sp_metric *one; /* of a pass that was unpacked */
  sp_hash *one_hashes;
  sp_err bad; /* the first that a stage has said of this rank's passes of the step */
  sp_pacer pacer;
};

static const sp_port *port_of(const sp_metric_slot *s) { return sp_node_out_port(s->node, (unsigned)s->port); }
static bool is_integer(const sp_spec *s) { return s->dtype != SP_F32 && s->dtype != SP_F64; }

static int new_part(part *p, const sp_metric_slot *slot, const sp_machine *m, sp_err *err) {
  const sp_spec *spec = &slot->node->out_specs[slot->port].spec[slot->index];
  int64_t n = 1;
  for (int d = 0; d < spec->ndim; d++) n *= spec->shape[d];
  *p = (part){.slot = slot, .sum = is_integer(spec) || port_of(slot)->flags & SP_PORT_SUM, .n = (size_t)n};
  p->add = sp_graph_zalloc(m->g, p->n, sizeof *p->add, "metrics", err);
  p->count = p->add ? sp_graph_zalloc(m->g, p->n, sizeof *p->count, "metrics", err) : NULL;
  p->out = p->count ? sp_graph_zalloc(m->g, p->n, 8, "metrics", err) : NULL;
  return p->out ? SP_OK : err->status;
}

static size_t data_bytes(const part *p) {
  const sp_spec *spec = &p->slot->node->out_specs[p->slot->port].spec[p->slot->index];
  return ((size_t)sp_spec_bytes(spec) + 7) / 8 * 8;
}

/* All ranks do the same. */
static bool alike(sp_task_kind kind) { return kind == SP_TASK_UPDATE || kind == SP_TASK_APPLY || kind == SP_TASK_LOOK; }

static int new_exchange(sp_shards *s, const sp_machine *m, sp_err *err) {
  const sp_reduce *r = sp_machine_shares(m);
  s->ranks = r ? r->ranks : NULL;
  s->rank = r ? r->rank : 0;
  s->n_ranks = r ? r->n_ranks : 1;
  s->bytes = sizeof(packed) + m->n_hashes * sizeof(uint64_t);
  for (size_t i = 0; i < s->n; i++) s->bytes += 8 + data_bytes(&s->parts[i]);
  s->all = sp_graph_zalloc(m->g, (size_t)s->n_ranks * (size_t)m->p->micro, s->bytes, "metrics", err);
  double *times = s->all ? sp_graph_zalloc(m->g, (size_t)s->n_ranks, 2 * sizeof *times, "times", err) : NULL;
  s->pacer = (sp_pacer){.n_ranks = s->n_ranks, .own = times, .sorted = times ? times + s->n_ranks : NULL};
  s->one = times ? sp_graph_zalloc(m->g, s->n, sizeof *s->one, "metrics", err) : NULL;
  s->update = s->one ? sp_graph_zalloc(m->g, m->n_hashes, sizeof *s->update, "checksums", err) : NULL;
  for (size_t k = 0; s->update && k < m->n_hashes; k++) s->update[k] = alike(m->p->tasks[m->hash_of[k].task].kind);
  s->one_hashes = s->update ? sp_graph_zalloc(m->g, m->n_hashes, sizeof *s->one_hashes, "checksums", err) : NULL;
  return s->one_hashes ? SP_OK : err->status;
}

int sp_shards_new(sp_shards **out, const sp_machine *m, sp_err *err) {
  sp_shards *s = *out = sp_graph_zalloc(m->g, 1, sizeof *s, "metrics", err);
  int st = s ? SP_OK : err->status;
  if (st) return st;
  s->parts = sp_graph_zalloc(m->g, m->p->n_metrics, sizeof *s->parts, "metrics", err);
  s->shown = s->parts ? sp_graph_zalloc(m->g, m->p->n_metrics, sizeof *s->shown, "metrics", err) : NULL;
  s->hashes = s->shown ? sp_graph_zalloc(m->g, m->n_hashes, sizeof *s->hashes, "checksums", err) : NULL;
  if (!s->hashes) return err->status;
  for (; s->n < m->p->n_metrics && !st; s->n++) st = new_part(&s->parts[s->n], &m->p->metrics[s->n], m, err);
  return st ? st : new_exchange(s, m, err);
}

void sp_shards_free(sp_shards *s) {
  if (!s) return;
  for (size_t i = 0; i < s->n; i++) {
    free(s->parts[i].add);
    free(s->parts[i].count);
    free(s->parts[i].out);
  }
  free(s->parts);
  free(s->shown);
  free(s->hashes);
  free(s->update);
  free(s->all);
  free(s->pacer.own);
  free(s->one);
  free(s->one_hashes);
  free(s);
}

static double number_at(const sp_metric *m, size_t i) {
  return m->spec.dtype == SP_F64 ? ((const double *)m->data)[i] : (double)((const float *)m->data)[i];
}

static int64_t count_at(const sp_metric *m, size_t i) {
  switch (m->spec.dtype) {
    case SP_U8: return ((const uint8_t *)m->data)[i];
    case SP_I8: return ((const int8_t *)m->data)[i];
    case SP_I32: return ((const int32_t *)m->data)[i];
    default: return ((const int64_t *)m->data)[i];
  }
}

/* What the means of this stage are over: its TOTAL, or the pass's samples. */
static double weight_of(const sp_shards *s, const sp_node *node, const sp_result *res) {
  for (size_t i = 0; i < res->n_metrics; i++)
    for (size_t k = 0; k < s->n; k++) {
      const sp_metric_slot *slot = s->parts[k].slot;
      if (slot->name == res->metrics[i].name && slot->node == node && port_of(slot)->flags & SP_PORT_TOTAL)
        return number_at(&res->metrics[i], 0);
    }
  return res->n;
}

static void add_part(part *p, const sp_metric *m, double weight) {
  p->seen = true;
  p->weight += weight;
  for (size_t i = 0; i < p->n; i++)
    if (is_integer(&m->spec)) p->count[i] += count_at(m, i);
    else if (weight != 0) p->add[i] += weight * number_at(m, i);
}

static void put_out(const part *p, int dtype) {
  for (size_t i = 0; i < p->n; i++) {
    double v = p->sum ? p->add[i] : p->weight != 0 ? p->add[i] / p->weight : 0;
    switch (dtype) {
      case SP_F32: ((float *)p->out)[i] = (float)v; break;
      case SP_F64: ((double *)p->out)[i] = v; break;
      case SP_U8: ((uint8_t *)p->out)[i] = (uint8_t)p->count[i]; break;
      case SP_I8: ((int8_t *)p->out)[i] = (int8_t)p->count[i]; break;
      case SP_I32: ((int32_t *)p->out)[i] = (int32_t)p->count[i]; break;
      default: ((int64_t *)p->out)[i] = p->count[i];
    }
  }
}

static void begin(sp_shards *s) {
  s->samples = 0;
  for (size_t i = 0; i < s->n; i++) {
    part *p = &s->parts[i];
    p->seen = false;
    p->weight = 0;
    for (size_t k = 0; k < p->n; k++) p->add[k] = 0, p->count[k] = 0;
  }
}

static void show(sp_shards *s, sp_result *res) {
  size_t k = 0;
  for (size_t i = 0; i < s->n; i++) {
    part *p = &s->parts[i];
    const sp_metric_slot *slot = p->slot;
    if (!p->seen || port_of(slot)->flags & SP_PORT_TOTAL) continue;
    const sp_spec *spec = &slot->node->out_specs[slot->port].spec[slot->index];
    put_out(p, spec->dtype);
    s->shown[k] = sp_metric_of(slot, p->out);
    s->shown[k++].weight = p->weight;
  }
  res->metrics = s->shown;
  res->n_metrics = k;
}

/* A hash of the hashes of all passes; of an update, which all ranks make alike, that of the first. */
static void add_hashes(sp_shards *s, const sp_result *res, bool first, bool first_rank) {
  for (size_t i = 0; i < res->n_hashes; i++) {
    uint64_t before = first ? 0 : s->hashes[i].hash, hash = res->hashes[i].hash;
    bool counts = first || !s->update[i] || first_rank;
    s->hashes[i] = (sp_hash){res->hashes[i].name, counts ? (before ^ hash) * UINT64_C(0x9e3779b97f4a7c15) : before};
  }
}

/* ---- between ranks ---- */
static char *place_of(const sp_shards *s, const sp_machine *m, int rank, int pass) {
  return s->all + ((size_t)rank * (size_t)m->p->micro + (size_t)pass) * s->bytes;
}

static void pack(sp_shards *s, const sp_machine *m, const sp_result *res, const sp_pass_told *told, char *to) {
  packed head = {.step = res->step, .end = told->end, .lr = res->lr, .n = res->n, .asked = told->asked};
  if (told->bad) head.bad = told->alike ? BAD_UPDATE : BAD_STAGE;
  if (told->bad && !s->bad.status) s->bad = *told->bad;
  memcpy(to, &head, sizeof head);
  uint64_t *hash = (uint64_t *)(to + sizeof head);
  for (size_t i = 0; i < m->n_hashes; i++) hash[i] = res->hashes[i].hash;
  to = (char *)(hash + m->n_hashes);
  size_t k = 0; /* metrics are in the order of parts, some left out */
  for (size_t i = 0; i < s->n; i++) {
    uint64_t there = k < res->n_metrics && res->metrics[k].name == s->parts[i].slot->name;
    memcpy(to, &there, sizeof there);
    if (there) memcpy(to + 8, res->metrics[k].data, (size_t)sp_spec_bytes(&res->metrics[k].spec)), k++;
    to += 8 + data_bytes(&s->parts[i]);
  }
}

/* *res becomes that of the pass, but for what is the same on all ranks. */
static void unpack(const sp_shards *s, const sp_machine *m, const char *from, sp_result *res) {
  const packed *head = (const packed *)from;
  const uint64_t *hash = (const uint64_t *)(from + sizeof *head);
  size_t k = 0;
  for (size_t i = 0; i < m->n_hashes; i++) s->one_hashes[i] = (sp_hash){m->hashes[i].name, hash[i]};
  from = (const char *)(hash + m->n_hashes);
  for (size_t i = 0; i < s->n; i++) {
    const sp_metric_slot *slot = s->parts[i].slot;
    if (*(const uint64_t *)from) s->one[k++] = sp_metric_of(slot, from + 8);
    from += 8 + data_bytes(&s->parts[i]);
  }
  res->n = head->n;
  res->hashes = s->one_hashes;
  res->n_hashes = m->n_hashes;
  res->metrics = s->one;
  res->n_metrics = k;
}

/* *guilty: who is known to be. */
static int differ(const packed *a, const packed *b, int rank, int *guilty, sp_err *err) {
  *guilty = rank;
  if (a->step != b->step)
    return sp_fail(err, SP_E_STATE, "rank %d is at step %" PRIu64 " where rank 0 is at step %" PRIu64, rank,
                   sp_step_said(b->step), sp_step_said(a->step));
  if (a->end != b->end) {
    bool other = b->end < a->end;
    *guilty = other ? rank : 0;
    return sp_fail(err, SP_E_STATE,
                   "the script of rank %d stops at step %" PRIu64
                   ", others go on: all ranks have to decide alike, by what is the same on all of them",
                   *guilty, other ? b->end : a->end);
  }
  return sp_fail(err, SP_E_STATE,
                 "step %" PRIu64
                 ": the learning rate is %.9g on rank 0, %.9g on rank %d: it has to come from what is the same on all",
                 sp_step_said(a->step), a->lr, b->lr, rank);
}

/* The rank that is to be named; -1: nobody. The first in the order of shards whose data a stage has found bad counts,
 * as where one process has all of them; then an update which not all ranks have found so. */
static int find_bad(const sp_shards *s, const sp_machine *m, int *updates) {
  int first = -1;
  *updates = 0;
  for (int i = 0; i < s->n_ranks * m->p->micro; i++) {
    const packed *one = (const packed *)(s->all + (size_t)i * s->bytes);
    if (one->bad == BAD_STAGE) return i / m->p->micro;
    if (one->bad == BAD_UPDATE && !(*updates)++) first = i / m->p->micro;
  }
  return *updates < s->n_ranks ? first : -1;
}

/* Only the rank itself knows the words. */
static int look_for_bad(sp_shards *s, const sp_machine *m, sp_err *err) {
  int updates, guilty = find_bad(s, m, &updates);
  if (guilty < 0) return updates ? sp_ranks_blame(s->ranks, 0, &s->bad, err) : SP_OK;
  if (guilty == s->rank) {
    *err = s->bad;
    sp_prefix(err, "rank %d", guilty);
    return sp_ranks_blame(s->ranks, guilty, err, err);
  }
  if (sp_ranks_await_failure(s->ranks, VERDICT, err)) return err->status;
  return sp_fail(err, SP_E_DATA, "rank %d has bad data at step %" PRIu64 " and does not say which", guilty,
                 sp_step_said(((const packed *)s->all)->step));
}

/* ---- how long ranks wait for each other ---- */
void sp_shards_pause(const sp_machine *m) {
  if (m->shards) m->shards->pacer.last = 0;
  sp_comm_clock_pause(m->clock);
}

static void take_time(sp_shards *s, const sp_machine *m) {
  packed *last = (packed *)place_of(s, m, s->rank, m->p->micro - 1);
  double waited = 0;
  if (m->p->stand_in) return;
  if (sp_place_is_host(&m->g->main)) {
    last->time = sp_pace_take(&s->pacer, s->ranks);
    return;
  }
  sp_clock_word word = sp_comm_clock_read(m->clock, m, last->step, &waited);
  last->time = sp_pace_take_device(&s->pacer, word == SP_CLOCK_TELLS ? waited : 0);
  if (word == SP_CLOCK_LOOKS) sp_pace_begin(&s->pacer);
}

typedef struct all_times {
  const sp_shards *s;
  const sp_machine *m;
} all_times;

static const sp_rank_time *time_of(const void *arg, int rank) {
  const all_times *a = arg;
  return &((const packed *)place_of(a->s, a->m, rank, a->m->p->micro - 1))->time;
}

static int give(sp_shards *s, const sp_machine *m, uint32_t *asked, sp_err *err) {
  char *mine = place_of(s, m, s->rank, 0);
  take_time(s, m);
  int st = sp_ranks_exchange(s->ranks, mine, s->bytes * (size_t)m->p->micro, s->all, err);
  int last = m->p->micro - 1;
  const packed *first = (const packed *)place_of(s, m, 0, last);
  for (int r = 0; r < s->n_ranks && !st; r++) {
    const packed *other = (const packed *)place_of(s, m, r, last);
    bool lr = !memcmp(&other->lr, &first->lr, sizeof first->lr);
    if (other->step != first->step || other->end != first->end || !lr) {
      int guilty;
      differ(first, other, r, &guilty, err);
      return sp_ranks_blame(s->ranks, guilty, err, err);
    }
    *asked |= other->asked;
  }
  return st ? st : look_for_bad(s, m, err);
}

static void add_pass(sp_shards *s, sp_result *res, bool first, bool first_rank) {
  if (first) begin(s);
  s->samples += res->n;
  for (size_t i = 0; i < res->n_metrics; i++)
    for (size_t k = 0; k < s->n; k++) {
      part *p = &s->parts[k];
      const sp_metric *metric = &res->metrics[i];
      if (p->slot->name != metric->name || (p->slot->node->optimizer && p->seen)) continue; /* all ranks update alike */
      add_part(p, metric, p->sum || p->slot->node->optimizer ? 1 : weight_of(s, p->slot->node, res));
    }
  add_hashes(s, res, first, first_rank);
}

int sp_shards_add(sp_shards *s, const sp_machine *m, uint64_t pass, const sp_pass_told *told, sp_result *res,
                  sp_err *err) {
  int shard = (int)(pass % (uint64_t)m->p->micro), st;
  res->step = pass / (uint64_t)m->p->micro;
  if (s->ranks) pack(s, m, res, told, place_of(s, m, s->rank, shard));
  else add_pass(s, res, !shard, true);
  if (shard + 1 < m->p->micro) return SP_OK;
  if (s->ranks) {
    if ((st = give(s, m, &res->asked, err))) return st;
    if (m->p->stand_in) return SP_OK;
    res->pace = sp_pace_add(&s->pacer, time_of, &(all_times){s, m});
    for (int i = 0; i < s->n_ranks * m->p->micro; i++) {
      sp_result one = *res;
      unpack(s, m, s->all + (size_t)i * s->bytes, &one);
      add_pass(s, &one, !i, i < m->p->micro);
    }
  }
  res->hashes = s->hashes;
  res->n = (uint32_t)s->samples;
  show(s, res);
  return SP_OK;
}

bool sp_shards_of_rank(sp_shards *s, const sp_machine *m, int rank, sp_result *res) {
  if (!s || !s->ranks) return rank == 0;
  if (rank >= s->n_ranks) return false;
  res->step = ((const packed *)s->all)->step * (uint64_t)s->n_ranks + (uint64_t)rank;
  unpack(s, m, place_of(s, m, rank, 0), res);
  sp_result_weigh(res, s->one);
  return true;
}
