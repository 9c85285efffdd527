/* SPDX-License-Identifier: MIT
 * cmd_inspect.c - spcore inspect: what stages there are, and everything about one. Of a known network, --model, which a
 * script knows, scripts/spcore/commands/inspect.lua tells. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "host/env.h"
#include "cli/inspect.h"

#define PLUGINS_MAX 64

typedef struct options {
  const char *plugins[PLUGINS_MAX];
  size_t n_plugins;
  const char *stage, *device;
  bool json, meta, model;
  const char *of_model; /* an option that a network alone takes */
} options;

typedef struct collected {
  sp_inspect_bad *bad;
  size_t n, cap;
} collected;

static void keep_bad(void *arg, const char *path, const sp_err *why) {
  collected *c = arg;
  char *copy = sp_strdup(path);
  if (copy && sp_grow(&c->bad, &c->cap, c->n + 1, sizeof *c->bad)) c->bad[c->n++] = (sp_inspect_bad){copy, *why};
  else free(copy);
}

static void put_stage(const options *opt, const sp_inspect_stage *st, sp_sb *out) {
  if (opt->json) sp_inspect_json_one(out, st);
  else sp_inspect_one(out, st);
}

static int inspect_for_device(sp_env *env, const options *opt, sp_sb *out, sp_err *err) {
  sp_inspect_stage st;
  int rc = sp_registry_stage(env->reg, opt->stage, opt->device, &st.type, &st.file, err);
  if (rc) return rc;
  put_stage(opt, &st, out);
  if (opt->json) sp_sb_put(out, "\n");
  return SP_OK;
}

/* For every device. Files that the name does not say are not opened, so none of them can be in the way. */
static int inspect_stage(sp_env *env, const options *opt, sp_sb *out, sp_err *err) {
  sp_inspect_stage *list, st;
  size_t n, found = 0;
  sp_registry_load_stage(env->reg, opt->stage);
  int rc = sp_inspect_stages(env->reg, &list, &n, err);
  if (rc) return rc;
  for (size_t i = 0; i < n; i++)
    if (strcmp(list[i].type->name, opt->stage) == 0) list[found++] = list[i];
  if (!found) rc = sp_registry_stage(env->reg, opt->stage, "cpu", &st.type, &st.file, err);
  if (opt->json && found > 1) sp_sb_put(out, "[");
  for (size_t i = 0; i < found; i++) {
    if (i) sp_sb_put(out, opt->json ? ",\n" : "\n");
    put_stage(opt, &list[i], out);
  }
  if (opt->json) sp_sb_put(out, found > 1 ? "]\n" : "\n");
  free(list);
  return rc;
}

static int inspect(const options *opt, sp_sb *out, sp_err *err) {
  sp_env *env;
  collected c = {0};
  sp_env_opts env_opt = {.plugins = opt->plugins, .n_plugins = opt->n_plugins, .threads = 1, .max_helpers = 1};
  int rc = sp_env_new(&env, &env_opt, err);
  if (rc) return rc;
  if (!opt->stage) rc = sp_registry_scan(env->reg, keep_bad, &c, err);
  sp_inspect in = {env->reg, opt->device, c.bad, c.n};
  if (!rc) {
    if (opt->meta) rc = sp_inspect_meta(out, &in, err);
    else if (opt->stage && opt->device) rc = inspect_for_device(env, opt, out, err);
    else if (opt->stage) rc = inspect_stage(env, opt, out, err);
    else if (opt->json) rc = sp_inspect_json_list(out, &in, err);
    else rc = sp_inspect_list(out, &in, err);
  }
  for (size_t i = 0; i < c.n; i++) free(c.bad[i].path);
  free(c.bad);
  sp_env_free(env);
  return rc;
}

static int inspect_model(const options *opt, int argc, char **argv) {
  const char *other = opt->meta ? "--meta" : opt->device ? "--device" : opt->stage;
  if (!other) return sp_cmd_lua(argc, argv);
  return sp_cmd_usage(&sp_cmd_inspect, "--model is a network, which is no stage; take %s out", other);
}

static int inspect_main(int argc, char **argv) {
  options opt = {0};
  int code = -1;
  for (int key; (key = sp_cmd_next(&sp_cmd_inspect, argc, argv, &code));) {
    switch (key) {
      case 'j': opt.json = true; break;
      case 'm': opt.meta = true; break;
      case 'd': opt.device = optarg; break;
      case 'M': opt.model = true; break;
      case 's': opt.of_model = "size"; break;
      case 'o': opt.of_model = "output-stride"; break;
      case 'c': opt.of_model = "classes"; break;
      case 'p':
        if (opt.n_plugins == PLUGINS_MAX)
          return sp_cmd_usage(&sp_cmd_inspect, "more than %d times --plugin", PLUGINS_MAX);
        opt.plugins[opt.n_plugins++] = optarg;
        break;
    }
  }
  if (code >= 0) return code;
  if (argc - optind > 1) return sp_cmd_usage(&sp_cmd_inspect, "one stage at a time, not also '%s'", argv[optind + 1]);
  if (optind < argc) opt.stage = argv[optind];
  if (opt.model) return inspect_model(&opt, argc, argv);
  if (opt.of_model) return sp_cmd_usage(&sp_cmd_inspect, "--%s is for --model", opt.of_model);
  if (opt.meta && (opt.json || opt.stage || opt.device))
    return sp_cmd_usage(&sp_cmd_inspect, "--meta prints all stages, in one form");

  sp_sb out = {0};
  sp_err err = {0};
  int rc = inspect(&opt, &out, &err);
  if (rc == SP_E_NOTFOUND && opt.device && !opt.stage)
    code = sp_cmd_usage(&sp_cmd_inspect, "no stage is for --device %s: %s", opt.device, err.msg);
  else code = rc ? sp_cmd_failed(&err) : opt.json || opt.meta ? sp_cmd_print(&out) : sp_cmd_print_folded(&out);
  sp_sb_free(&out);
  return code;
}

static const sp_cmd_option option_rows[] = {
    {"json", NULL, 'j', "as one JSON document"},
    {"meta", NULL, 'm', "annotations for Lua editors"},
    {"device", "NAME", 'd', "only what is for that device"},
    {"plugin", "FILE.so", 'p', "a plugin file besides those in the plugin folders; may be repeated"},
    {"model", "MODEL", 'M', "layers, shapes, parameters and GFLOP of a network of sp.models, such as resnet50"},
    {"size", "N", 's', "of its images, or HxW (what its weights want)"},
    {"output-stride", "N", 'o', "how many times smaller its smallest map is: 32, 16, 8 (32)"},
    {"classes", "N", 'c', "of its head (0: none)"},
    {0}};

const sp_cmd sp_cmd_inspect = {.name = "inspect",
                               .args = "[STAGE] [options]",
                               .doc = "Lists the stages, or prints everything about one, or about a known network",
                               .options = option_rows,
                               .main = inspect_main};
