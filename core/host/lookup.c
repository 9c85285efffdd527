/* SPDX-License-Identifier: MIT
 * lookup.c - stages, devices, formats and communicators by name: which file a name says,
 * and words where there is none. */
#include "host/registry.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "host/foreign.h"
#include "host/registry_impl.h"

/* The path of BASE.so in the first folder that has it; false: none has. */
static bool find_file(const sp_registry *reg, const char *base, char path[PATH_MAX]) {
  struct stat st;
  for (size_t i = 0; i < reg->n_dirs; i++) {
    int len = snprintf(path, PATH_MAX, "%s/%s.so", reg->dirs[i].path, base);
    if (len >= 0 && len < PATH_MAX && stat(path, &st) == 0) return true;
  }
  return false;
}

/* SP_OK: loaded, or nowhere there. */
static int load_by_name(sp_registry *reg, const char *base, sp_err *err) {
  char path[PATH_MAX];
  return find_file(reg, base, path) ? sp_registry_load_found(reg, path, err) : SP_OK;
}

static const sp_stage_type *find_stage(const sp_registry *reg, const char *name, const char *device,
                                       const sp_plugin_file **file) {
  for (int given = 1; given >= 0; given--)
    for (size_t i = 0; i < reg->n_files; i++) {
      const sp_plugin_file *f = &reg->files[i]->file;
      if (reg->files[i]->given != given) continue;
      for (size_t k = 0; k < f->n_stages; k++) {
        if (strcmp(f->stages[k].name, name) != 0 || (device && strcmp(f->stages[k].device, device) != 0)) continue;
        if (file) *file = f;
        return &f->stages[k];
      }
    }
  return NULL;
}

/* Where `name` ends without its last word: toy_mul -> toy. 0: it is one word. */
static size_t shorter(const char *name, size_t n) {
  while (n && name[n - 1] != '_') n--;
  return n ? n - 1 : 0;
}

/* Opens the file NAME + suffix, or where there is none that of NAME's first words; NULL: it has no such stage. `why` is
 * about the first file that does not load. */
static const sp_stage_type *load_stage_from(sp_registry *reg, const char *name, const char *device, const char *suffix,
                                            const sp_plugin_file **file, sp_err *why) {
  char base[160], path[PATH_MAX];
  sp_err err;
  for (size_t n = strlen(name); n; n = shorter(name, n)) {
    int len = snprintf(base, sizeof base, "%.*s%s", (int)n, name, suffix);
    if (len < 0 || (size_t)len >= sizeof base || !find_file(reg, base, path)) continue;
    if (sp_registry_load_found(reg, path, &err) && !why->status) *why = err;
    return find_stage(reg, name, device, file);
  }
  return NULL;
}

/* NULL: neither the device's own file nor the one without a device has it. */
static const sp_stage_type *load_stage(sp_registry *reg, const char *name, const char *device,
                                       const sp_plugin_file **file, sp_err *why) {
  const sp_stage_type *type = NULL;
  char suffix[64];
  int len = snprintf(suffix, sizeof suffix, "_%s", device);
  if (!sp_plugin_name_ok(name) || !sp_plugin_name_ok(device) || len < 0 || (size_t)len >= sizeof suffix) return NULL;
  if (strcmp(device, "cpu") != 0) type = load_stage_from(reg, name, device, suffix, file, why);
  return type ? type : load_stage_from(reg, name, device, "", file, why);
}

/* ---- what else there is, by the names of files: nothing of it is opened ---- */

typedef struct names {
  const char **v; /* ended by NULL; each from malloc() */
  size_t n, cap;
} names;

static void names_add(names *a, const char *text, size_t len) {
  char *copy = malloc(len + 1);
  if (!copy || !sp_grow(&a->v, &a->cap, a->n + 2, sizeof *a->v)) {
    free(copy); /* one suggestion less */
    return;
  }
  memcpy(copy, text, len);
  copy[len] = 0;
  a->v[a->n++] = copy;
  a->v[a->n] = NULL;
}

static void names_free(names *a) {
  for (size_t i = 0; i < a->n; i++) free((char *)a->v[i]);
  free(a->v);
}

/* Is a file linked to by others of its folder? These are named after its stages, it is not. */
static bool has_links(const char *dir, struct dirent *const *list, int n, const char *file) {
  char target[NAME_MAX + 1];
  for (int i = 0; i < n; i++)
    if (sp_registry_link_beside(dir, list[i]->d_name, target) && strcmp(target, file) == 0) return true;
  return false;
}

/* Of the files in the folders, without ".so". */
static names file_names(const sp_registry *reg) {
  names all = {0};
  for (size_t i = 0; i < reg->n_dirs; i++) {
    const char *dir = reg->dirs[i].path;
    struct dirent **list = NULL;
    int n = sp_registry_list_dir(dir, &list);
    for (int k = 0; k < n; k++)
      if (!has_links(dir, list, n, list[k]->d_name)) names_add(&all, list[k]->d_name, strlen(list[k]->d_name) - 3);
    for (int k = 0; k < n; k++) free(list[k]);
    free(list);
  }
  return all;
}

#define DEVICE_PREFIX "device_"
#define COMM_PREFIX "comm_"
static const char *after(const char *file, const char *prefix) {
  size_t n = strlen(prefix);
  return strncmp(file, prefix, n) == 0 ? file + n : NULL;
}

static const char *device_of(const char *file) { return after(file, DEVICE_PREFIX); }

/* How much of a file's name is that of a stage: blur of blur_cuda, where there is a device_cuda. 0: nothing. */
static size_t stage_part(const names *files, const char *file) {
  size_t n = strlen(file);
  if (device_of(file) || after(file, COMM_PREFIX)) return 0;
  for (size_t i = 0; i < files->n; i++) {
    const char *device = device_of(files->v[i]);
    size_t len = device ? strlen(device) : n;
    if (n > len + 1 && file[n - len - 1] == '_' && strcmp(file + n - len, device) == 0) return n - len - 1;
  }
  return n;
}

void sp_registry_load_stage(sp_registry *reg, const char *name) {
  names files = file_names(reg);
  sp_err ignored = {0};
  load_stage(reg, name, "cpu", NULL, &ignored);
  for (size_t i = 0; i < reg->n_devices; i++) load_stage(reg, name, reg->devices[i]->name, NULL, &ignored);
  for (size_t i = 0; i < files.n; i++)
    if (device_of(files.v[i])) load_stage(reg, name, device_of(files.v[i]), NULL, &ignored);
  names_free(&files);
}

/* Why a stage or a format of ours may be unknown here: configure found no library for it. CUDA alone takes no name
 * away: its stages are twins of others. */
#define BUILT_WITHOUT \
  (sizeof SP_LEFT_OUT > 1 && strcmp(SP_LEFT_OUT, "cuda") != 0 ? " (built without " SP_LEFT_OUT ")" : "")

/* Stages that are loaded, and those that files are named after. */
static names stage_names(const sp_registry *reg) {
  names files = file_names(reg), all = {0};
  for (size_t i = 0; i < reg->n_files; i++)
    for (size_t k = 0; k < reg->files[i]->file.n_stages; k++) {
      const char *name = reg->files[i]->file.stages[k].name;
      names_add(&all, name, strlen(name));
    }
  for (size_t i = 0; i < files.n; i++)
    if (stage_part(&files, files.v[i])) names_add(&all, files.v[i], stage_part(&files, files.v[i]));
  names_free(&files);
  return all;
}

static int no_stage(sp_registry *reg, const char *name, const char *device, sp_err *err) {
  sp_registry_load_stage(reg, name);
  const sp_stage_type *other = find_stage(reg, name, NULL, NULL);
  if (other)
    return sp_fail(err, SP_E_NOTFOUND, "stage '%s' does not exist for device '%s', only for '%s'", name, device,
                   other->device);
  char path[PATH_MAX];
  if (find_file(reg, name, path)) /* which was opened: a communicator's, a device's, a format's */
    return sp_fail(err, SP_E_NOTFOUND, "%s has no stage '%s'; spcore inspect lists what it has", path, name);
  names all = stage_names(reg);
  const char *near = all.n ? sp_nearest(name, all.v) : NULL;
  if (near) {
    sp_fail(err, SP_E_NOTFOUND, "unknown stage '%s', did you mean '%s'?%s", name, near, BUILT_WITHOUT);
  } else if (all.n) {
    sp_fail(err, SP_E_NOTFOUND,
            "unknown stage '%s': no plugin folder has %s.so; spcore inspect lists what there is, --plugin takes a "
            "file of another name%s",
            name, name, BUILT_WITHOUT);
  } else {
    sp_sb dirs = {0};
    for (size_t i = 0; i < reg->n_dirs; i++) sp_sb_putf(&dirs, "%s%s", i ? ", " : "", reg->dirs[i].path);
    sp_fail(err, SP_E_NOTFOUND, "unknown stage '%s': no plugin was found, looked in %s", name, sp_sb_str(&dirs));
    sp_sb_free(&dirs);
  }
  names_free(&all);
  return err->status;
}

int sp_registry_stage(sp_registry *reg, const char *name, const char *device, const sp_stage_type **type,
                      const sp_plugin_file **file, sp_err *err) {
  sp_err why = {0};
  *type = find_stage(reg, name, device, file);
  if (!*type) *type = load_stage(reg, name, device, file, &why);
  if (*type) return SP_OK;
  if (why.status) { /* the file that should have it is there, but does not load */
    *err = why;
    if (err->status == SP_E_NOTFOUND) err->status = SP_E_IO; /* a library is missing, not the stage: take no other */
    return sp_prefix(err, "stage '%s'", name);
  }
  return no_stage(reg, name, device, err);
}

static const sp_device_type *find_device(const sp_registry *reg, const char *name) {
  for (size_t i = 0; i < reg->n_devices; i++)
    if (strcmp(reg->devices[i]->name, name) == 0) return reg->devices[i];
  for (size_t i = 0; i < reg->n_files; i++)
    for (size_t k = 0; k < reg->files[i]->file.n_devices; k++)
      if (strcmp(reg->files[i]->file.devices[k].name, name) == 0) return &reg->files[i]->file.devices[k];
  return NULL;
}

int sp_registry_device(sp_registry *reg, const char *name, const sp_device_type **type, sp_err *err) {
  *type = find_device(reg, name);
  if (*type) return SP_OK;
  char base[96];
  int len = snprintf(base, sizeof base, DEVICE_PREFIX "%s", name);
  if (sp_plugin_name_ok(name) && len > 0 && (size_t)len < sizeof base) {
    if (load_by_name(reg, base, err)) return sp_prefix(err, "device '%s'", name);
    *type = find_device(reg, name);
    if (*type) return SP_OK;
  }
  return sp_fail(err, SP_E_NOTFOUND, "there is no device '%s': spcore devices lists what there is", name);
}

int sp_device_name_parse(const char *text, sp_device_name *name, sp_err *err) {
  size_t n = strcspn(text, ":");
  const char *number = text[n] ? text + n + 1 : "0";
  bool digits = *number && !number[strspn(number, "0123456789")];
  unsigned long index = digits ? strtoul(number, NULL, 10) : ULONG_MAX; /* which is also what is too large for it */
  if (!n || n >= sizeof name->type || index > SP_DEVICE_NUMBER_MAX)
    return sp_fail(err, SP_E_INVALID, "NAME or NAME:NUMBER is wanted, NAME of 1 to %zu characters, NUMBER from 0 to %d",
                   sizeof name->type - 1, SP_DEVICE_NUMBER_MAX);
  memcpy(name->type, text, n);
  name->type[n] = 0;
  name->index = (int)index;
  return SP_OK;
}

int sp_registry_device_at(sp_registry *reg, const char *name, const sp_device_type **type, int *index, sp_err *err) {
  sp_device_name parsed;
  if (sp_device_name_parse(name, &parsed, err)) return sp_prefix(err, "device '%s'", name);
  *index = parsed.index;
  return sp_registry_device(reg, parsed.type, type, err);
}

static const sp_format_type *find_format(const sp_registry *reg, const char *path) {
  size_t n = strlen(path);
  for (size_t i = 0; i < reg->n_files; i++)
    for (size_t k = 0; k < reg->files[i]->file.n_formats; k++) {
      const sp_format_type *t = &reg->files[i]->file.formats[k];
      size_t e = strlen(t->extension);
      if (n > e && strcmp(path + n - e, t->extension) == 0) return t;
    }
  return NULL;
}

int sp_registry_format(sp_registry *reg, const char *path, const sp_format_type **type, sp_err *err) {
  sp_err why = {0};
  *type = find_format(reg, path);
  if (*type) return SP_OK;
  const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
  if (!dot || !dot[1])
    return sp_fail(err, SP_E_NOTFOUND, "%s: a weights file is known by its extension, such as .safetensors", path);
  if (sp_plugin_name_ok(dot + 1) && strlen(dot) < 64) {
    load_by_name(reg, dot + 1, &why);
    *type = find_format(reg, path);
    if (*type) return SP_OK;
  }
  if (why.status) {
    *err = why;
    return sp_prefix(err, "%s", path);
  }
  sp_sb words = {0};
  if (sp_foreign_words(path, &words)) {
    sp_fail(err, SP_E_NOTFOUND, "%s: %s", path, sp_sb_str(&words));
    sp_sb_free(&words);
    return err->status;
  }
  return sp_fail(err, SP_E_NOTFOUND, "%s: no plugin reads or writes '%s' files%s", path, dot, BUILT_WITHOUT);
}

static const sp_comm_type *find_comm(const sp_registry *reg, const char *name) {
  for (size_t i = 0; i < reg->n_files; i++)
    for (size_t k = 0; k < reg->files[i]->file.n_comms; k++)
      if (strcmp(reg->files[i]->file.comms[k].name, name) == 0) return &reg->files[i]->file.comms[k];
  return NULL;
}

static int no_comm(const sp_registry *reg, const char *name, sp_err *err) {
  names files = file_names(reg);
  sp_sb all = {0};
  for (size_t i = 0; i < files.n; i++) {
    const char *comm = after(files.v[i], COMM_PREFIX);
    for (size_t k = 0; comm && k < i; k++) /* a folder may be given twice */
      if (!strcmp(files.v[k], files.v[i])) comm = NULL;
    if (comm) sp_sb_putf(&all, "%s%s", all.n ? ", " : "", comm);
  }
  names_free(&files);
  sp_fail(err, SP_E_NOTFOUND, "there is no communicator '%s', only: %s", name, all.n ? sp_sb_str(&all) : "none at all");
  sp_sb_free(&all);
  return err->status;
}

int sp_registry_comm(sp_registry *reg, const char *name, const sp_comm_type **type, sp_err *err) {
  char base[96];
  *type = find_comm(reg, name);
  if (*type) return SP_OK;
  int len = snprintf(base, sizeof base, COMM_PREFIX "%s", name);
  if (sp_plugin_name_ok(name) && len > 0 && (size_t)len < sizeof base) {
    if (load_by_name(reg, base, err)) return sp_prefix(err, "communicator '%s'", name);
    *type = find_comm(reg, name);
  }
  return *type ? SP_OK : no_comm(reg, name, err);
}
