/* SPDX-License-Identifier: MIT
 * cmd_run.c - spcore run: a script in a Lua state, with everything of the process around it. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "lua/main.h"
#include "lua/script.h"
#include "lua/signals.h"

enum { OPT_PLUGIN = 256, OPT_DEBUG, OPT_HELP };

static const struct option options[] = {
    {"plugin", required_argument, NULL, OPT_PLUGIN},
    {"debug", no_argument, NULL, OPT_DEBUG},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

/* The command's text, and the scripts that are there to run. */
static int help(void) {
  sp_env *env;
  sp_err err;
  sp_sb text = {0};
  if (sp_env_new(&env, &(sp_env_opts){.threads = 1, .max_helpers = 1}, &err)) return sp_cmd_failed(&err);
  sp_cmd_put_help(&sp_cmd_run, &text);
  sp_sb_put(&text, "\nShipped scripts:\n");
  sp_script_put_shipped(env, 80, &text);
  sp_sb_put(&text, "\n");
  int code = sp_cmd_print(&text);
  sp_sb_free(&text);
  sp_env_free(env);
  return code;
}

bool sp_cmd_debug(void) {
  const char *debug = getenv("SPCORE_DEBUG");
  return debug && *debug && strcmp(debug, "0") != 0;
}

int sp_cmd_run_in(sp_env *env, bool debug, const char *schedule, const char *script, int argc, char **argv) {
  sp_lua *lua;
  sp_err err;
  int code;
  if (sp_lua_new(&lua, env, debug, &err)) code = sp_cmd_failed(&err);
  else {
    lua->schedule = schedule;
    sp_lua_catch_signals();
    code = sp_lua_run(lua, script, argc, argv);
    sp_lua_free(lua);
  }
  sp_env_free(env);
  return code;
}

int sp_cmd_run_script(const sp_env_opts *opts, bool debug, const char *schedule, int argc, char **argv) {
  sp_env *env;
  sp_err err;
  if (sp_env_new(&env, opts, &err)) return sp_cmd_failed(&err);
  return sp_cmd_run_in(env, debug, schedule, argv[0], argc - 1, argv + 1);
}

static int run_main(int argc, char **argv) {
  bool debug = sp_cmd_debug();
  const char **plugins = sp_calloc((size_t)argc, sizeof *plugins);
  sp_env_opts opts = {.plugins = plugins};
  sp_err err;
  if (!plugins) {
    sp_nomem(&err, (size_t)argc * sizeof *plugins, "the command line");
    return sp_cmd_failed(&err);
  }
  int code = -1;
  for (int c; code < 0 && (c = getopt_long(argc, argv, "+:h", options, NULL)) != -1;) {
    if (c == OPT_PLUGIN) plugins[opts.n_plugins++] = optarg;
    else if (c == OPT_DEBUG) debug = true;
    else if (c == OPT_HELP || c == 'h') code = help();
    else code = sp_cmd_bad_option(&sp_cmd_run, c, argv, options);
  }
  if (code < 0 && optind >= argc) code = sp_cmd_usage(&sp_cmd_run, "a script is wanted, such as train_seg.lua");
  if (code < 0) code = sp_cmd_run_script(&opts, debug, NULL, argc - optind, argv + optind);
  free(plugins);
  return code;
}

const sp_cmd sp_cmd_run = {
    .name = "run",
    .args = "[options] SCRIPT [the script's options]",
    .doc = "Runs a Lua script that wires stages and trains",
    .help = "  --plugin FILE.so  load this plugin first; may be repeated\n"
            "  --debug           print a traceback with errors (also SPCORE_DEBUG=1)\n"
            "  --help            this text\n"
            "\n"
            "SCRIPT is a file, or the name of one that is shipped, with or without .lua.\n"
            "What follows it is the script's: spcore run SCRIPT --help lists that. Ctrl-C\n"
            "ends the loop and saves, a second one ends at once.\n",
    .main = run_main,
};
