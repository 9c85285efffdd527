/* SPDX-License-Identifier: MIT
 * stage.c - the only door into a stage's code: context, thread checks, error prefix, timing. */
#include "host/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/ext/parallel.h>

#include "base/crash.h"
#include "base/fpmode.h"

#define WEIGHTS_MAX 4096              /* of one stage */
#define BYTES_MAX (UINT64_C(1) << 46) /* scratch or saved bytes beyond this are a slip, not a need */

/* ---- context ----------------------------------------------------------------------------------------------------- */

static const sp_inst *inst_of(const sp_ctx *ctx) { return sp_ctx_impl_of(ctx)->arg; }

static int parallel_threads(sp_ctx *ctx) {
  const sp_stage_host *host = inst_of(ctx)->host;
  return host->threads > 0 ? host->threads : 1;
}

typedef struct under_way {
  const char *what;
  uint64_t step;
  void *caller;
} under_way;

#define WATCHED 64 /* threads of one call whose times are taken */

typedef struct watched {
  int (*fn)(void *arg, int64_t i, int worker);
  void *arg;
  double begin[WATCHED], end[WATCHED];
} watched;

static int watched_item(void *arg, int64_t i, int worker) {
  watched *w = arg;
  if (worker >= WATCHED) return w->fn(w->arg, i, worker);
  if (!w->begin[worker]) w->begin[worker] = sp_now();
  int status = w->fn(w->arg, i, worker);
  w->end[worker] = sp_now();
  return status;
}

static int run_watched(const sp_inst *inst, const under_way *call, int threads, int64_t n,
                       int (*fn)(void *arg, int64_t i, int worker), void *arg) {
  watched w = {.fn = fn, .arg = arg};
  int status = sp_team_run(inst->host->team, threads, n, watched_item, &w);
  for (int i = 0; i < WATCHED && i < threads; i++) {
    if (!w.begin[i]) continue;
    sp_span span = {inst->name, call->what, call->step, w.begin[i], w.end[i], call->caller, i};
    inst->host->observe(inst->host->observe_arg, &span);
  }
  return status;
}

static int parallel_run(sp_ctx *ctx, int threads, int64_t n, int (*fn)(void *arg, int64_t i, int worker), void *arg) {
  if (threads < 0 || n < 0 || !fn)
    return ctx->host->fail(ctx, SP_E_INVALID, "spcore.parallel: run(%d, %lld) is no call", threads, (long long)n);
  if (!threads) threads = parallel_threads(ctx);
  const under_way *call = sp_ctx_impl_of(ctx)->call;
  if (call && inst_of(ctx)->host->observe && inst_of(ctx)->type->flags & SP_STAGE_SOURCE)
    return run_watched(inst_of(ctx), call, threads, n, fn, arg);
  return sp_team_run(inst_of(ctx)->host->team, threads, n, fn, arg);
}

static const sp_parallel parallel_ext = {sizeof(sp_parallel), 0, parallel_threads, parallel_run};

static sp_queue *feed_queue(sp_ctx *ctx) { return inst_of(ctx)->host->queue; }

static const sp_feed_api feed_ext = {sizeof(sp_feed_api), 0,
                                     feed_queue,          sp_queue_attach,
                                     sp_queue_detach,     sp_queue_submit,
                                     sp_queue_cancel,     sp_queue_parts,
                                     sp_queue_name,       sp_queue_reject};

static const void *extension(sp_ctx *ctx, const char *id) {
  const sp_stage_host *host = inst_of(ctx)->host;
  if (strcmp(id, SP_EXT_FEED) == 0 && host->queue) return &feed_ext;
  if (strcmp(id, SP_EXT_PARALLEL) == 0 && host->team) return &parallel_ext;
  if (strcmp(id, SP_EXT_PRECISION) == 0 && inst_of(ctx)->precision) return inst_of(ctx)->precision;
  return host->extension ? host->extension(host->extension_arg, id) : NULL;
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

#define NO_STEP SP_CRASH_NO_STEP

/* "stage 'NAME' (FILE.so) step N: " in front of err's words. */
static int prefix(const sp_inst *inst, uint64_t step, sp_err *err) {
  char file[80] = "", at[32] = "";
  if (inst->file) {
    const char *base = strrchr(inst->file->path, '/');
    snprintf(file, sizeof file, " (%.72s)", base ? base + 1 : inst->file->path);
  }
  if (step != NO_STEP) snprintf(at, sizeof at, " step %llu", (unsigned long long)step);
  return sp_prefix(err, "stage '%s'%s%s", inst->name, file, at);
}

/* What is around a call into the stage's code. */
typedef struct passage {
  sp_crash_call call;
  sp_fpmode mode;
} passage;

static void go_in(passage *p, const sp_inst *inst, const char *what, uint64_t step) {
  const char *path = inst->file ? inst->file->path : "", *base = strrchr(path, '/');
  p->call = (sp_crash_call){.stage = inst->name, .file = base ? base + 1 : path, .what = what, .step = step};
  p->mode = sp_fpmode_get();
  sp_crash_enter(&p->call);
}

static void come_out(const passage *p) {
  sp_crash_leave();
  sp_fpmode_set(p->mode);
}

static bool known_status(int status) {
  switch (status) {
#define CASE(name, value, words) case value:
    SP_STATUS_LIST(CASE)
#undef CASE
    return true;
  }
  return false;
}

/* What a callback returned, and what it said, made one: no failure without words, no words without a failure. */
static int outcome(const char *what, int rc, sp_err *err) {
  if (!known_status(rc))
    return sp_fail(err, SP_E_INTERNAL, "%s() returned %d, which is no status%s%s", what, rc, *err->msg ? ": " : "",
                   err->msg);
  if (rc == SP_OK && err->status != SP_OK) {
    sp_prefix(err, "%s() said that it failed, but returned SP_OK", what);
    return err->status = SP_E_INTERNAL;
  }
  if (rc != SP_OK && err->status == SP_OK) sp_fail(err, rc, "%s() failed: %s", what, sp_status_words(rc));
  return err->status = rc;
}

static int overlap(const char *what, sp_err *err) {
  return sp_fail(err, SP_E_STATE, "%s() was called while another call of this instance is in flight", what);
}

/* A call that admits no other one of the same instance. */
static int enter_alone(sp_inst *inst, const char *what, sp_err *err) {
  int idle = 0;
  if (__atomic_compare_exchange_n(&inst->busy, &idle, -1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return SP_OK;
  return overlap(what, err);
}

static int enter(sp_inst *inst, const char *what, sp_err *err) {
  if (!(inst->type->flags & SP_STAGE_REENTRANT)) return enter_alone(inst, what, err);
  int n = __atomic_load_n(&inst->busy, __ATOMIC_RELAXED);
  while (n >= 0)
    if (__atomic_compare_exchange_n(&inst->busy, &n, n + 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return SP_OK;
  return overlap(what, err);
}

static void leave(sp_inst *inst) {
  if (inst->type->flags & SP_STAGE_REENTRANT) {
    int n = __atomic_load_n(&inst->busy, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&inst->busy, &n, n > 0 ? n - 1 : 0, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
  } else {
    __atomic_store_n(&inst->busy, 0, __ATOMIC_RELEASE);
  }
}

static int enter_main(sp_inst *inst, const char *what, sp_err *err) {
  if (!pthread_equal(inst->owner, pthread_self()))
    return sp_fail(err, SP_E_STATE, "%s() was called on another thread than create()", what);
  return enter_alone(inst, what, err);
}

sp_ctx *sp_inst_ctx(sp_ctx_holder *holder, const sp_inst *inst, void *native, sp_err *err) {
  sp_ctx *ctx = sp_ctx_for(holder, inst->label, err);
  holder->impl.extension = extension;
  holder->impl.arg = inst;
  ctx->stream = native;
  return ctx;
}

/* ---- create, destroy --------------------------------------------------------------------------------------------- */

static char *label_of(const char *name) {
  sp_sb sb = {0};
  sp_sb_putf(&sb, "stage '%s'", name);
  if (!sb.broken) return sb.s;
  sp_sb_free(&sb);
  return NULL;
}

static void free_names(sp_inst *inst) {
  if (inst) {
    free(inst->name);
    free(inst->label);
  }
  free(inst);
}

int sp_inst_new(sp_inst **out, const sp_stage_host *host, const char *name, const sp_stage_type *type,
                const sp_plugin_file *file, const sp_value *params, const sp_precision *precision, sp_err *err) {
  *out = NULL;
  sp_inst *inst = sp_calloc(1, sizeof *inst);
  if (!inst || !(inst->name = sp_strdup(name)) || !(inst->label = label_of(name))) {
    free_names(inst);
    return sp_nomem(err, sizeof *inst, name);
  }
  inst->type = type;
  inst->file = file;
  inst->host = host;
  inst->precision = precision;
  inst->owner = pthread_self();
  int rc = sp_params_fill(&inst->params, type->params, type->params_size, params, err);
  if (!rc) {
    sp_ctx_holder holder;
    sp_ctx *ctx = sp_inst_ctx(&holder, inst, NULL, err);
    passage door;
    go_in(&door, inst, "create", NO_STEP);
    rc = type->create(ctx, inst->params.data, &inst->self);
    come_out(&door);
    rc = outcome("create", rc, err);
  }
  if (!rc) {
    *out = inst;
    return SP_OK;
  }
  prefix(inst, NO_STEP, err);
  sp_params_free(&inst->params);
  free_names(inst);
  return rc;
}

void sp_inst_free(sp_inst *inst) {
  sp_err err = {0};
  if (!inst) return;
  if (enter_main(inst, "destroy", &err)) {
    /* Freeing under a running call would corrupt memory; leaving it there only costs some. */
    prefix(inst, NO_STEP, &err);
    sp_log(SP_LOG_ERROR, "%s", err.msg);
    return;
  }
  passage door;
  go_in(&door, inst, "destroy", NO_STEP);
  inst->type->destroy(inst->self);
  come_out(&door);
  sp_params_free(&inst->params);
  free_names(inst);
}

/* ---- plan -------------------------------------------------------------------------------------------------------- */

static uint32_t count_ports(const sp_port *ports) {
  uint32_t n = 0;
  while (ports && ports[n].name) n++;
  return n;
}

/* "float32 or float64 with 4 dimensions" */
static void port_wants(const sp_port *p, sp_sb *sb) {
  bool first = true;
  for (int dt = 1; dt < 32; dt++) {
    if (!(p->dtypes & SP_DT(dt))) continue;
    sp_sb_putf(sb, "%s%s", first ? "" : " or ", sp_dtype_name(dt));
    first = false;
  }
  if (first) sp_sb_put(sb, "any type");
  if (p->ndim >= 0) sp_sb_putf(sb, " with %d dimension%s", p->ndim, p->ndim == 1 ? "" : "s");
}

/* Extents are `least` or more. */
static int check_spec(const sp_port *p, const char *side, uint32_t item, const sp_spec *s, int64_t least, sp_err *err) {
  char at[96], text[160];
  if (p->flags & SP_PORT_LIST) snprintf(at, sizeof at, "%s '%.60s[%u]'", side, p->name, item + 1);
  else snprintf(at, sizeof at, "%s '%.60s'", side, p->name);
  if (s->ndim < 0 || s->ndim > SP_MAX_DIMS)
    return sp_fail(err, SP_E_SHAPE, "%s: %d dimensions, at most %d are possible", at, s->ndim, SP_MAX_DIMS);
  if (!sp_dtype_size(s->dtype)) return sp_fail(err, SP_E_DTYPE, "%s: there is no data type %d", at, s->dtype);
  sp_spec_str(s, text, sizeof text);
  if ((p->dtypes && !(p->dtypes & SP_DT(s->dtype))) || (p->ndim >= 0 && p->ndim != s->ndim)) {
    sp_sb wants = {0};
    port_wants(p, &wants);
    sp_fail(err, p->ndim >= 0 && p->ndim != s->ndim ? SP_E_SHAPE : SP_E_DTYPE, "%s is %s, got %s", at,
            sp_sb_str(&wants), text);
    sp_sb_free(&wants);
    return err->status;
  }
  for (int d = 0; d < s->ndim; d++)
    if (s->shape[d] < least)
      return sp_fail(err, SP_E_SHAPE, "%s: %s: extent %d is %lld", at, text, d, (long long)s->shape[d]);
  if (!sp_spec_order_ok(s)) return sp_fail(err, SP_E_SHAPE, "%s: %s: the order is no permutation", at, text);
  if (sp_spec_bytes(s) < 0) return sp_fail(err, SP_E_SHAPE, "%s: %s: too large to count its bytes", at, text);
  return SP_OK;
}

static int check_inputs(const sp_inst *inst, const sp_plan *plan, sp_err *err) {
  const sp_stage_type *t = inst->type;
  uint32_t n_in = count_ports(t->inputs), n_out = count_ports(t->outputs);
  if (plan->n_in != n_in || plan->n_out != n_out)
    return sp_fail(err, SP_E_INTERNAL, "plan() with %u inputs and %u outputs, the stage has %u and %u", plan->n_in,
                   plan->n_out, n_in, n_out);
  if (plan->batch < 0) return sp_fail(err, SP_E_RANGE, "plan() for a batch of %lld", (long long)plan->batch);
  for (uint32_t i = 0; i < n_in; i++) {
    const sp_port *p = &t->inputs[i];
    uint32_t n = plan->in[i].n;
    if (n == 0 && !(p->flags & (SP_PORT_OPTIONAL | SP_PORT_LIST)))
      return sp_fail(err, SP_E_INVALID, "input '%s' is not wired", p->name);
    if (n > 1 && !(p->flags & SP_PORT_LIST))
      return sp_fail(err, SP_E_INVALID, "input '%s' takes one tensor, got %u", p->name, n);
    if (n > SP_MAX_LIST)
      return sp_fail(err, SP_E_INVALID, "input '%s' takes at most %d tensors, got %u", p->name, SP_MAX_LIST, n);
    for (uint32_t k = 0; k < n; k++)
      if (check_spec(p, "input", k, &plan->in[i].spec[k], !plan->slices, err)) return err->status;
  }
  return SP_OK;
}

static int check_outputs(const sp_inst *inst, sp_plan *plan, sp_err *err) {
  for (uint32_t i = 0; i < plan->n_out; i++) {
    const sp_port *p = &inst->type->outputs[i];
    sp_speclist *out = &plan->out[i];
    if (!(p->flags & SP_PORT_LIST) && out->n != 1)
      return sp_fail(err, SP_E_INTERNAL, "output '%s' is one tensor, plan() gave %u", p->name, out->n);
    if (out->n > out->cap)
      return sp_fail(err, SP_E_INTERNAL, "output '%s': plan() gave %u tensors, there is room for %u", p->name, out->n,
                     out->cap);
    for (uint32_t k = 0; k < out->n; k++) {
      sp_spec *s = &out->spec[k];
      if (check_spec(p, "output", k, s, !plan->slices, err)) return err->status;
      for (int d = s->ndim; d < SP_MAX_DIMS; d++) s->shape[d] = 0;
      if ((p->flags & SP_PORT_STATUS) && s->shape[0] != 4)
        return sp_fail(err, SP_E_SHAPE, "output '%s': a STATUS port is int64[4]", p->name);
    }
  }
  return SP_OK;
}

static int check_weight(const sp_plan *plan, uint32_t i, sp_err *err) {
  const sp_weight *w = &plan->weights[i];
  uint32_t kind = w->flags & (SP_WEIGHT_TRAINED | SP_WEIGHT_STATE);
  if (!w->name || !*w->name) return sp_fail(err, SP_E_INTERNAL, "weight %u has no name", i + 1);
  for (uint32_t k = 0; k < i; k++)
    if (strcmp(plan->weights[k].name, w->name) == 0)
      return sp_fail(err, SP_E_INTERNAL, "weight '%s' is there twice", w->name);
  const sp_port any = {.name = w->name, .ndim = -1};
  if (check_spec(&any, "weight", 0, &w->spec, !plan->slices, err)) return err->status;
  if (w->flags & ~(kind | SP_WEIGHT_FACTORS) || kind == (SP_WEIGHT_TRAINED | SP_WEIGHT_STATE))
    return sp_fail(err, SP_E_INTERNAL, "weight '%s': flags 0x%x are neither TRAINED nor STATE nor 0", w->name,
                   w->flags);
  if (w->flags & SP_WEIGHT_FACTORS && (kind != SP_WEIGHT_TRAINED || !plan->n_factors || w->spec.dtype != SP_F32))
    return sp_fail(err, SP_E_INTERNAL, "weight '%s' has FACTORS, but %s", w->name,
                   !plan->n_factors ? "plan() gave none" : "is not trained, or not float32");
  if (w->init != SP_INIT_CONST && w->init != SP_INIT_UNIFORM)
    return sp_fail(err, SP_E_INTERNAL, "weight '%s': there is no initialisation %d", w->name, w->init);
  if (w->init == SP_INIT_UNIFORM && (!(w->init_value > 0) || w->spec.dtype != SP_F32))
    return sp_fail(err, SP_E_INTERNAL, "weight '%s': UNIFORM needs float32 and a fan-in above 0", w->name);
  if (w->reserved) return sp_fail(err, SP_E_INTERNAL, "weight '%s': the reserved word is not 0", w->name);
  if (w->part && (w->part >= plan->n_parts || !(w->flags & SP_WEIGHT_TRAINED)))
    return sp_fail(err, SP_E_INTERNAL, "weight '%s' is in part %u of backward(), of %u%s", w->name, w->part,
                   plan->n_parts, w->flags & SP_WEIGHT_TRAINED ? "" : ", but has no gradient");
  return SP_OK;
}

/* What plan() may say of a kind of stage only. */
static int check_kind(const sp_inst *inst, const sp_plan *plan, sp_err *err) {
  uint32_t flags = inst->type->flags;
  if (plan->length && (!(flags & SP_STAGE_SOURCE) || flags & SP_STAGE_REQUESTS))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave a length, but the type is %s",
                   flags & SP_STAGE_REQUESTS ? "one of REQUESTS" : "no SOURCE");
  if (plan->request_max && !(flags & SP_STAGE_REQUESTS))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave request_max, but the type is none of REQUESTS");
  if (plan->inplace > 1 || plan->restores > 1 || plan->stepless > 1 || plan->separate > 1)
    return sp_fail(err, SP_E_INTERNAL, "plan() gave inplace %u, restores %u, stepless %u and separate %u, not 0 or 1",
                   plan->inplace, plan->restores, plan->stepless, plan->separate);
  if (plan->separate && (!(flags & SP_STAGE_OPTIMIZER) || plan->restores))
    return sp_fail(err, SP_E_INTERNAL, "plan() set separate, but %s",
                   plan->restores ? "also restores, which looks at all gradients" : "the type is no OPTIMIZER");
  if (plan->stepless && flags & (SP_STAGE_SOURCE | SP_STAGE_OPTIMIZER))
    return sp_fail(err, SP_E_INTERNAL, "plan() set stepless, but a SOURCE needs ids, an OPTIMIZER the step");
  if (plan->inplace && (~flags & (SP_STAGE_OPTIMIZER | SP_STAGE_INPLACE_SGD)))
    return sp_fail(err, SP_E_INTERNAL, "plan() set inplace, but the type is no OPTIMIZER with INPLACE_SGD");
  if (plan->restores && (!(flags & SP_STAGE_OPTIMIZER) || plan->n_in < 2))
    return sp_fail(err, SP_E_INTERNAL, "plan() set restores, but the type is no OPTIMIZER with an input 1");
  return SP_OK;
}

/* Each part completes something. */
static int check_parts(const sp_inst *inst, sp_plan *plan, sp_err *err) {
  if (!plan->n_parts) plan->n_parts = 1;
  if (plan->n_parts > plan->max_parts || (plan->n_parts > 1 && (!plan->training || !inst->type->backward)))
    return sp_fail(err, SP_E_INTERNAL, "plan() cut backward() into %u parts where %u %s possible", plan->n_parts,
                   plan->max_parts, plan->max_parts == 1 ? "is" : "are");
  for (uint32_t part = 0; part < plan->n_parts && plan->n_parts > 1; part++) {
    bool any = false;
    for (uint32_t i = 0; i < plan->n_weights && !any; i++)
      any = plan->weights[i].part == part && plan->weights[i].flags & SP_WEIGHT_TRAINED;
    if (!any) return sp_fail(err, SP_E_INTERNAL, "no weight is in part %u of backward(), of %u", part, plan->n_parts);
  }
  return SP_OK;
}

static int check_factors(const sp_inst *inst, const sp_plan *plan, sp_err *err) {
  if (!plan->n_factors) return SP_OK;
  if (plan->n_factors > SP_MAX_FACTORS)
    return sp_fail(err, SP_E_INTERNAL, "plan() gave %u factors, but %d are the most", plan->n_factors, SP_MAX_FACTORS);
  if (!plan->factors || !inst->type->apply || plan->shards < 2 || !plan->training)
    return sp_fail(err, SP_E_INTERNAL, "plan() gave %u factors%s", plan->n_factors,
                   !plan->factors       ? " at NULL"
                   : !inst->type->apply ? ", but the type has no apply()"
                                        : ", where there may be none");
  for (uint32_t i = 0; i < plan->n_factors; i++) {
    const sp_factor *f = &plan->factors[i];
    const sp_port any = {.name = "rows", .ndim = 2, .flags = SP_PORT_LIST};
    sp_spec all = f->spec;
    if (check_spec(&any, "factor", i, &f->spec, 1, err)) return err->status;
    if (__builtin_mul_overflow(all.shape[0], (int64_t)plan->shards, &all.shape[0]) || sp_spec_bytes(&all) < 0 ||
        (f->spec.dtype != SP_F32 && f->spec.dtype != SP_BF16) || f->spec.order || f->forward > 1 ||
        f->part >= plan->n_parts || f->reserved[0] || f->reserved[1])
      return sp_fail(err, SP_E_INTERNAL,
                     "factor %u is not row-major float32 or bfloat16, or has a part or a flag that is none", i + 1);
  }
  return SP_OK;
}

/* What an optimizer says of slices of its gradients. */
static int check_slices(const sp_inst *inst, const sp_plan *plan, sp_err *err) {
  bool optimizer = inst->type->flags & SP_STAGE_OPTIMIZER;
  if (plan->slice > SP_MAX_SLICE || (plan->slice && !optimizer) || (plan->slices && !plan->slice))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave slices of %u elements%s", plan->slice,
                   optimizer ? "" : ", but the type is no OPTIMIZER");
  for (uint32_t i = 0; i < plan->n_weights; i++) {
    const sp_weight *w = &plan->weights[i];
    if (w->of && (!optimizer || w->of > plan->in->n || !sp_spec_equal(&w->spec, &plan->in->spec[w->of - 1])))
      return sp_fail(err, SP_E_INTERNAL, "weight '%s' is of gradient %u, but has not its spec", w->name, w->of);
  }
  return SP_OK;
}

/* One for each gradient, behind each other. */
static int check_averages(const sp_inst *inst, const sp_plan *plan, sp_err *err) {
  const sp_speclist *g = plan->in;
  if (!plan->averages) return SP_OK;
  if (!(inst->type->flags & SP_STAGE_OPTIMIZER))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave averages, but the type is no OPTIMIZER");
  if (plan->averages > plan->n_weights || g->n > plan->n_weights - (plan->averages - 1))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave averages of %u gradients from weight %u on, but has %u weights",
                   g->n, plan->averages, plan->n_weights);
  for (uint32_t i = 0; i < g->n; i++)
    if (!sp_spec_equal(&plan->weights[plan->averages - 1 + i].spec, &g->spec[i]))
      return sp_fail(err, SP_E_INTERNAL, "weight '%s' has not the spec of what it averages",
                     plan->weights[plan->averages - 1 + i].name);
  return SP_OK;
}

static int check_planned(const sp_inst *inst, sp_plan *plan, sp_err *err) {
  int rc = check_outputs(inst, plan, err);
  if (!rc) rc = check_kind(inst, plan, err);
  if (rc) return rc;
  if (plan->n_weights > WEIGHTS_MAX || (plan->n_weights && !plan->weights))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave %u weights%s", plan->n_weights, plan->weights ? "" : " at NULL");
  for (uint32_t i = 0; i < plan->n_weights; i++)
    if (check_weight(plan, i, err)) return err->status;
  if (check_parts(inst, plan, err) || check_factors(inst, plan, err)) return err->status;
  if (check_slices(inst, plan, err) || check_averages(inst, plan, err)) return err->status;
  if (plan->n_attrs > WEIGHTS_MAX || (plan->n_attrs && !plan->attrs))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave %u attributes%s", plan->n_attrs, plan->attrs ? "" : " at NULL");
  for (uint32_t i = 0; i < plan->n_attrs; i++)
    if (!plan->attrs[i].name || !*plan->attrs[i].name)
      return sp_fail(err, SP_E_INTERNAL, "attribute %u has no name", i + 1);
  if (plan->scratch_bytes > BYTES_MAX || plan->saved_bytes > BYTES_MAX || plan->const_bytes > BYTES_MAX)
    return sp_fail(err, SP_E_INTERNAL, "plan() asked for %zu scratch, %zu saved and %zu constant bytes",
                   plan->scratch_bytes, plan->saved_bytes, plan->const_bytes);
  if (plan->const_bytes && (!plan->frozen || !inst->type->prepare))
    return sp_fail(err, SP_E_INTERNAL, "plan() asked for %zu constant bytes although %s", plan->const_bytes,
                   plan->frozen ? "there is no prepare() to fill them" : "weights may be trained");
  if (plan->saved_bytes && !plan->training)
    return sp_fail(err, SP_E_INTERNAL, "plan() asked for %zu saved bytes although no backward() follows",
                   plan->saved_bytes);
  return SP_OK;
}

/* What plan() is to fill in, emptied. */
static int clear_plan(const sp_inst *inst, sp_plan *plan, sp_err *err) {
  plan->size = sizeof *plan;
  plan->weights = NULL;
  plan->attrs = NULL;
  plan->n_weights = plan->n_attrs = plan->n_factors = 0;
  plan->factors = NULL;
  plan->scratch_bytes = plan->saved_bytes = plan->const_bytes = 0;
  plan->length = plan->request_max = 0;
  plan->inplace = plan->restores = plan->stepless = plan->averages = plan->n_parts = plan->slice = plan->separate = 0;
  if (!plan->max_parts) plan->max_parts = 1;
  for (uint32_t i = 0; i < plan->n_out; i++) {
    bool list = inst->type->outputs[i].flags & SP_PORT_LIST;
    if (!list && plan->out[i].cap < 1)
      return sp_fail(err, SP_E_INTERNAL, "output '%s': no room for its spec", inst->type->outputs[i].name);
    plan->out[i].n = !list;
    memset(plan->out[i].spec, 0, plan->out[i].cap * sizeof *plan->out[i].spec);
  }
  return SP_OK;
}

int sp_inst_plan(sp_inst *inst, sp_plan *plan, sp_err *err) {
  int rc = enter_main(inst, "plan", err);
  if (rc) return prefix(inst, NO_STEP, err);
  rc = check_inputs(inst, plan, err);
  if (!rc) rc = clear_plan(inst, plan, err);
  if (!rc) {
    sp_ctx_holder holder;
    sp_ctx *ctx = sp_inst_ctx(&holder, inst, NULL, err);
    passage door;
    go_in(&door, inst, "plan", NO_STEP);
    rc = inst->type->plan(ctx, inst->self, plan);
    door.call.returned = true;
    rc = outcome("plan", rc, err);
    /* A plan that cannot be is the stage's fault, not the script's. */
    if (!rc && check_planned(inst, plan, err)) rc = err->status = SP_E_INTERNAL;
    inst->n_parts = rc ? 1 : plan->n_parts;
    come_out(&door);
  }
  leave(inst);
  if (rc) prefix(inst, NO_STEP, err);
  return rc;
}

int sp_inst_item(sp_inst *inst, const sp_attr *attr, uint64_t i, char *to, size_t size, sp_err *err) {
  if (!attr->item) return sp_fail(err, SP_E_INVALID, "%s: attribute '%s' is no list", inst->label, attr->name);
  if (i >= (uint64_t)attr->value)
    return sp_fail(err, SP_E_RANGE, "%s: '%s' has %.0f items, numbered from 0; there is no %llu", inst->label,
                   attr->name, attr->value, (unsigned long long)i);
  passage door;
  go_in(&door, inst, "item", NO_STEP);
  int n = attr->item(inst->self, i, to, size);
  door.call.returned = true;
  come_out(&door);
  if (n >= 0 && (size_t)n < size) return SP_OK;
  return sp_fail(err, SP_E_INTERNAL, "%s: item %llu of '%s' has %d bytes", inst->label, (unsigned long long)i,
                 attr->name, n);
}

void sp_status_text(const sp_stage_type *type, const int64_t status[4], sp_sb *out) {
  static const char *const places[] = {"%sample", "%value", "%limit"};
  const char *words = type->status_doc ? type->status_doc : "sample %sample: bad value %value", *second;
  if (status[0] != SP_E_DATA && (second = strchr(words, '\n'))) words = second + 1;
  while (*words && *words != '\n') {
    int hit = -1;
    for (int i = 0; i < 3; i++)
      if (!strncmp(words, places[i], strlen(places[i]))) hit = i;
    if (hit < 0) sp_sb_putf(out, "%c", *words++);
    else words += strlen(places[hit]);
    if (hit == 0) sp_sb_putf(out, "%lld", (long long)SP_ID_INDEX(status[1]));
    else if (hit > 0) sp_sb_putf(out, "%lld", (long long)status[1 + hit]);
  }
}

/* ---- prepare, forward, backward ---------------------------------------------------------------------------------- */

int sp_inst_prepare(sp_inst *inst, const sp_io *io, void *native, sp_err *err) {
  if (!inst->type->prepare) return SP_OK;
  int rc = enter_main(inst, "prepare", err);
  if (!rc) {
    sp_ctx_holder holder;
    sp_ctx *ctx = sp_inst_ctx(&holder, inst, native, err);
    passage door;
    go_in(&door, inst, "prepare", NO_STEP);
    rc = inst->type->prepare(ctx, inst->self, io);
    come_out(&door);
    rc = outcome("prepare", rc, err);
    leave(inst);
  }
  if (rc) prefix(inst, NO_STEP, err);
  return rc;
}

/* "forward", "backward"; "backward[1]", "apply[1]" where it is one of several. */
static const char *call_name(const sp_inst *inst, const char *what, const sp_io *io, char *text, size_t size) {
  if (inst->n_parts < 2 || strcmp(what, "forward") == 0) return what;
  snprintf(text, size, "%s[%u]", what, io->part);
  return text;
}

static int run(sp_inst *inst, const char *what, int (*fn)(sp_ctx *, void *, const sp_io *), const sp_io *io,
               uint64_t step, void *native, void *caller, sp_err *err) {
  int rc = enter(inst, what, err);
  if (!rc) {
    sp_ctx_holder holder;
    sp_ctx *ctx = sp_inst_ctx(&holder, inst, native, err);
    const sp_stage_host *host = inst->host;
    char text[32];
    const char *name = call_name(inst, what, io, text, sizeof text);
    const under_way call = {name, step, caller};
    holder.impl.call = &call;
    double begin = host->observe ? sp_now() : 0;
    passage door;
    go_in(&door, inst, name, step);
    rc = fn(ctx, inst->self, io);
    come_out(&door);
    rc = outcome(what, rc, err);
    if (rc && name != what) sp_prefix(err, "%s", name);
    leave(inst);
    if (host->observe) {
      sp_span span = {inst->name, name, step, begin, sp_now(), caller, -1};
      host->observe(host->observe_arg, &span);
    }
  }
  if (rc) prefix(inst, step, err);
  return rc;
}

int sp_inst_forward(sp_inst *inst, const sp_io *io, uint64_t step, void *native, void *caller, sp_err *err) {
  return run(inst, "forward", inst->type->forward, io, step, native, caller, err);
}

int sp_inst_backward(sp_inst *inst, const sp_io *io, uint64_t step, void *native, void *caller, sp_err *err) {
  if (!inst->type->backward) {
    sp_fail(err, SP_E_STATE, "backward() was called, but the stage has none");
    return prefix(inst, step, err);
  }
  return run(inst, "backward", inst->type->backward, io, step, native, caller, err);
}

int sp_inst_apply(sp_inst *inst, const sp_io *io, uint64_t step, void *native, void *caller, sp_err *err) {
  return run(inst, "apply", inst->type->apply, io, step, native, caller, err);
}

int sp_inst_survey(sp_inst *inst, const sp_io *io, uint64_t step, void *native, void *caller, sp_err *err) {
  return run(inst, "survey", inst->type->survey, io, step, native, caller, err);
}
