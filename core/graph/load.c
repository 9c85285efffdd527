/* SPDX-License-Identifier: MIT
 * load.c - weights from a file, by name: what fits, what does not, and what only needs another type or name. */
#include "graph/model.h"
#include "graph/reduce.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char *weights_file(const char *path, sp_err *err) {
  struct stat sb;
  sp_sb s = {0};
  sp_sb_put(&s, path);
  if (!stat(path, &sb) && S_ISDIR(sb.st_mode)) sp_sb_put(&s, "/weights.safetensors");
  if (s.broken || !s.s) {
    sp_sb_free(&s);
    sp_nomem(err, 64, "a path");
    return NULL;
  }
  return s.s;
}

typedef struct {
  const sp_format_type *type;
  void *file;
  char *path;
  const sp_entry *entries;
  size_t n;
  size_t skip;     /* characters of "module.", which PyTorch's parallel wrappers put before every name */
  const char *bad; /* the first tensor with values that are not finite, and how many such tensors there are */
  size_t n_bad;
  size_t n_converted; /* tensors of another floating type */
  int converted;      /* the last one's */
} weight_file;

static void close_file(weight_file *f) {
  if (f->file) f->type->close(f->file);
  free(f->path);
}

static const char *name_of(const weight_file *f, size_t i) { return f->entries[i].name + f->skip; }

static size_t wrapper(const weight_file *f) {
  static const char word[] = "module.";
  for (size_t i = 0; i < f->n; i++)
    if (strncmp(f->entries[i].name, word, sizeof word - 1) != 0) return 0;
  return f->n ? sizeof word - 1 : 0;
}

static int open_file(sp_graph *g, const char *path, weight_file *f, sp_err *err) {
  const sp_meta *meta;
  size_t n_meta;
  sp_ctx_holder h;
  struct stat sb;
  int st;
  *f = (weight_file){.path = weights_file(path, err)};
  if (!f->path) return err->status;
  if (stat(f->path, &sb)) {
    st = sp_fail(err, SP_E_IO, "%s: %s", f->path, strerror(errno));
  } else if (!(st = sp_registry_format(g->env->reg, f->path, &f->type, err)) &&
             !(st = f->type->open(sp_ctx_for(&h, f->type->name, err), f->path, &f->file))) {
    st = f->type->entries(f->file, &f->entries, &f->n, &meta, &n_meta);
    if (st) sp_fail(err, st, "%s: its entries cannot be listed", f->path);
  }
  if (st) close_file(f);
  else f->skip = wrapper(f);
  return st;
}

/* The entry for a weight: under the node's name where the file has any such, else under the weight's own. */
static const sp_entry *find_entry(const weight_file *f, const sp_node *n, const char *name, bool prefixed) {
  size_t len = strlen(n->name);
  for (size_t i = 0; i < f->n; i++) {
    const char *e = name_of(f, i);
    if (prefixed && (strncmp(e, n->name, len) || e[len] != '.')) continue;
    if (!strcmp(prefixed ? e + len + 1 : e, name)) return &f->entries[i];
  }
  return NULL;
}

static bool has_prefix(const weight_file *f, const sp_node *n) {
  size_t len = strlen(n->name);
  for (size_t i = 0; i < f->n; i++)
    if (!strncmp(name_of(f, i), n->name, len) && name_of(f, i)[len] == '.') return true;
  return false;
}

#define MAX_LISTED 8
typedef struct {
  sp_sb list;
  size_t n;
} complaints;

static void complain(complaints *c, const char *fmt, ...) SP_PRINTF(2, 3);
static void complain(complaints *c, const char *fmt, ...) {
  char buf[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(buf, sizeof buf, fmt, ap);
  va_end(ap);
  if (c->n++ < MAX_LISTED) sp_sb_putf(&c->list, "%s%s", c->n > 1 ? ", " : "", buf);
}

/* Where a run left its weights it says beside them what model they are of. */
static void put_cure(sp_sb *sb, const char *path) {
  const char *slash = strrchr(path, '/');
  struct stat st;
  sp_sb settings = {0};
  sp_sb_putf(&settings, "%.*ssettings.json", slash ? (int)(slash - path) + 1 : 0, path);
  sp_sb_put(sb, "; make the stages with the parameters that it was trained with");
  if (!settings.broken && !stat(settings.s, &st)) sp_sb_putf(sb, ", which %s tells", settings.s);
  sp_sb_free(&settings);
}

static int verdict(complaints *missing, complaints *extra, complaints *bad, const char *path, const char *who,
                   sp_err *err) {
  struct {
    complaints *c;
    const char *word;
  } all[] = {{missing, "missing"}, {extra, "unexpected"}, {bad, "of another shape"}};
  sp_sb sb = {0};
  int st = SP_OK;
  for (size_t i = 0; i < 3; i++) {
    if (!all[i].c->n) continue;
    sp_sb_putf(&sb, "%s%zu %s: %s", sb.n ? "; " : "", all[i].c->n, all[i].word, sp_sb_str(&all[i].c->list));
    if (all[i].c->n > MAX_LISTED) sp_sb_put(&sb, " ...");
  }
  if (sb.n) put_cure(&sb, path);
  if (sb.n) st = sp_fail(err, SP_E_SHAPE, "%s does not fit %s: %s", path, who, sp_sb_str(&sb));
  sp_sb_free(&sb);
  for (size_t i = 0; i < 3; i++) sp_sb_free(&all[i].c->list);
  return st;
}

/* A file may have floating numbers of another type; sp_spec_equal but for that. */
static bool fits(const sp_spec *file, const sp_spec *want) {
  sp_spec same = *file;
  bool real = file->dtype == SP_F16 || file->dtype == SP_BF16 || file->dtype == SP_F64;
  if (want->dtype == SP_F32 && real) same.dtype = SP_F32;
  return sp_spec_equal(&same, want);
}

/* Batches that were counted: files made before PyTorch 0.4.1 have none, and nothing hangs on it with a momentum. */
static bool may_be_missing(const char *name) {
  static const char word[] = "num_batches_tracked";
  size_t len = strlen(name);
  return len >= sizeof word - 1 && !strcmp(name + len - (sizeof word - 1), word);
}

static void compare(const weight_file *f, sp_node *n, bool prefixed, complaints *missing, complaints *bad) {
  char a[128], b[128];
  for (size_t i = 0; i < n->n_weights; i++) {
    const sp_entry *e = find_entry(f, n, n->weights[i].name, prefixed);
    sp_spec want = n->weights[i].spec;
    want.order = SP_ROW_MAJOR;
    if (!e && may_be_missing(n->weights[i].name)) continue;
    if (!e) complain(missing, "%s%s%s", prefixed ? n->name : "", prefixed ? "." : "", n->weights[i].name);
    else if (!fits(&e->spec, &want))
      complain(bad, "%s is %s, wanted %s", e->name + f->skip, sp_spec_str(&e->spec, a, sizeof a),
               sp_spec_str(&want, b, sizeof b));
  }
}

static bool wanted(const sp_node *n, const char *name) {
  for (size_t i = 0; i < n->n_weights; i++)
    if (!strcmp(n->weights[i].name, name)) return true;
  return false;
}

/* Values in the order of `spec` into weight i. */
static int store(sp_node *n, size_t i, const sp_spec *spec, const void *values, sp_err *err) {
  const sp_spec *own = &n->weights[i].spec;
  size_t bytes = (size_t)sp_spec_bytes(own);
  void *tmp;
  int st;
  if (sp_place_is_host(sp_node_place(n)) && !sp_node_sliced(n, i)) {
    sp_spec_copy(own, n->w[i].data, spec, values);
    return SP_OK;
  }
  if (!(tmp = sp_calloc(1, bytes ? bytes : 1))) return sp_nomem(err, bytes, n->weights[i].name);
  sp_spec_copy(own, tmp, spec, values);
  st = sp_node_put_weight(n, i, tmp, err);
  free(tmp);
  return st;
}

static float of_half(uint16_t h) {
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  float v = exponent == 31 ? (mantissa ? NAN : INFINITY)
            : exponent     ? ldexpf((float)(mantissa + 1024), exponent - 25)
                           : ldexpf((float)mantissa, -24);
  return h >> 15 ? -v : v;
}

static float of_bfloat(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

/* What was read, as float32. */
static float *converted(const sp_spec *spec, const void *data) {
  int64_t n = sp_spec_count(spec);
  float *out = sp_calloc((size_t)n + 1, sizeof *out);
  for (int64_t i = 0; out && i < n; i++)
    out[i] = spec->dtype == SP_F16    ? of_half(((const uint16_t *)data)[i])
             : spec->dtype == SP_BF16 ? of_bfloat(((const uint16_t *)data)[i])
                                      : (float)((const double *)data)[i];
  return out;
}

static void look_for_nan(weight_file *f, const char *name, const sp_spec *spec, const float *v) {
  int64_t n = spec->dtype == SP_F32 ? sp_spec_count(spec) : 0;
  for (int64_t i = 0; i < n; i++) {
    if (isfinite(v[i])) continue;
    if (!f->n_bad++) f->bad = name;
    return;
  }
}

/* Entry e, or zeros without one, into weight i. */
static int read_weight(weight_file *f, sp_node *n, size_t i, const sp_entry *e, sp_err *err) {
  sp_ctx_holder h;
  sp_spec spec = e ? e->spec : n->weights[i].spec;
  size_t bytes = (size_t)sp_spec_bytes(&spec);
  void *data = sp_calloc(1, bytes ? bytes : 1);
  int st = data ? SP_OK : sp_nomem(err, bytes, n->weights[i].name);
  if (!st && e) st = f->type->read(sp_ctx_for(&h, f->type->name, err), f->file, (size_t)(e - f->entries), data, bytes);
  if (!st && spec.dtype != n->weights[i].spec.dtype) {
    void *given = data;
    f->n_converted++;
    f->converted = spec.dtype;
    data = converted(&spec, given);
    spec.dtype = SP_F32;
    free(given);
    if (!data) st = sp_nomem(err, 2 * bytes, n->weights[i].name);
  }
  if (!st) look_for_nan(f, e ? e->name : "", &spec, data);
  if (!st) st = store(n, i, &spec, data, err);
  if (!st) n->loaded[i] = true;
  free(data);
  return st;
}

static int read_node(weight_file *f, sp_node *n, bool prefixed, sp_err *err) {
  int st = sp_node_storage(n, err);
  for (size_t i = 0; i < n->n_weights && !st; i++)
    st = read_weight(f, n, i, find_entry(f, n, n->weights[i].name, prefixed), err);
  return st;
}

/* What a user should know of a file that was taken. */
static void remark(const weight_file *f) {
  sp_spec one = {.dtype = f->converted, .ndim = 1, .shape = {1}};
  char text[128];
  sp_spec_str(&one, text, sizeof text);
  text[strcspn(text, "[")] = 0;
  if (f->n_converted) sp_log(SP_LOG_WARN, "%s: %zu tensors are %s and become float32", f->path, f->n_converted, text);
  if (f->n_bad)
    sp_log(SP_LOG_WARN,
           "%s: %zu tensors have values that are not finite, '%s' the first: all that is computed from them is nan",
           f->path, f->n_bad, f->bad);
}

int sp_graph_load(sp_graph *g, sp_node *n, const char *path, sp_err *err) {
  complaints missing = {{0}, 0}, extra = {{0}, 0}, bad = {{0}, 0};
  weight_file f;
  bool prefixed;
  size_t len = strlen(n->name);
  char who[128];
  int st;
  if (!n->planned) return sp_fail(err, SP_E_STATE, "stage '%s': wire its inputs before weights are loaded", n->name);
  if ((st = open_file(g, path, &f, err))) return st;
  prefixed = has_prefix(&f, n);
  compare(&f, n, prefixed, &missing, &bad);
  for (size_t i = 0; i < f.n; i++) {
    const char *e = name_of(&f, i);
    bool ours = !prefixed || (!strncmp(e, n->name, len) && e[len] == '.');
    if (ours && !wanted(n, prefixed ? e + len + 1 : e)) complain(&extra, "%s", e);
  }
  snprintf(who, sizeof who, "stage '%s'", n->name);
  st = verdict(&missing, &extra, &bad, f.path, who, err);
  if (!st) st = read_node(&f, n, prefixed, err);
  if (!st) st = sp_graph_restart_averages(g, n, err);
  if (!st) remark(&f);
  close_file(&f);
  return st;
}

int sp_graph_load_all(sp_graph *g, const char *path, sp_err *err) {
  complaints missing = {{0}, 0}, extra = {{0}, 0}, bad = {{0}, 0};
  weight_file f;
  int st;
  /* The optimizer's list of weights is known only when all stages are planned. */
  if ((st = sp_graph_plan_stages(g, err)) || (st = open_file(g, path, &f, err))) return st;
  for (size_t i = 0; i < g->n_nodes; i++) {
    sp_node *n = g->nodes[i];
    if (!n->optimizer || has_prefix(&f, n)) compare(&f, n, true, &missing, &bad);
  }
  for (size_t i = 0; i < f.n; i++) {
    const char *e = name_of(&f, i), *dot = strchr(e, '.');
    bool ours = false;
    for (size_t k = 0; dot && k < g->n_nodes && !ours; k++)
      ours = strlen(g->nodes[k]->name) == (size_t)(dot - e) && !strncmp(e, g->nodes[k]->name, (size_t)(dot - e)) &&
             wanted(g->nodes[k], dot + 1);
    if (!ours) complain(&extra, "%s", e);
  }
  st = verdict(&missing, &extra, &bad, f.path, "the graph", err);
  for (size_t i = 0; i < g->n_nodes && !st; i++)
    if (!g->nodes[i]->optimizer || has_prefix(&f, g->nodes[i])) st = read_node(&f, g->nodes[i], true, err);
  if (!st && g->training && !has_prefix(&f, g->optimizer)) st = sp_graph_restart_averages(g, NULL, err);
  if (!st) remark(&f);
  close_file(&f);
  return st;
}
