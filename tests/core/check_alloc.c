/* SPDX-License-Identifier: MIT
 * check_alloc.c - after warm-up a step allocates nothing: not the core, not the stages. Every malloc of the process is
 * counted between two steps, but for those that oneDNN makes for itself when it executes. */
#include <check.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/engine.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
int main(void) {
  puts("check_alloc: a sanitizer has its own malloc; skipped");
  return 77;
}
#else

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);
static atomic_long calls;

/* Code of libraries whose inner allocations are not ours to avoid. */
static struct { uintptr_t from, to; } foreign[32];
static int n_foreign;

static int note_library(struct dl_phdr_info *info, size_t size, void *arg) {
  (void)size, (void)arg;
  if (!strstr(info->dlpi_name, "libdnnl") && !strstr(info->dlpi_name, "libstdc++") &&
      !strstr(info->dlpi_name, "libgomp"))
    return 0;
  for (int i = 0; i < info->dlpi_phnum && n_foreign < 32; i++)
    if (info->dlpi_phdr[i].p_type == PT_LOAD) {
      foreign[n_foreign].from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
      foreign[n_foreign].to = foreign[n_foreign].from + info->dlpi_phdr[i].p_memsz;
      n_foreign++;
    }
  return 0;
}

static void count(const void *caller) {
  for (int i = 0; i < n_foreign; i++)
    if ((uintptr_t)caller >= foreign[i].from && (uintptr_t)caller < foreign[i].to) return;
  atomic_fetch_add(&calls, 1);
}

void *malloc(size_t n) {
  count(__builtin_return_address(0));
  return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
  count(__builtin_return_address(0));
  return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
  count(__builtin_return_address(0));
  return __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n) {
  count(__builtin_return_address(0));
  return __libc_memalign(align, n);
}
int posix_memalign(void **p, size_t align, size_t n) {
  count(__builtin_return_address(0));
  return (*p = __libc_memalign(align, n)) ? 0 : 12;
}

static sp_env *env;
static sp_engine *engine;
static sp_graph *g;

static void num(sp_value *t, const char *key, double v) {
  t->type = SP_V_TABLE;
  *sp_value_put(t, key) = (sp_value){.type = SP_V_NUM, .d = v};
}
static void str(sp_value *t, const char *key, const char *v) {
  t->type = SP_V_TABLE;
  ck_assert(sp_value_set_str(sp_value_put(t, key), v));
}
static sp_node *add(const char *stage, sp_value *v, sp_node_opts o) {
  sp_err err;
  sp_node *n;
  ck_assert_msg(!sp_graph_add(g, stage, v, &o, &n, &err), "%s", err.msg);
  if (v) sp_value_free(v);
  return n;
}
static void wire(sp_node *to, const char *port, sp_node *from, const char *out) {
  sp_err err;
  const sp_port *outputs = sp_node_type(from)->outputs;
  int i = sp_node_find_in(to, port, &err), o = 0;
  while (outputs[o].name && strcmp(outputs[o].name, out) != 0) o++;
  ck_assert_msg(i >= 0 && outputs[o].name && !sp_graph_wire(g, to, i, (sp_ref){from, o, -1}, &err), "%s", err.msg);
}
static void plan(sp_node *n) {
  sp_err err;
  ck_assert_msg(!sp_graph_plan(g, n, &err), "%s", err.msg);
}

static int ignore(void *arg, const sp_result *r, sp_err *err) {
  (void)arg, (void)r, (void)err;
  return SP_OK;
}

/* Reader, scaling, a small network with batch norm, loss, AdamW: the default script's stages. 22 samples in batches of
 * 4, so that short batches are among the steps. */
START_TEST(steps_allocate_nothing) {
  const sp_env_opts eo = {.threads = 2};
  const sp_graph_opts go = {.seed = 1, .run_ahead = 2, .prefetch = 1};
  sp_value v = {0}, *l;
  sp_err err;
  const sp_result *r;
  long before;
  ck_assert_msg(!sp_env_new(&env, &eo, &err), "%s", err.msg);
  ck_assert_msg(!sp_engine_new(&engine, env, &go, &err), "%s", err.msg);
  g = sp_engine_graph(engine);
  sp_node *read[2];
  for (int i = 0; i < 2; i++) {
    str(&v, "path", "shapes");
    num(&v, "size", 32);
    num(&v, "samples", 22);
    num(&v, "workers", 8); /* more than a batch has samples: some get their first one late */
    read[i] = add("reader", &v, (sp_node_opts){.batch = 4});
    plan(read[i]);
  }
  num(&v, "scale", 0);
  *sp_value_put(&v, "scale") = (sp_value){.type = SP_V_BOOL, .i = 1};
  sp_node *f = add("to_float", &v, (sp_node_opts){0});
  wire(f, sp_node_type(f)->inputs[0].name, read[0], "image");
  plan(f);
  sp_node *net[2];
  for (int i = 0; i < 2; i++) {
    static const char *const words[] = {"conv", "batch_norm", "relu"};
    v.type = SP_V_TABLE;
    l = sp_value_put(&v, "layers");
    l->type = SP_V_TABLE;
    for (int k = 0; k < (i ? 1 : 3); k++) {
      sp_value *e = sp_value_push(l);
      str(e, "type", words[k]);
      if (!k) num(e, "out", i ? 6 : 8), num(e, "kernel", 3), num(e, "pad", 1);
    }
    net[i] = add("layers", &v, (sp_node_opts){.frozen = false});
    wire(net[i], sp_node_type(net[i])->inputs[0].name, i ? net[0] : f, sp_node_type(i ? net[0] : f)->outputs[0].name);
    plan(net[i]);
  }
  num(&v, "ignore_index", 255);
  sp_node *loss = add("cross_entropy", &v, (sp_node_opts){0});
  wire(loss, "logits", net[1], sp_node_type(net[1])->outputs[0].name);
  wire(loss, "labels", read[0], "mask");
  plan(loss);
  sp_node *opt = add("adamw", NULL, (sp_node_opts){0});
  const sp_ref lr = {loss, 0, -1};
  ck_assert_msg(!sp_graph_train(g, &(sp_train_opts){.losses = &lr, .n_losses = 1, .optimizer = opt}, &err), "%s",
                err.msg);
  ck_assert_msg(!sp_engine_begin(engine, 0, &err), "%s", err.msg);
  for (int i = 0; i < 20; i++) ck_assert_msg(!sp_engine_next(engine, &r, &err) && r, "%s", err.msg);
  ck_assert_msg(!sp_engine_evaluate(engine, read[1], ignore, NULL, &err), "%s", err.msg);
  for (int i = 0; i < 10; i++) ck_assert_msg(!sp_engine_next(engine, &r, &err) && r, "%s", err.msg);
  dl_iterate_phdr(note_library, NULL);
  before = atomic_load(&calls);
  bool good = true; /* an assertion of Check allocates */
  for (int i = 0; i < 60; i++) {
    good = good && !sp_engine_next(engine, &r, &err) && r;
    if (i == 30) good = good && !sp_engine_evaluate(engine, read[1], ignore, NULL, &err);
  }
  const long after = atomic_load(&calls);
  ck_assert(good);
  ck_assert_int_eq(after, before);
  ck_assert_msg(!sp_engine_stop(engine, &err), "%s", err.msg);
  sp_engine_free(engine);
  sp_env_free(env);
}
END_TEST

int main(void) {
  Suite *s = suite_create("alloc");
  TCase *c = tcase_create("alloc");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, steps_allocate_nothing);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_set_fork_status(r, CK_NOFORK);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
#endif
