/* SPDX-License-Identifier: MIT
 * inspect.c - what plugins hold, in words for people. */
#include "cli/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/param.h"

/* ---- words for parts of a table ---------------------------------------------------------------------------------- */

const char *sp_inspect_type(int32_t type) {
  switch (type) {
    case SP_PARAM_BOOL: return "boolean";
    case SP_PARAM_INT: return "integer";
    case SP_PARAM_FLOAT: return "number";
    case SP_PARAM_STRING: return "string";
    case SP_PARAM_CHOICE: return "choice";
    case SP_PARAM_INTS: return "list of integers";
    case SP_PARAM_FLOATS: return "list of numbers";
    case SP_PARAM_LIST: return "list of tables";
    default: return "unknown";
  }
}

void sp_inspect_default(sp_sb *sb, const sp_param *e) {
  if (e->flags & SP_PARAM_REQUIRED) return;
  switch (e->type) {
    case SP_PARAM_BOOL: sp_sb_put(sb, e->idef ? "true" : "false"); break;
    case SP_PARAM_INT: sp_sb_putf(sb, "%lld", (long long)e->idef); break;
    case SP_PARAM_FLOAT: sp_sb_json_num(sb, e->def); break;
    case SP_PARAM_STRING: sp_sb_json(sb, e->def_str ? e->def_str : ""); break;
    case SP_PARAM_CHOICE: sp_sb_json(sb, e->choices[e->idef]); break;
    case SP_PARAM_INTS:
    case SP_PARAM_FLOATS: sp_sb_putf(sb, "{%s}", e->def_str ? e->def_str : ""); break;
    default: sp_sb_put(sb, "{}"); break;
  }
}

static void put_bound(sp_sb *sb, bool whole, int64_t i, double d) {
  if (whole) sp_sb_putf(sb, "%lld", (long long)i);
  else sp_sb_json_num(sb, d);
}

static bool put_bounds(const sp_param *e, sp_sb *min, sp_sb *max) {
  bool whole = e->type == SP_PARAM_INT || e->type == SP_PARAM_INTS;
  if (whole ? !e->imin && !e->imax : e->min == 0 && e->max == 0) return false;
  if (whole ? e->imin != INT64_MIN : e->min > -1e18) put_bound(min, whole, e->imin, e->min);
  if (whole ? e->imax != INT64_MAX : e->max < 1e18) put_bound(max, whole, e->imax, e->max);
  return min->n || max->n;
}

bool sp_inspect_range(sp_sb *sb, const sp_param *e) {
  sp_sb min = {0}, max = {0};
  bool any = put_bounds(e, &min, &max);
  if (any && !max.n) sp_sb_put(sb, "at least ");
  if (any && !min.n) sp_sb_put(sb, "at most ");
  sp_sb_putf(sb, "%s%s%s", sp_sb_str(&min), min.n && max.n ? ".." : "", sp_sb_str(&max));
  sp_sb_free(&min);
  sp_sb_free(&max);
  return any;
}

typedef struct flag_word {
  uint32_t flag;
  const char *word;
} flag_word;

static void each_flag(const flag_word *words, size_t n, uint32_t flags, void (*each)(void *, const char *), void *arg) {
  for (size_t i = 0; i < n; i++)
    if (flags & words[i].flag) each(arg, words[i].word);
}

void sp_inspect_stage_flags(uint32_t flags, void (*each)(void *arg, const char *word), void *arg) {
  static const flag_word words[] = {
      {SP_STAGE_SOURCE, "source"},           {SP_STAGE_OPTIMIZER, "optimizer"},   {SP_STAGE_CAPTURABLE, "capturable"},
      {SP_STAGE_REENTRANT, "reentrant"},     {SP_STAGE_STOCHASTIC, "stochastic"}, {SP_STAGE_LOSS, "loss"},
      {SP_STAGE_INPLACE_SGD, "inplace_sgd"}, {SP_STAGE_REQUESTS, "requests"},     {SP_STAGE_SHARDS, "shards"}};
  each_flag(words, SP_ARRAY(words), flags, each, arg);
}

void sp_inspect_port_flags(uint32_t flags, void (*each)(void *arg, const char *word), void *arg) {
  static const flag_word words[] = {{SP_PORT_OPTIONAL, "optional"}, {SP_PORT_LIST, "list"},
                                    {SP_PORT_METRIC, "metric"},     {SP_PORT_NOGRAD, "no_gradient"},
                                    {SP_PORT_STATUS, "status"},     {SP_PORT_SUM, "sum"},
                                    {SP_PORT_TOTAL, "total"}};
  each_flag(words, SP_ARRAY(words), flags, each, arg);
}

/* ---- stages of all files ----------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
  const sp_inspect_stage *x = a, *y = b;
  int c = strcmp(x->type->name, y->type->name);
  return c ? c : strcmp(x->type->device, y->type->device);
}

static bool has(const sp_inspect_stage *list, size_t n, const sp_stage_type *t) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(list[i].type->name, t->name) == 0 && strcmp(list[i].type->device, t->device) == 0) return true;
  return false;
}

int sp_inspect_stages(const sp_registry *reg, sp_inspect_stage **list, size_t *n, sp_err *err) {
  size_t cap = 0;
  *list = NULL;
  *n = 0;
  for (size_t i = 0; i < sp_registry_count(reg); i++) {
    const sp_plugin_file *f = sp_registry_at(reg, i);
    for (size_t k = 0; k < f->n_stages; k++) {
      if (has(*list, *n, &f->stages[k])) continue;
      if (!sp_grow(list, &cap, *n + 1, sizeof **list)) {
        free(*list);
        *list = NULL;
        return sp_nomem(err, (*n + 1) * sizeof **list, "the list of stages");
      }
      (*list)[(*n)++] = (sp_inspect_stage){&f->stages[k], f};
    }
  }
  if (*n) qsort(*list, *n, sizeof **list, by_name);
  return SP_OK;
}

/* "cpu, cuda" */
static void put_devices(sp_sb *sb, const sp_inspect_stage *list, size_t n) {
  for (size_t i = 0; i < n; i++) {
    bool before = false;
    for (size_t k = 0; k < i; k++) before = before || strcmp(list[k].type->device, list[i].type->device) == 0;
    if (!before) sp_sb_putf(sb, "%s%s", sb->n ? ", " : "", list[i].type->device);
  }
}

int sp_inspect_shown(const sp_inspect *in, sp_inspect_stage **list, size_t *n, sp_err *err) {
  size_t all, shown = 0;
  int rc = sp_inspect_stages(in->reg, list, &all, err);
  *n = all;
  if (rc || !in->device) return rc;
  for (size_t i = 0; i < all; i++)
    if (strcmp((*list)[i].type->device, in->device) == 0) (*list)[shown++] = (*list)[i];
  *n = shown;
  if (shown) return SP_OK;
  sp_sb devices = {0};
  put_devices(&devices, *list, all);
  free(*list);
  sp_fail(err, SP_E_NOTFOUND, "there are stages for %s", devices.n ? sp_sb_str(&devices) : "no device");
  sp_sb_free(&devices);
  return err->status;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

int sp_inspect_list(sp_sb *sb, const sp_inspect *in, sp_err *err) {
  sp_inspect_stage *list;
  size_t n;
  int name_w = 4, device_w = 6, file_w = 6;
  int rc = sp_inspect_shown(in, &list, &n, err);
  if (rc) return rc;
#define WIDEN(w, s) \
  if ((int)strlen(s) > (w)) (w) = (int)strlen(s)
  for (size_t i = 0; i < n; i++) {
    WIDEN(name_w, list[i].type->name);
    WIDEN(device_w, list[i].type->device);
    WIDEN(file_w, base_name(list[i].file->path));
  }
#undef WIDEN
  if (n)
    sp_sb_putf(sb, "%-*s  %-*s  %-*s  %s\n", name_w, "STAGE", device_w, "DEVICE", file_w, "PLUGIN", "WHAT IT DOES");
  else sp_sb_put(sb, "no stages were found\n");
  for (size_t i = 0; i < n; i++)
    sp_sb_putf(sb, "%-*s  %-*s  %-*s  %s\n", name_w, list[i].type->name, device_w, list[i].type->device, file_w,
               base_name(list[i].file->path), list[i].type->doc);
  free(list);
  for (size_t i = 0; i < sp_registry_count(in->reg); i++) {
    const sp_plugin_file *f = sp_registry_at(in->reg, i);
    for (size_t k = 0; k < f->n_devices; k++)
      sp_sb_putf(sb, "\ndevice '%s' (%s): %s\n", f->devices[k].name, base_name(f->path), f->devices[k].doc);
    for (size_t k = 0; k < f->n_formats; k++)
      sp_sb_putf(sb, "\nformat '%s' (%s, %s): %s\n", f->formats[k].name, f->formats[k].extension, base_name(f->path),
                 f->formats[k].doc);
    for (size_t k = 0; k < f->n_comms; k++)
      sp_sb_putf(sb, "\ncommunicator '%s' (%s, %s): %s\n", f->comms[k].name, f->comms[k].device, base_name(f->path),
                 f->comms[k].doc);
  }
  if (in->n_bad) sp_sb_put(sb, "\nnot loaded:\n");
  for (size_t i = 0; i < in->n_bad; i++) sp_sb_putf(sb, "  %s\n", in->bad[i].why.msg);
  return SP_OK;
}

/* ---- one stage --------------------------------------------------------------------------------------------------- */

typedef struct words {
  sp_sb *sb;
  bool any;
} words;

static void add_word(void *arg, const char *word) {
  words *w = arg;
  sp_sb_putf(w->sb, "%s%s", w->any ? ", " : "", word);
  w->any = true;
}

static void put_dtypes(sp_sb *sb, uint32_t dtypes) {
  bool any = false;
  for (int dt = 1; dt < 32; dt++) {
    if (!(dtypes & SP_DT(dt))) continue;
    sp_sb_putf(sb, "%s%s", any ? "|" : "", sp_dtype_name(dt));
    any = true;
  }
  if (!any) sp_sb_put(sb, "any type");
}

static void put_ports(sp_sb *sb, const char *title, const sp_port *ports) {
  if (!ports || !ports[0].name) return;
  sp_sb_putf(sb, "\n%s\n", title);
  for (const sp_port *p = ports; p->name; p++) {
    words flags = {sb, true};
    sp_sb_putf(sb, "  %-20s ", p->name);
    put_dtypes(sb, p->dtypes);
    if (p->ndim >= 0) sp_sb_putf(sb, ", %d dimension%s", p->ndim, p->ndim == 1 ? "" : "s");
    sp_inspect_port_flags(p->flags, add_word, &flags);
    if (p->doc) sp_sb_putf(sb, "\n  %-20s %s", "", p->doc);
    sp_sb_put(sb, "\n");
  }
}

static void put_count(sp_sb *sb, const sp_param *e) {
  if (e->min_n && e->min_n == e->max_n) sp_sb_putf(sb, ", %u of them", e->min_n);
  else if (e->min_n && e->max_n) sp_sb_putf(sb, ", %u to %u of them", e->min_n, e->max_n);
  else if (e->min_n) sp_sb_putf(sb, ", at least %u", e->min_n);
  else if (e->max_n) sp_sb_putf(sb, ", at most %u", e->max_n);
}

static void put_params(sp_sb *sb, const sp_param *table, int indent) {
  int first = 0;
  for (const sp_param *e = table; e && e->name; e++) {
    sp_sb range = {0};
    sp_sb_putf(sb, "%*s%-*s %s", indent, "", 22 - indent, e->name, sp_inspect_type(e->type));
    for (size_t i = 0; e->type == SP_PARAM_CHOICE && e->choices[i]; i++)
      sp_sb_putf(sb, "%s%s", i ? ", " : " of ", e->choices[i]);
    if (e->type == SP_PARAM_LIST && sp_params_bare(e)) sp_sb_put(sb, " or bare values");
    put_count(sb, e);
    if (sp_inspect_range(&range, e)) sp_sb_putf(sb, ", %s", sp_sb_str(&range));
    sp_sb_free(&range);
    if (e->unit) sp_sb_putf(sb, " %s", e->unit);
    if (e->flags & SP_PARAM_REQUIRED) {
      sp_sb_put(sb, ", required");
    } else {
      sp_sb_put(sb, ", default ");
      sp_inspect_default(sb, e);
    }
    if (e->flags & SP_PARAM_LIVE) sp_sb_put(sb, ", may change while running");
    if (e->flags & SP_PARAM_FIRST) sp_sb_putf(sb, ", or as [%d]", ++first);
    if (e->doc) sp_sb_putf(sb, "\n%*s%s", 23, "", e->doc);
    sp_sb_put(sb, "\n");
    if (e->type == SP_PARAM_LIST) put_params(sb, e->fields, indent + 2);
  }
}

void sp_inspect_one(sp_sb *sb, const sp_inspect_stage *st) {
  const sp_stage_type *t = st->type;
  const sp_plugin *p = &st->file->plugin;
  words flags = {sb, false};
  sp_sb_putf(sb, "%s: %s\n\n", t->name, t->doc);
  sp_sb_putf(sb, "  device   %s\n", t->device);
  if (t->flags) {
    sp_sb_put(sb, "  flags    ");
    sp_inspect_stage_flags(t->flags, add_word, &flags);
    sp_sb_put(sb, "\n");
  }
  sp_sb_putf(sb, "  gradient %s\n", t->backward || (t->flags & SP_STAGE_LOSS) ? "yes" : "none passes");
  sp_sb_putf(sb, "  plugin   %s, version %s, licence %s\n", p->name, *p->version ? p->version : "unknown",
             *p->license ? p->license : "unknown");
  sp_sb_putf(sb, "  file     %s\n  ABI      %u.%u\n", st->file->path, p->abi >> 16, p->abi & 0xffff);
  put_ports(sb, "Inputs", t->inputs);
  put_ports(sb, "Outputs", t->outputs);
  if (t->params && t->params[0].name) {
    sp_sb_put(sb, "\nParameters\n");
    put_params(sb, t->params, 2);
  }
}
