/* SPDX-License-Identifier: MIT
 * cmd_lua.c - the commands that are written in Lua: spcore NAME runs scripts/spcore/commands/NAME.lua, whose are all
 * the words behind it, --help too. */
#include "cli/cmd.h"
#include "host/env.h"

int sp_cmd_lua(int argc, char **argv) {
  sp_env *env;
  sp_err err;
  sp_sb path = {0};
  if (sp_env_new(&env, &(sp_env_opts){0}, &err)) return sp_cmd_failed(&err);
  sp_sb_putf(&path, "%s/spcore/commands/%s.lua", env->script_dir, argv[0]);
  int code = sp_cmd_run_in(env, sp_cmd_debug(), NULL, NULL, sp_sb_str(&path), argc - 1, argv + 1);
  sp_sb_free(&path);
  return code;
}

const sp_cmd sp_cmd_bench = {.name = "bench",
                             .args = "SCRIPT [options] [the script's options]",
                             .doc = "Runs a script in several strategies and batch sizes, in turns, and compares",
                             .main = sp_cmd_lua};

const sp_cmd sp_cmd_completion = {.name = "completion",
                                  .args = "bash|zsh",
                                  .doc = "Prints what a shell needs to complete these command lines",
                                  .main = sp_cmd_lua};

const sp_cmd sp_cmd_data = {.name = "data",
                            .args = "DIR [options]",
                            .doc = "Says what a folder of data holds, and checks it",
                            .main = sp_cmd_lua};

const sp_cmd sp_cmd_report = {.name = "report",
                              .args = "RUN... [options]",
                              .doc = "Writes a run's folder as one page, or compares runs",
                              .main = sp_cmd_lua};

const sp_cmd sp_cmd_export = {.name = "export",
                              .args = "RUN [--torch DIR] [--onnx FILE] [options]",
                              .doc = "Writes a network as a PyTorch module or as ONNX, with its weights",
                              .main = sp_cmd_lua};

const sp_cmd sp_cmd_timeline = {.name = "timeline",
                                .args = "TRACE... [options]",
                                .doc = "Draws traces, and says how far lanes overlap",
                                .main = sp_cmd_lua};
