/* SPDX-License-Identifier: MIT
 * plugin_file.c - opens one plugin file and checks what it holds. */
#include "host/plugin_file.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crash.h"
#include "base/shared.h"
#include "base/util.h"
#include "host/elf_check.h"
#include "host/param.h"

#define LIST_CAP 1024 /* stages, ports ... of one plugin: a list that is not ended is found out, not run through */

#define PORTS_MAX 64

/* ---- checks of what a file holds --------------------------------------------------------------------------------- */

bool sp_plugin_name_ok(const char *s) {
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
  if (out) known |= SP_PORT_METRIC | SP_PORT_STATUS | SP_PORT_SUM | SP_PORT_TOTAL;
  *n = 0;
  for (const sp_port *p = ports; p && p->name; p++) {
    if (++*n > PORTS_MAX)
      return sp_fail(err, SP_E_INVALID, "more than %d %ss: the table is not ended by a NULL name", PORTS_MAX, side);
    if (!sp_plugin_name_ok(p->name))
      return sp_fail(err, SP_E_INVALID, "%s '%s': the name is not [a-z][a-z0-9_]*", side, p->name);
    for (const sp_port *o = ports; o < p; o++)
      if (strcmp(o->name, p->name) == 0) return sp_fail(err, SP_E_INVALID, "%s '%s' is there twice", side, p->name);
    if (p->ndim < -1 || p->ndim > SP_MAX_DIMS)
      return sp_fail(err, SP_E_INVALID, "%s '%s': ndim %d is not in -1..%d", side, p->name, p->ndim, SP_MAX_DIMS);
    if (p->flags & ~known)
      return sp_fail(err, SP_E_INVALID, "%s '%s': flags 0x%x do not belong there", side, p->name, p->flags & ~known);
    if (p->reserved0 || p->reserved[0] || p->reserved[1])
      return sp_fail(err, SP_E_INVALID, "%s '%s': the reserved words are not 0", side, p->name);
    if (p->flags & SP_PORT_SUM && !(p->flags & SP_PORT_METRIC))
      return sp_fail(err, SP_E_INVALID, "output '%s': SUM is of METRIC ports", p->name);
    if (p->flags & SP_PORT_TOTAL && (p->dtypes != SP_DT(SP_F64) || p->ndim || !(t->flags & SP_STAGE_LOSS)))
      return sp_fail(err, SP_E_INVALID, "output '%s': a TOTAL port is a float64 scalar of a LOSS", p->name);
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
  if (!sp_plugin_name_ok(t->device)) return sp_fail(err, SP_E_INVALID, "'device' is missing or not [a-z][a-z0-9_]*");
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
  for (size_t i = 0; i < SP_ARRAY(need); i++)
    if (!need[i].there) return sp_fail(err, SP_E_INVALID, "'%s' is missing", need[i].name);
  if (!t->extension || t->extension[0] != '.' || !t->extension[1])
    return sp_fail(err, SP_E_INVALID, "'extension' is not \".something\"");
  return SP_OK;
}

static int check_comm(const sp_comm_type *t, sp_err *err) {
  const struct {
    const char *name;
    bool there;
  } need[] = {NEED(doc),  NEED(open),       NEED(close),      NEED(abort),     NEED(alloc),
              NEED(free), NEED(all_to_all), NEED(all_gather), NEED(broadcast), NEED(poll)};
#undef NEED
  for (size_t i = 0; i < SP_ARRAY(need); i++)
    if (!need[i].there) return sp_fail(err, SP_E_INVALID, "'%s' is missing", need[i].name);
  if (!sp_plugin_name_ok(t->device)) return sp_fail(err, SP_E_INVALID, "'device' is missing or not [a-z][a-z0-9_]*");
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
  rc = copy_list(f->plugin.comms, sizeof *f->comms, "communicator", &copies, &f->n_comms, err);
  f->comms = copies;
  if (rc) return rc;
  if (!f->n_stages && !f->n_devices && !f->n_formats && !f->n_comms)
    return sp_fail(err, SP_E_INVALID, "the plugin holds no stage, device, format or communicator");

  for (size_t i = 0; i < f->n_stages; i++) {
    if (!sp_plugin_name_ok(f->stages[i].name))
      return sp_fail(err, SP_E_INVALID, "stage %zu: the name is missing or not [a-z][a-z0-9_]*", i + 1);
    if (check_stage(&f->stages[i], err)) return sp_prefix(err, "stage '%s'", f->stages[i].name);
  }
  for (size_t i = 0; i < f->n_devices; i++) {
    if (!sp_plugin_name_ok(f->devices[i].name))
      return sp_fail(err, SP_E_INVALID, "device %zu: the name is missing or not [a-z][a-z0-9_]*", i + 1);
    if (check_device(&f->devices[i], err)) return sp_prefix(err, "device '%s'", f->devices[i].name);
  }
  for (size_t i = 0; i < f->n_formats; i++) {
    if (!sp_plugin_name_ok(f->formats[i].name))
      return sp_fail(err, SP_E_INVALID, "format %zu: the name is missing or not [a-z][a-z0-9_]*", i + 1);
    if (check_format(&f->formats[i], err)) return sp_prefix(err, "format '%s'", f->formats[i].name);
  }
  for (size_t i = 0; i < f->n_comms; i++) {
    if (!sp_plugin_name_ok(f->comms[i].name))
      return sp_fail(err, SP_E_INVALID, "communicator %zu: the name is missing or not [a-z][a-z0-9_]*", i + 1);
    if (check_comm(&f->comms[i], err)) return sp_prefix(err, "communicator '%s'", f->comms[i].name);
  }
  return SP_OK;
}

static int check_abi(const char *path, const sp_plugin *p, sp_err *err) {
  uint32_t major = p->abi >> 16, minor = p->abi & 0xffff;
  bool fits = major == SP_ABI_MAJOR && (SP_ABI_MAJOR ? minor <= SP_ABI_MINOR : minor == SP_ABI_MINOR);
  if (!fits)
    return sp_fail(err, SP_E_ABI,
                   "%s was built for spcore ABI %u.%u, this is %d.%d: rebuild it against this version's headers",
                   path, major, minor, SP_ABI_MAJOR, SP_ABI_MINOR);
  if (p->size < sizeof *p)
    return sp_fail(err, SP_E_ABI, "%s: the plugin's size is %u, not %zu: `size` is to be sizeof(sp_plugin)", path,
                   p->size, sizeof *p);
  return SP_OK;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

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
static int open_object(sp_plugin_file *f, const char *path, sp_err *err) {
  /* Never closed: threads, exit handlers and thread-local data of a library may outlive any use of it here. */
  void *so = dlopen(f->path, RTLD_NOW | RTLD_LOCAL);
  if (!so) return dl_failure(path, f->path, dlerror(), err);
  sp_crash_file(path, so);
  const sp_plugin *p = enter(path, so, err);
  if (!p || check_abi(path, p, err)) return err->status;
  if (take_plugin(f, p, err)) return sp_prefix(err, "%s", path);
  return SP_OK;
}

int sp_plugin_file_open(sp_plugin_file *f, const char *path, sp_err *err) {
  sp_crash_call call = {.file = path, .step = SP_CRASH_NO_STEP};
  if (sp_elf_check(path, f->path, err)) return err->status;
  sp_shared before; /* what a compiler's -Ofast puts into a file sets flush to zero as it is loaded */
  char what[PATH_MAX + 32];
  snprintf(what, sizeof what, "%s: loading it", path);
  sp_shared_note(&before);
  sp_crash_enter(&call);
  int rc = open_object(f, path, err);
  sp_crash_leave();
  sp_shared_restore(&before, f->path, what);
  return rc;
}

void sp_plugin_file_free(sp_plugin_file *f) {
  free(f->path);
  free(f->stages);
  free(f->devices);
  free(f->formats);
  free(f->comms);
}
