/* SPDX-License-Identifier: MIT
 * cmd_devices.c - spcore devices: what a graph can run on, and why a device is missing. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "host/env.h"

static void put_bytes(sp_sb *sb, const char *label, uint64_t bytes) {
  if (bytes) sp_sb_putf(sb, "%s%.1f GiB", label, (double)bytes / (double)(UINT64_C(1) << 30));
}

static void put_device(sp_sb *sb, const sp_device_type *t, int index, const sp_device_info *info) {
  sp_sb_putf(sb, "%s:%d  %s", t->name, index, info->name);
  if (info->units) sp_sb_putf(sb, ", %d unit%s", info->units, info->units == 1 ? "" : "s");
  put_bytes(sb, ", ", info->memory);
  put_bytes(sb, ", free ", info->free_memory);
  if (*info->detail) sp_sb_putf(sb, "\n       %s", info->detail);
  sp_sb_put(sb, "\n");
}

static void put_json(sp_sb *sb, const sp_device_type *t, int index, const sp_device_info *info) {
  sp_sb_put(sb, "{\"device\":");
  sp_sb_json(sb, t->name);
  sp_sb_putf(sb, ",\"index\":%d,\"name\":", index);
  sp_sb_json(sb, info->name);
  sp_sb_put(sb, ",\"detail\":");
  sp_sb_json(sb, info->detail);
  sp_sb_putf(sb, ",\"units\":%d,\"copy_engines\":%d,\"memory\":%llu,\"free_memory\":%llu}", info->units,
             info->copy_engines, (unsigned long long)info->memory, (unsigned long long)info->free_memory);
}

static void put_missing(sp_sb *sb, bool json, const char *name, const char *why) {
  if (!json) {
    sp_sb_putf(sb, "%s    not there: %s\n", name, why);
    return;
  }
  sp_sb_put(sb, "{\"device\":");
  sp_sb_json(sb, name);
  sp_sb_put(sb, ",\"missing\":");
  sp_sb_json(sb, why);
  sp_sb_put(sb, "}");
}

/* Why there is no device of that name. A file of the plugin that is there but does not load speaks for itself. */
static const char *no_plugin(const char *name, const sp_err *err) {
  if (err->status != SP_E_NOTFOUND || strstr(err->msg, ".so")) return err->msg;
  if (strcmp(name, "cuda") == 0 && strstr(SP_LEFT_OUT, "cuda")) return "this spcore was built without the CUDA toolkit";
  return "this spcore has no plugin for it";
}

/* A device that is missing is an answer, not a failure of the command. */
static void list_device(sp_env *env, const char *name, bool json, bool *any, sp_sb *out) {
  const sp_device_type *t;
  sp_ctx_holder holder;
  sp_err err = {0};
  int n = 0;
  bool there = sp_registry_device(env->reg, name, &t, &err) == SP_OK;
  int rc = there ? t->count(sp_ctx_for(&holder, name, &err), &n) : err.status;
#define BETWEEN()                             \
  do {                                        \
    if (json && *any) sp_sb_put(out, ",\n "); \
    *any = true;                              \
  } while (0)
  if (rc || n <= 0) {
    BETWEEN();
    put_missing(out, json, name, !there ? no_plugin(name, &err) : *err.msg ? err.msg : "none was found");
    return;
  }
  for (int i = 0; i < n; i++) {
    sp_device_info info = {.size = sizeof info};
    BETWEEN();
    if (t->describe(sp_ctx_for(&holder, name, &err), i, &info)) put_missing(out, json, name, err.msg);
    else if (json) put_json(out, t, i, &info);
    else put_device(out, t, i, &info);
  }
#undef BETWEEN
}

/* cpu and cuda, whether there or not, then what else plugins bring. sim,
 * mock and simmock are for tests and left out. */
static void list_devices(sp_env *env, bool json, sp_sb *out) {
  bool any = false;
  if (json) sp_sb_put(out, "[");
  list_device(env, "cpu", json, &any, out);
  list_device(env, "cuda", json, &any, out);
  for (size_t i = 0; i < sp_registry_count(env->reg); i++) {
    const sp_plugin_file *f = sp_registry_at(env->reg, i);
    for (size_t k = 0; k < f->n_devices; k++)
      if (strcmp(f->devices[k].name, "cpu") != 0 && strcmp(f->devices[k].name, "cuda") != 0)
        list_device(env, f->devices[k].name, json, &any, out);
  }
  if (json) sp_sb_put(out, "]\n");
}

static int devices_main(int argc, char **argv) {
  const char *plugin = NULL;
  bool json = false;
  int code = -1;
  for (int key; (key = sp_cmd_next(&sp_cmd_devices, argc, argv, &code));) {
    if (key == 'j') json = true;
    else plugin = optarg;
  }
  if (code >= 0) return code;
  if (optind < argc) return sp_cmd_usage(&sp_cmd_devices, "'%s' is not wanted", argv[optind]);

  sp_env *env;
  sp_err err;
  sp_env_opts opt = {.plugins = &plugin, .n_plugins = plugin != NULL, .threads = 1, .max_helpers = 1};
  if (sp_env_new(&env, &opt, &err)) return sp_cmd_failed(&err);
  sp_sb out = {0};
  list_devices(env, json, &out);
  code = sp_cmd_print(&out);
  sp_sb_free(&out);
  sp_env_free(env);
  return code;
}

static const sp_cmd_option options[] = {{"json", NULL, 'j', "as one JSON document"},
                                        {"plugin", "FILE.so", 'p', "a plugin file with further devices"},
                                        {0}};

const sp_cmd sp_cmd_devices = {.name = "devices",
                               .args = "[options]",
                               .doc = "Lists what a graph can run on, and says why a device is missing",
                               .options = options,
                               .main = devices_main};
