/* SPDX-License-Identifier: MIT
 * inspect_json.c - what plugins hold, as one JSON document. */
#include "cli/inspect.h"
#include "base/value.h"

#include <stdlib.h>

static void put_key(sp_sb *sb, const char *key) {
  sp_sb_json(sb, key);
  sp_sb_put(sb, ":");
}

/* ,"key":"text", or null */
static void put_text(sp_sb *sb, const char *key, const char *text) {
  sp_sb_put(sb, ",");
  put_key(sb, key);
  if (text) sp_sb_json(sb, text);
  else sp_sb_put(sb, "null");
}

typedef struct array {
  sp_sb *sb;
  bool any;
} array;

static void add_text(void *arg, const char *text) {
  array *a = arg;
  if (a->any) sp_sb_put(a->sb, ",");
  sp_sb_json(a->sb, text);
  a->any = true;
}

static void put_ports(sp_sb *sb, const sp_port *ports) {
  sp_sb_put(sb, "[");
  for (const sp_port *p = ports; p && p->name; p++) {
    array dtypes = {sb, false}, flags = {sb, false};
    sp_sb_put(sb, p == ports ? "\n  {" : ",\n  {");
    put_key(sb, "name");
    sp_sb_json(sb, p->name);
    sp_sb_put(sb, ",\"dtypes\":[");
    for (int dt = 1; dt < 32; dt++)
      if (p->dtypes & SP_DT(dt)) add_text(&dtypes, sp_dtype_name(dt));
    sp_sb_putf(sb, "],\"ndim\":%d,\"flags\":[", p->ndim);
    sp_inspect_port_flags(p->flags, add_text, &flags);
    sp_sb_put(sb, "]");
    put_text(sb, "doc", p->doc);
    sp_sb_put(sb, "}");
  }
  sp_sb_put(sb, "]");
}

/* "256,256"; what strtod() takes is more than JSON allows. */
static void put_numbers(sp_sb *sb, const char *text) {
  sp_sb_put(sb, "[");
  for (const char *p = text; p && *p;) {
    sp_value v = {0};
    const char *end = sp_value_number(&v, p);
    if (v.type == SP_V_INT) sp_sb_putf(sb, "%lld", (long long)v.i);
    else sp_sb_json_num(sb, v.d);
    if (!end) break; /* the registry has refused such a table */
    if (*end) sp_sb_put(sb, ",");
    p = *end ? end + 1 : end;
  }
  sp_sb_put(sb, "]");
}

static void put_default(sp_sb *sb, const sp_param *e) {
  sp_sb_put(sb, ",\"default\":");
  if (e->flags & SP_PARAM_REQUIRED) sp_sb_put(sb, "null");
  else if (e->type == SP_PARAM_INTS || e->type == SP_PARAM_FLOATS) put_numbers(sb, e->def_str);
  else if (e->type == SP_PARAM_LIST) sp_sb_put(sb, "[]");
  else sp_inspect_default(sb, e);
}

/* Whole numbers stay whole, whatever their size. */
static void put_bounds(sp_sb *sb, const sp_param *e) {
  if (e->imin || e->imax) {
    sp_sb_putf(sb, ",\"min\":%lld,\"max\":%lld", (long long)e->imin, (long long)e->imax);
  } else if (e->min != 0 || e->max != 0) {
    sp_sb_put(sb, ",\"min\":");
    sp_sb_json_num(sb, e->min);
    sp_sb_put(sb, ",\"max\":");
    sp_sb_json_num(sb, e->max);
  }
}

static void put_params(sp_sb *sb, const sp_param *table) {
  sp_sb_put(sb, "[");
  for (const sp_param *e = table; e && e->name; e++) {
    bool live = e->flags & SP_PARAM_LIVE, first = e->flags & SP_PARAM_FIRST, required = e->flags & SP_PARAM_REQUIRED;
    array choices = {sb, false};
    sp_sb_put(sb, e == table ? "\n  {" : ",\n  {");
    put_key(sb, "name");
    sp_sb_json(sb, e->name);
    put_text(sb, "type", sp_inspect_type(e->type));
    sp_sb_putf(sb, ",\"required\":%s,\"live\":%s,\"positional\":%s", required ? "true" : "false",
               live ? "true" : "false", first ? "true" : "false");
    put_default(sb, e);
    put_bounds(sb, e);
    if (e->min_n || e->max_n) sp_sb_putf(sb, ",\"min_n\":%u,\"max_n\":%u", e->min_n, e->max_n);
    if (e->type == SP_PARAM_CHOICE) {
      sp_sb_put(sb, ",\"choices\":[");
      for (size_t i = 0; e->choices[i]; i++) add_text(&choices, e->choices[i]);
      sp_sb_put(sb, "]");
    }
    put_text(sb, "unit", e->unit);
    put_text(sb, "doc", e->doc);
    if (e->type == SP_PARAM_LIST) {
      sp_sb_put(sb, ",\"fields\":");
      put_params(sb, e->fields);
    }
    sp_sb_put(sb, "}");
  }
  sp_sb_put(sb, "]");
}

static void put_head(sp_sb *sb, const sp_inspect_stage *st) {
  put_key(sb, "name");
  sp_sb_json(sb, st->type->name);
  put_text(sb, "device", st->type->device);
  put_text(sb, "doc", st->type->doc);
  put_text(sb, "file", st->file->path);
}

static void put_plugin(sp_sb *sb, const sp_plugin *p) {
  put_text(sb, "plugin", p->name);
  put_text(sb, "version", p->version);
  put_text(sb, "license", p->license);
  sp_sb_putf(sb, ",\"abi\":\"%u.%u\"", p->abi >> 16, p->abi & 0xffff);
}

void sp_inspect_json_one(sp_sb *sb, const sp_inspect_stage *st) {
  array flags = {sb, false};
  sp_sb_put(sb, "{");
  put_head(sb, st);
  put_plugin(sb, &st->file->plugin);
  sp_sb_put(sb, ",\"flags\":[");
  sp_inspect_stage_flags(st->type->flags, add_text, &flags);
  sp_sb_putf(sb, "],\"backward\":%s,\"inputs\":", st->type->backward ? "true" : "false");
  put_ports(sb, st->type->inputs);
  sp_sb_put(sb, ",\"outputs\":");
  put_ports(sb, st->type->outputs);
  sp_sb_put(sb, ",\"params\":");
  put_params(sb, st->type->params);
  sp_sb_put(sb, "}");
}

int sp_inspect_json_list(sp_sb *sb, const sp_inspect *in, sp_err *err) {
  sp_inspect_stage *list;
  size_t n;
  int rc = sp_inspect_shown(in, &list, &n, err);
  if (rc) return rc;
  sp_sb_put(sb, "{\"stages\":[");
  for (size_t i = 0; i < n; i++) {
    sp_sb_put(sb, i ? ",\n {" : "\n {");
    put_head(sb, &list[i]);
    sp_sb_put(sb, "}");
  }
  free(list);
  sp_sb_put(sb, "],\n\"plugins\":[");
  for (size_t i = 0; i < sp_registry_count(in->reg); i++) {
    const sp_plugin_file *f = sp_registry_at(in->reg, i);
    array devices = {sb, false}, formats = {sb, false}, comms = {sb, false};
    sp_sb_put(sb, i ? ",\n {" : "\n {");
    put_key(sb, "file");
    sp_sb_json(sb, f->path);
    put_plugin(sb, &f->plugin);
    put_text(sb, "doc", f->plugin.doc);
    sp_sb_put(sb, ",\"devices\":[");
    for (size_t k = 0; k < f->n_devices; k++) add_text(&devices, f->devices[k].name);
    sp_sb_put(sb, "],\"formats\":[");
    for (size_t k = 0; k < f->n_formats; k++) add_text(&formats, f->formats[k].name);
    sp_sb_put(sb, "],\"comms\":[");
    for (size_t k = 0; k < f->n_comms; k++) add_text(&comms, f->comms[k].name);
    sp_sb_put(sb, "]}");
  }
  sp_sb_put(sb, "],\n\"failed\":[");
  for (size_t i = 0; i < in->n_bad; i++) {
    sp_sb_put(sb, i ? ",\n {" : "\n {");
    put_key(sb, "file");
    sp_sb_json(sb, in->bad[i].path);
    put_text(sb, "status", sp_status_name(in->bad[i].why.status));
    put_text(sb, "error", in->bad[i].why.msg);
    sp_sb_put(sb, "}");
  }
  sp_sb_put(sb, "]}\n");
  return SP_OK;
}
