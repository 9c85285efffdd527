/* SPDX-License-Identifier: MIT
 * registry.c - finding, checking and loading plugins. */
#include "host/registry.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crash.h"
#include "host/elf_check.h"
#include "base/fpmode.h"
#include "host/param.h"

#define LIST_CAP 1024 /* stages, ports ... of one plugin: a list that is not ended is found out, not run through */

#define PORTS_MAX 64

typedef struct loaded {
  sp_plugin_file file; /* first: a pointer to it is a pointer to this */
  dev_t dev;
  ino_t ino;
  bool given; /* asked for by path: comes before what was found in folders */
} loaded;

typedef struct refused {
  char *path;
  sp_err why;
} refused;

typedef struct folder {
  char *path;
  bool scanned;
  refused *bad;
  size_t n_bad, cap_bad;
} folder;

struct sp_registry {
  loaded **files;
  size_t n_files, cap_files;
  folder *dirs;
  size_t n_dirs, cap_dirs;
  const sp_device_type **devices; /* built in */
  size_t n_devices, cap_devices;
};

int sp_registry_new(sp_registry **reg, sp_err *err) {
  *reg = sp_calloc(1, sizeof **reg);
  return *reg ? SP_OK : sp_nomem(err, sizeof **reg, "the registry");
}

static void loaded_free(loaded *l) {
  if (!l) return;
  free(l->file.path);
  free(l->file.stages);
  free(l->file.devices);
  free(l->file.formats);
  free(l);
}

void sp_registry_free(sp_registry *reg) {
  if (!reg) return;
  for (size_t i = 0; i < reg->n_files; i++) loaded_free(reg->files[i]);
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
  reg->dirs[reg->n_dirs++] = (folder){.path = path};
  return SP_OK;
}

/* ---- checks of what a file holds --------------------------------------------------------------------------------- */

static bool name_ok(const char *s) {
  if (!s || !(*s >= 'a' && *s <= 'z')) return false;
  for (; *s; s++)
    if (!((*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') || *s == '_')) return false;
  return true;
}

static int check_status_port(const sp_stage_type *t, const sp_port *p, sp_err *err) {
  if (p->dtypes != SP_DT(SP_I64) || p->ndim != 1)
    return sp_fail(err, SP_E_INVALID, "output '%s': a STATUS port is int64 with 1 dimension", p->name);
  if (!t->status_doc)
    return sp_fail(err, SP_E_INVALID, "output '%s' is a STATUS port, but status_doc is NULL", p->name);
  return SP_OK;
}

static int check_ports(const sp_stage_type *t, const sp_port *ports, bool out, size_t *n, sp_err *err) {
  const char *side = out ? "output" : "input";
  uint32_t known = SP_PORT_OPTIONAL | SP_PORT_LIST | SP_PORT_NOGRAD;
  if (out) known |= SP_PORT_METRIC | SP_PORT_STATUS;
  *n = 0;
  for (const sp_port *p = ports; p && p->name; p++) {
    if (++*n > PORTS_MAX)
      return sp_fail(err, SP_E_INVALID, "more than %d %ss: the table is not ended by a NULL name", PORTS_MAX, side);
    if (!name_ok(p->name)) return sp_fail(err, SP_E_INVALID, "%s '%s': the name is not [a-z][a-z0-9_]*", side, p->name);
    for (const sp_port *o = ports; o < p; o++)
      if (strcmp(o->name, p->name) == 0) return sp_fail(err, SP_E_INVALID, "%s '%s' is there twice", side, p->name);
    if (p->ndim < -1 || p->ndim > SP_MAX_DIMS)
      return sp_fail(err, SP_E_INVALID, "%s '%s': ndim %d is not in -1..%d", side, p->name, p->ndim, SP_MAX_DIMS);
    if (p->flags & ~known)
      return sp_fail(err, SP_E_INVALID, "%s '%s': flags 0x%x do not belong there", side, p->name, p->flags & ~known);
    if (p->reserved0 || p->reserved[0] || p->reserved[1])
      return sp_fail(err, SP_E_INVALID, "%s '%s': the reserved words are not 0", side, p->name);
    if (p->flags & SP_PORT_STATUS) {
      int rc = check_status_port(t, p, err);
      if (rc) return rc;
    }
  }
  return SP_OK;
}

static int check_stage(const sp_stage_type *t, sp_err *err) {
  const struct {
    const char *name;
    bool there;
  } need[] = {
      {"doc", t->doc}, {"create", t->create}, {"destroy", t->destroy}, {"plan", t->plan}, {"forward", t->forward}};
  for (size_t i = 0; i < SP_ARRAY(need); i++)
    if (!need[i].there) return sp_fail(err, SP_E_INVALID, "'%s' is missing", need[i].name);
  if (!name_ok(t->device)) return sp_fail(err, SP_E_INVALID, "'device' is missing or not [a-z][a-z0-9_]*");
  size_t n_in, n_out;
  int rc = check_ports(t, t->inputs, false, &n_in, err);
  if (!rc) rc = check_ports(t, t->outputs, true, &n_out, err);
  if (!rc) rc = sp_params_check_table(t->params, t->params_size, err);
  if (rc) return rc;
  bool lists = n_in && n_out && (t->inputs[0].flags & SP_PORT_LIST) && (t->outputs[0].flags & SP_PORT_LIST);
  if ((t->flags & SP_STAGE_OPTIMIZER) && !lists)
    return sp_fail(err, SP_E_INVALID, "an OPTIMIZER needs a LIST as input 0 and as output 0");
  if ((t->flags & SP_STAGE_LOSS) && !n_out) return sp_fail(err, SP_E_INVALID, "a LOSS needs an output 0");
  return SP_OK;
}

static int check_device(const sp_device_type *t, sp_err *err) {
#define NEED(f) \
  { #f, t->f != NULL }
  const struct {
    const char *name;
    bool there;
  } need[] = {NEED(doc),         NEED(count),        NEED(describe),    NEED(open),          NEED(close),
              NEED(alloc),       NEED(free),         NEED(stream_open), NEED(stream_close),  NEED(stream_submit),
              NEED(stream_wait), NEED(stream_copy),  NEED(stream_sync), NEED(stream_native), NEED(event_open),
              NEED(event_close), NEED(event_record), NEED(event_query), NEED(event_sync),    NEED(event_elapsed)};
  const struct {
    const char *name;
    bool there;
  } capture[] = {NEED(capture_begin), NEED(capture_end), NEED(graph_launch), NEED(graph_close)};
  for (size_t i = 0; i < SP_ARRAY(need); i++)
    if (!need[i].there) return sp_fail(err, SP_E_INVALID, "'%s' is missing", need[i].name);
  for (size_t i = 0; (t->flags & SP_DEVICE_CAPTURE) && i < SP_ARRAY(capture); i++)
    if (!capture[i].there)
      return sp_fail(err, SP_E_INVALID, "SP_DEVICE_CAPTURE is set, but '%s' is missing", capture[i].name);
  return SP_OK;
}

static int check_format(const sp_format_type *t, sp_err *err) {
  const struct {
    const char *name;
    bool there;
  } need[] = {NEED(doc), NEED(open), NEED(entries), NEED(read), NEED(close), NEED(write)};
#undef NEED
  for (size_t i = 0; i < SP_ARRAY(need); i++)
    if (!need[i].there) return sp_fail(err, SP_E_INVALID, "'%s' is missing", need[i].name);
  if (!t->extension || t->extension[0] != '.' || !t->extension[1])
    return sp_fail(err, SP_E_INVALID, "'extension' is not \".something\"");
  return SP_OK;
}

/* ---- copying out of a file --------------------------------------------------------------------------------------- */

/* Copies of the structs that `list` points to, min(size) of each into zeroed memory. */
static int copy_list(const void *list, size_t size, const char *kind, void **copies, size_t *n, sp_err *err) {
  const void *const *from = list;
  *n = 0;
  *copies = NULL;
  while (from && from[*n])
    if (++*n > LIST_CAP)
      return sp_fail(err, SP_E_INVALID, "more than %d %ss: the list is not ended by NULL", LIST_CAP, kind);
  if (!*n) return SP_OK;
  *copies = sp_calloc(*n, size);
  if (!*copies) return sp_nomem(err, *n * size, "a plugin's tables");
  for (size_t i = 0; i < *n; i++) {
    uint32_t theirs; /* every such struct begins with its size */
    memcpy(&theirs, from[i], sizeof theirs);
    if (theirs < size && SP_ABI_MAJOR == 0)
      return sp_fail(err, SP_E_ABI, "%s %zu: its size is %u, not %zu: `size` is to be sizeof the struct", kind, i + 1,
                     theirs, size);
    memcpy((char *)*copies + i * size, from[i], theirs < size ? theirs : size);
  }
  return SP_OK;
}

static int take_plugin(sp_plugin_file *f, const sp_plugin *theirs, sp_err *err) {
  memcpy(&f->plugin, theirs, theirs->size < sizeof f->plugin ? theirs->size : sizeof f->plugin);
  if (!f->plugin.name || !*f->plugin.name) return sp_fail(err, SP_E_INVALID, "the plugin's name is missing");
  if (!f->plugin.version) f->plugin.version = "";
  if (!f->plugin.license) f->plugin.license = "";
  if (!f->plugin.doc) f->plugin.doc = "";

  void *copies;
  int rc = copy_list(f->plugin.stages, sizeof *f->stages, "stage", &copies, &f->n_stages, err);
  f->stages = copies;
  if (rc) return rc;
  rc = copy_list(f->plugin.devices, sizeof *f->devices, "device", &copies, &f->n_devices, err);
  f->devices = copies;
  if (rc) return rc;
  rc = copy_list(f->plugin.formats, sizeof *f->formats, "format", &copies, &f->n_formats, err);
  f->formats = copies;
  if (rc) return rc;
  if (!f->n_stages && !f->n_devices && !f->n_formats)
    return sp_fail(err, SP_E_INVALID, "the plugin holds no stage, device or format");

  for (size_t i = 0; i < f->n_stages; i++) {
    if (!name_ok(f->stages[i].name))
      return sp_fail(err, SP_E_INVALID, "stage %zu: the name is missing or not [a-z][a-z0-9_]*", i + 1);
    if (check_stage(&f->stages[i], err)) return sp_prefix(err, "stage '%s'", f->stages[i].name);
  }
  for (size_t i = 0; i < f->n_devices; i++) {
    if (!name_ok(f->devices[i].name))
      return sp_fail(err, SP_E_INVALID, "device %zu: the name is missing or not [a-z][a-z0-9_]*", i + 1);
    if (check_device(&f->devices[i], err)) return sp_prefix(err, "device '%s'", f->devices[i].name);
  }
  for (size_t i = 0; i < f->n_formats; i++) {
    if (!name_ok(f->formats[i].name))
      return sp_fail(err, SP_E_INVALID, "format %zu: the name is missing or not [a-z][a-z0-9_]*", i + 1);
    if (check_format(&f->formats[i], err)) return sp_prefix(err, "format '%s'", f->formats[i].name);
  }
  return SP_OK;
}

static int check_abi(const char *path, const sp_plugin *p, sp_err *err) {
  uint32_t major = p->abi >> 16, minor = p->abi & 0xffff;
  bool fits = major == SP_ABI_MAJOR && (SP_ABI_MAJOR ? minor <= SP_ABI_MINOR : minor == SP_ABI_MINOR);
  if (!fits)
    return sp_fail(err, SP_E_ABI,
                   "%s was built for spcore ABI %u.%u, this is %d.%d: rebuild it against this version's "
                   "headers",
                   path, major, minor, SP_ABI_MAJOR, SP_ABI_MINOR);
  if (p->size < offsetof(sp_plugin, formats))
    return sp_fail(err, SP_E_ABI, "%s: the plugin's size is %u, not %zu: `size` is to be sizeof(sp_plugin)", path,
                   p->size, sizeof *p);
  return SP_OK;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* dlerror()'s text, without the path that it begins with, and in our words where the cure is known. */
static int dl_failure(const char *path, const char *real, const char *text, sp_err *err) {
  if (!text) text = "dlopen failed";
  size_t n = strlen(real);
  if (strncmp(text, real, n) == 0 && strncmp(text + n, ": ", 2) == 0) text += n + 2;
  const char *symbol = strstr(text, "undefined symbol: ");
  const char *library = strstr(text, ": cannot open shared object file");
  if (symbol) {
    symbol += strlen("undefined symbol: ");
    return sp_fail(err, SP_E_FORMAT, "%s: unresolved symbol '%.*s': link the library that has it into the plugin", path,
                   (int)strcspn(symbol, " ,\t\n"), symbol);
  }
  if (library)
    return sp_fail(err, SP_E_NOTFOUND, "%s: needs the library %.*s, which is not installed", path,
                   (int)(library - text), text);
  return sp_fail(err, SP_E_FORMAT, "%s: not a shared object that can be loaded: %s", path, text);
}

/* What the file's one function gives for this host; until ABI 0.2 the symbol was that sp_plugin itself. */
static const sp_plugin *enter(const char *path, void *so, sp_err *err) {
  union {
    void *symbol;
    const void *(*function)(uint32_t abi);
  } at = {dlsym(so, "spcore_plugin")};
  Dl_info info;
  void *entry = NULL;
  if (!at.symbol) {
    sp_fail(err, SP_E_FORMAT, "%s: has no symbol 'spcore_plugin', so it is no spcore plugin", path);
    return NULL;
  }
  if (dladdr1(at.symbol, &info, &entry, RTLD_DL_SYMENT) && entry &&
      ELF64_ST_TYPE(((const ElfW(Sym) *)entry)->st_info) == STT_OBJECT)
    return at.symbol;
  const sp_plugin *p = at.function(SP_ABI);
  if (!p)
    sp_fail(err, SP_E_ABI, "%s: holds nothing for spcore ABI %d.%d: rebuild it against this version's headers", path,
            SP_ABI_MAJOR, SP_ABI_MINOR);
  return p;
}

/* Its constructors run, and the pointers in its tables are followed. */
static int open_object(const char *path, const char *real, loaded *l, sp_err *err) {
  /* Never closed: threads, exit handlers and thread-local data of a library may outlive any use of it here. */
  void *so = dlopen(real, RTLD_NOW | RTLD_LOCAL);
  if (!so) return dl_failure(path, real, dlerror(), err);
  sp_crash_file(path, so);
  const sp_plugin *p = enter(path, so, err);
  if (!p || check_abi(path, p, err)) return err->status;
  if (take_plugin(&l->file, p, err)) return sp_prefix(err, "%s", path);
  return SP_OK;
}

static int open_file(const char *path, const char *real, loaded *l, sp_err *err) {
  sp_crash_call call = {.file = path, .step = SP_CRASH_NO_STEP};
  if (sp_elf_check(path, real, err)) return err->status;
  sp_fpmode mode = sp_fpmode_get(); /* what a compiler's -Ofast puts into a file sets flush to zero as it is loaded */
  sp_crash_enter(&call);
  int rc = open_object(path, real, l, err);
  sp_crash_leave();
  sp_fpmode_set(mode);
  return rc;
}

static void log_duplicates(const sp_registry *reg, const sp_plugin_file *f) {
  for (size_t i = 0; i < f->n_stages; i++)
    for (size_t k = 0; k < reg->n_files; k++)
      for (size_t s = 0; s < reg->files[k]->file.n_stages; s++) {
        const sp_stage_type *t = &reg->files[k]->file.stages[s];
        if (strcmp(t->name, f->stages[i].name) == 0 && strcmp(t->device, f->stages[i].device) == 0)
          sp_log(SP_LOG_DEBUG, "stage '%s' (%s) of %s is already there, from %s", t->name, t->device, f->path,
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
    loaded *l = reg->files[i];
    if (l->dev != st.st_dev || l->ino != st.st_ino) continue;
    l->given = l->given || given;
    if (file) *file = &l->file;
    return SP_OK;
  }
  loaded *l = sp_calloc(1, sizeof *l);
  if (!l || !(l->file.path = sp_strdup(real)) ||
      !sp_grow(&reg->files, &reg->cap_files, reg->n_files + 1, sizeof *reg->files)) {
    loaded_free(l);
    return sp_nomem(err, sizeof *l, path);
  }
  int rc = open_file(path, real, l, err);
  if (rc) {
    loaded_free(l);
    return rc;
  }
  l->dev = st.st_dev;
  l->ino = st.st_ino;
  l->given = given;
  log_duplicates(reg, &l->file);
  reg->files[reg->n_files++] = l;
  if (file) *file = &l->file;
  return SP_OK;
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

static int keep_bad(folder *d, const char *path, const sp_err *why) {
  char *copy = sp_strdup(path);
  if (!copy || !sp_grow(&d->bad, &d->cap_bad, d->n_bad + 1, sizeof *d->bad)) {
    free(copy);
    return SP_E_NOMEM;
  }
  d->bad[d->n_bad++] = (refused){copy, *why};
  return SP_OK;
}

static int scan_folder(sp_registry *reg, folder *d, sp_err *err) {
  struct dirent **names = NULL;
  int n = scandir(d->path, &names, is_module, by_name);
  int rc = SP_OK;
  if (n < 0) n = 0; /* a missing folder holds nothing */
  for (int i = 0; i < n; i++) {
    char path[PATH_MAX];
    sp_err why;
    int len = snprintf(path, sizeof path, "%s/%s", d->path, names[i]->d_name);
    free(names[i]);
    if (rc || len < 0 || (size_t)len >= sizeof path) continue;
    if (load(reg, path, false, NULL, &why) && keep_bad(d, path, &why))
      rc = sp_nomem(err, sizeof why, "a folder's files");
  }
  free(names);
  d->scanned = rc == SP_OK;
  return rc;
}

int sp_registry_scan(sp_registry *reg, void (*bad)(void *arg, const char *path, const sp_err *why), void *arg,
                     sp_err *err) {
  for (size_t i = 0; i < reg->n_dirs; i++) {
    folder *d = &reg->dirs[i];
    int rc = d->scanned ? SP_OK : scan_folder(reg, d, err);
    if (rc) return rc;
    for (size_t k = 0; bad && k < d->n_bad; k++) bad(arg, d->bad[k].path, &d->bad[k].why);
  }
  return SP_OK;
}

size_t sp_registry_count(const sp_registry *reg) { return reg->n_files; }
const sp_plugin_file *sp_registry_at(const sp_registry *reg, size_t i) { return &reg->files[i]->file; }

/* ---- looking up -------------------------------------------------------------------------------------------------- */

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
  return find_file(reg, base, path) ? load(reg, path, false, NULL, err) : SP_OK;
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
    if (load(reg, path, false, NULL, &err) && !why->status) *why = err;
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
  if (!name_ok(name) || !name_ok(device) || len < 0 || (size_t)len >= sizeof suffix) return NULL;
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

/* Of the files in the folders, without ".so". */
static names file_names(const sp_registry *reg) {
  names all = {0};
  for (size_t i = 0; i < reg->n_dirs; i++) {
    struct dirent **list = NULL;
    int n = scandir(reg->dirs[i].path, &list, is_module, by_name);
    for (int k = 0; k < n; k++) {
      names_add(&all, list[k]->d_name, strlen(list[k]->d_name) - 3);
      free(list[k]);
    }
    free(list);
  }
  return all;
}

#define DEVICE_PREFIX "device_"
static const char *device_of(const char *file) {
  size_t n = strlen(DEVICE_PREFIX);
  return strncmp(file, DEVICE_PREFIX, n) == 0 ? file + n : NULL;
}

/* How much of a file's name is that of a stage: blur of blur_cuda, where there is a device_cuda. 0: nothing. */
static size_t stage_part(const names *files, const char *file) {
  size_t n = strlen(file);
  if (device_of(file)) return 0;
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

/* Why a stage or a format of ours may be unknown here: configure found no library for it. CUDA alone takes no name away:
 * its stages are twins of others. */
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
  if (name_ok(name) && len > 0 && (size_t)len < sizeof base) {
    if (load_by_name(reg, base, err)) return sp_prefix(err, "device '%s'", name);
    *type = find_device(reg, name);
    if (*type) return SP_OK;
  }
  return sp_fail(err, SP_E_NOTFOUND, "there is no device '%s': spcore devices lists what there is", name);
}

int sp_registry_add_device(sp_registry *reg, const sp_device_type *type, sp_err *err) {
  if (!sp_grow(&reg->devices, &reg->cap_devices, reg->n_devices + 1, sizeof *reg->devices))
    return sp_nomem(err, sizeof *reg->devices, "a device");
  reg->devices[reg->n_devices++] = type;
  return SP_OK;
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
  if (name_ok(dot + 1) && strlen(dot) < 64) {
    load_by_name(reg, dot + 1, &why);
    *type = find_format(reg, path);
    if (*type) return SP_OK;
  }
  if (why.status) {
    *err = why;
    return sp_prefix(err, "%s", path);
  }
  return sp_fail(err, SP_E_NOTFOUND, "%s: no plugin reads or writes '%s' files%s", path, dot, BUILT_WITHOUT);
}
