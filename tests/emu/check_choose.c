/* SPDX-License-Identifier: MIT
 * check_choose.c - which way computes a job: what is measured, in which order, and what of it is kept. The job is the
 * backward of a product, which is done at once or part by part; its kernels do not run, a function here says how long
 * each takes. / */
#include "../../plugins/kits/nn/cuda/ways/conv.h"
#include "../../plugins/kits/nn/cuda/ways/gemm.h"
#include "kernel_kit.h"

#include <stdarg.h>
#include <stdio.h>

static char kept[SP_CUDA_VALUE_MAX], refused[SP_CUDA_VALUE_MAX], tried[256], words[256];

static int tuned(sp_ctx *ctx, const char *key, char *value, size_t bytes) {
  (void)ctx;
  (void)key;
  if (!*kept) return SP_E_NOTFOUND;
  snprintf(value, bytes, "%s", kept);
  return SP_OK;
}

static int set_tuned(sp_ctx *ctx, const char *key, const char *not_this, char *value, size_t bytes) {
  (void)ctx;
  (void)key;
  (void)bytes;
  snprintf(kept, sizeof kept, "%s", value);
  snprintf(refused, sizeof refused, "%s", not_this ? not_this : "");
  return SP_OK;
}

static void say(sp_ctx *ctx, int level, const char *format, ...) {
  (void)ctx;
  (void)level;
  (void)format;
}

static int fail_with(sp_ctx *ctx, int status, const char *format, ...) {
  va_list args;
  (void)ctx;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  return status;
}

static int patch_can, separate_can;

static int run(void *arg) {
  const nnc_job *job = arg;
  int patch = job->by->way == &nnc_way_patch;
  const char *word = patch ? " patch" : " separate";
  if (!strstr(tried, word)) strcat(tried, word);
  return !(patch ? patch_can : separate_can);
}

typedef struct outcome {
  int status;
  const nnc_way *way;
  unsigned does;
} outcome;

static outcome choose(const char *was, int patch, int separate, unsigned has, size_t shared) {
  sp_host host = {.log = say, .fail = fail_with};
  sp_cuda ext = {.tuned = tuned, .set_tuned = set_tuned};
  sp_ctx ctx = {.host = &host};
  nn_cuda cuda = {.ext = &ext, .precision = SP_PRECISION_TF32};
  nnc_call c = {.w = {.ctx = &ctx}, .cuda = &cuda};
  nn_product p = {.m = 131072, .n = 64, .k = 32, .elt = NNK_F32};
  nn_xop op = {.x = NN_X_GEMM};
  nnc_choice by = {NULL};
  nnc_whole b = {.job = {.c = &c, .op = &op, .of = NNC_WHOLE, .part = NNC_BACKWARD, .by = &by, .timed = run}};
  outcome is;
  cudaStream_t stream;
  kit_ok(cudaStreamCreate(&stream));
  c.stream = stream;
  b.data.p = &p;
  cuda.device = (nnc_device){.multiprocessors = KIT_SMS, .shared_bytes = shared, .has = has};
  snprintf(kept, sizeof kept, "%s", was);
  *refused = *tried = *words = 0;
  patch_can = patch, separate_can = separate;
  is.status = nnc_choose(&b.job, "a backward");
  is.way = by.way, is.does = by.does;
  kit_ok(cudaStreamDestroy(stream));
  return is;
}

#define all(was, patch, separate) choose(was, patch, separate, NNC_HAS_TF32, KIT_SHARED)

/* All that take the job are measured, in the order of ways.list, and what is chosen is kept. */
START_TEST(measures) {
  outcome is = all("", 1, 1);
  ck_assert_int_eq(is.status, SP_OK);
  ck_assert_str_eq(tried, " separate patch");
  ck_assert_str_eq(kept, is.way->texts[0]);
  ck_assert_str_eq(refused, "");
  ck_assert_uint_eq(is.does, is.way->does);
}
END_TEST

/* What is kept holds, and nothing is measured. */
START_TEST(keeps) {
  outcome is = all("separate", 1, 1);
  ck_assert_str_eq(tried, "");
  ck_assert(is.way == &nnc_way_separate && !is.status);
  is = all("patch", 1, 1);
  ck_assert_str_eq(tried, "");
  ck_assert(is.way == &nnc_way_patch && !is.status);
}
END_TEST

/* A text of no way, or of one that does not take the job here, is measured again. */
START_TEST(refuses) {
  outcome is = all("skinny", 1, 0);
  ck_assert_str_eq(refused, "skinny");
  ck_assert(is.way == &nnc_way_patch && is.does & NNC_ALL && !is.status);
  is = choose("patch", 1, 1, 0, KIT_SHARED);
  ck_assert_str_eq(refused, "patch");
  ck_assert_str_eq(tried, " separate");
  ck_assert(is.way == &nnc_way_separate && !is.status);
  is = choose("patch", 1, 1, NNC_HAS_TF32, 48 << 10);
  ck_assert(is.way == &nnc_way_separate && !is.status);
}
END_TEST

/* One that cannot run is no candidate; none that can is an error, with words. */
START_TEST(cannot) {
  outcome is = all("", 0, 1);
  ck_assert(is.way == &nnc_way_separate && !is.status);
  is = all("", 1, 0);
  ck_assert(is.way == &nnc_way_patch && !is.status);
  is = all("", 0, 0);
  ck_assert_int_eq(is.status, SP_E_UNSUPPORTED);
  ck_assert_str_eq(words, "there is no way to compute a backward");
  ck_assert_str_eq(kept, "");
}
END_TEST

/* Jobs that a way takes by their shape, and what of a device it needs for that. */
enum { TF32 = NNC_HAS_TF32, BF16 = NNC_HAS_BF16, GROUPS = NNC_HAS_WARP_GROUPS };
static const struct {
  const nnc_way *way;
  int part, precision, elt;
  int64_t m, n, k;
  unsigned needs;
} products[] = {{&nnc_way_skinny, NNC_FORWARD, SP_PRECISION_FP32, NNK_F32, 32, 1000, 512, 0},
                {&nnc_way_outer, NNC_UPDATE, SP_PRECISION_TF32, NNK_F32, 256, 64, 128, TF32},
                {&nnc_way_masked, NNC_DATA, SP_PRECISION_TF32, NNK_F32, 64, 32, 128, TF32},
                {&nnc_way_wide, NNC_FORWARD, SP_PRECISION_BF16, NNK_BF16, 1024, 128, 64, GROUPS}};

/* A network of one op, whose product or convolution reads 16 x 16 pixels of four samples. */
typedef struct network {
  nn_xop op;
  nn_cop cop;
  nn_cuda cuda;
  nnc_call c;
} network;

static void set_up(network *net, int precision) {
  *net = (network){.op = {.d = {.k = {1, 1}, .s = {1, 1}, .dil = {1, 1}}}, .cuda = {.precision = precision}};
  net->cuda.cops = &net->cop;
  net->cuda.low.ops = &net->op;
  net->cop.at[NNC_WAY_WIDE] = net->cop.at[NNC_WAY_FIRST] = 64;
  net->c.cuda = &net->cuda;
}

static const int capabilities[] = {75, 80, 89, 90, 100, 120};
enum { DEVICES = sizeof capabilities / sizeof *capabilities };

static void agrees(const nnc_way *way, const nnc_job *job, unsigned needs) {
  for (int i = 0; i < DEVICES; i++) {
    nnc_device device = nnc_device_of(&(sp_cuda){.capability = capabilities[i], .shared_bytes = KIT_SHARED});
    int takes = way->takes(job, &device), wanted = (device.has & needs) == needs;
    ck_assert_msg(takes == wanted, "way %d on %d: %d instead of %d", way->id, capabilities[i], takes, wanted);
  }
}

START_TEST(facts) {
  network net;
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    nn_product p = {.m = products[i].m, .n = products[i].n, .k = products[i].k, .elt = products[i].elt, .masks = 32};
    nnc_gemm a = {.job = {.c = &net.c, .op = &net.op, .of = NNC_PRODUCT, .part = products[i].part}, .p = &p};
    set_up(&net, products[i].precision);
    p.part = products[i].part;
    a.dx.c = 32;
    a.y = (nnk_map){NULL, products[i].elt, 0, 4, p.n, 16, 16};
    agrees(products[i].way, &a.job, products[i].needs);
  }
}
END_TEST

START_TEST(facts_of_convolutions) {
  network net;
  nn_dconv p = {.a = {NULL, NNK_BF16, 0, 4, 64, 16, 16}};
  nnc_conv a = {.job = {.c = &net.c, .op = &net.op, .of = NNC_CONVOLUTION, .part = NNC_FORWARD}, .p = &p};
  set_up(&net, SP_PRECISION_BF16);
  a.y = p.a;
  agrees(&nnc_way_wide, &a.job, GROUPS);
  agrees(&nnc_way_first, &a.job, BF16);
  net.op.d.n_more = 1; /* the first convolution's kernel has no sum */
  agrees(&nnc_way_first, &a.job, 1u << 31);
  net.cop.at[NNC_WAY_WIDE] = 0; /* no weights in its order: the plan has found another shape */
  agrees(&nnc_way_wide, &a.job, 1u << 31);
}
END_TEST

START_TEST(facts_of_groups) {
  network net;
  nn_val vals[4] = {{.elt = NN_BF16, .c = 64, .h = 16, .w = 16}, {.elt = NN_BF16, .c = 256, .h = 16, .w = 16}};
  nnc_group group = {.way = &nnc_way_neck, .op = {0, 0, -1, 0}, .in = {0, 1}, .out = {2, 3}};
  nnc_group_job a = {{.c = &net.c, .op = &net.op, .of = NNC_GROUP, .part = NNC_FORWARD}, &group};
  vals[2] = vals[1], vals[3] = vals[0];
  set_up(&net, SP_PRECISION_BF16);
  net.cuda.low.vals = vals;
  net.c.w.n = 4;
  agrees(&nnc_way_neck, &a.job, GROUPS);
  group.way = &nnc_way_stem;
  agrees(&nnc_way_neck, &a.job, 1u << 31);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("choose");
  TCase *c = tcase_create("choose");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, measures);
  tcase_add_test(c, keeps);
  tcase_add_test(c, refuses);
  tcase_add_test(c, cannot);
  tcase_add_test(c, facts);
  tcase_add_test(c, facts_of_convolutions);
  tcase_add_test(c, facts_of_groups);
  suite_add_tcase(suite, c);
  return kit_run(suite);
}
