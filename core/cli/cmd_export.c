/* SPDX-License-Identifier: MIT
 * cmd_export.c - spcore export: what a run has learned, for other programs; spcore/export.lua beside the scripts does it. */
#include <getopt.h>
#include <stdlib.h>

#include "cli/cmd.h"
#include "host/env.h"

/* The script's path: a file of the same name in the current folder is not meant. */
static char *script_path(sp_err *err) {
  sp_env *env;
  sp_sb path = {0};
  if (sp_env_new(&env, &(sp_env_opts){.threads = 1, .max_helpers = 1}, err)) return NULL;
  sp_sb_putf(&path, "%s/spcore/export.lua", env->script_dir);
  sp_env_free(env);
  if (path.broken) {
    sp_sb_free(&path);
    sp_nomem(err, 64, "a path");
  }
  return path.s;
}

static int export(const char *run, const char *torch, const char *best) {
  sp_err err;
  char *script = script_path(&err);
  if (!script) return sp_cmd_failed(&err);
  char *words[] = {script, (char *)run, (char *)torch, (char *)best, NULL};
  int code = sp_cmd_run_script(&(sp_env_opts){0}, sp_cmd_debug(), NULL, best ? 4 : 3, words);
  free(script);
  return code;
}

static int export_main(int argc, char **argv) {
  static const struct option options[] = {
      {"torch", required_argument, NULL, 't'}, {"best", no_argument, NULL, 'b'}, {"help", no_argument, NULL, 'h'}, {0}};
  const char *torch = NULL, *best = NULL;
  for (int c; (c = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
    if (c == 't') torch = optarg;
    else if (c == 'b') best = "best";
    else if (c == 'h') return sp_cmd_help(&sp_cmd_export);
    else return sp_cmd_bad_option(&sp_cmd_export, c, argv, options);
  }
  if (optind >= argc) return sp_cmd_usage(&sp_cmd_export, "a run folder is wanted, such as runs/train_seg-1");
  if (optind + 1 < argc) return sp_cmd_usage(&sp_cmd_export, "one run at a time, not also '%s'", argv[optind + 1]);
  if (!torch) return sp_cmd_usage(&sp_cmd_export, "--torch DIR is wanted: the folder to write to");
  return export(argv[optind], torch, best);
}

const sp_cmd sp_cmd_export = {
    .name = "export",
    .args = "RUN --torch DIR [--best]",
    .doc = "Writes the network of a run as a PyTorch module with its weights",
    .help = "  --torch DIR       the folder for model.py and model.safetensors\n"
            "  --best            the weights of the best validation, not the last ones\n"
            "  --help            this text\n"
            "\n"
            "RUN is the folder of a run of train_seg.lua or train_cls.lua. model.py needs PyTorch\n"
            "alone: load() gives the module with its weights, and python3 model.py IMAGE\n"
            "predicts an image, prepared as in training.\n",
    .main = export_main,
};
