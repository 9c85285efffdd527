/* SPDX-License-Identifier: MIT
 * stage.c - the only door into a stage's code: context, thread checks, error prefix, timing. */
#include "host/stage_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crash.h"
#include "base/shared.h"

/* ---- the door ---------------------------------------------------------------------------------------------------- */

#define NO_STEP SP_CRASH_NO_STEP

static const char *file_of(const sp_inst *inst) {
  const char *path = inst->file ? inst->file->path : "", *base = strrchr(path, '/');
  return base ? base + 1 : path;
}

/* "stage 'NAME' (FILE.so) step N: " in front of err's words. */
static int prefix(const sp_inst *inst, uint64_t step, sp_err *err) {
  char file[80] = "", at[32] = "";
  if (inst->file) snprintf(file, sizeof file, " (%.72s)", file_of(inst));
  if (step != NO_STEP) snprintf(at, sizeof at, " step %llu", (unsigned long long)sp_step_said(step));
  return sp_prefix(err, "stage '%s'%s%s", inst->name, file, at);
}

/* What is around a call into the stage's code. */
typedef struct passage {
  sp_crash_call call;
  sp_fpmode mode;
} passage;

static void go_in(passage *p, const sp_inst *inst, const char *what, uint64_t step) {
  p->call = (sp_crash_call){.stage = inst->name, .file = file_of(inst), .what = what, .step = step};
  p->mode = sp_fpmode_get();
  sp_crash_enter(&p->call);
}

static void come_out(const passage *p) {
  sp_crash_leave();
  sp_fpmode_set(p->mode);
}

/* The same of a call that is made seldom, on the thread of the script: it leaves the process as it was. */
typedef struct visit {
  passage door;
  sp_shared before;
} visit;

static void begin_visit(visit *v, const sp_inst *inst, const char *what) {
  sp_shared_note(&v->before);
  go_in(&v->door, inst, what, NO_STEP);
}

static void end_visit(visit *v, const sp_inst *inst) {
  char call[256];
  sp_crash_leave();
  snprintf(call, sizeof call, "%.100s (%.72s): %s()", inst->label, file_of(inst), v->door.call.what);
  sp_shared_restore(&v->before, file_of(inst), call);
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
  holder->impl.stage = inst->type->name;
  holder->impl.extension = sp_stage_extension;
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
    visit call;
    begin_visit(&call, inst, "create");
    rc = type->create(ctx, inst->params.data, &inst->self);
    end_visit(&call, inst);
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
  visit call;
  begin_visit(&call, inst, "destroy");
  inst->type->destroy(inst->self);
  end_visit(&call, inst);
  sp_params_free(&inst->params);
  free_names(inst);
}

/* ---- plan -------------------------------------------------------------------------------------------------------- */

int sp_inst_plan(sp_inst *inst, sp_plan *plan, sp_err *err) {
  int rc = enter_main(inst, "plan", err);
  if (rc) return prefix(inst, NO_STEP, err);
  rc = sp_plan_prepare(inst, plan, err);
  if (!rc) {
    sp_ctx_holder holder;
    sp_ctx *ctx = sp_inst_ctx(&holder, inst, NULL, err);
    visit call;
    begin_visit(&call, inst, "plan");
    rc = inst->type->plan(ctx, inst->self, plan);
    call.door.call.returned = true;
    rc = outcome("plan", rc, err);
    /* A plan that cannot be is the stage's fault, not the script's. */
    if (!rc && sp_plan_check(inst, plan, err)) rc = err->status = SP_E_INTERNAL;
    inst->n_parts = rc ? 1 : plan->n_parts;
    end_visit(&call, inst);
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

/* The line of the words that is for this status: the first for SP_E_DATA, a third for SP_E_INVALID, the second for what
 * is left; or the last before it. */
static const char *status_line(const char *words, int64_t status) {
  for (int more = status == SP_E_DATA ? 0 : status == SP_E_INVALID ? 2 : 1; more > 0; more--) {
    const char *next = strchr(words, '\n');
    if (next) words = next + 1;
  }
  return words;
}

static float float_of(int64_t bits) {
  uint32_t low = (uint32_t)bits;
  float v;
  memcpy(&v, &low, sizeof v);
  return v;
}

void sp_status_text(const sp_stage_type *type, const int64_t status[4], sp_sb *out) {
  static const char *const places[] = {"%sample", "%value", "%limit", "%float"};
  const char *words = type->status_doc ? type->status_doc : "sample %sample: bad value %value";
  words = status_line(words, status[0]);
  while (*words && *words != '\n') {
    int hit = -1;
    for (int i = 0; i < 4; i++)
      if (!strncmp(words, places[i], strlen(places[i]))) hit = i;
    if (hit < 0) sp_sb_putf(out, "%c", *words++);
    else words += strlen(places[hit]);
    if (hit == 0) sp_sb_putf(out, "%lld", (long long)SP_ID_INDEX(status[1]));
    else if (hit == 3) sp_sb_putf(out, "%g", (double)float_of(status[2]));
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
    visit call;
    begin_visit(&call, inst, "prepare");
    rc = inst->type->prepare(ctx, inst->self, io);
    end_visit(&call, inst);
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
    const sp_under_way call = {name, step, caller};
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

int sp_inst_call(sp_inst *inst, sp_call_kind kind, const sp_io *io, uint64_t step, void *native, void *caller,
                 sp_err *err) {
  switch (kind) {
    case SP_CALL_BACKWARD: return sp_inst_backward(inst, io, step, native, caller, err);
    case SP_CALL_APPLY: return sp_inst_apply(inst, io, step, native, caller, err);
    case SP_CALL_SURVEY: return sp_inst_survey(inst, io, step, native, caller, err);
    default: return sp_inst_forward(inst, io, step, native, caller, err);
  }
}
