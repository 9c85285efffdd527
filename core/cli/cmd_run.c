/* SPDX-License-Identifier: MIT
 * cmd_run.c - spcore run: a script in a Lua state, with everything of the process around it. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "lua/main.h"
#include "lua/script.h"
#include "lua/signals.h"
#include "ranks/launch.h"

/* Seconds for a script to end when another rank has failed; a launcher has more patience. And for its wait for a GPU:
 * what abort() can end has ended within one, but NCCL's kernels that read windows of a rank that is gone do not end,
 * and to end a process with such a kernel takes the driver more than a second. */
#define GRACE 3
#define STUCK 1

/* The scripts that are there to run. */
static int put_scripts(sp_sb *text) {
  sp_env *env;
  sp_err err;
  if (sp_env_new(&env, &(sp_env_opts){.threads = 1, .max_helpers = 1}, &err)) return sp_cmd_failed(&err);
  sp_sb_put(text, "\nShipped scripts:\n");
  sp_script_put_shipped(env, 80, text);
  sp_sb_put(text, "\n");
  sp_env_free(env);
  return 0;
}

bool sp_cmd_debug(void) {
  const char *debug = getenv("SPCORE_DEBUG");
  return debug && *debug && strcmp(debug, "0") != 0;
}

int sp_cmd_run_in(sp_env *env, bool debug, const char *schedule, const char *picture, const char *script, int argc,
                  char **argv) {
  sp_lua *lua;
  sp_err err;
  int code;
  if (sp_lua_new(&lua, env, debug, &err)) code = sp_cmd_failed(&err);
  else {
    lua->schedule = schedule;
    lua->picture = picture;
    sp_lua_catch_signals();
    code = sp_lua_run(lua, script, argc, argv);
    sp_lua_free(lua);
  }
  sp_env_free(env);
  return code;
}

static int run_alone(const sp_cmd_script *s, int argc, char **argv) {
  sp_env *env;
  sp_err err;
  if (sp_env_new(&env, s->env, &err)) return sp_cmd_failed(&err);
  return sp_cmd_run_in(env, s->debug, s->schedule, s->picture, argv[0], argc - 1, argv + 1);
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* Another one than this; late: any, and this one does not end. */
static void rank_failed(void *led, const sp_err *why, bool late) {
  if (!late) {
    if (led) *(volatile bool *)led = true;
    sp_lua_end_script();
    return;
  }
  sp_log(SP_LOG_ERROR, "%s", why->msg);
  _exit(SP_EXIT_FAILED);
}

/* The others hear of an end that nobody has told them yet; then all end together. */
static int leave_ranks(sp_ranks *r, int code) {
  sp_err err;
  if (code && !sp_lua_interrupted()) {
    sp_fail(&err, SP_E_CANCELLED, "it ended with exit status %d", code);
    sp_ranks_fail(r, &err);
  }
  /* The launcher's exit status is that of the guilty one, which may be the last to be gone. */
  const sp_rank_opts *o = sp_ranks_opts(r);
  int guilty = sp_ranks_guilty(r);
  if (o->arg && guilty >= 0 && guilty != o->rank) *(volatile bool *)o->arg = true;
  if (!sp_ranks_close(r, &err) || code) return code;
  sp_log(SP_LOG_ERROR, "%s", err.msg);
  return SP_EXIT_FAILED;
}

/* One rank of several: they are connected before there is anything else. */
static int run_rank(sp_rank_opts *ro, const sp_cmd_script *s, int argc, char **argv) {
  sp_ranks *r;
  sp_env *env;
  sp_err err;
  int code;
  ro->grace = GRACE;
  ro->stuck = STUCK;
  ro->failed = rank_failed;
  if (sp_ranks_open(&r, ro, &err)) return sp_cmd_failed(&err);
  if (sp_env_new(&env, s->env, &err)) {
    code = sp_cmd_failed(&err);
    sp_ranks_fail(r, &err);
  } else {
    env->ranks = r;
    code = sp_cmd_run_in(env, s->debug, s->schedule, s->picture, argv[0], argc - 1, argv + 1);
  }
  if (!(code = leave_ranks(r, code))) return code;
  /* Without the ends of libraries, of which a thread may still be at work on what a rank that is gone has left. */
  fflush(NULL);
  _exit(code);
}

static int run_ranks(const sp_cmd_script *s, int argc, char **argv) {
  sp_rank_opts ro;
  sp_launch launch = {.is_rank = true, .listener = -1};
  sp_err err;
  if (s->schedule && s->ranks <= 1) return run_alone(s, argc, argv); /* within a job, too */
  if (sp_ranks_find(&ro, &err)) return sp_cmd_failed(&err);
  if (s->ranks && *ro.origin)
    return sp_cmd_usage(s->cmd, "--ranks %d: this is rank %d of %d already (%s)", s->ranks, ro.rank, ro.ranks,
                        ro.origin);
  if (s->ranks > 1 && sp_ranks_launch(s->ranks, &launch, &err)) return sp_cmd_failed(&err);
  if (!launch.is_rank) return launch.code;
  if (s->ranks > 1 && sp_ranks_find(&ro, &err)) return sp_cmd_failed(&err);
  ro.listener = launch.listener;
  ro.arg = launch.led;
  if (s->ranks > 1 && ro.rank > 0) sp_lua_told_by(getppid());
  return ro.ranks > 1 ? run_rank(&ro, s, argc, argv) : run_alone(s, argc, argv);
}

int sp_cmd_read_ranks(sp_cmd_script *s, const char *text) {
  char *end;
  long n = strtol(text, &end, 10);
  if (end == text || *end || n < 1 || n > SP_LAUNCH_MAX)
    return sp_cmd_usage(s->cmd, "--ranks %s: a whole number from 1 to %d is wanted", text, SP_LAUNCH_MAX);
  s->ranks = (int)n;
  return -1;
}

int sp_cmd_read_timeout(const sp_cmd_script *script, const char *text) {
  char *end;
  double s = strtod(text, &end);
  if (end == text || *end || !(s > 0 && s <= 1e6))
    return sp_cmd_usage(script->cmd, "--comm-timeout %s: seconds are wanted, more than 0 and at most 1000000", text);
  setenv("SPCORE_STALL_TIMEOUT", text, 1);
  return -1;
}

int sp_cmd_read_form(sp_cmd_script *s, const char *form, const char *file) {
  if (strcmp(s->schedule, "text") != 0 && strcmp(s->schedule, form) != 0)
    return sp_cmd_usage(s->cmd, "one of --json, --dot and --svg");
  if (!strcmp(form, "svg") && (!*file || (file[0] == '-' && file[1])))
    return sp_cmd_usage(s->cmd, "--svg: a file is wanted, as --svg schedule.svg; - is standard output");
  const char *end = file ? strrchr(file, '.') : NULL;
  if (end && !strcmp(end, ".lua"))
    return sp_cmd_usage(s->cmd, "--svg %s: a script; name the file to draw to as well, --svg schedule.svg", file);
  s->schedule = form;
  s->picture = file;
  return -1;
}

/* Whether argv[*i] is this option, and what it says; its value may be the next. */
static bool is_option(const char *name, int argc, char **argv, int *i, const char **value) {
  size_t n = strlen(name);
  if (strncmp(argv[*i], name, n) != 0 || (argv[*i][n] && argv[*i][n] != '=')) return false;
  *value = argv[*i][n] ? argv[*i] + n + 1 : *i + 1 < argc ? argv[++*i] : "";
  return true;
}

/* The same of what `schedule` prints. */
static bool is_form(int argc, char **argv, int *i, const char **form, const char **value) {
  bool json = !strcmp(argv[*i], "--json"), dot = !strcmp(argv[*i], "--dot");
  *form = json ? "json" : dot ? "dot" : "svg";
  *value = NULL;
  return json || dot || is_option("--svg", argc, argv, i, value);
}

/* Taken out of what follows the script, where all its options are; not behind "--". */
static int take_ranks(sp_cmd_script *s, int *argc, char **argv) {
  int n = 1, code = -1;
  bool plain = false;
  for (int i = 1; i < *argc && code < 0; i++) {
    const char *value, *form;
    plain = plain || strcmp(argv[i], "--") == 0;
    if (!plain && is_option("--ranks", *argc, argv, &i, &value)) code = sp_cmd_read_ranks(s, value);
    else if (!plain && is_option("--comm-timeout", *argc, argv, &i, &value)) code = sp_cmd_read_timeout(s, value);
    else if (!plain && s->schedule && is_form(*argc, argv, &i, &form, &value)) code = sp_cmd_read_form(s, form, value);
    else argv[n++] = argv[i];
  }
  *argc = n;
  return code;
}

int sp_cmd_run_script(sp_cmd_script *s, int argc, char **argv) {
  int code = take_ranks(s, &argc, argv);
  return code < 0 ? run_ranks(s, argc, argv) : code;
}

static int run_main(int argc, char **argv) {
  const char **plugins = sp_calloc((size_t)argc, sizeof *plugins);
  sp_env_opts opts = {.plugins = plugins};
  sp_cmd_script s = {.cmd = &sp_cmd_run, .env = &opts, .debug = sp_cmd_debug()};
  sp_err err;
  if (!plugins) {
    sp_nomem(&err, (size_t)argc * sizeof *plugins, "the command line");
    return sp_cmd_failed(&err);
  }
  int code = -1;
  for (int key; code < 0 && (key = sp_cmd_next(&sp_cmd_run, argc, argv, &code));) {
    if (key == 'p') plugins[opts.n_plugins++] = optarg;
    else if (key == 'r') code = sp_cmd_read_ranks(&s, optarg);
    else if (key == 't') code = sp_cmd_read_timeout(&s, optarg);
    else s.debug = true;
  }
  if (code < 0 && optind >= argc) code = sp_cmd_usage(&sp_cmd_run, "a script is wanted, such as train_seg.lua");
  if (code < 0) code = sp_cmd_run_script(&s, argc - optind, argv + optind);
  free(plugins);
  return code;
}

static const sp_cmd_option options[] = {
    SP_CMD_PLUGIN('p'),
    SP_CMD_RANKS('r', "start the script N times, as ranks of one job; docs/ranks.md; behind SCRIPT, too"),
    SP_CMD_TIMEOUT('t', "ranks that have not got on for S seconds, while one waits, are stalled (60); behind SCRIPT, "
                        "too"),
    {"debug", NULL, 'd', "print a traceback with errors (also SPCORE_DEBUG=1)"},
    {0}};

const sp_cmd sp_cmd_run = {
    .name = "run",
    .args = "[options] SCRIPT [the script's options]",
    .doc = "Runs a Lua script that wires stages and trains",
    .options = options,
    .options_first = true,
    .put_more = put_scripts,
    .help = "SCRIPT is a file, or the name of one that is shipped, with or without .lua.\n"
            "What follows it is the script's: spcore run SCRIPT --help lists that. Ctrl-C\n"
            "ends the loop and saves, a second one ends at once.\n",
    .main = run_main,
};
