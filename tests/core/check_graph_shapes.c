/* SPDX-License-Identifier: MIT
 * check_graph_shapes.c - outputs that nobody reads, shapes that are no batch, too large or changed by a late wire. */
#include "tests/kit/graph_kit.h"

#define W 4

static const int64_t *seen(const sp_result *r, const char *name) { return metric(r, name)->data; }

/* Nobody reads maps and y; the script reads the metrics all the same, also optional ones, also each of a list. */
START_TEST(unread_outputs) {
  sp_graph *g = new_graph((sp_graph_opts){.checksums = true});
  sp_node *data = source(g, "data", 6), *b = wire(g, add1(g, "toy_probe", "b", NULL, 0), data);
  sp_node *c = wire(g, add1(g, "toy_probe", "c", NULL, 0), b); /* reads b.y */
  const sp_result *r;
  sp_err err;
  (void)c;
  ck_assert_msg(!sp_engine_begin(on(g), 4, &err), "%s", err.msg);
  for (int k = 0; k < 4; k++) {
    ck_assert_msg(!sp_engine_next(on(g), &r, &err) && r, "%s", err.msg);
    ck_assert_int_eq(seen(r, "b.seen")[3], 1);
    ck_assert_int_eq(seen(r, "c.seen")[3], 0);
    ck_assert_int_eq(seen(r, "c.seen")[0], k % 2 ? 2 : 4); /* the epoch's last batch has two */
    ck_assert_int_eq(*seen(r, "b.two[1]"), 1);
    ck_assert_int_eq(*seen(r, "c.two[2]"), 2);
  }
  free_graph(g);
}
END_TEST

/* What does not come from the source has no N that changes: beside one, and without any. */
START_TEST(shapes_that_are_no_batch) {
  for (int with = 0; with < 2; with++) {
    sp_graph *g = new_graph((sp_graph_opts){0});
    sp_node *data = with ? source(g, "data", 6) : NULL, *f = add1(g, "toy_fill", "f", "rows", with ? 1 : 8);
    const sp_result *r;
    sp_err err;
    ck_assert(!sp_graph_plan(g, f, &err));
    wire(g, add1(g, "toy_probe", "b", NULL, 0), wire(g, mul(g, "m", true), f));
    if (data) wire(g, add1(g, "toy_probe", "d", NULL, 0), data);
    ck_assert_msg(!sp_engine_begin(on(g), 4, &err), "%s", err.msg);
    for (int k = 0; k < 4; k++) {
      ck_assert_msg(!sp_engine_next(on(g), &r, &err) && r, "%s", err.msg);
      ck_assert_int_eq(seen(r, with ? "b.seen" : "seen")[0], with ? 1 : 8);
      ck_assert_int_eq(seen(r, with ? "b.seen" : "seen")[2], with ? 1 : 8);
      if (with) ck_assert_int_eq(seen(r, "d.seen")[0], k % 2 ? 2 : 4);
    }
    free_graph(g);
  }
}
END_TEST

/* A wire that comes late changes a shape: everything behind it follows. */
START_TEST(late_wire) {
  sp_graph *g = new_graph((sp_graph_opts){0});
  sp_node *data = source(g, "data", 8), *cat = wire(g, add1(g, "concat", "cat", NULL, 0), data);
  sp_node *b = wire(g, add1(g, "toy_probe", "b", NULL, 0), cat);
  const sp_result *r;
  sp_err err;
  (void)b;
  sp_node *late = wire(g, mul(g, "late", true), data);
  ck_assert_msg(!sp_graph_wire(g, cat, 0, (sp_ref){late, 0, -1}, &err), "%s", err.msg);
  ck_assert_msg(!sp_engine_begin(on(g), 2, &err), "%s", err.msg);
  ck_assert_msg(!sp_engine_next(on(g), &r, &err) && r, "%s", err.msg);
  ck_assert_int_eq(seen(r, "seen")[1], 2 * W);
  free_graph(g);
}
END_TEST

START_TEST(giant_shapes_are_refused) {
  sp_graph *g = new_graph((sp_graph_opts){0});
  sp_node *f = add1(g, "toy_fill", "f", "rows", INT64_C(4000000000000));
  sp_err err;
  ck_assert(!sp_graph_plan(g, f, &err));
  ck_assert_int_eq(sp_engine_build(on(g), &err), SP_E_NOMEM);
  ck_assert_msg(strstr(err.msg, "the graph needs ") && strstr(err.msg, "'f.y'"), "%s", err.msg);
  free_graph(g);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {unread_outputs, shapes_that_are_no_batch, late_wire, giant_shapes_are_refused};
  return run_tests("graph_shapes", tests, sizeof tests / sizeof *tests);
}
