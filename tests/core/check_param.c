/* SPDX-License-Identifier: MIT
 * check_param.c - parameter tables: what is filled in, what is refused and in which words. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "host/param.h"
#include "tests/kit/harness.h"
#include "tests/kit/suite.h"

typedef struct layer {
  int32_t kind;
  int64_t channels, kernel;
} layer;

typedef struct params {
  int32_t shuffle, mode;
  int64_t size, must;
  double lr, decay;
  const char *path;
  sp_ints dims;
  sp_floats mean;
  sp_structs layers;
} params;

static const char *const kinds[] = {"conv", "relu", NULL}, *const modes[] = {"exact", "roi_align", NULL};
#define AT(m) .offset = offsetof(params, m)
static const sp_param layer_table[] = {{.name = "kind",
                                        .type = SP_PARAM_CHOICE,
                                        .flags = SP_PARAM_FIRST | SP_PARAM_REQUIRED,
                                        .offset = offsetof(layer, kind),
                                        .choices = kinds},
                                       {.name = "kernel",
                                        .type = SP_PARAM_INT,
                                        .offset = offsetof(layer, kernel),
                                        .idef = 3,
                                        .imin = 1,
                                        .imax = 64,
                                        .unit = "px"},
                                       {.name = "channels",
                                        .type = SP_PARAM_INT,
                                        .flags = SP_PARAM_FIRST,
                                        .offset = offsetof(layer, channels),
                                        .idef = 8,
                                        .imin = 1,
                                        .imax = 65536},
                                       {0}};
static const sp_param table[] = {
    {.name = "shuffle", .type = SP_PARAM_BOOL, AT(shuffle), .idef = 1},
    {.name = "mode", .type = SP_PARAM_CHOICE, AT(mode), .choices = modes, .idef = 1},
    {.name = "size", .type = SP_PARAM_INT, AT(size), .idef = 128, .imin = 1, .imax = 4096, .unit = "px"},
    {.name = "must", .type = SP_PARAM_INT, AT(must), .flags = SP_PARAM_REQUIRED, .doc = "how many"},
    {.name = "lr", .type = SP_PARAM_FLOAT, AT(lr), .flags = SP_PARAM_LIVE, .def = 1e-3, .min = 0, .max = 1},
    {.name = "decay", .type = SP_PARAM_FLOAT, AT(decay), .flags = SP_PARAM_LIVE, .def = 0.5},
    {.name = "path", .type = SP_PARAM_STRING, AT(path), .def_str = "shapes"},
    {.name = "dims",
     .type = SP_PARAM_INTS,
     AT(dims),
     .def_str = "256,128",
     .imin = 1,
     .imax = 1024,
     .min_n = 1,
     .max_n = 2},
    {.name = "mean", .type = SP_PARAM_FLOATS, AT(mean)},
    {.name = "layers",
     .type = SP_PARAM_LIST,
     AT(layers),
     .fields = layer_table,
     .fields_size = sizeof(layer),
     .max_n = 3},
    {0}};

static sp_params filled;
static sp_err err;

static int fill(const char *text) {
  sp_value v = {0};
  ck_assert_int_eq(spt_table(&v, text, &err), SP_OK);
  int rc = sp_params_fill(&filled, table, sizeof(params), &v, &err);
  sp_value_free(&v);
  return rc;
}

static const params *good(const char *text) {
  int rc = fill(text);
  ck_assert_msg(rc == SP_OK, "%s: %s", text, err.msg);
  return filled.data;
}

START_TEST(defaults) {
  const params *p = good("{ must = 5 }");
  ck_assert_int_eq(p->shuffle, 1);
  ck_assert_int_eq(p->mode, 1);
  ck_assert_int_eq(p->size, 128);
  ck_assert_int_eq(p->must, 5);
  ck_assert_double_eq(p->lr, 1e-3);
  ck_assert_str_eq(p->path, "shapes");
  ck_assert_uint_eq(p->dims.n, 2);
  ck_assert_int_eq(p->dims.v[0], 256);
  ck_assert_int_eq(p->dims.v[1], 128);
  ck_assert_uint_eq(p->mean.n, 0);
  ck_assert_uint_eq(p->layers.n, 0);
  sp_params_free(&filled);
}
END_TEST

START_TEST(values) {
  const params *p =
      good("{ must = 1, shuffle = false, mode = \"exact\", size = 64.0, lr = 1, path = \"a b\", dims = 7, "
           "mean = { 1, 2.5 }, layers = { { \"conv\", 64, kernel = 5 }, { kind = \"relu\" } } }");
  ck_assert_int_eq(p->shuffle, 0);
  ck_assert_int_eq(p->mode, 0);
  ck_assert_int_eq(p->size, 64);
  ck_assert_double_eq(p->lr, 1);
  ck_assert_str_eq(p->path, "a b");
  ck_assert_uint_eq(p->dims.n, 1);
  ck_assert_int_eq(p->dims.v[0], 7);
  ck_assert_uint_eq(p->mean.n, 2);
  ck_assert_double_eq(p->mean.v[1], 2.5);
  const layer *l = p->layers.v;
  ck_assert_uint_eq(p->layers.n, 2);
  ck_assert_int_eq(l[0].kind, 0);
  ck_assert_int_eq(l[0].channels, 64);
  ck_assert_int_eq(l[0].kernel, 5);
  ck_assert_int_eq(l[1].kind, 1);
  ck_assert_int_eq(l[1].channels, 8);
  ck_assert_int_eq(l[1].kernel, 3);
  sp_params_free(&filled);
}
END_TEST

static const struct {
  const char *text, *words;
} refused[] = {
    {"{ }", "parameter 'must' is required: how many"},
    {"{ must = 1, szie = 3 }", "unknown parameter 'szie', did you mean 'size'?"},
    {"{ must = 1, quux = 3 }",
     "unknown parameter 'quux', there are: shuffle, mode, size, must, lr, decay, path, dims, mean, layers"},
    {"{ must = 1, size = 0 }", "parameter 'size': 0 is below 1 px"},
    {"{ must = 1, size = 5000 }", "parameter 'size': 5000 is above 4096 px"},
    {"{ must = 1, size = 2.5 }", "parameter 'size': expected an integer, got 2.5"},
    {"{ must = 1, size = 1e300 }", "parameter 'size': expected an integer, got 1e+300"},
    {"{ must = 1, size = \"x\" }", "parameter 'size': expected an integer, got \"x\""},
    {"{ must = true }", "parameter 'must': expected an integer, got true"},
    {"{ must = 1, shuffle = 1 }", "parameter 'shuffle': expected true or false, got 1"},
    {"{ must = 1, path = 5 }", "parameter 'path': expected a string, got 5"},
    {"{ must = 1, mode = \"exakt\" }", "parameter 'mode': \"exakt\" is none of: exact, roi_align"},
    {"{ must = 1, mode = 0 }", "parameter 'mode': 0 is none of: exact, roi_align"},
    {"{ must = 1, dims = { 1, 2, 3 } }", "parameter 'dims': expected 1 to 2 values, got 3"},
    {"{ must = 1, dims = { 1, 0 } }", "parameter 'dims[2]': 0 is below 1"},
    {"{ must = 1, dims = { w = 1 } }",
     "parameter 'dims': expected an integer or a list of them, got a table with the key 'w'"},
    {"{ must = 1, layers = { { \"conv\", 8, kernel = 0 } } }", "parameter 'layers[1].kernel': 0 is below 1 px"},
    {"{ must = 1, layers = { { \"conv\" }, { \"pool\" } } }",
     "parameter 'layers[2].kind': \"pool\" is none of: conv, relu"},
    {"{ must = 1, layers = { { channels = 3 } } }", "parameter 'layers[1].kind' is required"},
    {"{ must = 1, layers = { { \"conv\", 8, 9 } } }", "parameter 'layers[1][3]': 9 needs a name, write NAME = VALUE"},
    {"{ must = 1, layers = { { \"conv\", kind = \"relu\" } } }",
     "parameter 'layers[1].kind' is given twice: as [1] and by name"},
    {"{ must = 1, layers = { { \"conv\", kernal = 2 } } }",
     "unknown parameter 'layers[1].kernal', did you mean 'kernel'?"},
    {"{ must = 1, layers = { 5 } }", "parameter 'layers[1]': expected a table, got 5"},
    {"{ must = 1, layers = { {\"relu\"}, {\"relu\"}, {\"relu\"}, {\"relu\"} } }",
     "parameter 'layers': expected 0 to 3 values, got 4"},
    {"{ 4, must = 1 }", "parameter '[1]': 4 needs a name, write NAME = VALUE"},
};

/* A list of tables of one parameter takes bare values, and one value. */
START_TEST(bare) {
  static const sp_param one[] = {{.name = "name", .type = SP_PARAM_STRING, .flags = SP_PARAM_FIRST}, {0}};
  static const sp_param list[] = {
      {.name = "from", .type = SP_PARAM_LIST, .fields = one, .fields_size = sizeof(char *), .max_n = 2}, {0}};
  static const struct {
    const char *text, *words;
    uint32_t n;
  } cases[] = {{"{ from = \"a\" }", NULL, 1},
               {"{ from = { \"a\", { \"b\" } } }", NULL, 2},
               {"{ from = { { name = \"a\" } } }", NULL, 1},
               {"{ from = 3 }", "parameter 'from': expected a string, got 3", 0},
               {"{ from = { \"a\", 3 } }", "parameter 'from[2]': expected a string, got 3", 0},
               {"{ from = { \"a\", \"b\", \"c\" } }", "parameter 'from': expected 0 to 2 values, got 3", 0}};
  for (size_t i = 0; i < SP_ARRAY(cases); i++) {
    sp_value v = {0};
    ck_assert_int_eq(spt_table(&v, cases[i].text, &err), SP_OK);
    int rc = sp_params_fill(&filled, list, sizeof(sp_structs), &v, &err);
    sp_value_free(&v);
    ck_assert_int_eq(rc != SP_OK, cases[i].words != NULL);
    if (cases[i].words) {
      ck_assert_str_eq(err.msg, cases[i].words);
      continue;
    }
    const sp_structs *got = filled.data;
    ck_assert_uint_eq(got->n, cases[i].n);
    ck_assert_str_eq(((const char *const *)got->v)[0], "a");
    if (got->n > 1) ck_assert_str_eq(((const char *const *)got->v)[1], "b");
    sp_params_free(&filled);
  }
}
END_TEST

START_TEST(refusals) {
  ck_assert_int_lt(fill(refused[_i].text), 0);
  ck_assert_str_eq(err.msg, refused[_i].words);
  ck_assert_ptr_null(filled.data);
}
END_TEST

START_TEST(no_number_and_infinite_are_refused) {
  const double odd[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 3; i++) {
    sp_value v = {0};
    *sp_value_put(&v, "must") = (sp_value){.type = SP_V_INT, .i = 1};
    *sp_value_put(&v, "decay") = (sp_value){.type = SP_V_NUM, .d = odd[i]};
    ck_assert_int_eq(sp_params_fill(&filled, table, sizeof(params), &v, &err), SP_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "parameter 'decay': expected a finite number, got "));
    sp_value_put(&v, "decay")->type = SP_V_NIL;
    *sp_value_put(&v, "size") = (sp_value){.type = SP_V_NUM, .d = odd[i]};
    ck_assert_int_eq(sp_params_fill(&filled, table, sizeof(params), &v, &err), SP_E_INVALID);
    sp_value_free(&v);
  }
}
END_TEST

START_TEST(live_parameters) {
  const sp_param *e;
  float live[SP_MAX_LIVE];
  const params *p = good("{ must = 1, lr = 0.25 }");
  ck_assert_int_eq(sp_params_live(table, p, live), 2);
  ck_assert_float_eq(live[0], 0.25f);
  ck_assert_float_eq(live[1], 0.5f);
  ck_assert_int_eq(sp_params_find_live(table, "decay", &e), 1);
  ck_assert_str_eq(e->name, "decay");
  ck_assert_int_eq(sp_params_find_live(table, "size", NULL), -1);
  sp_params_free(&filled);
}
END_TEST

START_TEST(the_table_itself_is_right) {
  int rc = sp_params_check_table(table, sizeof(params), &err);
  ck_assert_msg(rc == SP_OK, "%s", err.msg);
  ck_assert_int_eq(sp_params_check_table(NULL, 0, &err), SP_OK);
}
END_TEST

static const struct {
  sp_param e;
  const char *words;
} wrong_tables[] = {
    {{.name = "Size", .type = SP_PARAM_INT}, "the name is not"},
    {{.name = "x", .type = 99}, "there is no type 99"},
    {{.name = "x", .type = SP_PARAM_INT, .offset = 12}, "lie outside the struct of 16 bytes"},
    {{.name = "x", .type = SP_PARAM_INT, .offset = SIZE_MAX - 3}, "lie outside"},
    {{.name = "x", .type = SP_PARAM_INT, .offset = 4}, "offset 4 is not aligned"},
    {{.name = "x", .type = SP_PARAM_INT, .flags = 1u << 20}, "unknown flags"},
    {{.name = "x", .type = SP_PARAM_INT, .flags = SP_PARAM_LIVE}, "only a FLOAT can be LIVE"},
    {{.name = "x", .type = SP_PARAM_INT, .flags = SP_PARAM_FIRST}, "can be FIRST"},
    {{.name = "x", .type = SP_PARAM_INT, .imin = 2, .imax = 1}, "above the largest"},
    {{.name = "x", .type = SP_PARAM_INT, .imin = 1, .imax = 9}, "bad default: parameter 'x': 0 is below 1"},
    {{.name = "x", .type = SP_PARAM_INT, .def = 1}, "def, min and max are of FLOAT; other types have idef, imin, imax"},
    {{.name = "x", .type = SP_PARAM_INTS, .max = 9}, "def, min and max are of FLOAT"},
    {{.name = "x", .type = SP_PARAM_FLOAT, .imin = -1}, "idef is of INT, BOOL and CHOICE, imin and imax are of INT"},
    {{.name = "x", .type = SP_PARAM_INTS, .idef = 1}, "idef is of INT, BOOL and CHOICE"},
    {{.name = "x", .type = SP_PARAM_FLOAT, .min = 2, .max = 1}, "the smallest value 2 is above the largest 1"},
    {{.name = "x", .type = SP_PARAM_BOOL, .idef = 2}, "bad default: parameter 'x': expected 0 or 1, got 2"},
    {{.name = "x", .type = SP_PARAM_CHOICE}, "`choices` is empty"},
    {{.name = "x", .type = SP_PARAM_CHOICE, .choices = kinds, .idef = 2}, "expected an index of `choices`, got 2"},
    {{.name = "x", .type = SP_PARAM_INTS, .def_str = "1,a"}, "is no list of numbers"},
    {{.name = "x", .type = SP_PARAM_LIST}, "`fields` is empty"},
    {{.name = "x", .old = "X", .type = SP_PARAM_INT}, "`old` is no name"},
    {{.name = "x", .type = SP_PARAM_INT, .reserved = {1}}, "the reserved words are not 0"},
};

START_TEST(wrong_tables_are_refused) {
  const sp_param two[] = {wrong_tables[_i].e, {0}};
  ck_assert_int_lt(sp_params_check_table(two, 16, &err), 0);
  ck_assert_msg(strstr(err.msg, wrong_tables[_i].words) != NULL, "%s", err.msg);
}
END_TEST

/* 2^53 + 1 and its like are no doubles. */
START_TEST(whole_numbers_are_exact) {
  const int64_t odd = (INT64_C(1) << 53) + 1;
  struct {
    int64_t x;
    sp_ints list;
  } * p;
  const sp_param t[] = {{.name = "x", .type = SP_PARAM_INT, .idef = odd, .imin = odd, .imax = INT64_MAX - 1},
                        {.name = "list", .type = SP_PARAM_INTS, .offset = 8, .def_str = "9007199254740993,-3"},
                        {0}};
  sp_params exact;
  ck_assert_msg(sp_params_check_table(t, sizeof *p, &err) == SP_OK, "%s", err.msg);
  ck_assert_int_eq(sp_params_fill(&exact, t, sizeof *p, NULL, &err), SP_OK);
  p = exact.data;
  ck_assert_int_eq(p->x, odd);
  ck_assert_uint_eq(p->list.n, 2);
  ck_assert_int_eq(p->list.v[0], odd);
  ck_assert_int_eq(p->list.v[1], -3);
  sp_params_free(&exact);
  sp_value v = {.type = SP_V_TABLE};
  *sp_value_put(&v, "x") = (sp_value){.type = SP_V_INT, .i = odd - 1};
  ck_assert_int_eq(sp_params_fill(&exact, t, sizeof *p, &v, &err), SP_E_RANGE);
  ck_assert_str_eq(err.msg, "parameter 'x': 9007199254740992 is below 9007199254740993");
  sp_value_put(&v, "x")->i = INT64_MAX;
  ck_assert_int_eq(sp_params_fill(&exact, t, sizeof *p, &v, &err), SP_E_RANGE);
  ck_assert_str_eq(err.msg, "parameter 'x': 9223372036854775807 is above 9223372036854775806");
  sp_value_put(&v, "x")->i = INT64_MAX - 1;
  ck_assert_int_eq(sp_params_fill(&exact, t, sizeof *p, &v, &err), SP_OK);
  sp_params_free(&exact);
  sp_value_free(&v);
}
END_TEST

START_TEST(an_old_name_is_taken) {
  const sp_param t[] = {{.name = "levels", .old = "depth", .type = SP_PARAM_INT, .imax = 20}, {0}};
  sp_params p;
  sp_value v = {.type = SP_V_TABLE};
  *sp_value_put(&v, "depth") = (sp_value){.type = SP_V_INT, .i = 3};
  ck_assert_msg(!sp_params_fill(&p, t, sizeof(int64_t), &v, &err), "%s", err.msg);
  ck_assert_int_eq(*(int64_t *)p.data, 3);
  sp_params_free(&p);
  *sp_value_put(&v, "levels") = (sp_value){.type = SP_V_INT, .i = 3};
  ck_assert_int_eq(sp_params_fill(&p, t, sizeof(int64_t), &v, &err), SP_E_INVALID);
  ck_assert_str_eq(err.msg, "parameter 'levels' is given twice: 'depth' is its old name");
  sp_value_free(&v);
}
END_TEST

START_TEST(twins_and_overlaps_are_refused) {
  const sp_param twins[] = {{.name = "x", .type = SP_PARAM_INT}, {.name = "x", .type = SP_PARAM_INT, .offset = 8}, {0}};
  ck_assert_int_lt(sp_params_check_table(twins, 16, &err), 0);
  ck_assert_str_eq(err.msg, "parameter 'x' is there twice");
  const sp_param old[] = {
      {.name = "x", .type = SP_PARAM_INT}, {.name = "y", .old = "x", .type = SP_PARAM_INT, .offset = 8}, {0}};
  ck_assert_int_lt(sp_params_check_table(old, 16, &err), 0);
  ck_assert_str_eq(err.msg, "parameter 'y' is there twice");
  const sp_param over[] = {{.name = "x", .type = SP_PARAM_INT}, {.name = "y", .type = SP_PARAM_BOOL, .offset = 4}, {0}};
  ck_assert_int_lt(sp_params_check_table(over, 16, &err), 0);
  ck_assert_str_eq(err.msg, "parameters 'x' and 'y' overlap in the struct");
}
END_TEST

int main(void) {
  Suite *s = suite_create("param");
  TCase *tc = tcase_create("param");
  tcase_add_test(tc, defaults);
  tcase_add_test(tc, values);
  tcase_add_test(tc, bare);
  tcase_add_loop_test(tc, refusals, 0, (int)SP_ARRAY(refused));
  tcase_add_test(tc, no_number_and_infinite_are_refused);
  tcase_add_test(tc, live_parameters);
  tcase_add_test(tc, the_table_itself_is_right);
  tcase_add_test(tc, whole_numbers_are_exact);
  tcase_add_loop_test(tc, wrong_tables_are_refused, 0, (int)SP_ARRAY(wrong_tables));
  tcase_add_test(tc, an_old_name_is_taken);
  tcase_add_test(tc, twins_and_overlaps_are_refused);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
