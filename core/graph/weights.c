/* SPDX-License-Identifier: MIT
 * weights.c - storage, first values and loading of weights. */
#include "graph/model.h"
#include "graph/init.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void sp_node_drop_weights(sp_node *n) {
  const sp_place *place = sp_node_place(n);
  for (size_t i = 0; i < n->n_weights; i++) {
    if (n->w) sp_place_free(place, n->w[i].data);
    if (n->dw) sp_place_free(place, n->dw[i].data);
    if (n->weights) free((char *)n->weights[i].name);
  }
  free(n->weights);
  free(n->w);
  free(n->dw);
  free(n->loaded);
  n->weights = NULL;
  n->w = n->dw = NULL;
  n->loaded = NULL;
  n->n_weights = 0;
}

bool sp_node_has_dw(const sp_node *n, size_t i) {
  return n->trained && !n->inplace && n->weights[i].flags & SP_WEIGHT_TRAINED;
}

int sp_node_storage(sp_node *n, sp_err *err) {
  sp_graph *g = n->g;
  if (!n->n_weights) return SP_OK;
  if (!n->w && !(n->w = sp_graph_zalloc(g, n->n_weights, sizeof *n->w, "weights", err))) return err->status;
  if (!n->dw && !(n->dw = sp_graph_zalloc(g, n->n_weights, sizeof *n->dw, "weights", err))) return err->status;
  if (!n->loaded && !(n->loaded = sp_graph_zalloc(g, n->n_weights, sizeof *n->loaded, "weights", err)))
    return err->status;
  for (size_t i = 0; i < n->n_weights; i++) {
    const sp_spec *s = &n->weights[i].spec;
    n->w[i].spec = n->dw[i].spec = *s;
    if (!n->w[i].data &&
        !(n->w[i].data = sp_graph_alloc(g, sp_node_place(n), (size_t)sp_spec_bytes(s), n->weights[i].name, err)))
      return sp_prefix(err, "stage '%s'", n->name);
    if (!n->dw[i].data && sp_node_has_dw(n, i) &&
        !(n->dw[i].data = sp_graph_alloc(g, sp_node_place(n), (size_t)sp_spec_bytes(s), n->weights[i].name, err)))
      return sp_prefix(err, "stage '%s': gradient", n->name);
  }
  return SP_OK;
}

/* A weight in its order in memory, from and to host memory. */
static int put_weight(sp_node *n, size_t i, const void *src, sp_err *err) {
  return sp_place_upload(sp_node_place(n), n->w[i].data, src, (size_t)sp_spec_bytes(&n->weights[i].spec), err);
}

int sp_node_get_weight(sp_node *n, size_t i, const void **data, void **owned, sp_err *err) {
  sp_place *place = sp_node_place(n);
  size_t bytes = (size_t)sp_spec_bytes(&n->weights[i].spec);
  *owned = NULL;
  *data = n->w[i].data;
  if (sp_place_is_host(place)) return SP_OK;
  if (!(*owned = sp_calloc(1, bytes ? bytes : 1))) return sp_nomem(err, bytes, n->weights[i].name);
  *data = *owned;
  return sp_place_download(place, *owned, n->w[i].data, bytes, err);
}

/* First values are made in host memory, and what no file gave is taken from there: PyTorch's generator draws for every
 * weight, whether a file replaces it later or not. */
int sp_node_init_weights(sp_node *n, sp_mt19937 *torch, sp_err *err) {
  bool direct = sp_place_is_host(sp_node_place(n));
  void **data = sp_calloc(n->n_weights, sizeof *data);
  int st = data ? SP_OK : sp_nomem(err, 64, "first values");
  for (size_t i = 0; i < n->n_weights && !st; i++) {
    size_t bytes = (size_t)sp_spec_bytes(&n->weights[i].spec);
    data[i] = n->w[i].data;
    if ((n->loaded[i] || !direct) && !(data[i] = sp_calloc(1, bytes ? bytes : 1)))
      st = sp_nomem(err, bytes, "first values");
  }
  if (!st) st = sp_init_weights(n->weights, n->n_weights, data, n->name, n->g->opts.seed, torch, err);
  for (size_t i = 0; i < n->n_weights && !st && !direct; i++)
    if (!n->loaded[i]) st = put_weight(n, i, data[i], err);
  for (size_t i = 0; data && i < n->n_weights; i++)
    if (data[i] != n->w[i].data) free(data[i]);
  free(data);
  return st ? sp_prefix(err, "stage '%s'", n->name) : SP_OK;
}

int sp_graph_init_weights(sp_graph *g, sp_err *err) {
  bool torch = g->opts.init && !strcmp(g->opts.init, "torch");
  sp_mt19937 mt;
  int st = SP_OK;
  if (torch) sp_mt19937_seed(&mt, g->opts.seed);
  for (size_t i = 0; i < g->n_nodes && !st; i++) {
    sp_node *n = g->nodes[i];
    bool all = !torch;
    for (size_t k = 0; k < n->n_weights; k++) all = all && n->loaded[k];
    if (n->n_weights && !all) st = sp_node_init_weights(n, torch ? &mt : NULL, err);
  }
  g->initialised = !st;
  return st;
}

/* The last weights of the optimizer become what the statistics are now. Nothing is in flight. */
int sp_graph_keep_statistics(sp_graph *g, sp_err *err) {
  sp_node *opt = g->optimizer;
  int st = SP_OK;
  size_t at;
  if (!sp_graph_restores(g)) return SP_OK;
  if (opt->n_weights < opt->in_specs[1].n)
    return sp_fail(err, SP_E_INTERNAL, "optimizer '%s' restores %u statistics, but has %zu weights", opt->name,
                   opt->in_specs[1].n, opt->n_weights);
  at = opt->n_weights - opt->in_specs[1].n;
  for (sp_weight_ref r = {0}; !st && sp_graph_next_statistic(g, &r); at++) {
    const void *data;
    void *copy;
    if (!sp_spec_equal(&r.node->weights[r.i].spec, &opt->weights[at].spec))
      return sp_fail(err, SP_E_INTERNAL, "optimizer '%s': weight '%s' is no copy of '%s.%s'", opt->name,
                     opt->weights[at].name, r.node->name, r.node->weights[r.i].name);
    if (!(st = sp_node_get_weight(r.node, r.i, &data, &copy, err))) st = put_weight(opt, at, data, err);
    free(copy);
  }
  return st;
}

/* ---- files ---- */
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
} weight_file;

static void close_file(weight_file *f) {
  if (f->file) f->type->close(f->file);
  free(f->path);
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
  return st;
}

/* The entry for a weight: under the node's name where the file has any such, else under the weight's own. */
static const sp_entry *find_entry(const weight_file *f, const sp_node *n, const char *name, bool prefixed) {
  size_t len = strlen(n->name);
  for (size_t i = 0; i < f->n; i++) {
    const char *e = f->entries[i].name;
    if (prefixed && (strncmp(e, n->name, len) || e[len] != '.')) continue;
    if (!strcmp(prefixed ? e + len + 1 : e, name)) return &f->entries[i];
  }
  return NULL;
}

static bool has_prefix(const weight_file *f, const sp_node *n) {
  size_t len = strlen(n->name);
  for (size_t i = 0; i < f->n; i++)
    if (!strncmp(f->entries[i].name, n->name, len) && f->entries[i].name[len] == '.') return true;
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
  if (sb.n) st = sp_fail(err, SP_E_SHAPE, "%s does not fit %s: %s", path, who, sp_sb_str(&sb));
  sp_sb_free(&sb);
  for (size_t i = 0; i < 3; i++) sp_sb_free(&all[i].c->list);
  return st;
}

static void compare(const weight_file *f, sp_node *n, bool prefixed, complaints *missing, complaints *bad) {
  char a[128], b[128];
  for (size_t i = 0; i < n->n_weights; i++) {
    const sp_entry *e = find_entry(f, n, n->weights[i].name, prefixed);
    sp_spec want = n->weights[i].spec;
    want.order = SP_ROW_MAJOR;
    if (!e) complain(missing, "%s%s%s", prefixed ? n->name : "", prefixed ? "." : "", n->weights[i].name);
    else if (!sp_spec_equal(&e->spec, &want))
      complain(bad, "%s is %s, wanted %s", e->name, sp_spec_str(&e->spec, a, sizeof a),
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
  if (sp_place_is_host(sp_node_place(n))) {
    sp_spec_copy(own, n->w[i].data, spec, values);
    return SP_OK;
  }
  if (!(tmp = sp_calloc(1, bytes ? bytes : 1))) return sp_nomem(err, bytes, n->weights[i].name);
  sp_spec_copy(own, tmp, spec, values);
  st = put_weight(n, i, tmp, err);
  free(tmp);
  return st;
}

static int read_node(const weight_file *f, sp_node *n, bool prefixed, sp_err *err) {
  sp_ctx_holder h;
  int st = sp_node_storage(n, err);
  for (size_t i = 0; i < n->n_weights && !st; i++) {
    const sp_entry *e = find_entry(f, n, n->weights[i].name, prefixed);
    size_t bytes = (size_t)sp_spec_bytes(&e->spec);
    void *tmp = sp_calloc(1, bytes ? bytes : 1);
    if (!tmp) return sp_nomem(err, bytes, e->name);
    st = f->type->read(sp_ctx_for(&h, f->type->name, err), f->file, (size_t)(e - f->entries), tmp, bytes);
    if (!st) st = store(n, i, &e->spec, tmp, err);
    if (!st) n->loaded[i] = true;
    free(tmp);
  }
  return st;
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
    const char *e = f.entries[i].name;
    bool ours = !prefixed || (!strncmp(e, n->name, len) && e[len] == '.');
    if (ours && !wanted(n, prefixed ? e + len + 1 : e)) complain(&extra, "%s", e);
  }
  snprintf(who, sizeof who, "stage '%s'", n->name);
  st = verdict(&missing, &extra, &bad, f.path, who, err);
  if (!st) st = read_node(&f, n, prefixed, err);
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
    const char *e = f.entries[i].name, *dot = strchr(e, '.');
    bool ours = false;
    for (size_t k = 0; dot && k < g->n_nodes && !ours; k++)
      ours = strlen(g->nodes[k]->name) == (size_t)(dot - e) && !strncmp(e, g->nodes[k]->name, (size_t)(dot - e)) &&
             wanted(g->nodes[k], dot + 1);
    if (!ours) complain(&extra, "%s", e);
  }
  st = verdict(&missing, &extra, &bad, f.path, "the graph", err);
  for (size_t i = 0; i < g->n_nodes && !st; i++)
    if (!g->nodes[i]->optimizer || has_prefix(&f, g->nodes[i])) st = read_node(&f, g->nodes[i], true, err);
  close_file(&f);
  return st;
}

size_t sp_node_n_weights(const sp_node *n) { return n->n_weights; }
const sp_weight *sp_node_weight_at(const sp_node *n, size_t i) { return i < n->n_weights ? &n->weights[i] : NULL; }

int sp_node_weight(sp_node *n, const char *name, sp_spec *spec, void *dst, size_t bytes, sp_err *err) {
  int st;
  for (size_t i = 0; i < n->n_weights; i++) {
    if (strcmp(n->weights[i].name, name)) continue;
    *spec = n->weights[i].spec;
    spec->order = SP_ROW_MAJOR;
    if (!dst) return SP_OK; /* only the spec is asked */
    if ((int64_t)bytes != sp_spec_bytes(spec))
      return sp_fail(err, SP_E_SHAPE, "weight '%s.%s' has %" PRId64 " bytes, not %zu", n->name, name,
                     sp_spec_bytes(spec), bytes);
    if (!n->w || !n->w[i].data) return sp_fail(err, SP_E_STATE, "weight '%s.%s' has no values yet", n->name, name);
    const void *data;
    void *copy;
    st = sp_node_get_weight(n, i, &data, &copy, err);
    if (!st) sp_spec_copy(spec, dst, &n->weights[i].spec, data);
    free(copy);
    return st;
  }
  return sp_fail(err, SP_E_NOTFOUND, "stage '%s' has no weight '%s'", n->name, name);
}
