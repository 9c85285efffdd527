/* SPDX-License-Identifier: MIT
 * cmd.c - what the commands have in common: help, usage errors, failures. */
#include "cli/cmd.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

void sp_cmd_put_help(const sp_cmd *cmd, sp_sb *text) {
  sp_sb_putf(text, "usage: spcore %s %s\n\n%s.\n\n%s", cmd->name, cmd->args, cmd->doc, cmd->help);
}

int sp_cmd_help(const sp_cmd *cmd) {
  sp_sb text = {0};
  sp_cmd_put_help(cmd, &text);
  int code = sp_cmd_print(&text);
  sp_sb_free(&text);
  return code;
}

int sp_cmd_usage(const sp_cmd *cmd, const char *fmt, ...) {
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  fprintf(stderr, "spcore: %s: %s (see spcore %s --help)\n", cmd->name, text, cmd->name);
  return SP_EXIT_USAGE;
}

int sp_cmd_bad_option(const sp_cmd *cmd, int what, char *const *argv, const struct option *options) {
  const char *arg = argv[optind - 1], *names[64];
  if (what == ':') return sp_cmd_usage(cmd, "%s wants a value", arg);
  if (strncmp(arg, "--", 2) != 0) return sp_cmd_usage(cmd, "there is no option -%c", optopt);
  char word[64];
  size_t n = 0;
  snprintf(word, sizeof word, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
  for (; options[n].name && n + 1 < SP_ARRAY(names); n++) {
    names[n] = options[n].name;
    if (strcmp(names[n], word) == 0) return sp_cmd_usage(cmd, "--%s takes no value", word);
  }
  names[n] = NULL;
  const char *near = sp_nearest(word, names);
  if (near) return sp_cmd_usage(cmd, "there is no option --%s, did you mean --%s?", word, near);
  return sp_cmd_usage(cmd, "there is no option --%s", word);
}

int sp_cmd_failed(const sp_err *err) {
  fprintf(stderr, "spcore: %s\n", err->msg);
  return SP_EXIT_FAILED;
}

int sp_cmd_print(const sp_sb *sb) {
  sp_err err;
  if (sb->broken) {
    sp_nomem(&err, sb->n, "the output");
    return sp_cmd_failed(&err);
  }
  if (fputs(sp_sb_str(sb), stdout) >= 0 && fflush(stdout) == 0) return 0;
  sp_fail(&err, SP_E_IO, "standard output: %s", strerror(errno));
  return sp_cmd_failed(&err);
}
