/* SPDX-License-Identifier: MIT
 * check_fold.c - a frozen network's batch norms, sums and activations, several of each, are all folded, and so are maps
 * that are enlarged to be joined, of any; what may not be is not. */
#include "plugins/kits/nn/ops/axis.h"
#include "plugins/kits/nn/lower/lower.h"
#include "plugins/kits/nn/ops/row.h"
#include "tests/kit/suite.h"

#include <check.h>
#include <string.h>

enum { C = 32, MAX = 20 };

static nn_value values[MAX];
static nn_op ops[MAX];
static uint8_t keep[MAX];
static sp_weight weights[MAX * 8];
static const nn_target target = {0};

static nn_net empty(void) {
  nn_net net = {.values = values, .ops = ops, .weights = weights, .n_values = 1};
  memset(keep, 0, sizeof keep);
  for (int i = 0; i < MAX; i++) values[i] = (nn_value){C, 8, 8, 0};
  return net;
}

static int add(nn_net *net, nn_op op) {
  op.out = net->n_values++;
  op.w = net->n_weights;
  net->n_weights += op.kind == NN_BATCH_NORM ? 5 : 1;
  net->ops[net->n_ops++] = op;
  return op.out;
}

static int conv(nn_net *net, int in) {
  return add(net,
             (nn_op){.kind = NN_CONV, .in = in, .k = {3, 3}, .s = {1, 1}, .p = {1, 1}, .dil = {1, 1}, .groups = 1});
}

static int norm(nn_net *net, int in, int relu) {
  return add(net, (nn_op){.kind = NN_BATCH_NORM, .in = in, .relu = relu, .eps = 1e-5});
}

static int sum(nn_net *net, int a, int b) {
  return add(net, (nn_op){.kind = NN_ADD, .in = a, .more = {b}, .n_more = 1, .relu = 1});
}

START_TEST(blocks) { /* two residual blocks, the second one with a convolution beside */
  nn_net net = empty();
  int first = norm(&net, conv(&net, 0), 1), a = norm(&net, conv(&net, first), 0), one = sum(&net, a, first);
  int b = norm(&net, conv(&net, one), 0), beside = norm(&net, conv(&net, one), 0), two = sum(&net, b, beside);
  keep[two] = 1;
  nn_fold(&net, &target, keep, 1);
  ck_assert_int_eq(net.n_ops, 4);
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(net.ops[i].kind, NN_CONV);
    ck_assert_int_eq(net.ops[i].norm, net.ops[i].w + 2); /* from 1: the weight behind the convolution's */
    ck_assert_int_eq(net.ops[i].relu, i != 2);
  }
  ck_assert_int_eq(net.ops[1].more[0], first);
  ck_assert_int_eq(net.ops[1].out, one);
  ck_assert_int_eq(net.ops[3].more[0], b);
  ck_assert_int_eq(net.ops[3].out, two);
}
END_TEST

START_TEST(stays) { /* a map that somebody else reads, before a norm, and before a sum */
  nn_net net = empty();
  int raw = conv(&net, 0), normed = norm(&net, raw, 0), more = conv(&net, normed), all = sum(&net, more, normed);
  keep[raw] = keep[more] = keep[all] = 1;
  nn_fold(&net, &target, keep, 1);
  ck_assert_int_eq(net.n_ops, 4);
  for (int i = 0; i < 4; i++) ck_assert_int_eq(net.ops[i].norm, 0);
}
END_TEST

static int twice(nn_net *net, int in, int last) {
  int up = add(net, (nn_op){.kind = NN_UPSAMPLE, .in = in, .mode = NN_NEAREST});
  values[up].h = values[in].h * 2, values[up].w = values[in].w * 2;
  return last ? add(net, (nn_op){.kind = NN_CONCAT, .in = last, .more = {up}, .n_more = 1}) : up;
}

START_TEST(joined) { /* one that nobody else sees, one of two readers, one that is kept, one of a single pixel */
  static const nn_target enlarges = {.enlarges = 1};
  for (int frozen = 0; frozen < 2; frozen++) {
    nn_net net = empty();
    int a = conv(&net, 0), b = conv(&net, 0);
    values[a].h = values[a].w = 4;
    int one = twice(&net, a, b), seen = twice(&net, a, 0);
    sum(&net, seen, one);
    int two = add(&net, (nn_op){.kind = NN_CONCAT, .in = b, .more = {seen}, .n_more = 1});
    int kept = twice(&net, a, 0), three = add(&net, (nn_op){.kind = NN_CONCAT, .in = b, .more = {kept}, .n_more = 1});
    keep[kept] = keep[two] = keep[three] = 1;
    int point = conv(&net, 0);
    values[point].h = values[point].w = 1;
    twice(&net, point, b);
    int before = net.n_ops;
    nn_fold(&net, &target, keep, frozen);
    ck_assert_int_eq(net.n_ops, before);
    nn_fold(&net, &enlarges, keep, frozen);
    ck_assert_int_eq(net.n_ops, before - 1);
    ck_assert_int_eq(net.ops[2].kind, NN_CONCAT);
    ck_assert_int_eq(net.ops[2].more[0], a);
  }
}
END_TEST

#define ACT(net, ID, from) add(net, (nn_op){.kind = NN_##ID, .act = NN_ACT_##ID, .in = from})

START_TEST(acts) { /* only those behind a convolution, which nobody else reads and no port shows, are folded */
  static const nn_target can = {.acts = 1, .apart = 1};
  for (int on = 0; on < 2; on++) {
    nn_net net = empty();
    int a = conv(&net, 0), b = ACT(&net, SILU, a);
    int c = ACT(&net, HARD_SWISH, norm(&net, conv(&net, b), 0));
    int read = conv(&net, c), both = sum(&net, ACT(&net, SILU, read), read);
    int other = ACT(&net, SIGMOID, conv(&net, both)), again = ACT(&net, SILU, other);
    int lit = ACT(&net, SILU, norm(&net, conv(&net, again), 1));
    int shown = conv(&net, lit);
    keep[shown] = keep[ACT(&net, SILU, shown)] = 1;
    int before = net.n_ops;
    nn_fold(&net, on ? &can : &target, keep, 1);
    ck_assert_int_eq(net.n_ops, before - 2 - 2 * on); /* two norms */
    ck_assert_int_eq(net.ops[0].act, on ? NN_ACT_SILU : NN_ACT_NONE);
    ck_assert_int_eq(net.ops[0].out, on ? b : a);
    ck_assert_int_eq(net.ops[2 - on].act, on ? NN_ACT_HARD_SWISH : NN_ACT_NONE);
    for (int i = 4 - 2 * on; i < net.n_ops; i++) ck_assert(net.ops[i].kind != NN_CONV || net.ops[i].act == NN_ACT_NONE);
  }
}
END_TEST

START_TEST(acts_in_a_row) { /* a convolution applies one */
  static const nn_target can = {.acts = 1, .apart = 1};
  nn_net net = empty();
  int first = ACT(&net, HARD_SWISH, conv(&net, 0)), second = ACT(&net, SILU, first), third = ACT(&net, SILU, second);
  keep[third] = 1;
  nn_fold(&net, &can, keep, 1);
  ck_assert_int_eq(net.n_ops, 3);
  ck_assert_int_eq(net.ops[0].act, NN_ACT_HARD_SWISH);
  ck_assert_int_eq(net.ops[0].out, first);
  ck_assert_int_eq(net.ops[1].in, first);
  ck_assert_int_eq(net.ops[1].out, second);
  ck_assert_int_eq(net.ops[2].out, third);
}
END_TEST

START_TEST(acts_that_stay) { /* behind a convolution, whose ReLU and whose activations they are not */
  static const nn_target can = {.acts = 1, .apart = 1};
  int n = 0;
  for (int kind = 0; kind < NN_KINDS; kind++) {
    int may = nn_rows[kind]->folds == NN_FOLDS_ACT;
    if (nn_rows[kind]->exec != NN_X_ACT) continue;
    nn_net net = empty();
    int y = add(&net, (nn_op){.kind = (enum nn_kind)kind, .act = NN_ACT_SIGMOID, .in = conv(&net, 0)});
    keep[y] = 1;
    nn_fuse(&net, keep);
    nn_fold(&net, &can, keep, 1);
    ck_assert_int_eq(net.n_ops, 2 - may);
    ck_assert_int_eq(net.ops[0].act, may ? NN_ACT_SIGMOID : NN_ACT_NONE);
    ck_assert(!net.ops[0].relu);
    n += !may;
  }
  ck_assert_int_ge(n, 2);
}
END_TEST

/* A word that is no field would refuse the field that it is to be. */
START_TEST(fields) {
  for (int kind = 0; kind < NN_KINDS; kind++) {
    char words[128] = "", *next = words;
    if (nn_rows[kind]->fields) strcpy(words, nn_rows[kind]->fields);
    for (char *word; (word = strtok_r(next, " ", &next)) != NULL;) {
      const sp_param *field = nn_layer_fields;
      while (field->name && strcmp(field->name, word) != 0) field++;
      ck_assert_msg(field->name != NULL, "%s: %s", nn_words[kind], word);
    }
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("fold");
  TCase *t = tcase_create("fold");
  tcase_add_test(t, blocks);
  tcase_add_test(t, stays);
  tcase_add_test(t, joined);
  tcase_add_test(t, acts);
  tcase_add_test(t, acts_in_a_row);
  tcase_add_test(t, acts_that_stay);
  tcase_add_test(t, fields);
  suite_add_tcase(s, t);
  return suite_run(s);
}
