/* SPDX-License-Identifier: MIT
 * cmd_strategies.c - spcore strategies: the strategies that are shipped, with the words that begin their files. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "host/env.h"

static int is_lua(const struct dirent *e) {
  size_t n = strlen(e->d_name);
  return e->d_name[0] != '.' && n > 4 && strcmp(e->d_name + n - 4, ".lua") == 0;
}

/* The comment at the top, in one line; the licence's is none. */
static int read_words(const char *path, sp_sb *words, sp_err *err) {
  char line[1024];
  FILE *f = fopen(path, "re");
  if (!f) return sp_fail(err, SP_E_IO, "%s: %s", path, strerror(errno));
  while (fgets(line, sizeof line, f) && strncmp(line, "--", 2) == 0) {
    if (strncmp(line, "-- SPDX", 7) == 0) continue;
    line[strcspn(line, "\n")] = 0;
    sp_sb_putf(words, "%s%s", words->n ? " " : "", line + 2 + strspn(line + 2, " "));
  }
  fclose(f);
  return SP_OK;
}

static int put_strategy(const char *folder, const char *file, bool json, bool first, sp_sb *out, sp_err *err) {
  sp_sb path = {0}, words = {0}, name = {0};
  sp_sb_putf(&path, "%s/%s", folder, file);
  sp_sb_putf(&name, "%.*s", (int)(strlen(file) - 4), file);
  int st = read_words(sp_sb_str(&path), &words, err);
  if (!st && json) {
    sp_sb_put(out, first ? "" : ",\n ");
    sp_sb_put(out, "{\"name\":");
    sp_sb_json(out, sp_sb_str(&name));
    sp_sb_put(out, ",\"doc\":");
    sp_sb_json(out, sp_sb_str(&words));
    sp_sb_put(out, ",\"file\":");
    sp_sb_json(out, sp_sb_str(&path));
    sp_sb_put(out, "}");
  } else if (!st) sp_sb_putf(out, "%-14s  %s\n", sp_sb_str(&name), sp_sb_str(&words));
  sp_sb_free(&path);
  sp_sb_free(&words);
  sp_sb_free(&name);
  return st;
}

static int list_strategies(const sp_env *env, bool json, sp_sb *out, sp_err *err) {
  struct dirent **list;
  sp_sb folder = {0};
  sp_sb_putf(&folder, "%s/spcore/strategies", env->script_dir);
  int st = SP_OK, n = scandir(sp_sb_str(&folder), &list, is_lua, alphasort);
  if (n < 0) st = sp_fail(err, SP_E_IO, "%s: %s", sp_sb_str(&folder), strerror(errno));
  if (json) sp_sb_put(out, "[");
  for (int i = 0; i < n; i++) {
    if (!st) st = put_strategy(sp_sb_str(&folder), list[i]->d_name, json, i == 0, out, err);
    free(list[i]);
  }
  if (json) sp_sb_put(out, "]\n");
  if (n >= 0) free(list);
  sp_sb_free(&folder);
  return st;
}

static int strategies_main(int argc, char **argv) {
  bool json = false;
  int code = -1;
  while (sp_cmd_next(&sp_cmd_strategies, argc, argv, &code)) json = true;
  if (code >= 0) return code;
  if (optind < argc) return sp_cmd_usage(&sp_cmd_strategies, "'%s' is not wanted", argv[optind]);
  sp_env *env;
  sp_err err;
  sp_sb out = {0};
  if (sp_env_new(&env, &(sp_env_opts){.threads = 1, .max_helpers = 1}, &err)) return sp_cmd_failed(&err);
  if (list_strategies(env, json, &out, &err)) code = sp_cmd_failed(&err);
  else code = json ? sp_cmd_print(&out) : sp_cmd_print_folded(&out);
  sp_sb_free(&out);
  sp_env_free(env);
  return code;
}

static const sp_cmd_option options[] = {{"json", NULL, 'j', "as one JSON document"}, {0}};

const sp_cmd sp_cmd_strategies = {
    .name = "strategies",
    .args = "[options]",
    .doc = "Lists the strategies that are shipped, with what each does",
    .options = options,
    .help = "spcore run SCRIPT --strategy NAME takes one of them, --strategy ./FILE.lua one's own.\n",
    .main = strategies_main};
