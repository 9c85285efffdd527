/* SPDX-License-Identifier: MIT
 * wires.c - the parameter `layers` as a graph: what layers are called, what each reads, which results are tapped. */
#include "../ops/row.h"
#include "stage.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The k-th value that comes in is layer -1 - k. */
enum { MAX_LAYER_NAME = 64, PLACE = MAX_LAYER_NAME + 48, INPUT = -1, UNKNOWN = INT_MIN };

typedef struct wiring {
  sp_ctx *ctx;
  nn_net *net;
  const nn_layer *l;
  const nn_sources *in;
  int n;
  int *value;    /* of each layer that is there already */
  uint8_t *read; /* by another layer? */
} wiring;

static const char *name_of(const wiring *w, int i, char *buf) {
  if (*w->l[i].name) return w->l[i].name;
  snprintf(buf, 16, "%d", i);
  return buf;
}

/* "layer 3 'layer1.0.conv1'", counted as Lua counts. */
static const char *place_of(const wiring *w, int i, char *buf) {
  const char *name = w->l[i].name;
  snprintf(buf, PLACE, "layer %d%s%.*s%s", i + 1, *name ? " '" : "", MAX_LAYER_NAME, name, *name ? "'" : "");
  return buf;
}

/* Fails with words about layer i. */
static int __attribute__((format(printf, 3, 4))) bad(const wiring *w, int i, const char *fmt, ...) {
  char place[PLACE], words[256];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(words, sizeof words, fmt, ap);
  va_end(ap);
  return w->ctx->host->fail(w->ctx, SP_E_INVALID, "%s (%s): %s", place_of(w, i, place), nn_words[w->l[i].type], words);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */
/* The number N of "LIST.N", where the list of that name comes in; 0: it is no such name. */
static long item_of(const wiring *w, const char *name) {
  size_t n = w->in->list ? strlen(w->in->list) : 0;
  if (!n || strncmp(name, w->in->list, n) || name[n] != '.' ||
      strspn(name + n + 1, "0123456789") != strlen(name + n + 1))
    return 0;
  return strtol(name + n + 1, NULL, 10);
}

static int check_name(const wiring *w, int i) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  const char *name = w->l[i].name;
  size_t n = strlen(name);
  if (n > MAX_LAYER_NAME) return bad(w, i, "the name has %zu characters, at most %d are possible", n, MAX_LAYER_NAME);
  if (strspn(name, letters) != n) return bad(w, i, "a name is of letters, digits, '.', '_' and '-'");
  if (!strcmp(name, "input") || item_of(w, name))
    return bad(w, i, "\"%s\" is the name of what comes in; choose another", name);
  return SP_OK;
}

/* Is a a residual block, and b called as if it were a part of it? */
static int holds(const wiring *w, int a, int b) {
  char x[16], y[16];
  const char *block = name_of(w, a, x), *name = name_of(w, b, y);
  size_t n = strlen(block);
  return nn_rows[w->l[a].type]->holds && !strncmp(block, name, n) && name[n] == '.';
}

static int check_names(const wiring *w) {
  char a[16], b[16];
  int st = SP_OK;
  for (int i = 0; i < w->n && !st; i++) {
    const char *name = name_of(w, i, a);
    st = check_name(w, i);
    for (int j = 0; j < i && !st; j++) {
      if (!strcmp(name, name_of(w, j, b)))
        st = bad(w, i, "layer %d is called \"%s\" already; choose another name", j + 1, name);
      else if (holds(w, i, j) || holds(w, j, i))
        st = bad(w, i, "\"%s\" and \"%s\" of layer %d would share names of weights; choose another name", name,
                 name_of(w, j, b), j + 1);
    }
  }
  return st;
}

/* ---- what a layer reads ------------------------------------------------------------------------------------------ */
static int find(const wiring *w, const char *name) {
  char buf[16];
  long item = item_of(w, name);
  if (!strcmp(name, "input")) return INPUT;
  if (item && item < w->in->n) return INPUT - (int)item;
  for (int i = 0; i < w->n; i++)
    if (!strcmp(name, name_of(w, i, buf))) return i;
  return UNKNOWN;
}

/* The layer, or INPUT, that a parameter of layer i names. */
static int named(const wiring *w, int i, const char *param, const char *name, int *j) {
  *j = find(w, name);
  if (*j == UNKNOWN && item_of(w, name))
    return bad(w, i, "`%s` names \"%.64s\", but %d %s come%s in", param, name, w->in->n - 1, w->in->list,
               w->in->n == 2 ? "s" : "");
  if (*j == UNKNOWN)
    return bad(w, i, "`%s` names \"%.64s\", but no layer is called so; give one name = \"%.64s\"", param, name, name);
  if (*j >= i)
    return bad(w, i, "`%s` names \"%.64s\", which is layer %d; a layer knows only what is before it", param, name,
               *j + 1);
  return SP_OK;
}

static int value_of(const wiring *w, int j) { return j < 0 ? w->in->value[INPUT - j] : w->value[j]; }

/* Fills in[]; returns how many. */
static int sources(wiring *w, int i, int *in) {
  const sp_structs *from = &w->l[i].from;
  const char *const *names = from->v;
  int n = (int)from->n, j, st;
  for (int k = 0; k < n; k++) {
    if ((st = named(w, i, "from", names[k], &j))) return st;
    in[k] = value_of(w, j);
    if (j >= 0) w->read[j] = 1;
  }
  if (n) return n;
  in[0] = value_of(w, i - 1);
  if (i) w->read[i - 1] = 1;
  return 1;
}

static int given(const sp_ints *v) {
  for (uint32_t i = 0; i < v->n; i++)
    if (v->v[i]) return 1;
  return 0;
}

static int is_among(const char *field, const char *names) {
  size_t n = strlen(field);
  for (const char *at = names; at && (at = strstr(at, field)) != NULL; at += n)
    if ((at == names || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return 1;
  return 0;
}

static int has(int type, const char *field) {
  return is_among(field, "type name from tap") || is_among(field, nn_rows[type]->fields);
}

/* Does the script say anything but the default? */
static int is_given(const nn_layer *l, const sp_param *field) {
  const void *at = (const char *)l + field->offset;
  switch (field->type) {
    case SP_PARAM_BOOL:
    case SP_PARAM_CHOICE: return *(const int32_t *)at != field->idef;
    case SP_PARAM_INT: return *(const int64_t *)at != field->idef;
    case SP_PARAM_FLOAT: return *(const double *)at != field->def;
    case SP_PARAM_STRING: return **(const char *const *)at != 0;
    default: return given(at); /* a field of another type than INTS is one of every layer */
  }
}

/* "conv, max_pool and linear": the types that have the field. */
static const char *types_with(const char *field, char *buf, size_t size) {
  size_t n = 0;
  int left = 0;
  for (int t = 0; t < NN_KINDS; t++) left += has(t, field);
  for (int t = 0; t < NN_KINDS; t++)
    if (has(t, field))
      n += (size_t)snprintf(buf + n, size - n, "%s%s", !n ? "" : left > 1 ? ", " : " and ", nn_words[t]), left--;
  return buf;
}

/* Refuses fields of other types, which would be left aside without a word. */
static int check_fields(const wiring *w, int i) {
  const nn_layer *l = &w->l[i];
  for (const sp_param *field = nn_layer_fields; field->name; field++) {
    char types[160];
    if (!has(l->type, field->name) && is_given(l, field))
      return bad(w, i, "`%s` is a parameter of %s; take it out", field->name,
                 types_with(field->name, types, sizeof types));
  }
  return SP_OK;
}

/* How many values layer i may read. */
static int check_count(const wiring *w, int i, int n) {
  const nn_row *row = nn_rows[w->l[i].type];
  if (row->most > 1 && (n < row->least || n > row->most))
    return bad(w, i, "it reads %d value%s; name two%s with from = { \"A\", \"B\" }", n, n > 1 ? "s" : "",
               row->most > 2 ? " or more" : "");
  if (row->most <= 1 && n > 1)
    return bad(w, i, "it reads one value, `from` names %d; put { \"add\" } or { \"concat\" } before it", n);
  return SP_OK;
}

static int add_layer(wiring *w, int i) {
  nn_layer l = w->l[i];
  int in[NN_MAX_INS], n = sources(w, i, in), st, j;
  int64_t size[2];
  char buf[16], place[PLACE];
  if (n < 0) return n;
  if ((st = check_fields(w, i)) || (st = check_count(w, i, n))) return st;
  place_of(w, i, place);
  if (*l.like) {
    if ((st = named(w, i, "like", l.like, &j))) return st;
    if (given(&l.size)) return bad(w, i, "give either `size` or `like`");
    size[0] = w->net->values[value_of(w, j)].h;
    size[1] = w->net->values[value_of(w, j)].w;
    l.size = (sp_ints){size, 2, 0};
  }
  return nn_add_joining(w->ctx, w->net, in, n, &l, name_of(w, i, buf), place);
}

/* ---- the whole list ---------------------------------------------------------------------------------------------- */
static int tap(const wiring *w, int i, nn_taps *taps) {
  if (!taps) return bad(w, i, "this stage gives no maps; take `tap` out, or use an encoder");
  if (taps->n == SP_MAX_LIST) return bad(w, i, "more than %d layers with `tap`", SP_MAX_LIST);
  taps->value[taps->n++] = w->value[i];
  return SP_OK;
}

static int add_all(wiring *w, nn_taps *taps) {
  int st = check_names(w);
  for (int i = 0; i < w->n && !st; i++) {
    w->value[i] = add_layer(w, i);
    if (w->value[i] < 0) st = w->value[i];
    else if (w->l[i].tap) st = tap(w, i, taps);
  }
  for (int i = 0; i + 1 < w->n && !st; i++)
    if (!w->read[i] && !w->l[i].tap)
      st = bad(w, i, "nothing reads it; name it in a later layer's `from`, or take it out");
  return st ? st : w->value[w->n - 1];
}

int nn_add_layers(sp_ctx *ctx, nn_net *net, const nn_sources *in, const sp_structs *layers, nn_taps *taps) {
  wiring w = {.ctx = ctx, .net = net, .l = layers->v, .n = (int)layers->n, .in = in};
  int v = in->value[0];
  if (!w.n) return v;
  w.value = calloc((size_t)w.n, sizeof *w.value);
  w.read = calloc((size_t)w.n, 1);
  if (w.value && w.read) v = add_all(&w, taps);
  else v = ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for the network's layers");
  free(w.value);
  free(w.read);
  return v;
}

int nn_bind_taps(sp_ctx *ctx, const sp_plan *plan, const nn_taps *taps, nn_binds *b) {
  if ((uint32_t)taps->n > plan->out[1].cap)
    return ctx->host->fail(ctx, SP_E_INVALID, "%d maps, at most %u are possible", taps->n, plan->out[1].cap);
  for (int i = 0; i < taps->n; i++) b->out[b->n_out++] = (nn_bind){1, i, taps->value[i]};
  plan->out[1].n = (uint32_t)taps->n;
  return SP_OK;
}
