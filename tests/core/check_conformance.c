/* SPDX-License-Identifier: MIT
 * check_conformance.c - the conformance suite: each rule that a stage of tests/plugins breaks is named, and those that
 * keep the rules pass. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "check/conformance.h"
#include "host/stage.h"
#include "tests/kit/suite.h"

static sp_registry *reg;
static sp_stage_host host = {.threads = 3};

static void set_up(void) {
  sp_err err;
  ck_assert_int_eq(sp_registry_new(&reg, &err), SP_OK);
}

static void tear_down(void) { sp_registry_free(reg); }

static const sp_plugin_file *load(const char *name) {
  const sp_plugin_file *file;
  sp_err err;
  char path[512];
  snprintf(path, sizeof path, SP_TEST_BUILDDIR "/tests/plugins/.libs/%s.so", name);
  ck_assert_msg(sp_registry_load(reg, path, &file, &err) == SP_OK, "%s", err.msg);
  return file;
}

static sp_sb failures;
static int n_lines;
static void line(void *arg, sp_conform_result result, const char *stage, const char *what, const char *words) {
  (void)arg;
  n_lines++;
  if (result == SP_CONFORM_FAILED) sp_sb_putf(&failures, "%s: %s: %s\n", stage, what, words);
}

/* The suite names these among what is wrong with the module's stages; returns how much that is. */
static int finds(const char *module, const char *const *faults, size_t n) {
  int failed = sp_conformance(load(module), &(sp_conform){.host = &host}, line, NULL);
  const char *text = sp_sb_str(&failures);
  for (size_t i = 0; i < n; i++)
    ck_assert_msg(strstr(text, faults[i]) != NULL, "not found: %s\nin:\n%s", faults[i], text);
  return failed;
}

/* ... and nothing else. */
static void finds_all(const char *module, const char *const *faults, size_t n) {
  int failed = finds(module, faults, n);
  ck_assert_msg(failed == (int)n, "others, too:\n%s", sp_sb_str(&failures));
  sp_sb_free(&failures);
}

static const char *const found[] = {
    "no_words: forward() succeeds and stays within its buffers: stage 'no_words' (faulty.so) step 4: forward() failed: "
    "bad data",
    "no_status: forward() succeeds",
    "half_output: forward() writes all of its output",
    "overrun: forward() succeeds and stays within its buffers: forward() wrote before or behind an output (number 1)",
    "copies_on: forward() succeeds and stays within its buffers: forward() wrote before or behind an output (number 1)",
    "changes_input: forward() leaves its inputs as they are",
    "uses_scratch: forward() gives the same bits again",
    "no_acc: din_acc adds to what is there",
    "short_batch: forward() writes nothing behind the samples of a short batch",
    "bad_dtype: plan() with small inputs",
    "bad_extent: plan() with small inputs",
    "two_weights: plan() with small inputs",
    "has_length: plan() with small inputs",
    "is_inplace: plan() with small inputs",
    "restores: plan() with small inputs",
    "stepless: plan() with small inputs",
    "averages: plan() with small inputs",
    "slice: plan() with small inputs",
    "of: plan() with small inputs",
    "repeats: forward() gives the same bits whatever statistics it finds, as `repeats` says: tensor 1 of 1, byte 0",
};

START_TEST(finds_each_fault) {
  ck_assert_int_ge(finds("faulty", found, SP_ARRAY(found)), (int)SP_ARRAY(found));
  ck_assert_ptr_null(strstr(sp_sb_str(&failures), "good"));
  sp_sb_free(&failures);
  ck_assert_int_gt(n_lines, 60);
}
END_TEST

static const char *const found_in_parts[] = {
    "writes_other: backward() in parts completes in each its gradients, with the bits of one call: part 0 wrote the "
    "gradient of weight 'weight', which is in part 1",
    "unfinished: backward() in parts completes in each its gradients, with the bits of one call: part 0 leaves the "
    "gradient of weight 'bias' as it was",
    "forgets_parts: backward() in parts completes in each its gradients, with the bits of one call: part 1 leaves the "
    "gradient of weight 'weight' other than one call does",
    "fails_in_part: backward() in parts completes in each its gradients, with the bits of one call: stage "
    "'fails_in_part' (parts.so) step 4: backward[1]: asked to fail",
    "no_acc_parts: backward() in parts accumulates when asked: part 1 leaves",
    "reads_spent: backward() in parts reads no weight or gradient of an earlier part: the gradient of input 1",
    "too_many_parts: plan() when backward() may be in parts: ",
    "empty_part: plan() when backward() may be in parts: ",
    "no_such_part: plan() when backward() may be in parts: ",
};

START_TEST(finds_what_is_wrong_with_parts) { finds_all("parts", found_in_parts, SP_ARRAY(found_in_parts)); }
END_TEST

#define ROWS "factors: each pass writes its own rows, and zeros for samples that are not there: "
#define ROWS_IN_PARTS "factors, in parts: each pass writes its own rows, and zeros for samples that are not there: "
#define MAKES "apply() makes the gradients of all passes, and writes nothing else: "
#define MAKES_IN_PARTS "apply() in parts makes the gradients of all passes, and writes nothing else: "
#define ADDS "apply() adds them to the weights where it has no dweights: "
#define PLAN "plan() when a step has several shards: "

static const char *const found_in_factors[] = {
    "stale_rows: " ROWS "forward() leaves row 3 of factor 1 other than zero, with 3 of 6 samples",
    "no_rows: " ROWS "forward() leaves row 0 of factor 1 other than zero, with 0 of 6 samples",
    "busy: " ROWS "forward() changed an output, though there was no sample",
    "counts: " ROWS "backward() wrote the gradient of weight 'shift'",
    "half_rows: " ROWS "forward() leaves row 0 of factor 1 unwritten, with 6 of 6 samples",
    "early_rows: " ROWS "forward() wrote factor 2, which backward() is to write",
    "other_part: " ROWS_IN_PARTS "part 1 of backward() wrote factor 1, which was complete",
    "other_pass: " ROWS "forward() wrote rows of factor 1 that are another pass's",
    "other_shift: " ROWS "backward() gives weight 'shift' another gradient than without factors",
    "adds: " MAKES "apply() gives the gradient of weight 'weight' other than dw_scale times the sum of the plain",
    "no_scale: " MAKES "apply() gives the gradient of weight 'weight' other than",
    "one_pass: " MAKES "apply() gives the gradient of weight 'weight' other than",
    "all_weights: " MAKES_IN_PARTS "part 0 of apply() wrote the gradient of weight 'weight'",
    "reads_later: " MAKES_IN_PARTS "part 0 of apply() gives the gradient of weight 'bias' other than",
    "spoils: " MAKES "apply() changed a factor",
    "too_much: " MAKES "apply() changed weight 'weight'",
    "unsteady: " MAKES "apply() gives other bits for weight 'weight' a second time",
    "overwrites: " ADDS "apply() adds to weight 'weight' other than",
    "fails_to_apply: " MAKES "stage 'fails_to_apply' (factors.so) step 4: asked to fail",
    "no_apply: " PLAN,
    "not_asked: plan() with small inputs: ",
    "unlisted: " PLAN,
    "untrained: " PLAN,
    "doubles: " PLAN,
    "no_part: " PLAN,
    "too_early: " PLAN,
    "too_many_factors: " PLAN,
    "nowhere: " PLAN,
    "two_sides: " PLAN,
};

START_TEST(finds_what_is_wrong_with_factors) { finds_all("factors", found_in_factors, SP_ARRAY(found_in_factors)); }
END_TEST

/* Those that keep the rules are exercised, whole and in parts, with inputs large enough for factors. */
static int applied;
static void count_applied(void *arg, sp_conform_result result, const char *stage, const char *what, const char *words) {
  (void)arg, (void)words;
  applied += result == SP_CONFORM_OK && !strncmp(stage, "product", 7) && !strncmp(what, "apply()", 7);
}

START_TEST(calls_apply) {
  sp_conformance(load("factors"), &(sp_conform){.host = &host}, count_applied, NULL);
  ck_assert_int_eq(applied, 5 * 4);
}
END_TEST

#define PLANS "plan() of slices has the weights of the whole: "
#define SURVEYS "survey() writes a number for each part of its slices, by gradients alone: "
#define UPDATES "forward() of slices gives the bits of the whole: "

static const char *const found_in_slices[] = {
    "own_norm: " UPDATES "rank 0 of 3 leaves the weight of gradient 1 other than the whole does, in update 1",
    "as_they_lie: " UPDATES "rank 0 of 3 leaves",
    "in_blocks: " UPDATES "rank 1 of 3 leaves the weight of gradient 1",
    "first_is_special: " UPDATES "rank 1 of 3 leaves the weight of gradient 1",
    "forgets_moments: " UPDATES "rank 0 of 3 leaves its weight 'moment.0' other",
    "counts_some: " UPDATES "rank 2 of 3 leaves its weight 'step' other",
    "other_metric: " UPDATES "rank 0 of 3 leaves 'norm' other",
    "silent: " UPDATES "no rank has a status, where the whole has one",
    "short_survey: " SURVEYS "rank 1 does not write number 4 of 4",
    "looks: " SURVEYS "rank 0 gives other bits again, with other values in scratch, weights and moments",
    "spoils_gradients: " SURVEYS "rank 0 changes a gradient, a weight or what it keeps",
    "overruns: " SURVEYS "survey() wrote before or behind sums",
    "fails_to_survey: " SURVEYS "stage 'fails_to_survey' (slices.so) step 4: asked to fail",
    "spends: " UPDATES "rank 0 changes sums or sum_at",
    "other_slice: " PLANS "slice is 16, of the whole 8",
    "other_names: " PLANS "weight 1 is 'slice.0', of the whole 'moment.0', or",
    "fewer: " PLANS "there are 3 weights, of the whole 4",
    "whole_moment: " PLANS "stage 'whole_moment' (slices.so): weight 'moment.0' is of gradient 1, but has not its spec",
    "no_more: " PLANS "stage 'no_more' (slices.so): plan() gave slices of 0 elements",
};

START_TEST(finds_what_is_wrong_with_slices) { finds_all("slices", found_in_slices, SP_ARRAY(found_in_slices)); }
END_TEST

/* Those that keep the rules are exercised. */
static sp_sb sliced;
static void list_sliced(void *arg, sp_conform_result result, const char *stage, const char *what, const char *words) {
  (void)arg, (void)words;
  if (result == SP_CONFORM_OK && !strncmp(what, "forward() of slices", 19)) sp_sb_putf(&sliced, "%s ", stage);
}

START_TEST(updates_slices) {
  sp_conformance(load("slices"), &(sp_conform){.host = &host}, list_sliced, NULL);
  ck_assert_str_eq(sp_sb_str(&sliced), "clips clips_not ");
  sp_sb_free(&sliced);
}
END_TEST

#define CALLS "forward() in several calls gives the bits of one: update "

static const char *const found_in_updates[] = {
    "counts_each: " CALLS "1 in 3 calls leaves 'weights' other",
    "empties_status: " CALLS
    "3 in 3 calls leaves 'status' other than one call does; a gradient of the first is not finite",
    "looks_at_all: " CALLS "1 in 3 calls leaves 'weights' other",
    "counts_late: " CALLS "1 in 3 calls leaves 'weights' other",
    "ignores_groups: forward() honours the factors of groups: update 1: a weight whose factors are 0 changes",
    "one_group_for_all: forward() honours the factors of groups: update 1: a weight whose factors are 0 changes",
};

START_TEST(finds_what_is_wrong_with_updates) { finds_all("updates", found_in_updates, SP_ARRAY(found_in_updates)); }
END_TEST

int main(void) {
  Suite *s = suite_create("conformance");
  TCase *tc = tcase_create("conformance");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, set_up, tear_down);
  tcase_add_test(tc, finds_each_fault);
  tcase_add_test(tc, finds_what_is_wrong_with_parts);
  tcase_add_test(tc, finds_what_is_wrong_with_factors);
  tcase_add_test(tc, calls_apply);
  tcase_add_test(tc, finds_what_is_wrong_with_slices);
  tcase_add_test(tc, updates_slices);
  tcase_add_test(tc, finds_what_is_wrong_with_updates);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
