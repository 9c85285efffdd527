/* SPDX-License-Identifier: MIT
 * script.c - scripts by name: where one is found, and what to type where there is none. */
#include "lua/script.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"

static bool is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool sp_script_is_path(const char *script) {
  return script[0] == '/' || !strncmp(script, "./", 2) || !strncmp(script, "../", 3);
}

char *sp_script_find(const sp_env *env, const char *script) {
  const char *dirs[] = {"", env->script_dir};
  const char *ends[] = {"", ".lua"};
  for (size_t d = 0; d < SP_ARRAY(dirs); d++) {
    if (dirs[d][0] && sp_script_is_path(script)) continue;
    for (size_t e = 0; e < SP_ARRAY(ends); e++) {
      sp_sb path = {0};
      sp_sb_putf(&path, "%s%s%s%s", dirs[d], dirs[d][0] ? "/" : "", script, ends[e]);
      if (!path.broken && is_file(sp_sb_str(&path))) return path.s;
      sp_sb_free(&path);
    }
  }
  return NULL;
}

static bool ends_in_lua(const char *name) {
  size_t n = strlen(name);
  return n > 4 && strcmp(name + n - 4, ".lua") == 0;
}

static int is_script(const struct dirent *e) { return e->d_name[0] != '.' && ends_in_lua(e->d_name); }

static int list_shipped(const sp_env *env, struct dirent ***list) {
  *list = NULL;
  return scandir(env->script_dir, list, is_script, alphasort);
}

static void free_list(struct dirent **list, int n) {
  for (int i = 0; i < n; i++) free(list[i]);
  free(list);
}

char *sp_script_near(const sp_env *env, const char *script) {
  struct dirent **list;
  const char *slash = strrchr(script, '/'), *near = NULL;
  sp_sb word = {0};
  int n = list_shipped(env, &list);
  const char **names = sp_calloc(n > 0 ? (size_t)n + 1 : 1, sizeof *names);
  sp_sb_put(&word, slash ? slash + 1 : script);
  if (!ends_in_lua(sp_sb_str(&word))) sp_sb_put(&word, ".lua");
  for (int i = 0; names && i < n; i++) names[i] = list[i]->d_name;
  if (names) near = sp_nearest(sp_sb_str(&word), names);
  char *copy = near ? sp_strdup(near) : NULL;
  free(names);
  sp_sb_free(&word);
  free_list(list, n);
  return copy;
}

void sp_script_put_shipped(const sp_env *env, size_t columns, sp_sb *out) {
  struct dirent **list;
  int n = list_shipped(env, &list);
  size_t line = out->n;
  for (int i = 0; i < n; i++) {
    bool full = columns && out->n - line + strlen(list[i]->d_name) + 3 > columns;
    if (i) sp_sb_put(out, full ? ",\n" : ", ");
    if (full) line = out->n;
    sp_sb_put(out, list[i]->d_name);
  }
  free_list(list, n);
}
