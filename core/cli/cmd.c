/* SPDX-License-Identifier: MIT
 * cmd.c - what the commands have in common: help, usage errors, failures. */
#include "cli/cmd.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMNS 80
#define OPTIONS_MAX 32

static const sp_cmd_option help_option = {"help", NULL, 'h', "this text"};

/* The k-th row, the last of which is --help; NULL: there are no more. */
static const sp_cmd_option *option_at(const sp_cmd *cmd, size_t k) {
  size_t n = 0;
  while (cmd->options && cmd->options[n].name) n++;
  return k < n ? &cmd->options[k] : k == n ? &help_option : NULL;
}

static size_t width_of(const sp_cmd_option *o) {
  return strlen("  --") + strlen(o->name) + (o->value ? 1 + strlen(o->value) : 0);
}

/* A row, its words broken so that they stay beside each other. */
static void put_option(sp_sb *text, const sp_cmd_option *o, size_t width) {
  size_t at = width + 2;
  sp_sb_putf(text, "  --%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
  sp_sb_putf(text, "%*s", (int)(at - width_of(o)), "");
  for (const char *word = o->help; *word;) {
    size_t n = strcspn(word, " ");
    bool first = word == o->help, full = !first && at + 1 + n > COLUMNS;
    if (full) sp_sb_putf(text, "\n%*s", (int)width + 2, "");
    else if (!first) sp_sb_put(text, " ");
    sp_sb_putf(text, "%.*s", (int)n, word);
    at = full ? width + 2 + n : at + n + !first;
    word += n + strspn(word + n, " ");
  }
  sp_sb_put(text, "\n");
}

static int put_help(const sp_cmd *cmd) {
  sp_sb text = {0};
  size_t width = 0;
  sp_sb_putf(&text, "usage: spcore %s %s\n\n%s.\n\n", cmd->name, cmd->args, cmd->doc);
  for (size_t k = 0; option_at(cmd, k); k++)
    if (width_of(option_at(cmd, k)) > width) width = width_of(option_at(cmd, k));
  for (size_t k = 0; option_at(cmd, k); k++) put_option(&text, option_at(cmd, k), width);
  if (cmd->help) sp_sb_putf(&text, "\n%s", cmd->help);
  int code = cmd->put_more ? cmd->put_more(&text) : 0;
  if (!code) code = sp_cmd_print(&text);
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

/* What getopt_long did not like: `what` is its result, '?', or ':' where an argument is missing. Names the option and,
 * where one is near, the right one. */
static int bad_option(const sp_cmd *cmd, int what, char *const *argv) {
  const char *arg = argv[optind - 1], *names[OPTIONS_MAX + 1];
  if (what == ':') return sp_cmd_usage(cmd, "%s wants a value", arg);
  if (strncmp(arg, "--", 2) != 0) return sp_cmd_usage(cmd, "there is no option -%c", optopt);
  char word[64];
  size_t n = 0;
  snprintf(word, sizeof word, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
  for (; n < OPTIONS_MAX && option_at(cmd, n); n++) {
    names[n] = option_at(cmd, n)->name;
    if (strcmp(names[n], word) == 0) return sp_cmd_usage(cmd, "--%s takes no value", word);
  }
  names[n] = NULL;
  const char *near = sp_nearest(word, names);
  if (near) return sp_cmd_usage(cmd, "there is no option --%s, did you mean --%s?", word, near);
  return sp_cmd_usage(cmd, "there is no option --%s", word);
}

int sp_cmd_next(const sp_cmd *cmd, int argc, char **argv, int *code) {
  struct option list[OPTIONS_MAX + 1] = {{0}};
  for (size_t k = 0; k < OPTIONS_MAX && option_at(cmd, k); k++) {
    const sp_cmd_option *o = option_at(cmd, k);
    list[k] = (struct option){o->name, o->value ? required_argument : no_argument, NULL, o->key};
  }
  int key = getopt_long(argc, argv, cmd->options_first ? "+:h" : ":h", list, NULL);
  if (key == -1) return 0;
  if (key == 'h') *code = put_help(cmd);
  else if (key == '?' || key == ':') *code = bad_option(cmd, key, argv);
  else return key;
  return 0;
}

int sp_cmd_failed(const sp_err *err) {
  fprintf(stderr, "spcore: %s\n", err->msg);
  return SP_EXIT_FAILED;
}

/* Letters of n bytes, in UTF-8. */
static size_t letters(const char *s, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += (s[i] & 0xc0) != 0x80;
  return count;
}

/* Where what follows a break stands: below the last column of a line, which two blanks or more precede,
 * in its first half. */
static size_t indent_of(const char *line, size_t n, size_t columns) {
  size_t indent = 0;
  for (size_t i = 2; i < n && i <= columns / 2; i++)
    if (line[i] != ' ' && line[i - 1] == ' ' && line[i - 2] == ' ') indent = i;
  return indent ? indent : strspn(line, " ") + 2;
}

static void fold_line(sp_sb *out, const char *line, size_t n, size_t columns) {
  size_t indent = indent_of(line, n, columns), at = 0;
  for (size_t i = 0; i < n;) {
    size_t blanks = strspn(line + i, " "), word = strcspn(line + i + blanks, " \n");
    size_t wide = letters(line + i + blanks, word);
    if (at > indent && at + blanks + wide > columns) {
      sp_sb_putf(out, "\n%*s%.*s", (int)indent, "", (int)word, line + i + blanks);
      at = indent + wide;
    } else {
      sp_sb_putf(out, "%.*s", (int)(blanks + word), line + i);
      at += blanks + wide;
    }
    i += blanks + word;
  }
}

int sp_cmd_print_folded(const sp_sb *sb) {
  struct winsize size;
  if (sb->broken || !isatty(1) || ioctl(1, TIOCGWINSZ, &size) || size.ws_col < 20) return sp_cmd_print(sb);
  sp_sb out = {0};
  for (const char *line = sp_sb_str(sb); *line;) {
    size_t n = strcspn(line, "\n");
    fold_line(&out, line, n, size.ws_col);
    sp_sb_put(&out, line[n] ? "\n" : "");
    line += n + (line[n] == '\n');
  }
  int code = sp_cmd_print(&out);
  sp_sb_free(&out);
  return code;
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
