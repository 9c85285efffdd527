/* SPDX-License-Identifier: MIT
 * comm.c - the communicator through which the ranks of a job add and share parameters. */
#include "device/cpu.h"
#include "params/params.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VERDICT 3 /* seconds in which the job says why a call of the communicator failed */

typedef struct boot {
  sp_ranks *ranks;
  sp_err err;
} boot;

static int exchange(const sp_comm_boot *b, const void *mine, size_t bytes, void *all) {
  boot *own = b->impl;
  return sp_ranks_exchange(own->ranks, mine, bytes, all, &own->err);
}

static void end_waits(void *arg) {
  const sp_reduce *x = arg;
  x->type->abort(x->comm);
}

/* The words are those of the job where it has failed, since then this is only what came of it: of a rank that is lost
 * the communicator may know first. */
int sp_reduce_failed(const sp_reduce *x, const char *what, sp_err *err) {
  sp_err why;
  if (sp_ranks_await_failure(x->ranks, VERDICT, &why)) *err = why;
  else sp_prefix(err, "communicator '%s': %s", x->type->name, what);
  return err->status;
}

const char *sp_store_comm_name(const sp_store *store) {
  if (store->comm && *store->comm) return store->comm;
  return sp_place_is_host(store->main) ? "local" : "nccl";
}

/* torchrun, say, gives a job no name. */
static int name_job(sp_ranks *ranks, char name[64], sp_err *err) {
  const sp_rank_opts *o = sp_ranks_opts(ranks);
  static unsigned graphs;
  snprintf(name, 64, "%s", o->job);
  if (*name) return SP_OK;
  snprintf(name, 64, "%d-%u-%.6f", (int)getpid(), graphs++, sp_now());
  return sp_ranks_broadcast(ranks, name, 64, err);
}

int sp_reduce_open(const sp_store *store, sp_reduce *x, sp_err *err) {
  const char *name = sp_store_comm_name(store);
  const char *memory = sp_place_is_host(store->main) ? "cpu" : store->main->type->name;
  const sp_rank_opts *o = sp_ranks_opts(x->ranks);
  sp_ctx_holder h;
  boot own = {.ranks = x->ranks};
  char job[64];
  sp_comm_boot b = {.size = sizeof b,
                    .rank = o->rank,
                    .ranks = o->ranks,
                    .local_rank = o->local_rank,
                    .local_ranks = o->local_ranks,
                    .job = job,
                    .impl = &own,
                    .exchange = exchange};
  /* The submitting thread does all the work of sim, so it could not wait for another rank. */
  if (store->main->type == &sp_device_sim)
    return sp_fail(err, SP_E_UNSUPPORTED, "device 'sim' simulates one process: take --device cpu for several ranks");
  int status = sp_registry_comm(store->env->reg, name, &x->type, err);
  if (status) return status;
  if (strcmp(x->type->device, memory))
    return sp_fail(
        err, SP_E_UNSUPPORTED,
        "communicator '%s' moves memory of '%s', not of device '%s': ranks train on cpu or cuda; leave --comm "
        "out, and the right one is taken",
        name, x->type->device, store->device);
  if ((status = name_job(x->ranks, job, err))) return status;
  void *dev = sp_place_is_host(store->main) ? NULL : store->main->dev;
  status = x->type->open(sp_ctx_for(&h, name, err), &b, dev, &x->comm);
  if (status) {
    x->comm = NULL;
    if (!*err->msg) *err = own.err;
    return sp_reduce_failed(x, "open", err);
  }
  x->abort = (sp_rank_abort){.abort = end_waits, .arg = x};
  sp_ranks_add_abort(x->ranks, &x->abort);
  return SP_OK;
}

int sp_reduce_take(sp_reduce *x, size_t bytes, void *to, sp_err *err) {
  sp_ctx_holder h;
  void *memory = NULL;
  int status = x->type->alloc(sp_ctx_for(&h, "alloc", err), x->comm, bytes, &memory);
  *(void **)to = memory;
  return status ? sp_reduce_failed(x, "memory for gradients", err) : SP_OK;
}
