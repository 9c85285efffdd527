/* SPDX-License-Identifier: MIT
 * cmd_check.c - spcore check: the stage conformance suite on plugin files, as TAP lines. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/ext/precision.h>

#include "cli/cmd.h"
#include "check/conformance.h"
#include "host/env.h"

typedef struct tap {
  sp_sb out; /* what is not printed yet */
  int n, code;
  bool quiet;
} tap;

/* At once: whatever a stage does next, what was found before is told. */
static void tap_print(tap *t) {
  if (!t->code) t->code = sp_cmd_print(&t->out);
  sp_sb_free(&t->out);
}

static void tap_line(void *arg, sp_conform_result result, const char *stage, const char *what, const char *words) {
  tap *t = arg;
  t->n++;
  if (t->quiet && result == SP_CONFORM_OK) return;
  sp_sb_putf(&t->out, "%s %d - %s: %s", result == SP_CONFORM_FAILED ? "not ok" : "ok", t->n, stage, what);
  if (result == SP_CONFORM_NOTICE) sp_sb_putf(&t->out, " # SKIP %s", words);
  else if (*words) sp_sb_putf(&t->out, "\n# %s", words);
  sp_sb_put(&t->out, "\n");
  tap_print(t);
}

/* NAME=VALUE; a value that reads as a number, true or false is one. */
static bool put_setting(sp_value *set, const char *text) {
  const char *eq = strchr(text, '=');
  char name[64];
  if (!eq || eq == text || (size_t)(eq - text) >= sizeof name) return false;
  memcpy(name, text, (size_t)(eq - text));
  name[eq - text] = 0;
  sp_value *v = sp_value_put(set, name);
  if (!v) return false;
  sp_value_free(v);
  sp_value number;
  const char *end = sp_value_number(&number, eq + 1);
  bool yes = strcmp(eq + 1, "true") == 0, no = strcmp(eq + 1, "false") == 0;
  if (yes || no) *v = (sp_value){.type = SP_V_BOOL, .i = yes};
  else if (end && !*end) *v = number;
  else return sp_value_set_str(v, eq + 1);
  return true;
}

static const char *const precisions[] = {
    [SP_PRECISION_FP32] = "fp32", [SP_PRECISION_TF32] = "tf32", [SP_PRECISION_BF16] = "bf16"};

static bool set_precision(int *precision, const char *text) {
  for (size_t i = 0; i < SP_ARRAY(precisions); i++) {
    if (strcmp(text, precisions[i]) != 0) continue;
    *precision = (int)i;
    return true;
  }
  return false;
}

static int load_files(sp_registry *reg, char *const *paths, size_t n, const sp_plugin_file ***files, sp_err *err) {
  int rc = SP_OK;
  *files = sp_calloc(n, sizeof **files);
  if (!*files) return sp_nomem(err, n * sizeof **files, "the list of files");
  for (size_t i = 0; i < n && !rc; i++) rc = sp_registry_load(reg, paths[i], &(*files)[i], err);
  return rc;
}

/* The parameters of all stages, `most` at most; how many they are. */
static size_t list_params(const sp_plugin_file *const *files, size_t n, const char **names, size_t most) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < files[i]->n_stages; k++)
      for (const sp_param *p = files[i]->stages[k].params; p && p->name; p++, count++)
        if (count < most) names[count] = p->name;
  return count;
}

/* What no stage has is a slip of the pen, which would be tried on none. */
static int check_settings(const sp_value *set, const sp_plugin_file *const *files, size_t n) {
  size_t count = list_params(files, n, NULL, 0), k;
  const char **names = sp_calloc(count + 1, sizeof *names);
  int code = 0;
  if (names) list_params(files, n, names, count);
  for (size_t i = 0; names && i < set->n_fields && !code; i++) {
    const char *key = set->fields[i].key;
    for (k = 0; names[k] && strcmp(names[k], key) != 0;) k++;
    if (names[k]) continue;
    const char *near = sp_nearest(key, names);
    code = sp_cmd_usage(&sp_cmd_check, "--set %s: no stage that is checked has such a parameter%s%s%s", key,
                        near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  free(names);
  return code;
}

/* Was the file named before? A module of several stages has several names. */
static bool named(const sp_plugin_file *const *files, size_t i) {
  for (size_t k = 0; k < i; k++)
    if (files[k] == files[i]) return true;
  return false;
}

static int check_files(const sp_conform *how, char *const *paths, const sp_plugin_file *const *files, size_t n,
                       tap *t) {
  int failed = 0;
  for (size_t i = 0; i < n; i++) {
    if (named(files, i)) continue;
    sp_sb_putf(&t->out, "# %s\n", paths[i]);
    if (!files[i]->n_stages) sp_sb_put(&t->out, "# no stages in it\n");
    tap_print(t);
    failed += sp_conformance(files[i], how, tap_line, t);
  }
  sp_sb_putf(&t->out, "1..%d\n", t->n);
  tap_print(t);
  return failed;
}

static int check_all(const sp_conform *how, char *const *paths, size_t n, tap *t) {
  const sp_plugin_file **files;
  sp_err err;
  int code = load_files(how->reg, paths, n, &files, &err) ? sp_cmd_failed(&err) : check_settings(how->set, files, n);
  if (!code) {
    int failed = check_files(how, paths, files, n, t);
    code = t->code;
    if (failed) {
      sp_fail(&err, SP_E_INTERNAL, "%d of %d checks failed", failed, t->n);
      code = sp_cmd_failed(&err);
    }
  }
  free(files);
  return code;
}

static int check_main(int argc, char **argv) {
  sp_value set = {0};
  sp_env_opts opt = {.threads = 2};
  sp_conform how = {.set = &set};
  tap t = {0};
  int code = -1;
  for (int key; (key = sp_cmd_next(&sp_cmd_check, argc, argv, &code));) {
    char *end;
    switch (key) {
      case 't': {
        long n = strtol(optarg, &end, 10);
        if (*end || end == optarg || n < 1 || n > 1024)
          return sp_cmd_usage(&sp_cmd_check, "--threads %s: a number from 1 to 1024 is wanted", optarg);
        opt.threads = (int)n;
        break;
      }
      case 's':
        if (put_setting(&set, optarg)) break;
        sp_value_free(&set);
        return sp_cmd_usage(&sp_cmd_check, "--set %s: NAME=VALUE is wanted", optarg);
      case 'p':
        if (set_precision(&how.precision, optarg)) break;
        sp_value_free(&set);
        return sp_cmd_usage(&sp_cmd_check, "--precision %s: fp32, tf32 or bf16 is wanted", optarg);
      case 'q': t.quiet = true; break;
    }
  }
  if (code >= 0) {
    sp_value_free(&set);
    return code;
  }
  if (optind == argc) return sp_cmd_usage(&sp_cmd_check, "a plugin FILE.so is wanted");

  sp_env *env;
  sp_err err;
  if (sp_env_new(&env, &opt, &err)) return sp_cmd_failed(&err);
  how.host = &env->host;
  how.reg = env->reg;
  code = check_all(&how, argv + optind, (size_t)(argc - optind), &t);
  sp_value_free(&set);
  sp_env_free(env);
  return code;
}

static const sp_cmd_option options[] = {
    {"threads", "N", 't', "worker threads that the stages may use [2]"},
    {"set", "NAME=VALUE", 's', "a parameter for the stages that have one of that name; may be repeated"},
    {"precision", "P", 'p', "what stages for a GPU compute with: fp32, tf32, bf16 [fp32]"},
    {"quiet", NULL, 'q', "only what failed or was not exercised"},
    {0}};

const sp_cmd sp_cmd_check = {.name = "check",
                             .args = "FILE.so... [options]",
                             .doc = "Runs the stage conformance suite on plugin files",
                             .options = options,
                             .main = check_main};
