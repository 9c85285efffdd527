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

/* What lies beside the shipped scripts, and shows one idea each. */
#define EXAMPLES "examples"

char *sp_script_find(const sp_env *env, const char *script) {
  const char *fronts[] = {"", "/", "/" EXAMPLES "/"}; /* the first: as it is given */
  const char *ends[] = {"", ".lua"};
  for (size_t f = 0; f < SP_ARRAY(fronts); f++) {
    if (f && sp_script_is_path(script)) continue;
    for (size_t e = 0; e < SP_ARRAY(ends); e++) {
      sp_sb path = {0};
      sp_sb_putf(&path, "%s%s%s%s", f ? env->script_dir : "", fronts[f], script, ends[e]);
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

/* The shipped scripts of a folder beside each other, sorted: "train_seg.lua"; of EXAMPLES "examples/branches.lua". */
typedef struct shipped {
  char **names; /* ended by NULL */
  size_t n;
} shipped;

static void add_folder(shipped *s, const char *dir, const char *front) {
  struct dirent **list;
  int n = scandir(dir, &list, is_script, alphasort);
  for (int i = 0; i < n; i++) {
    char **more = realloc(s->names, (s->n + 2) * sizeof *more);
    sp_sb name = {0};
    sp_sb_putf(&name, "%s%s", front, list[i]->d_name);
    free(list[i]);
    if (more) s->names = more;
    if (!more || name.broken) {
      sp_sb_free(&name);
      continue;
    }
    s->names[s->n++] = name.s;
    s->names[s->n] = NULL;
  }
  if (n >= 0) free(list);
}

static shipped list_shipped(const sp_env *env) {
  shipped s = {0};
  sp_sb examples = {0};
  add_folder(&s, env->script_dir, "");
  sp_sb_putf(&examples, "%s/" EXAMPLES, env->script_dir);
  add_folder(&s, sp_sb_str(&examples), EXAMPLES "/");
  sp_sb_free(&examples);
  return s;
}

static void free_shipped(shipped *s) {
  for (size_t i = 0; i < s->n; i++) free(s->names[i]);
  free(s->names);
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

char *sp_script_near(const sp_env *env, const char *script) {
  shipped s = list_shipped(env);
  const char **names = sp_calloc(s.n + 1, sizeof *names), *near = NULL;
  sp_sb word = {0};
  sp_sb_put(&word, last_part(script));
  if (!ends_in_lua(sp_sb_str(&word))) sp_sb_put(&word, ".lua");
  for (size_t i = 0; names && i < s.n; i++) names[i] = last_part(s.names[i]);
  if (names) near = sp_nearest(sp_sb_str(&word), names);
  char *copy = near ? sp_strdup(near) : NULL;
  free(names);
  sp_sb_free(&word);
  free_shipped(&s);
  return copy;
}

void sp_script_put_shipped(const sp_env *env, size_t columns, sp_sb *out) {
  shipped s = list_shipped(env);
  size_t line = out->n;
  for (size_t i = 0; i < s.n; i++) {
    bool full = columns && out->n - line + strlen(s.names[i]) + 3 > columns;
    if (i) sp_sb_put(out, full ? ",\n" : ", ");
    if (full) line = out->n;
    sp_sb_put(out, s.names[i]);
  }
  free_shipped(&s);
}
