/* SPDX-License-Identifier: MIT
 * inspect_meta.c - what plugins hold, as annotations that Lua editors read (---@class, ---@field). */
#include "cli/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "graph/option.h"
#include "host/param.h"

static void put_type(sp_sb *sb, const sp_param *e, const char *cls) {
  switch (e->type) {
    case SP_PARAM_BOOL: sp_sb_put(sb, "boolean"); break;
    case SP_PARAM_INT: sp_sb_put(sb, "integer"); break;
    case SP_PARAM_FLOAT: sp_sb_put(sb, "number"); break;
    case SP_PARAM_INTS: sp_sb_put(sb, "integer|integer[]"); break;
    case SP_PARAM_FLOATS: sp_sb_put(sb, "number|number[]"); break;
    case SP_PARAM_LIST:
      if (sp_params_bare(e)) {
        put_type(sb, e->fields, cls);
        sp_sb_put(sb, "|");
        put_type(sb, e->fields, cls);
        sp_sb_put(sb, "[]");
      } else {
        sp_sb_putf(sb, "%s.%s[]", cls, e->name);
      }
      break;
    case SP_PARAM_CHOICE:
      for (size_t i = 0; e->choices[i]; i++) sp_sb_putf(sb, "%s\"%s\"", i ? "|" : "", e->choices[i]);
      break;
    default: sp_sb_put(sb, "string"); break;
  }
}

/* " doc (1..64 px, default 3)" */
static void put_note(sp_sb *sb, const sp_param *e) {
  sp_sb range = {0};
  bool ranged = sp_inspect_range(&range, e);
  sp_sb_putf(sb, " %s", e->doc ? e->doc : "");
  sp_sb_putf(sb, "%s(", e->doc ? " " : "");
  if (ranged) sp_sb_putf(sb, "%s", sp_sb_str(&range));
  if (e->unit) sp_sb_putf(sb, "%s%s", ranged ? " " : "", e->unit);
  if (ranged || e->unit) sp_sb_put(sb, ", ");
  if (e->flags & SP_PARAM_REQUIRED) {
    sp_sb_put(sb, "required");
  } else {
    sp_sb_put(sb, "default ");
    sp_inspect_default(sb, e);
  }
  sp_sb_put(sb, e->flags & SP_PARAM_LIVE ? "; may be set while running)\n" : ")\n");
  sp_sb_free(&range);
}

static void put_fields(sp_sb *sb, const sp_param *table, const char *cls) {
  int first = 0;
  for (const sp_param *e = table; e && e->name; e++) {
    sp_sb_putf(sb, "---@field %s%s ", e->name, e->flags & SP_PARAM_REQUIRED && !(e->flags & SP_PARAM_FIRST) ? "" : "?");
    put_type(sb, e, cls);
    put_note(sb, e);
    if (!(e->flags & SP_PARAM_FIRST)) continue;
    sp_sb_putf(sb, "---@field [%d]? ", ++first);
    put_type(sb, e, cls);
    sp_sb_putf(sb, " the same as %s\n", e->name);
  }
}

/* Classes of lists, innermost first. */
static void put_lists(sp_sb *sb, const sp_param *table, const char *cls) {
  for (const sp_param *e = table; e && e->name; e++) {
    if (e->type != SP_PARAM_LIST || sp_params_bare(e)) continue;
    sp_sb name = {0};
    sp_sb_putf(&name, "%s.%s", cls, e->name);
    put_lists(sb, e->fields, sp_sb_str(&name));
    sp_sb_putf(sb, "---@class %s\n", sp_sb_str(&name));
    put_fields(sb, e->fields, sp_sb_str(&name));
    sp_sb_put(sb, "\n");
    sp_sb_free(&name);
  }
}

static void put_stage(sp_sb *sb, const sp_stage_type *t) {
  sp_sb cls = {0};
  sp_sb_putf(&cls, "spcore.%s", t->name);
  put_lists(sb, t->params, sp_sb_str(&cls));
  sp_sb_putf(sb, "---What g.%s is called with.\n---@class spcore.%s.params: spcore.%s_options\n", t->name, t->name,
             t->flags & SP_STAGE_REQUESTS    ? "requests"
             : t->flags & SP_STAGE_SOURCE    ? "source"
             : t->flags & SP_STAGE_OPTIMIZER ? "optimizer"
                                             : "node");
  int i = 0;
  for (const sp_port *p = t->inputs; p && p->name; p++) {
    const char *type = p->flags & SP_PORT_LIST ? "spcore.ref|spcore.ref[]" : "spcore.ref";
    sp_sb_putf(sb, "---@field [%d]? %s the input %s\n", ++i, type, p->name);
    sp_sb_putf(sb, "---@field %s? %s %s\n", p->name, type, p->doc ? p->doc : "an input");
  }
  put_fields(sb, t->params, sp_sb_str(&cls));
  sp_sb_putf(sb, "\n---%s.\n---@class spcore.%s: spcore.node\n", t->doc, t->name);
  for (const sp_port *p = t->outputs; p && p->name; p++)
    sp_sb_putf(sb, "---@field %s %s %s\n", p->name, p->flags & SP_PORT_LIST ? "spcore.ref[]" : "spcore.ref",
               p->doc ? p->doc : "an output");
  sp_sb_put(sb, "\n");
  sp_sb_free(&cls);
}

/* What scripts/spcore/groups.lua takes of them. */
static const char optimizer[] =
    "---Weights by globs over their names, \"STAGE.WEIGHT\", and what is special about them.\n"
    "---@class spcore.group\n"
    "---@field [integer]? string\n"
    "---@field up_to? string instead of names: of a known network all blocks up to this one, such as \"layer3\"\n"
    "---@field lr? number factor on the learning rate (default 1)\n"
    "---@field decay? number factor on the weight decay (default 1)\n"
    "---@field frozen? boolean they are not trained (default false)\n\n"
    "---@class spcore.optimizer_options: spcore.node_options\n"
    "---@field groups? spcore.group[] where several fit a weight, their factors are multiplied\n"
    "---@field no_decay? \"norm_bias\"|string[] weights without decay: of one dimension, or by their names\n"
    "---@field layer_decay? number each block of a known network has this times the rate of the next, the last "
    "one this times the rate (default 1)\n\n";

/* What the host itself takes and gives, whatever the stage. */
static const char head[] =
    "---@meta\n"
    "-- SPDX-License-Identifier: MIT\n"
    "-- The stages, for editors. Written by `spcore inspect --meta`; do not edit.\n\n"
    "---An output of a stage, to be given to another one.\n"
    "---@class spcore.ref\n\n"
    "---@class spcore.weights\n"
    "---@field [1] string the file, or the folder of a run\n"
    "---@field prefix? string only what begins with it is looked at, and named by what comes behind (default: as the "
    "names are, else what wrappers put before them)\n"
    "---@field ignore? string|string[] patterns of names, behind the prefix, that are left out\n"
    "---@field names? table<string, string> the file's names: [\"features.0.0\"] = \"conv_stem\"\n\n";

static const char node[] =
    "---A stage in a graph.\n"
    "---@class spcore.node\n"
    "---@field name string\n\n";

static void put_choices(sp_sb *sb, const char *const *choices) {
  for (size_t i = 0; choices[i]; i++) sp_sb_putf(sb, "%s\"%s\"", i ? "|" : "", choices[i]);
}

/* What the host takes for a stage, of rows that name `group`; "": of those for all stages. */
static void put_rows(sp_sb *sb, const char *group) {
  for (const sp_option *row = sp_stage_rows; row->name; row++) {
    if (*group ? !strstr(row->groups, group) : *row->groups != 0) continue;
    bool flag = row->type == SP_OPTION_FLAG || row->type == SP_OPTION_NOT;
    sp_sb_putf(sb, "---@field %s? ", row->name);
    if (row->choices) put_choices(sb, row->choices);
    else sp_sb_put(sb, flag ? "boolean" : row->type == SP_OPTION_TEXT ? "string" : "integer");
    sp_sb_putf(sb, " %s", row->help);
    if (row->otherwise) sp_sb_putf(sb, " (default: %s)", row->otherwise);
    else if (row->choices) sp_sb_putf(sb, " (default \"%s\")", row->choices[row->first - row->least]);
    else if (flag) sp_sb_putf(sb, " (default %s)", row->first ? "true" : "false");
    else if (row->first >= row->least) sp_sb_putf(sb, " (default %lld)", (long long)row->first);
    sp_sb_put(sb, "\n");
  }
}

static void put_options(sp_sb *sb) {
  sp_sb_put(sb, "---@class spcore.node_options\n");
  put_rows(sb, "");
  sp_sb_put(sb, "---@field weights? string|spcore.weights file to load its weights from\n\n");
  sp_sb_put(sb, "---@class spcore.source_options: spcore.node_options\n");
  put_rows(sb, "source");
  sp_sb_put(sb, "\n---@class spcore.requests_options: spcore.node_options\n");
  put_rows(sb, "requests");
  sp_sb_put(sb, "\n");
  sp_sb_put(sb, optimizer);
}

int sp_inspect_meta(sp_sb *sb, const sp_inspect *in, sp_err *err) {
  sp_inspect_stage *list;
  size_t n;
  int rc = sp_inspect_stages(in->reg, &list, &n, err);
  if (rc) return rc;
  sp_sb_put(sb, head);
  put_options(sb);
  sp_sb_put(sb, node);
  const char *last = "";
  for (size_t i = 0; i < n; i++) {
    if (strcmp(list[i].type->name, last) != 0 && !(list[i].type->flags & SP_STAGE_SHARDS)) put_stage(sb, list[i].type);
    last = list[i].type->name;
  }
  sp_sb_put(sb, "---@class spcore.graph\n");
  last = "";
  for (size_t i = 0; i < n; i++) {
    const sp_stage_type *t = list[i].type;
    if (strcmp(t->name, last) != 0 && !(t->flags & SP_STAGE_SHARDS))
      sp_sb_putf(sb, "---@field %s fun(t: spcore.%s.params): spcore.%s %s\n", t->name, t->name, t->name, t->doc);
    last = t->name;
  }
  free(list);
  return SP_OK;
}
