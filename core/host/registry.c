/* SPDX-License-Identifier: MIT
 * registry.c - which plugins there are: folders, the files that were loaded, what is built in. */
#include "host/registry.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "host/registry_impl.h"

int sp_registry_new(sp_registry **reg, sp_err *err) {
  *reg = sp_calloc(1, sizeof **reg);
  return *reg ? SP_OK : sp_nomem(err, sizeof **reg, "the registry");
}

static void file_free(sp_reg_file *l) {
  if (!l) return;
  sp_plugin_file_free(&l->file);
  free(l);
}

void sp_registry_free(sp_registry *reg) {
  if (!reg) return;
  for (size_t i = 0; i < reg->n_files; i++) file_free(reg->files[i]);
  for (size_t i = 0; i < reg->n_dirs; i++) {
    for (size_t k = 0; k < reg->dirs[i].n_bad; k++) free(reg->dirs[i].bad[k].path);
    free(reg->dirs[i].bad);
    free(reg->dirs[i].path);
  }
  free(reg->files);
  free(reg->dirs);
  free(reg->devices);
  free(reg);
}

int sp_registry_add_dir(sp_registry *reg, const char *dir, sp_err *err) {
  char *path = sp_strdup(dir);
  if (!path || !sp_grow(&reg->dirs, &reg->cap_dirs, reg->n_dirs + 1, sizeof *reg->dirs)) {
    free(path);
    return sp_nomem(err, strlen(dir), "a plugin folder");
  }
  reg->dirs[reg->n_dirs++] = (sp_reg_folder){.path = path};
  return SP_OK;
}

int sp_registry_add_device(sp_registry *reg, const sp_device_type *type, sp_err *err) {
  if (!sp_grow(&reg->devices, &reg->cap_devices, reg->n_devices + 1, sizeof *reg->devices))
    return sp_nomem(err, sizeof *reg->devices, "a device");
  reg->devices[reg->n_devices++] = type;
  return SP_OK;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Who names two files may want the second one. */
static void log_duplicates(const sp_registry *reg, const sp_plugin_file *f, bool given) {
  for (size_t i = 0; i < f->n_stages; i++)
    for (size_t k = 0; k < reg->n_files; k++)
      for (size_t s = 0; s < reg->files[k]->file.n_stages; s++) {
        const sp_stage_type *t = &reg->files[k]->file.stages[s];
        if (strcmp(t->name, f->stages[i].name) == 0 && strcmp(t->device, f->stages[i].device) == 0)
          sp_log(given && reg->files[k]->given ? SP_LOG_WARN : SP_LOG_DEBUG,
                 "stage '%s' (%s) of %s is already there, from %s, which is used", t->name, t->device, f->path,
                 reg->files[k]->file.path);
      }
}

static int load(sp_registry *reg, const char *path, bool given, const sp_plugin_file **file, sp_err *err) {
  char real[PATH_MAX];
  struct stat st;
  if (!realpath(path, real) || stat(real, &st) != 0)
    return sp_fail(err, errno == ENOENT || errno == ENOTDIR ? SP_E_NOTFOUND : SP_E_IO, "%s: %s", path, strerror(errno));
  if (S_ISDIR(st.st_mode)) return sp_fail(err, SP_E_INVALID, "%s: is a folder, a plugin's FILE.so is wanted", path);
  if (!S_ISREG(st.st_mode)) return sp_fail(err, SP_E_FORMAT, "%s: is not a regular file", path);
  for (size_t i = 0; i < reg->n_files; i++) {
    sp_reg_file *l = reg->files[i];
    if (l->dev != st.st_dev || l->ino != st.st_ino) continue;
    l->given = l->given || given;
    if (file) *file = &l->file;
    return SP_OK;
  }
  sp_reg_file *l = sp_calloc(1, sizeof *l);
  if (!l || !(l->file.path = sp_strdup(real)) ||
      !sp_grow(&reg->files, &reg->cap_files, reg->n_files + 1, sizeof *reg->files)) {
    file_free(l);
    return sp_nomem(err, sizeof *l, path);
  }
  int rc = sp_plugin_file_open(&l->file, path, err);
  if (rc) {
    file_free(l);
    return rc;
  }
  l->dev = st.st_dev;
  l->ino = st.st_ino;
  l->given = given;
  log_duplicates(reg, &l->file, given);
  reg->files[reg->n_files++] = l;
  if (file) *file = &l->file;
  return SP_OK;
}

int sp_registry_load_found(sp_registry *reg, const char *path, sp_err *err) {
  return load(reg, path, false, NULL, err);
}

int sp_registry_load(sp_registry *reg, const char *path, const sp_plugin_file **file, sp_err *err) {
  return load(reg, path, true, file, err);
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static int is_module(const struct dirent *e) {
  size_t n = strlen(e->d_name);
  return n > 3 && strcmp(e->d_name + n - 3, ".so") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

int sp_registry_list_dir(const char *dir, struct dirent ***names) { return scandir(dir, names, is_module, by_name); }

bool sp_registry_link_beside(const char *dir, const char *name, char target[NAME_MAX + 1]) {
  char path[PATH_MAX];
  struct stat st;
  int len = snprintf(path, sizeof path, "%s/%s", dir, name);
  if (len < 0 || (size_t)len >= sizeof path) return false;
  ssize_t n = readlink(path, target, NAME_MAX + 1);
  if (n <= 0 || n > NAME_MAX) return false;
  target[n] = 0;
  return !strchr(target, '/') && strcmp(target, name) != 0 && stat(path, &st) == 0;
}

static int keep_bad(sp_reg_folder *d, const char *path, const sp_err *why) {
  char *copy = sp_strdup(path);
  if (!copy || !sp_grow(&d->bad, &d->cap_bad, d->n_bad + 1, sizeof *d->bad)) {
    free(copy);
    return SP_E_NOMEM;
  }
  d->bad[d->n_bad++] = (sp_reg_refused){copy, *why};
  return SP_OK;
}

static int scan_folder(sp_registry *reg, sp_reg_folder *d, sp_err *err) {
  struct dirent **names = NULL;
  int n = sp_registry_list_dir(d->path, &names);
  int rc = SP_OK;
  if (n < 0) n = 0; /* a missing folder holds nothing */
  for (int i = 0; i < n; i++) {
    char path[PATH_MAX], target[NAME_MAX + 1];
    sp_err why;
    int len = snprintf(path, sizeof path, "%s/%s", d->path, names[i]->d_name);
    bool linked = sp_registry_link_beside(d->path, names[i]->d_name, target); /* which has a turn of its own */
    free(names[i]);
    if (rc || linked || len < 0 || (size_t)len >= sizeof path) continue;
    if (sp_registry_load_found(reg, path, &why) && keep_bad(d, path, &why))
      rc = sp_nomem(err, sizeof why, "a folder's files");
  }
  free(names);
  d->scanned = rc == SP_OK;
  return rc;
}

int sp_registry_scan(sp_registry *reg, void (*bad)(void *arg, const char *path, const sp_err *why), void *arg,
                     sp_err *err) {
  for (size_t i = 0; i < reg->n_dirs; i++) {
    sp_reg_folder *d = &reg->dirs[i];
    int rc = d->scanned ? SP_OK : scan_folder(reg, d, err);
    if (rc) return rc;
    for (size_t k = 0; bad && k < d->n_bad; k++) bad(arg, d->bad[k].path, &d->bad[k].why);
  }
  return SP_OK;
}

size_t sp_registry_count(const sp_registry *reg) { return reg->n_files; }
const sp_plugin_file *sp_registry_at(const sp_registry *reg, size_t i) { return &reg->files[i]->file; }
