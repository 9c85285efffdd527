/* SPDX-License-Identifier: MIT
 * main.c - the program: finds the command and hands over. */
#include <fcntl.h>
#include <getopt.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "base/crash.h"
#include "lua/script.h"

static const sp_cmd *const commands[] = {&sp_cmd_run,        &sp_cmd_data,     &sp_cmd_report,   &sp_cmd_export,
                                         &sp_cmd_strategies, &sp_cmd_schedule, &sp_cmd_timeline, &sp_cmd_bench,
                                         &sp_cmd_inspect,    &sp_cmd_devices,  &sp_cmd_check,    &sp_cmd_diff,
                                         &sp_cmd_completion};

static int help(void) {
  sp_sb text = {0};
  sp_sb_put(&text, "usage: spcore COMMAND [options]\n\n"
                   "Runs training and inference loops made of stages, wired by a Lua script.\n\n");
  for (size_t i = 0; i < SP_ARRAY(commands); i++)
    sp_sb_putf(&text, "  %-10s  %s\n", commands[i]->name, commands[i]->doc);
  sp_sb_put(&text, "\n  --help       this text; spcore help COMMAND: that command's\n"
                   "  --version    version, ABI and how it was built\n");
  int code = sp_cmd_print(&text);
  sp_sb_free(&text);
  return code;
}

static int version(void) {
  sp_sb text = {0};
  sp_sb_putf(&text, "spcore %s\nABI %d.%d\n%s\n", SP_VERSION, SP_ABI_MAJOR, SP_ABI_MINOR, LUA_RELEASE);
  sp_sb_putf(&text, "compiler %s, %s, sanitizers: %s\n", __VERSION__, SP_BUILD_FLAGS, SP_BUILD_SANITIZERS);
  sp_sb_putf(&text, "plugins %s\nscripts %s\n", SP_PLUGINDIR, SP_SCRIPTDIR);
  int code = sp_cmd_print(&text);
  sp_sb_free(&text);
  return code;
}

static const sp_cmd *find(const char *word) {
  for (size_t i = 0; i < SP_ARRAY(commands); i++)
    if (strcmp(word, commands[i]->name) == 0) return commands[i];
  return NULL;
}

static const char *near_command(const char *word) {
  const char *names[SP_ARRAY(commands) + 2] = {"help"};
  for (size_t i = 0; i < SP_ARRAY(commands); i++) names[i + 1] = commands[i]->name;
  return sp_nearest(word, names);
}

/* The script that somebody may mean who left "run" away, or NULL; the caller frees it. */
static char *meant_script(const char *word) {
  sp_env *env;
  sp_err err;
  if (sp_env_new(&env, &(sp_env_opts){.threads = 1, .max_helpers = 1}, &err)) return NULL;
  char *path = sp_script_find(env, word), *script = NULL;
  size_t n = strlen(word), k = path ? strlen(path) : 0;
  bool there = k > 4 && strcmp(path + k - 4, ".lua") == 0;
  if (!there) script = sp_script_near(env, word);
  if (there || (!script && n > 4 && strcmp(word + n - 4, ".lua") == 0)) script = sp_strdup(word);
  free(path);
  sp_env_free(env);
  return script;
}

static int no_command(const char *word) {
  const char *near = near_command(word);
  char *script = near ? NULL : meant_script(word);
  fprintf(stderr, "spcore: there is no command '%s'", word);
  if (near) fprintf(stderr, ", did you mean '%s'?", near);
  if (script) fprintf(stderr, ", did you mean: spcore run %s", script);
  fprintf(stderr, " (see spcore help)\n");
  free(script);
  return SP_EXIT_USAGE;
}

static int start(const sp_cmd *cmd, int argc, char **argv) {
  opterr = 0;
  optind = 1;
  return cmd->main(argc, argv);
}

/* spcore help [COMMAND] */
static int help_on(int n, char **words) {
  if (n > 1) {
    fprintf(stderr, "spcore: help: one command at a time, not also '%s' (see spcore help)\n", words[1]);
    return SP_EXIT_USAGE;
  }
  if (n == 0 || strcmp(words[0], "help") == 0 || strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0)
    return help();
  const sp_cmd *cmd = find(words[0]);
  char *asked[] = {words[0], (char[]){"--help"}, NULL};
  return cmd ? start(cmd, 2, asked) : no_command(words[0]);
}

/* With standard output closed, the next file to be opened would get its number,
 * and every print would go into that file. */
static void open_standard_files(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    while (fcntl(fd, F_GETFD) < 0) {
      int null = open("/dev/null", O_RDWR);
      if (null < 0 || null == fd) break; /* the lowest free number is given */
    }
}

int main(int argc, char **argv) {
  open_standard_files();
  sp_crash_watch();
  if (argc < 2) {
    fprintf(stderr, "spcore: a command is wanted, such as: spcore run train_seg.lua (spcore help lists them)\n");
    return SP_EXIT_USAGE;
  }
  const char *word = argv[1];
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return help();
  if (strcmp(word, "help") == 0) return help_on(argc - 2, argv + 2);
  if (strcmp(word, "--version") == 0) return version();
  const sp_cmd *cmd = find(word);
  if (!cmd) return no_command(word);
  return start(cmd, argc - 1, argv + 1);
}
