/* SPDX-License-Identifier: MIT
 * check_stage.c - the door into a stage: words, prefixes, overlap, threads, and what plan() may give. */
#include <check.h>
#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <spcore/ext/parallel.h>

#include "host/stage.h"
#include "tests/kit/suite.h"

static sp_registry *reg;
static sp_stage_host host = {.threads = 3};
static sp_inst *inst;
static sp_err err;

static void set_up(void) {
  static const char *const names[] = {"faulty", "parts", "factors"};
  ck_assert_int_eq(sp_registry_new(&reg, &err), SP_OK);
  for (size_t i = 0; i < SP_ARRAY(names); i++) {
    char path[512];
    const sp_plugin_file *file;
    snprintf(path, sizeof path, SP_TEST_BUILDDIR "/tests/plugins/.libs/%s.so", names[i]);
    ck_assert_msg(sp_registry_load(reg, path, &file, &err) == SP_OK, "%s", err.msg);
  }
}

static void tear_down(void) {
  sp_inst_free(inst);
  inst = NULL;
  sp_registry_free(reg);
}

static void open_stage(const char *stage) {
  const sp_stage_type *t;
  const sp_plugin_file *f;
  ck_assert_int_eq(sp_registry_stage(reg, stage, "cpu", &t, &f, &err), SP_OK);
  int rc = sp_inst_new(&inst, &host, "it", t, f, NULL, NULL, &err);
  ck_assert_msg(rc == SP_OK, "%s", err.msg);
}

static float x[24], y[24];
static sp_spec spec = {.dtype = SP_F32, .ndim = 4, .shape = {6, 2, 2, 1}};
static sp_step step = {.n = 6};

static int forward(void) {
  sp_tensor tx = {spec, x}, ty = {spec, y};
  sp_list in = {.n = 1, .t = &tx}, out = {.n = 1, .t = &ty};
  float scratch[16] = {0};
  sp_io io = {.size = sizeof io, .step = &step, .n_in = 1, .n_out = 1, .in = &in, .out = &out, .scratch = scratch};
  return sp_inst_forward(inst, &io, 124, NULL, NULL, &err);
}

static sp_plan plan;
static uint32_t max_parts, shards;
static int do_plan(const sp_spec *in_spec, uint32_t n, int training) {
  static sp_spec ins[2], outs[2];
  static sp_speclist in, out;
  ins[0] = ins[1] = *in_spec;
  in = (sp_speclist){n, 2, ins};
  out = (sp_speclist){0, 2, outs};
  plan = (sp_plan){.n_in = 1, .n_out = 1, .batch = 6, .in = &in, .out = &out, .training = (uint32_t)training};
  plan.max_parts = max_parts;
  plan.shards = shards;
  return sp_inst_plan(inst, &plan, &err);
}

static const struct {
  const char *stage;
  int status;
  const char *words;
} fails[] = {
    {"no_words", SP_E_DATA, "stage 'it' (faulty.so) step 125: forward() failed: bad data"},
    {"no_status", SP_E_INTERNAL, "stage 'it' (faulty.so) step 125: forward() returned 7, which is no status"},
    {"words_but_ok", SP_E_INTERNAL,
     "stage 'it' (faulty.so) step 125: forward() said that it failed, but returned SP_OK: something is amiss"},
    {"two_fails", SP_E_DATA, "stage 'it' (faulty.so) step 125: the first words"},
};

START_TEST(failures_have_words_and_a_prefix) {
  open_stage(fails[_i].stage);
  ck_assert_int_eq(forward(), fails[_i].status);
  ck_assert_int_eq(err.status, fails[_i].status);
  ck_assert_str_eq(err.msg, fails[_i].words);
}
END_TEST

START_TEST(a_good_call) {
  open_stage("good");
  for (int i = 0; i < 24; i++) x[i] = (float)i;
  err.status = SP_E_DATA; /* of an earlier call: not this one's */
  ck_assert_int_eq(forward(), SP_OK);
  ck_assert_float_eq(y[23], 46);
  ck_assert_int_eq(inst->busy, 0);
}
END_TEST

static bool default_mode(void) {
  volatile float small = 1e-30f, smaller = small * 1e-10f; /* a denormal number */
  return fegetround() == FE_TONEAREST && smaller > 0;
}

START_TEST(a_stage_leaves_no_floating_point_mode) {
  open_stage("rounds");
  ck_assert(default_mode());
  ck_assert_int_eq(do_plan(&spec, 1, 0), SP_OK);
  ck_assert(default_mode());
  ck_assert_int_eq(forward(), SP_OK);
  ck_assert(default_mode());
  fesetround(FE_DOWNWARD); /* nor takes it one away */
  ck_assert_int_eq(forward(), SP_OK);
  ck_assert_int_eq(fegetround(), FE_DOWNWARD);
  fesetround(FE_TONEAREST);
  sp_inst_free(inst);
  inst = NULL;
  ck_assert(default_mode());
}
END_TEST

START_TEST(parameters_are_named_with_the_stage) {
  sp_value v = {0};
  const sp_stage_type *t;
  const sp_plugin_file *f;
  ck_assert_int_eq(sp_registry_stage(reg, "good", "cpu", &t, &f, &err), SP_OK);
  *sp_value_put(&v, "gain") = (sp_value){.type = SP_V_INT, .i = 11};
  ck_assert_int_eq(sp_inst_new(&inst, &host, "it", t, f, &v, NULL, &err), SP_E_RANGE);
  ck_assert_str_eq(err.msg, "stage 'it' (faulty.so): parameter 'gain': 11 is above 10");
  ck_assert_ptr_null(inst);
  sp_value_free(&v);
}
END_TEST

START_TEST(overlapping_calls_are_refused) {
  open_stage("good");
  inst->busy = -1; /* as if another lane were inside */
  ck_assert_int_eq(forward(), SP_E_STATE);
  ck_assert_str_eq(err.msg,
                   "stage 'it' (faulty.so) step 125: forward() was called while another call of this instance is in "
                   "flight");
  ck_assert_int_eq(do_plan(&spec, 1, 1), SP_E_STATE);
  inst->busy = 0;
  ck_assert_int_eq(forward(), SP_OK);
}
END_TEST

START_TEST(reentrant_calls_may_overlap_but_not_with_plan) {
  open_stage("good_reentrant");
  inst->busy = 1;
  ck_assert_int_eq(forward(), SP_OK);
  ck_assert_int_eq(inst->busy, 1);
  ck_assert_int_eq(do_plan(&spec, 1, 1), SP_E_STATE);
  inst->busy = 0;
  ck_assert_int_eq(do_plan(&spec, 1, 1), SP_OK);
  ck_assert_int_eq(inst->busy, 0);
}
END_TEST

static void *plan_elsewhere(void *arg) {
  *(int *)arg = do_plan(&spec, 1, 1);
  return NULL;
}

static void *forward_elsewhere(void *arg) {
  *(int *)arg = forward();
  return NULL;
}

START_TEST(plan_belongs_to_the_main_thread) {
  pthread_t thread;
  int rc = 0;
  open_stage("good");
  pthread_create(&thread, NULL, plan_elsewhere, &rc);
  pthread_join(thread, NULL);
  ck_assert_int_eq(rc, SP_E_STATE);
  ck_assert_str_eq(err.msg, "stage 'it' (faulty.so): plan() was called on another thread than create()");
  pthread_create(&thread, NULL, forward_elsewhere, &rc);
  pthread_join(thread, NULL);
  ck_assert_int_eq(rc, SP_OK);
}
END_TEST

START_TEST(a_good_plan) {
  open_stage("good");
  ck_assert_int_eq(do_plan(&spec, 1, 0), SP_OK);
  ck_assert(sp_spec_equal(&plan.out[0].spec[0], &spec));
  ck_assert_uint_eq(plan.size, sizeof plan);
  ck_assert_uint_eq(plan.scratch_bytes, 64);
}
END_TEST

static const struct {
  const char *stage;
  sp_spec in;
  uint32_t n;
  const char *words;
} plans[] = {
    {"good",
     {.dtype = SP_U8, .ndim = 4, .shape = {8, 3, 64, 64}},
     1,
     "stage 'it' (faulty.so): input 'x' is float32 with 4 dimensions, got uint8[8,3,64,64]"},
    {"good",
     {.dtype = SP_F32, .ndim = 2, .shape = {8, 3}},
     1,
     "stage 'it' (faulty.so): input 'x' is float32 with 4 dimensions, got float32[8,3]"},
    {"good",
     {.dtype = SP_F32, .ndim = 4, .shape = {8, 0, 1, 1}},
     1,
     "stage 'it' (faulty.so): input 'x': float32[8,0,1,1]: extent 1 is 0"},
    {"good", {.dtype = SP_F32, .ndim = 4, .shape = {INT64_MAX, 3, 1, 1}}, 1, "too large to count its bytes"},
    {"good", {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}, .order = 0x0133}, 1, "the order is no permutation"},
    {"good", {.dtype = SP_F32, .ndim = 9}, 1, "9 dimensions, at most 8 are possible"},
    {"good", {.dtype = 77, .ndim = 4, .shape = {8, 3, 1, 1}}, 1, "there is no data type 77"},
    {"good", {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}}, 0, "stage 'it' (faulty.so): input 'x' is not wired"},
    {"good", {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}}, 2, "input 'x' takes one tensor, got 2"},
    {"good",
     {.dtype = SP_F32, .ndim = 4, .shape = {8, 101, 1, 1}},
     1,
     "stage 'it' (faulty.so): at most 100 channels, got 101"},
    {"bad_dtype",
     {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}},
     1,
     "output 'y' is float32 with 4 dimensions, got uint8[8,3,1,1]"},
    {"bad_extent",
     {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}},
     1,
     "output 'y': float32[8,0,1,1]: extent 1 is 0"},
    {"forgets", {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}}, 1, "output 'y': there is no data type 0"},
    {"two_weights", {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}}, 1, "weight '0.weight' is there twice"},
    {"saved", {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}}, 1, "4 saved bytes although no backward() follows"},
    {"has_length",
     {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}},
     1,
     "plan() gave a length, but the type is no SOURCE"},
    {"is_inplace", {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}}, 1, "set inplace, but the type is no OPTIMIZER"},
    {"restores", {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}}, 1, "set restores, but the type is no OPTIMIZER"},
    {"stepless",
     {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}},
     1,
     "stepless 2, separate 0, grouped 0 and repeats 0, not 0 or 1"},
    {"separate",
     {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}},
     1,
     "plan() set separate, but the type is no OPTIMIZER"},
    {"averages", {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}}, 1, "gave averages, but the type is no OPTIMIZER"},
    {"slice",
     {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}},
     1,
     "slices of 1 elements, but the type is no OPTIMIZER"},
    {"of",
     {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 1, 1}},
     1,
     "weight 'kept' is of gradient 1, but has not its spec"},
};

START_TEST(plans_are_checked) {
  open_stage(plans[_i].stage);
  ck_assert_int_lt(do_plan(&plans[_i].in, plans[_i].n, 0), 0);
  ck_assert_msg(strstr(err.msg, plans[_i].words) != NULL, "%s", err.msg);
}
END_TEST

START_TEST(parts_are_the_hosts_to_allow) {
  open_stage("cut");
  ck_assert_int_eq(do_plan(&spec, 1, 1), SP_OK);
  ck_assert_uint_eq(plan.max_parts, 1);
  ck_assert_uint_eq(plan.n_parts, 1);
  max_parts = 4;
  ck_assert_int_eq(do_plan(&spec, 1, 0), SP_OK);
  ck_assert_uint_eq(plan.n_parts, 1);
  ck_assert_int_eq(do_plan(&spec, 1, 1), SP_OK);
  ck_assert_uint_eq(plan.n_parts, 2);
  ck_assert_uint_eq(plan.weights[0].part, 1);
  ck_assert_uint_eq(plan.weights[1].part, 0);
}
END_TEST

START_TEST(a_stage_that_knows_no_parts_has_one) {
  max_parts = 4;
  open_stage("good");
  ck_assert_int_eq(do_plan(&spec, 1, 1), SP_OK);
  ck_assert_uint_eq(plan.n_parts, 1);
}
END_TEST

static const struct {
  const char *stage, *words;
} cuts[] = {
    {"too_many_parts", "stage 'it' (parts.so): plan() cut backward() into 5 parts where 4 are possible"},
    {"empty_part", "stage 'it' (parts.so): no weight is in part 1 of backward(), of 2"},
    {"no_such_part", "stage 'it' (parts.so): weight 'weight' is in part 2 of backward(), of 2"},
};

START_TEST(parts_are_checked) {
  max_parts = 4;
  open_stage(cuts[_i].stage);
  ck_assert_int_eq(do_plan(&spec, 1, 1), SP_E_INTERNAL);
  ck_assert_str_eq(err.msg, cuts[_i].words);
}
END_TEST

START_TEST(factors_are_the_hosts_to_ask_for) {
  open_stage("product");
  max_parts = 2;
  ck_assert_int_eq(do_plan(&spec, 1, 1), SP_OK);
  ck_assert_uint_eq(plan.n_factors, 0);
  shards = 2;
  ck_assert_int_eq(do_plan(&spec, 1, 0), SP_OK);
  ck_assert_uint_eq(plan.n_factors, 0);
  ck_assert_int_eq(do_plan(&spec, 1, 1), SP_OK);
  ck_assert_uint_eq(plan.n_factors, 2);
  ck_assert_uint_eq(plan.weights[0].flags, SP_WEIGHT_TRAINED | SP_WEIGHT_FACTORS);
  shards = 1;
  ck_assert_int_eq(do_plan(&spec, 1, 1), SP_OK);
  ck_assert_uint_eq(plan.n_factors, 0);
}
END_TEST

static const struct {
  const char *stage;
  uint32_t shards;
  const char *words;
} unfit[] = {
    {"no_apply", 2, "stage 'it' (factors.so): plan() gave 2 factors, but the type has no apply()"},
    {"not_asked", 1, "stage 'it' (factors.so): plan() gave 2 factors, where there may be none"},
    {"nowhere", 2, "stage 'it' (factors.so): plan() gave 2 factors at NULL"},
    {"too_many_factors", 2, "stage 'it' (factors.so): plan() gave 1025 factors, but 1024 are the most"},
    {"unlisted", 2, "stage 'it' (factors.so): weight 'weight' has FACTORS, but plan() gave none"},
    {"untrained", 2, "stage 'it' (factors.so): weight 'statistic' has FACTORS, but is not trained, or not float32"},
    {"doubles", 2,
     "stage 'it' (factors.so): factor 1 is not row-major float32 or bfloat16, or has a part or a flag that is none"},
    {"two_sides", 2,
     "stage 'it' (factors.so): factor 1 is not row-major float32 or bfloat16, or has a part or a flag that is none"},
    {"no_part", 2,
     "stage 'it' (factors.so): factor 2 is not row-major float32 or bfloat16, or has a part or a flag that is none"},
    {"too_early", 2,
     "stage 'it' (factors.so): factor 2 is not row-major float32 or bfloat16, or has a part or a flag that is none"},
};

START_TEST(factors_are_checked) {
  shards = unfit[_i].shards;
  open_stage(unfit[_i].stage);
  ck_assert_int_eq(do_plan(&spec, 1, 1), SP_E_INTERNAL);
  ck_assert_str_eq(err.msg, unfit[_i].words);
}
END_TEST

static sp_span seen;
static char seen_what[32];
static void observe(void *arg, const sp_span *span) {
  ck_assert_ptr_eq(arg, &seen);
  seen = *span;
  snprintf(seen_what, sizeof seen_what, "%s", span->what);
}

START_TEST(calls_are_timed_for_an_observer) {
  host.observe = observe;
  host.observe_arg = &seen;
  open_stage("good");
  ck_assert_int_eq(forward(), SP_OK);
  host.observe = NULL;
  ck_assert_str_eq(seen.instance, "it");
  ck_assert_str_eq(seen_what, "forward");
  ck_assert_uint_eq(seen.step, 124);
  ck_assert(seen.end >= seen.begin && seen.begin > 0);
}
END_TEST

static int backward(uint32_t part) {
  static float w[2], dw[2], scratch;
  const sp_spec scalar = {.dtype = SP_F32};
  sp_tensor tx = {spec, x}, none = {spec, NULL}, weights[] = {{scalar, &w[0]}, {scalar, &w[1]}},
            dweights[] = {{scalar, &dw[0]}, {scalar, &dw[1]}};
  sp_list in = {.n = 1, .t = &tx}, nothing = {.n = 1, .t = &none};
  sp_io io = {.size = sizeof io, .step = &step, .n_in = 1, .n_out = 1, .n_weights = 2, .in = &in, .dout = &nothing};
  io.din = &nothing;
  io.weights = weights;
  io.dweights = dweights;
  io.scratch = &scratch;
  io.part = part;
  return sp_inst_backward(inst, &io, 124, NULL, NULL, &err);
}

START_TEST(a_part_is_named) {
  max_parts = 4;
  host.observe = observe;
  host.observe_arg = &seen;
  open_stage("fails_in_part");
  ck_assert_int_eq(do_plan(&spec, 1, 1), SP_OK);
  ck_assert_int_eq(backward(0), SP_OK);
  ck_assert_str_eq(seen_what, "backward[0]");
  ck_assert_int_eq(backward(1), SP_E_DATA);
  ck_assert_str_eq(err.msg, "stage 'it' (parts.so) step 125: backward[1]: asked to fail");
  host.observe = NULL;
}
END_TEST

static int count_item(void *arg, int64_t i, int worker) {
  (void)worker;
  __atomic_fetch_add((int64_t *)arg, i, __ATOMIC_RELAXED);
  return 0;
}

/* As plugin.h says of the members of sp_io: of all that a stage has a call is given what is of its kind. */
START_TEST(calls_are_given_what_is_of_their_kind) {
  static const struct {
    sp_call_kind kind;
    bool ports, told, dout, dweights, saved, sums;
  } all[] = {{SP_CALL_FORWARD, true, true, false, false, true, true},
             {SP_CALL_BACKWARD, true, true, true, true, true, false},
             {SP_CALL_APPLY, false, false, false, true, false, false},
             {SP_CALL_SURVEY, true, true, false, false, true, true},
             {SP_CALL_PREPARE, true, false, false, false, true, false}};
  sp_list lists[8];
  sp_tensor w, dw, f;
  sp_step told;
  uint64_t ids;
  char memory[3];
  double sums;
  uint32_t sum_at;
  float scale;
  const uint8_t acc = 1, *const acc_of[] = {&acc};
  const sp_io_parts given = {true, 1,      3,     lists, acc_of,     1,          1,          &w,    &dw,     &f, true,
                             2,    &scale, &told, &ids,  &memory[0], &memory[1], &memory[2], &sums, &sum_at, 7};
  for (size_t i = 0; i < SP_ARRAY(all); i++) {
    sp_io io;
    sp_io_fill(&io, all[i].kind, &given);
    ck_assert(io.size == sizeof io && io.training && io.n_weights == 1 && io.weights == &w && io.part == 2);
    ck_assert(io.n_in == (all[i].ports ? 1 : 0) && io.n_out == (all[i].ports ? 3 : 0));
    ck_assert(io.in == (all[i].ports ? lists : NULL) && io.out == (all[i].ports ? lists + 1 : NULL));
    ck_assert(io.dout == (all[i].dout ? lists + 4 : NULL) && io.din == (all[i].ports ? lists + 7 : NULL));
    ck_assert(io.din_acc == (all[i].ports ? acc_of : NULL) && io.dw_acc);
    ck_assert(io.dw_scale == (all[i].kind == SP_CALL_PREPARE ? NULL : &scale));
    ck_assert(io.step == (all[i].told ? &told : NULL) && io.ids == (all[i].told ? &ids : NULL));
    ck_assert(io.dweights == (all[i].dweights ? &dw : NULL) && io.factors == &f && io.n_factors == 1);
    ck_assert(io.scratch == &memory[0] && io.saved == (all[i].saved ? &memory[1] : NULL) && io.consts == &memory[2]);
    ck_assert(io.sums == (all[i].sums ? &sums : NULL) && io.n_sums == (all[i].sums ? 7 : 0));
  }
}
END_TEST

START_TEST(the_parallel_extension) {
  sp_stage_host with = {.threads = 3};
  sp_ctx_holder holder;
  int64_t sum = 0;
  ck_assert_int_eq(sp_team_new(&with.team, 4, &err), SP_OK);
  sp_stage_type type = {.name = "it"};
  sp_inst fake = {.name = "it", .label = "stage 'it'", .type = &type, .host = &with};
  sp_ctx *ctx = sp_ctx_for(&holder, "a device", &err);
  ck_assert_ptr_null(ctx->host->get_extension(ctx, SP_EXT_PARALLEL)); /* a device has none */
  ctx = sp_inst_ctx(&holder, &fake, NULL, &err);
  const sp_parallel *par = ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  ck_assert_ptr_nonnull(par);
  ck_assert_uint_eq(par->size, sizeof *par);
  ck_assert_int_eq(par->threads(ctx), 3);
  ck_assert_int_eq(par->run(ctx, 0, 100, count_item, &sum), SP_OK);
  ck_assert_int_eq(sum, 4950);
  ck_assert_ptr_null(ctx->host->get_extension(ctx, "spcore.nothing/1"));
  with.threads = 1;
  sp_team_free(with.team);
  with.team = NULL;
  ck_assert_ptr_null(ctx->host->get_extension(ctx, SP_EXT_PARALLEL));
}
END_TEST

int main(void) {
  Suite *s = suite_create("stage");
  TCase *tc = tcase_create("stage");
  tcase_set_timeout(tc, 60); /* under TSan */
  tcase_add_checked_fixture(tc, set_up, tear_down);
  tcase_add_loop_test(tc, failures_have_words_and_a_prefix, 0, (int)SP_ARRAY(fails));
  tcase_add_test(tc, a_good_call);
  tcase_add_test(tc, a_stage_leaves_no_floating_point_mode);
  tcase_add_test(tc, parameters_are_named_with_the_stage);
  tcase_add_test(tc, overlapping_calls_are_refused);
  tcase_add_test(tc, reentrant_calls_may_overlap_but_not_with_plan);
  tcase_add_test(tc, plan_belongs_to_the_main_thread);
  tcase_add_test(tc, a_good_plan);
  tcase_add_loop_test(tc, plans_are_checked, 0, (int)SP_ARRAY(plans));
  tcase_add_test(tc, parts_are_the_hosts_to_allow);
  tcase_add_test(tc, a_stage_that_knows_no_parts_has_one);
  tcase_add_loop_test(tc, parts_are_checked, 0, (int)SP_ARRAY(cuts));
  tcase_add_test(tc, factors_are_the_hosts_to_ask_for);
  tcase_add_loop_test(tc, factors_are_checked, 0, (int)SP_ARRAY(unfit));
  tcase_add_test(tc, a_part_is_named);
  tcase_add_test(tc, calls_are_timed_for_an_observer);
  tcase_add_test(tc, calls_are_given_what_is_of_their_kind);
  tcase_add_test(tc, the_parallel_extension);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
