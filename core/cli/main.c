/* SPDX-License-Identifier: MIT
 * main.c - the program: finds the command and hands over. */
#include <fcntl.h>
#include <getopt.h>
#include <lua.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "base/crash.h"

static const sp_cmd *const commands[] = {&sp_cmd_run,  &sp_cmd_inspect,    &sp_cmd_devices, &sp_cmd_check,
                                         &sp_cmd_diff, &sp_cmd_strategies, &sp_cmd_schedule};

static int help(void) {
  sp_sb text = {0};
  sp_sb_put(&text, "usage: spcore COMMAND [options]\n\n"
                   "Runs training and inference loops made of stages, wired by a Lua script.\n\n");
  for (size_t i = 0; i < SP_ARRAY(commands); i++)
    sp_sb_putf(&text, "  %-10s  %s\n", commands[i]->name, commands[i]->doc);
  sp_sb_put(&text, "\n  --help       this text; spcore COMMAND --help: that command's\n"
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

static int no_command(const char *word) {
  const char *names[SP_ARRAY(commands) + 1];
  for (size_t i = 0; i < SP_ARRAY(commands); i++) names[i] = commands[i]->name;
  names[SP_ARRAY(commands)] = NULL;
  const char *near = sp_nearest(word, names);
  fprintf(stderr, "spcore: there is no command '%s'", word);
  if (near) fprintf(stderr, ", did you mean '%s'?", near);
  fprintf(stderr, " (see spcore --help)\n");
  return SP_EXIT_USAGE;
}

/* With standard output closed, the next file to be opened would get its number, and every print would go into that file. */
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
    fprintf(stderr, "spcore: a command is wanted (see spcore --help)\n");
    return SP_EXIT_USAGE;
  }
  const char *word = argv[1];
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return help();
  if (strcmp(word, "--version") == 0) return version();
  for (size_t i = 0; i < SP_ARRAY(commands); i++) {
    if (strcmp(word, commands[i]->name) != 0) continue;
    opterr = 0;
    optind = 1;
    return commands[i]->main(argc - 1, argv + 1);
  }
  return no_command(word);
}
