/* SPDX-License-Identifier: MIT
 * find.c - which rank this process is, where rank 0 listens, and of which job: from the environment. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "ranks/ranks.h"

#define PORT 29501 /* torchrun's own default and one more, since its agent listens on that */

/* Who starts ranks, the first that is there counts. local and locals may be missing:
 * then all are taken to be on one host. */
static const struct starter {
  const char *rank, *ranks, *local, *locals;
} starters[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", NULL},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL},
};

/* NULL: not set, or empty */
static const char *variable(const char *name) {
  const char *text = name ? getenv(name) : NULL;
  return text && *text ? text : NULL;
}

static int whole(const char *name, int min, int max, int *out, sp_err *err) {
  const char *text = variable(name);
  char *end;
  if (!text) return SP_OK;
  long v = strtol(text, &end, 10);
  if (*end || v < min || v > max)
    return sp_fail(err, SP_E_RANGE, "%s=%.64s: a whole number from %d to %d is wanted", name, text, min, max);
  *out = (int)v;
  return SP_OK;
}

static int seconds(const char *name, double *out, sp_err *err) {
  const char *text = variable(name);
  char *end;
  if (!text) return SP_OK;
  double v = strtod(text, &end);
  if (*end || !(v > 0) || v > 1e6)
    return sp_fail(err, SP_E_RANGE, "%s=%.64s: seconds are wanted, more than 0 and at most 1000000", name, text);
  *out = v;
  return SP_OK;
}

static int copy(char *to, size_t n, const char *name, const char *text, sp_err *err) {
  if (strlen(text) >= n) return sp_fail(err, SP_E_RANGE, "%s=%.64s...: longer than %zu bytes", name, text, n - 1);
  memcpy(to, text, strlen(text) + 1);
  return SP_OK;
}

/* ---- which rank -------------------------------------------------------------------------------------------------- */

static bool is_slurm(const char *ranks) { return strncmp(ranks, "SLURM_", 6) == 0; }

/* A batch script of Slurm has some variables of a task, but is none: only srun starts tasks. */
static bool is_there(const struct starter *s) {
  if (!is_slurm(s->ranks)) return variable(s->rank) || variable(s->ranks);
  return variable(s->rank) && (!variable("SLURM_JOB_ID") || variable("SLURM_STEP_ID"));
}

static const struct starter *find_starter(void) {
  for (size_t i = 0; i < SP_ARRAY(starters); i++)
    if (is_there(&starters[i])) return &starters[i];
  return NULL;
}

/* Two variables that say something together. NULL: there is none of that name. */
static int check_pair(const char *a, const char *b, sp_err *err) {
  const char *has = variable(a) ? a : b, *lacks = has == a ? b : a;
  if (!lacks || !variable(has) || variable(lacks)) return SP_OK;
  return sp_fail(err, SP_E_INVALID, "%s=%.64s is set, but %s is not", has, variable(has), lacks);
}

static int check_ranks(const struct starter *s, sp_rank_opts *o, sp_err *err) {
  if (check_pair(s->rank, s->ranks, err) || (s->locals && check_pair(s->local, s->locals, err))) return err->status;
  if (o->rank >= o->ranks)
    return sp_fail(err, SP_E_RANGE, "%s=%d of %s=%d: ranks count from 0", s->rank, o->rank, s->ranks, o->ranks);
  if (o->local_ranks > o->ranks)
    return sp_fail(err, SP_E_RANGE, "%s=%d is more than %s=%d", s->locals, o->local_ranks, s->ranks, o->ranks);
  if (o->local_rank > o->rank)
    return sp_fail(err, SP_E_RANGE, "%s=%d is more than %s=%d", s->local, o->local_rank, s->rank, o->rank);
  if (o->local_rank >= o->local_ranks)
    return sp_fail(err, SP_E_RANGE, "%s=%d of %s=%d: ranks count from 0", s->local, o->local_rank, s->locals,
                   o->local_ranks);
  return SP_OK;
}

static int find_rank(sp_rank_opts *o, sp_err *err) {
  const struct starter *s = find_starter();
  if (!s) return SP_OK;
  o->origin = s->ranks;
  int rc = whole(s->rank, 0, SP_RANKS_MAX - 1, &o->rank, err);
  if (!rc) rc = whole(s->ranks, 1, SP_RANKS_MAX, &o->ranks, err);
  o->local_rank = o->rank;
  o->local_ranks = o->ranks;
  if (!rc) rc = whole(s->local, 0, SP_RANKS_MAX - 1, &o->local_rank, err);
  if (!rc) rc = whole(s->locals, 1, SP_RANKS_MAX, &o->local_ranks, err);
  return rc ? rc : check_ranks(s, o, err);
}

/* ---- which job --------------------------------------------------------------------------------------------------- */

static int find_job(sp_rank_opts *o, sp_err *err) {
  static const char *const names[] = {"SPCORE_JOB", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"};
  for (size_t i = 0; i < SP_ARRAY(names); i++) {
    const char *text = variable(names[i]);
    if (!text) continue;
    int rc = copy(o->job, sizeof o->job, names[i], text, err);
    const char *step = strcmp(names[i], "SLURM_JOB_ID") == 0 ? variable("SLURM_STEP_ID") : NULL;
    size_t n = strlen(o->job);
    if (!rc && step) snprintf(o->job + n, sizeof o->job - n, ".%s", step);
    return rc;
  }
  return SP_OK;
}

/* ---- where rank 0 is --------------------------------------------------------------------------------------------- */

/* The first of Slurm's "gpu[07-12,15],login": gpu07. */
static int first_host(const char *name, const char *list, sp_rank_opts *o, sp_err *err) {
  char host[sizeof o->address];
  const char *open = strpbrk(list, "[,");
  size_t stem = open ? (size_t)(open - list) : strlen(list), number = 0;
  if (open && *open == '[') number = strcspn(open + 1, "-,]");
  if (stem + number >= sizeof host) return copy(o->address, sizeof o->address, name, list, err);
  memcpy(host, list, stem);
  if (number) memcpy(host + stem, open + 1, number);
  host[stem + number] = 0;
  return copy(o->address, sizeof o->address, name, host, err);
}

static int find_address(sp_rank_opts *o, sp_err *err) {
  static const char *const names[] = {"SPCORE_ADDR", "MASTER_ADDR"}, *const lists[] = {"SLURM_STEP_NODELIST",
                                                                                       "SLURM_JOB_NODELIST"};
  for (size_t i = 0; i < SP_ARRAY(names); i++)
    if (variable(names[i])) return copy(o->address, sizeof o->address, names[i], variable(names[i]), err);
  for (size_t i = 0; i < SP_ARRAY(lists) && is_slurm(o->origin); i++)
    if (variable(lists[i])) return first_host(lists[i], variable(lists[i]), o, err);
  if (o->local_ranks < o->ranks)
    return sp_fail(err, SP_E_INVALID,
                   "%d of %d ranks are on this host, and no variable says where rank 0 is: SPCORE_ADDR=HOST",
                   o->local_ranks, o->ranks);
  return copy(o->address, sizeof o->address, "SPCORE_ADDR", "127.0.0.1", err);
}

/* Jobs on one host that have numbers take ports of their own. */
static int find_port(sp_rank_opts *o, sp_err *err) {
  const char *job = variable("SPCORE_JOB") ? "" : o->job;
  o->port = *job ? 16384 + (int)(sp_fnv64(SP_FNV64, job, strlen(job)) % 12288) : PORT;
  if (variable("SPCORE_PORT")) return whole("SPCORE_PORT", 1, 65535, &o->port, err);
  if (!variable("MASTER_PORT")) return SP_OK;
  int rc = whole("MASTER_PORT", 1, 65534, &o->port, err);
  o->port++;
  return rc;
}

int sp_ranks_find(sp_rank_opts *o, sp_err *err) {
  *o = (sp_rank_opts){.ranks = 1, .local_ranks = 1, .origin = "", .listener = -1};
  o->start = o->timeout = 60;
  o->silence = 10;
  int rc = find_rank(o, err);
  if (rc || o->ranks == 1) return rc;
  rc = find_job(o, err);
  if (!rc) rc = find_address(o, err);
  if (!rc) rc = find_port(o, err);
  if (!rc) rc = seconds("SPCORE_START_TIMEOUT", &o->start, err);
  if (!rc) rc = seconds("SPCORE_SILENCE_TIMEOUT", &o->silence, err);
  if (!rc) rc = seconds("SPCORE_STALL_TIMEOUT", &o->timeout, err);
  return rc;
}
