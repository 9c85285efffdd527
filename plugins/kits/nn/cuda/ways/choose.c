/* SPDX-License-Identifier: MIT
 * choose.c - which way computes a job: all that take it are measured once, and the choice is kept as text, so later
 * runs compute the same. */
#include "way.h"

#include <stdio.h>
#include <string.h>

const nnc_way *const nnc_ways[NNC_WAYS] = {
#define NNC_WAY(ID, name) [NNC_WAY_##ID] = &nnc_way_##name,
#include "ways.list"
};

static int may(const nnc_way *way, const nnc_job *job) {
  return way->jobs & job->of && (!way->takes || way->takes(job, &job->c->cuda->device));
}

static void enter(const nnc_way *way, nnc_job *job, int variant) {
  *job->by = (nnc_choice){.way = way, .does = way->does, .variant = variant};
}

static int take_by(const nnc_way *way, nnc_job *job, const char *text) {
  enter(way, job, 0);
  if (!way->texts) return way->take(job, text);
  for (int i = 0; way->texts[i]; i++) {
    enter(way, job, i);
    if (!strcmp(text, way->texts[i])) return 1;
  }
  return 0;
}

/* 0: it is the text of no way that takes the job. */
static int take(void *arg, const char *text) {
  nnc_job *job = arg;
  for (int i = 0; i < NNC_WAYS; i++)
    if (may(nnc_ways[i], job) && take_by(nnc_ways[i], job, text)) return 1;
  return 0;
}

struct nnc_trial {
  nnc_job *job;
  const char *key;
  char *text; /* of the fastest so far */
  size_t bytes;
  double best; /* in milliseconds; below 0: none */
};

int nnc_try(nnc_trial *trial, const char *text) {
  nnc_job *job = trial->job;
  sp_ctx *ctx = job->c->w.ctx;
  double ms = (job->cold ? nnc_measure_cold : nnc_measure)(job->c, job->timed, job);
  ctx->host->log(ctx, SP_LOG_DEBUG, "%s: %.2f us, %.24s", trial->key, ms * 1e3, text);
  if (ms < 0) return 0;
  if (job->by->way->worth) ms = job->by->way->worth(job, ms);
  if (trial->best >= 0 && ms >= trial->best) return 1;
  trial->best = ms;
  snprintf(trial->text, trial->bytes, "%s", text);
  return 1;
}

static int measure(void *arg, const char *key, char *text, size_t bytes) {
  nnc_job *job = arg;
  nnc_trial trial = {job, key, text, bytes, -1};
  for (int i = 0; i < NNC_WAYS; i++) {
    const nnc_way *way = nnc_ways[i];
    if (!may(way, job)) continue;
    enter(way, job, 0);
    if (way->offer) way->offer(job, &trial);
    for (int j = 0; way->texts && way->texts[j]; j++) {
      enter(way, job, j);
      nnc_try(&trial, way->texts[j]);
    }
  }
  if (trial.best < 0) return nnc_no_choice(job->c, "there is no way to compute", key);
  job->c->w.ctx->host->log(job->c->w.ctx, SP_LOG_DEBUG, "%s: chosen %.24s", key, text);
  return SP_OK;
}

int nnc_choose(nnc_job *job, const char *key) {
  for (int i = 0; i < NNC_WAYS; i++) {
    int status =
        nnc_ways[i]->prepare && may(nnc_ways[i], job) ? nnc_check(job->c, job->op, nnc_ways[i]->prepare(job)) : 0;
    if (status) return status;
  }
  return nnc_tuned(job->c, key, take, measure, job);
}

const char *nnc_keyed(const nnc_job *job) {
  for (int i = 0; i < NNC_WAYS; i++)
    if (nnc_ways[i]->keyed && may(nnc_ways[i], job)) return nnc_ways[i]->keyed;
  return NULL;
}

int nnc_takes_all(const nnc_job *job) {
  for (int i = 0; i < NNC_WAYS; i++)
    if (nnc_ways[i]->does & NNC_ALL && may(nnc_ways[i], job)) return 1;
  return 0;
}

int nnc_run_alone(void *job) { return ((nnc_job *)job)->by->way->run(job); }

int nnc_ran(const nnc_job *job, int err) {
  const nnc_way *way = job->by->way;
  if (!err || !way->words) return nnc_check(job->c, job->op, err);
  return nnc_fail(job->c, job->op, SP_E_DEVICE, way->words(err));
}

int nnc_finish(const nnc_job *job, const nnk_map *y, const float *bias, const nnk_map *plus) {
  unsigned does = job->by->does;
  int relu = job->op->d.relu && !(does & NNC_RELU);
  if (does & NNC_BIAS) bias = NULL;
  if (does & NNC_SUM || !plus->p) plus = NULL;
  return bias || plus || relu ? nnk_bias_relu(job->c->stream, y, y, bias, plus, relu) : 0;
}

size_t nnc_ways_work(const nn_cuda *cuda, const nn_xop *op, int64_t n) {
  size_t most = 0;
  for (int i = 0; i < NNC_WAYS; i++) {
    size_t work = nnc_ways[i]->work ? nnc_ways[i]->work(cuda, op, n) : 0;
    if (work > most) most = work;
  }
  return most;
}

size_t nnc_ways_most_pieces(const nn_cuda *cuda, const nn_xop *op, int64_t n) {
  size_t most = 0;
  for (int i = 0; i < NNC_WAYS; i++) {
    size_t pieces = nnc_ways[i]->pieces ? nnc_ways[i]->pieces(cuda, op, n) : 0;
    if (pieces > most) most = pieces;
  }
  return most;
}

size_t nnc_ways_pieces(nn_cuda *cuda, const nn_xop *op) {
  size_t largest = 0;
  for (int i = 0; i < NNC_WAYS; i++) {
    size_t most = 0;
    if (!nnc_ways[i]->pieces) continue;
    for (int64_t n = 1; n <= cuda->low.batch; n++) {
      size_t pieces = nnc_ways[i]->pieces(cuda, op, n);
      if (pieces > most) most = pieces;
    }
    cuda->cops[op - cuda->low.ops].at[i] = cuda->pieces_bytes;
    cuda->pieces_bytes += nn_align(most);
    if (most > largest) largest = most;
  }
  return largest;
}

void nnc_ways_constants(nn_cuda *cuda, const nn_xop *op) {
  for (int i = 0; i < NNC_WAYS; i++) {
    size_t bytes = nnc_ways[i]->constants ? nnc_ways[i]->constants(cuda, op) : 0;
    if (bytes) cuda->cops[op - cuda->low.ops].at[i] = nnc_fixed(cuda, bytes);
  }
}

int nnc_ways_pack(const nnc_call *c) {
  const nn_low *low = &c->cuda->low;
  int status = SP_OK;
  for (int i = 0; i < low->n_ops; i++)
    for (int j = 0; j < NNC_WAYS && !status; j++) {
      size_t at = c->cuda->cops[i].at[j];
      if (nnc_ways[j]->pack && at)
        status = nnc_check(c, &low->ops[i], nnc_ways[j]->pack(c, &low->ops[i], c->fixed + at));
    }
  return status;
}

size_t nnc_ways_columns(const nn_cuda *cuda, const nn_xop *op) {
  size_t most = 0;
  for (int i = 0; i < NNC_WAYS; i++) {
    size_t bytes = nnc_ways[i]->columns ? nnc_ways[i]->columns(cuda, op) : 0;
    if (bytes > most) most = bytes;
  }
  return most;
}

int (*nnc_ways_lower(const nn_cuda *cuda))(int k, int64_t in, int64_t out) {
  for (int i = 0; i < NNC_WAYS; i++)
    if (nnc_ways[i]->lowers) return nnc_ways[i]->lowers(nnc_rounds(cuda));
  return NULL;
}
