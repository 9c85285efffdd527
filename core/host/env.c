/* SPDX-License-Identifier: MIT
 * env.c - what one process has once: plugins, worker threads, where scripts and plugins lie. */
#include "host/env.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cpu.h"

#define HELPERS_MAX 64

/* How threads of OpenMP libraries inside plugins wait between two parallel regions. Read by the library when it is
 * loaded, so it must be set before the first plugin is. What the user has set stays. */
static const struct {
  const char *name, *value;
} openmp[] = {
    {"OMP_WAIT_POLICY", "passive"}, /* lanes share the processors: a thread that spins takes one from another lane */
};

static void set_openmp(void) {
  for (size_t i = 0; i < SP_ARRAY(openmp); i++) setenv(openmp[i].name, openmp[i].value, 0);
}

static int processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 && n <= INT_MAX ? (int)n : 1;
}

/* ---- where things lie -------------------------------------------------------------------------------------------- */

static char *join(const char *dir, const char *name) {
  sp_sb path = {0};
  sp_sb_putf(&path, "%s/%s", dir, name);
  if (!path.broken) return path.s;
  sp_sb_free(&path);
  return NULL;
}

/* The last folder of `path` is cut off; false at the root. */
static bool up(char *path) {
  char *slash = strrchr(path, '/');
  if (!slash || slash == path) return false;
  *slash = 0;
  return true;
}

/* The `srcdir=` line of DIR/spcore.tree, which configure writes; false where there is no such file. */
static bool read_tree(const char *dir, char *srcdir, size_t n) {
  char path[PATH_MAX + 16], line[PATH_MAX + 16];
  bool found = false;
  snprintf(path, sizeof path, "%s/spcore.tree", dir);
  FILE *f = fopen(path, "re");
  if (!f) return false;
  while (!found && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    found = strncmp(line, "srcdir=/", 8) == 0 && strlen(line + 7) < n;
    if (found) strcpy(srcdir, line + 7);
  }
  fclose(f);
  return found;
}

/* The build tree that this program was built in, if it is run from there: its own folder or the one above, where a
 * .libs in between (libtool's real programs) does not count. */
static bool find_tree(char *builddir, char *srcdir, size_t n) {
  ssize_t len = readlink("/proc/self/exe", builddir, n - 1);
  if (len <= 0) return false;
  builddir[len] = 0;
  if (!up(builddir)) return false;
  const char *base = strrchr(builddir, '/');
  if (base && strcmp(base, "/.libs") == 0 && !up(builddir)) return false;
  if (read_tree(builddir, srcdir, n)) return true;
  return up(builddir) && read_tree(builddir, srcdir, n);
}

/* A folder of the installation, as it lies beside the program: what was installed with DESTDIR, or moved, is not where
 * it was configured for. The folder as configured where there is no such one. */
static char *installed(const char *folder) {
  static const char bin[] = SP_BINDIR;
  char program[PATH_MAX];
  ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
  size_t same = 0; /* what both paths begin with, whole names */
  for (size_t i = 0; folder[i] == bin[i] || !bin[i]; i++) {
    if ((folder[i] == '/' || !folder[i]) && (bin[i] == '/' || !bin[i])) same = i;
    if (!folder[i] || !bin[i]) break;
  }
  if (len <= 0) return sp_strdup(folder);
  program[len] = 0;
  bool is_there = up(program);
  for (const char *p = bin + same; is_there && *p; p++)
    if (*p == '/' && p[1]) is_there = up(program);
  char *beside = is_there ? join(program, folder + same + (folder[same] == '/')) : NULL;
  if (beside && access(beside, F_OK) == 0) return beside;
  free(beside);
  return sp_strdup(folder);
}

static int find_folders(sp_env *env, sp_err *err) {
  char builddir[PATH_MAX], srcdir[PATH_MAX];
  env->in_tree = find_tree(builddir, srcdir, PATH_MAX);
  env->plugin_dir = env->in_tree ? join(builddir, ".libs") : installed(SP_PLUGINDIR);
  env->script_dir = env->in_tree ? join(srcdir, "scripts") : installed(SP_SCRIPTDIR);
  return env->plugin_dir && env->script_dir ? SP_OK : sp_nomem(err, PATH_MAX, "folder names");
}

/* ---- plugins ----------------------------------------------------------------------------------------------------- */

static int add_path(sp_registry *reg, const char *list, sp_err *err) {
  for (const char *p = list; p && *p;) {
    size_t n = strcspn(p, ":");
    if (n && n < PATH_MAX) {
      char dir[PATH_MAX];
      memcpy(dir, p, n);
      dir[n] = 0;
      int rc = sp_registry_add_dir(reg, dir, err);
      if (rc) return rc;
    }
    p += n + (p[n] == ':');
  }
  return SP_OK;
}

static int set_up(sp_env *env, const sp_env_opts *opts, sp_err *err) {
  int rc = find_folders(env, err);
  if (!rc) rc = sp_registry_new(&env->reg, err);
  if (!rc) rc = sp_registry_add_device(env->reg, &sp_device_cpu, err);
  if (!rc) rc = sp_registry_add_device(env->reg, &sp_device_sim, err);
  if (!rc) rc = sp_registry_add_device(env->reg, &sp_device_mock, err);
  if (!rc) rc = sp_registry_add_device(env->reg, &sp_device_simmock, err);
  if (!rc) rc = add_path(env->reg, getenv("SPCORE_PLUGIN_PATH"), err);
  if (!rc) rc = sp_registry_add_dir(env->reg, env->plugin_dir, err);
  if (!rc) rc = sp_team_new(&env->team, opts->max_helpers ? opts->max_helpers : HELPERS_MAX, err);
  for (size_t i = 0; !rc && i < opts->n_plugins; i++) rc = sp_registry_load(env->reg, opts->plugins[i], NULL, err);
  return rc;
}

int sp_env_new(sp_env **out, const sp_env_opts *opts, sp_err *err) {
  *out = NULL;
  if (opts->threads < 0 || opts->max_helpers < 0)
    return sp_fail(err, SP_E_RANGE, "%d threads: at least 1 is wanted, or 0 for all processors",
                   opts->threads < 0 ? opts->threads : opts->max_helpers);
  set_openmp();
  sp_env *env = sp_calloc(1, sizeof *env);
  if (!env) return sp_nomem(err, sizeof *env, "the environment");
  env->threads = opts->threads ? opts->threads : processors();
  int rc = set_up(env, opts, err);
  if (rc) {
    sp_env_free(env);
    return rc;
  }
  env->host = (sp_stage_host){.team = env->team, .threads = env->threads};
  *out = env;
  return SP_OK;
}

void sp_env_free(sp_env *env) {
  if (!env) return;
  if (env->team) sp_team_free(env->team);
  sp_registry_free(env->reg);
  free(env->script_dir);
  free(env->plugin_dir);
  free(env);
}
