/* SPDX-License-Identifier: MIT
 * param.c - parameter tables: check a table of values against them and fill the author's struct. */
#include "host/param.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 1024         /* most elements of a list whose table names no limit of its own */
#define NEST_MAX 4            /* deepest LIST within a LIST */
#define TABLE_MAX 256         /* most parameters of one table: one that is not ended is found out, not run through */
#define STRUCT_MAX (1u << 20) /* bytes of a parameter struct */

typedef struct filler {
  sp_params *p;
  sp_err *err;
} filler;

/* ---- words ------------------------------------------------------------------------------------------------------- */

typedef struct path {
  char s[192];
} path;

static path path_of(const char *base, const char *name) {
  path at;
  snprintf(at.s, sizeof at.s, "%s%s%s", base, *base ? "." : "", name);
  return at;
}

static path path_item(const char *base, size_t i) {
  path at;
  snprintf(at.s, sizeof at.s, "%.160s[%zu]", base, i);
  return at;
}

/* The value as a script would write it, shortened. */
static const char *value_text(const sp_value *v, char *buf, size_t n) {
  switch (v->type) {
    case SP_V_BOOL: snprintf(buf, n, "%s", v->i ? "true" : "false"); break;
    case SP_V_INT: snprintf(buf, n, "%lld", (long long)v->i); break;
    case SP_V_NUM: snprintf(buf, n, "%.15g", v->d); break;
    case SP_V_STR: snprintf(buf, n, "\"%.40s%s\"", v->s, strlen(v->s) > 40 ? "..." : ""); break;
    case SP_V_TABLE: snprintf(buf, n, "a table"); break;
    case SP_V_NIL: snprintf(buf, n, "nil"); break;
  }
  return buf;
}

static int wrong_type(filler *f, const char *at, const char *wanted, const sp_value *v) {
  char text[64];
  return sp_fail(f->err, SP_E_INVALID, "parameter '%s': expected %s, got %s", at, wanted,
                 value_text(v, text, sizeof text));
}

static void put_choices(sp_sb *sb, const char *const *choices) {
  for (size_t i = 0; choices[i]; i++) sp_sb_putf(sb, "%s%s", i ? ", " : "", choices[i]);
}

static const char *unit_of(const sp_param *e, char *buf, size_t n) {
  snprintf(buf, n, "%s%s", e->unit ? " " : "", e->unit ? e->unit : "");
  return buf;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static int check_range(filler *f, const sp_param *e, const char *at, double v) {
  char unit[40];
  if (e->min == 0 && e->max == 0) return SP_OK;
  if (v < e->min)
    return sp_fail(f->err, SP_E_RANGE, "parameter '%s': %.15g is below %.15g%s", at, v, e->min,
                   unit_of(e, unit, sizeof unit));
  if (v > e->max)
    return sp_fail(f->err, SP_E_RANGE, "parameter '%s': %.15g is above %.15g%s", at, v, e->max,
                   unit_of(e, unit, sizeof unit));
  return SP_OK;
}

static int check_whole_range(filler *f, const sp_param *e, const char *at, int64_t v) {
  char unit[40];
  if ((e->imin == 0 && e->imax == 0) || (v >= e->imin && v <= e->imax)) return SP_OK;
  return sp_fail(f->err, SP_E_RANGE, "parameter '%s': %lld is %s %lld%s", at, (long long)v,
                 v < e->imin ? "below" : "above", (long long)(v < e->imin ? e->imin : e->imax),
                 unit_of(e, unit, sizeof unit));
}

static int get_int(filler *f, const sp_param *e, const char *at, const sp_value *v, int64_t *out) {
  if (v->type == SP_V_INT) {
    *out = v->i;
  } else if (v->type == SP_V_NUM) {
    /* 2^63 itself does not fit; the comparison also refuses NaN. */
    if (!(v->d >= -9223372036854775808.0 && v->d < 9223372036854775808.0) || v->d != floor(v->d))
      return wrong_type(f, at, "an integer", v);
    *out = (int64_t)v->d;
  } else {
    return wrong_type(f, at, "an integer", v);
  }
  return check_whole_range(f, e, at, *out);
}

static int get_float(filler *f, const sp_param *e, const char *at, const sp_value *v, double *out) {
  if (v->type == SP_V_INT) *out = (double)v->i;
  else if (v->type == SP_V_NUM) *out = v->d;
  else return wrong_type(f, at, "a number", v);
  if (!isfinite(*out)) return wrong_type(f, at, "a finite number", v);
  return check_range(f, e, at, *out);
}

/* ---- memory that hangs on the struct ----------------------------------------------------------------------------- */

static void *own(filler *f, size_t n, size_t size, const char *at) {
  void *mem = NULL;
  if (sp_grow(&f->p->owned, &f->p->cap_owned, f->p->n_owned + 1, sizeof *f->p->owned)) mem = sp_calloc(n, size);
  if (!mem) {
    sp_nomem(f->err, n * size, at);
    return NULL;
  }
  f->p->owned[f->p->n_owned++] = mem;
  return mem;
}

static int put_string(filler *f, const char *at, char *dst, const char *s) {
  size_t n = strlen(s) + 1;
  char *copy = own(f, n, 1, at);
  if (!copy) return f->err->status;
  memcpy(copy, s, n);
  memcpy(dst, &copy, sizeof copy);
  return SP_OK;
}

static int check_count(filler *f, const sp_param *e, const char *at, size_t n) {
  size_t max = e->max_n ? e->max_n : LIST_MAX;
  if (n >= e->min_n && n <= max) return SP_OK;
  if (e->min_n == max) return sp_fail(f->err, SP_E_RANGE, "parameter '%s': expected %zu values, got %zu", at, max, n);
  return sp_fail(f->err, SP_E_RANGE, "parameter '%s': expected %u to %zu values, got %zu", at, e->min_n, max, n);
}

/* A list's array part; a table with named fields is not a list. */
static int check_list(filler *f, const char *at, const sp_value *v, const char *wanted) {
  if (v->type != SP_V_TABLE) return wrong_type(f, at, wanted, v);
  if (v->n_fields)
    return sp_fail(f->err, SP_E_INVALID, "parameter '%s': expected %s, got a table with the key '%s'", at, wanted,
                   v->fields[0].key);
  return SP_OK;
}

static int put_numbers(filler *f, const sp_param *e, const char *at, char *dst, const sp_value *v) {
  bool ints = e->type == SP_PARAM_INTS;
  bool single = v->type == SP_V_INT || v->type == SP_V_NUM;
  int rc = single ? SP_OK : check_list(f, at, v, ints ? "an integer or a list of them" : "a number or a list of them");
  if (rc) return rc;
  size_t n = single ? 1 : v->n_items;
  rc = check_count(f, e, at, n);
  if (rc) return rc;
  union {
    int64_t *i;
    double *d;
    void *mem;
  } to;
  to.mem = own(f, n, 8, at);
  if (!to.mem) return f->err->status;
  for (size_t k = 0; k < n; k++) {
    const sp_value *item = single ? v : &v->items[k];
    path item_at = single ? path_of("", at) : path_item(at, k + 1);
    rc = ints ? get_int(f, e, item_at.s, item, &to.i[k]) : get_float(f, e, item_at.s, item, &to.d[k]);
    if (rc) return rc;
  }
  if (ints) memcpy(dst, &(sp_ints){to.i, (uint32_t)n, 0}, sizeof(sp_ints));
  else memcpy(dst, &(sp_floats){to.d, (uint32_t)n, 0}, sizeof(sp_floats));
  return SP_OK;
}

/* "256,256" as a TABLE of numbers. */
static int parse_numbers(const char *s, sp_value *list, sp_err *err) {
  list->type = SP_V_TABLE;
  while (s && *s) {
    sp_value number;
    const char *end = sp_value_number(&number, s);
    if (!end || (*end && *end != ',')) return sp_fail(err, SP_E_INVALID, "\"%s\" is no list of numbers", s);
    sp_value *item = sp_value_push(list);
    if (!item) return sp_nomem(err, sizeof *item, "a list");
    *item = number;
    s = *end ? end + 1 : end;
  }
  return SP_OK;
}

/* ---- filling ----------------------------------------------------------------------------------------------------- */

static int fill_struct(filler *f, const sp_param *table, char *dst, const sp_value *v, const char *base);
static int put_value(filler *f, const sp_param *e, const char *at, char *dst, const sp_value *v);

bool sp_params_bare(const sp_param *e) { return (e->fields[0].flags & SP_PARAM_FIRST) && !e->fields[1].name; }

/* An element of a LIST: a table, or what stands for { VALUE }. */
static int put_item(filler *f, const sp_param *e, const char *at, char *dst, const sp_value *v) {
  if (v->type == SP_V_TABLE) return fill_struct(f, e->fields, dst, v, at);
  if (!sp_params_bare(e)) return wrong_type(f, at, "a table", v);
  return put_value(f, e->fields, at, dst + e->fields->offset, v);
}

static int put_list(filler *f, const sp_param *e, const char *at, char *dst, const sp_value *v) {
  bool single = v->type != SP_V_TABLE && sp_params_bare(e);
  size_t n = single ? 1 : v->n_items;
  int rc = single ? SP_OK : check_list(f, at, v, "a list of tables");
  if (!rc) rc = check_count(f, e, at, n);
  if (rc) return rc;
  char *mem = own(f, n, e->fields_size, at);
  if (!mem) return f->err->status;
  for (size_t i = 0; i < n && !rc; i++) {
    path item_at = single ? path_of("", at) : path_item(at, i + 1);
    rc = put_item(f, e, item_at.s, mem + i * e->fields_size, single ? v : &v->items[i]);
  }
  memcpy(dst, &(sp_structs){mem, (uint32_t)n, 0}, sizeof(sp_structs));
  return rc;
}

static int put_choice(filler *f, const sp_param *e, const char *at, char *dst, const sp_value *v) {
  if (v->type == SP_V_STR) {
    for (int32_t i = 0; e->choices[i]; i++) {
      if (strcmp(e->choices[i], v->s) == 0) {
        memcpy(dst, &i, sizeof i);
        return SP_OK;
      }
    }
  }
  char text[64];
  sp_sb all = {0};
  put_choices(&all, e->choices);
  sp_fail(f->err, v->type == SP_V_STR ? SP_E_RANGE : SP_E_INVALID, "parameter '%s': %s is none of: %s", at,
          value_text(v, text, sizeof text), sp_sb_str(&all));
  sp_sb_free(&all);
  return f->err->status;
}

static int put_value(filler *f, const sp_param *e, const char *at, char *dst, const sp_value *v) {
  int64_t i;
  double d;
  int rc = SP_OK;
  switch (e->type) {
    case SP_PARAM_BOOL:
      if (v->type != SP_V_BOOL) return wrong_type(f, at, "true or false", v);
      memcpy(dst, &(int32_t){v->i != 0}, sizeof(int32_t));
      break;
    case SP_PARAM_INT:
      rc = get_int(f, e, at, v, &i);
      if (!rc) memcpy(dst, &i, sizeof i);
      break;
    case SP_PARAM_FLOAT:
      rc = get_float(f, e, at, v, &d);
      if (!rc) memcpy(dst, &d, sizeof d);
      break;
    case SP_PARAM_STRING:
      if (v->type != SP_V_STR) return wrong_type(f, at, "a string", v);
      rc = put_string(f, at, dst, v->s);
      break;
    case SP_PARAM_CHOICE: rc = put_choice(f, e, at, dst, v); break;
    case SP_PARAM_INTS:
    case SP_PARAM_FLOATS: rc = put_numbers(f, e, at, dst, v); break;
    case SP_PARAM_LIST: rc = put_list(f, e, at, dst, v); break;
    default: rc = sp_fail(f->err, SP_E_INTERNAL, "parameter '%s': type %d was not checked", at, e->type); break;
  }
  return rc;
}

static int put_default(filler *f, const sp_param *e, const char *at, char *dst) {
  if (e->flags & SP_PARAM_REQUIRED) {
    char unit[40];
    return sp_fail(f->err, SP_E_INVALID, "parameter '%s' is required%s%s%s", at, e->doc ? ": " : "",
                   e->doc ? e->doc : "", unit_of(e, unit, sizeof unit));
  }
  switch (e->type) {
    case SP_PARAM_BOOL:
    case SP_PARAM_CHOICE: memcpy(dst, &(int32_t){(int32_t)e->idef}, sizeof(int32_t)); return SP_OK;
    case SP_PARAM_INT: memcpy(dst, &e->idef, sizeof e->idef); return SP_OK;
    case SP_PARAM_FLOAT: memcpy(dst, &e->def, sizeof e->def); return SP_OK;
    case SP_PARAM_STRING: return put_string(f, at, dst, e->def_str ? e->def_str : "");
    case SP_PARAM_INTS:
    case SP_PARAM_FLOATS: {
      if (!e->def_str) return SP_OK; /* an empty list, which may be fewer than min_n: not given */
      sp_value list = {0};
      int rc = parse_numbers(e->def_str, &list, f->err);
      if (!rc) rc = put_numbers(f, e, at, dst, &list);
      sp_value_free(&list);
      return rc;
    }
    default: return SP_OK; /* LIST: empty */
  }
}

static int unknown_key(filler *f, const sp_param *table, const char *base, const char *key) {
  const char *names[TABLE_MAX + 1];
  size_t n = 0;
  path at = path_of(base, key);
  for (const sp_param *e = table; e && e->name && n < TABLE_MAX; e++) names[n++] = e->name;
  names[n] = NULL;
  const char *near = sp_nearest(key, names);
  if (near) return sp_fail(f->err, SP_E_NOTFOUND, "unknown parameter '%s', did you mean '%s'?", at.s, near);
  if (!n) return sp_fail(f->err, SP_E_NOTFOUND, "unknown parameter '%s': there are none", at.s);
  sp_sb all = {0};
  put_choices(&all, names);
  sp_fail(f->err, SP_E_NOTFOUND, "unknown parameter '%s', there are: %s", at.s, sp_sb_str(&all));
  sp_sb_free(&all);
  return f->err->status;
}

/* The i-th value (from 0) of a table's array part belongs to the i-th FIRST parameter. */
static const sp_param *positional(const sp_param *table, size_t i) {
  for (const sp_param *e = table; e && e->name; e++)
    if ((e->flags & SP_PARAM_FIRST) && i-- == 0) return e;
  return NULL;
}

/* A parameter that a script gives by the name that it had is said once. */
static void tell_old(const sp_param *e) {
  static const sp_param *told[16];
  size_t i = 0;
  while (i < SP_ARRAY(told) && told[i] && told[i] != e) i++;
  if (i == SP_ARRAY(told) || told[i]) return;
  told[i] = e;
  sp_log(SP_LOG_WARN, "parameter '%s' is called '%s' now; the old name still works", e->old, e->name);
}

/* What the table says of a parameter, by its name or an old one. */
static int find_given(filler *f, const sp_param *e, const sp_value *v, const sp_value **given) {
  *given = v ? sp_value_get(v, e->name) : NULL;
  const sp_value *old = v && e->old ? sp_value_get(v, e->old) : NULL;
  if (!old || old->type == SP_V_NIL) return SP_OK;
  if (*given && (*given)->type != SP_V_NIL)
    return sp_fail(f->err, SP_E_INVALID, "parameter '%s' is given twice: '%s' is its old name", e->name, e->old);
  tell_old(e);
  *given = old;
  return SP_OK;
}

static bool is_called(const sp_param *e, const char *name) {
  return !strcmp(e->name, name) || (e->old && !strcmp(e->old, name));
}

static int fill_struct(filler *f, const sp_param *table, char *dst, const sp_value *v, const char *base) {
  for (size_t i = 0; v && i < v->n_fields; i++) {
    const sp_param *e = table;
    while (e && e->name && !is_called(e, v->fields[i].key)) e++;
    if (!e || !e->name) return unknown_key(f, table, base, v->fields[i].key);
  }
  for (size_t i = 0; v && i < v->n_items; i++) {
    char text[64];
    const sp_param *e = positional(table, i);
    path at = path_item(base, i + 1);
    if (!e)
      return sp_fail(f->err, SP_E_INVALID, "parameter '%s': %s needs a name, write NAME = VALUE", at.s,
                     value_text(&v->items[i], text, sizeof text));
    const sp_value *named = sp_value_get(v, e->name);
    if (named && named->type != SP_V_NIL && v->items[i].type != SP_V_NIL)
      return sp_fail(f->err, SP_E_INVALID, "parameter '%s' is given twice: as [%zu] and by name",
                     path_of(base, e->name).s, i + 1);
  }
  size_t first = 0;
  for (const sp_param *e = table; e && e->name; e++) {
    path at = path_of(base, e->name);
    const sp_value *given;
    if (find_given(f, e, v, &given)) return f->err->status;
    if (e->flags & SP_PARAM_FIRST) {
      if (v && (!given || given->type == SP_V_NIL) && first < v->n_items) given = &v->items[first];
      first++;
    }
    int rc = given && given->type != SP_V_NIL ? put_value(f, e, at.s, dst + e->offset, given)
                                              : put_default(f, e, at.s, dst + e->offset);
    if (rc) return rc;
  }
  return SP_OK;
}

int sp_params_fill(sp_params *p, const sp_param *table, size_t size, const sp_value *v, sp_err *err) {
  filler f = {p, err};
  *p = (sp_params){0};
  if (v && v->type != SP_V_NIL && v->type != SP_V_TABLE)
    return sp_fail(err, SP_E_INVALID, "expected a table of parameters, got %s", sp_vtype_name(v->type));
  if (size) {
    p->data = sp_calloc(1, size);
    if (!p->data) return sp_nomem(err, size, "parameters");
  }
  int rc = fill_struct(&f, table, p->data, v, "");
  if (rc) sp_params_free(p);
  return rc;
}

void sp_params_free(sp_params *p) {
  for (size_t i = 0; i < p->n_owned; i++) free(p->owned[i]);
  free(p->owned);
  free(p->data);
  *p = (sp_params){0};
}

/* ---- checking a plugin's table ----------------------------------------------------------------------------------- */

static size_t type_size(int type) {
  switch (type) {
    case SP_PARAM_BOOL:
    case SP_PARAM_CHOICE: return sizeof(int32_t);
    case SP_PARAM_INT:
    case SP_PARAM_FLOAT: return 8;
    case SP_PARAM_STRING: return sizeof(char *);
    case SP_PARAM_INTS: return sizeof(sp_ints);
    case SP_PARAM_FLOATS: return sizeof(sp_floats);
    case SP_PARAM_LIST: return sizeof(sp_structs);
    default: return 0;
  }
}

static bool name_ok(const char *s) {
  if (!(*s >= 'a' && *s <= 'z')) return false;
  for (; *s; s++)
    if (!((*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') || *s == '_')) return false;
  return true;
}

static int check_table(const sp_param *table, size_t size, const char *base, int depth, sp_err *err);

/* The default must pass the same checks as a script's value. */
static int check_default(const sp_param *e, const char *at, sp_err *err) {
  if (e->flags & SP_PARAM_REQUIRED) return SP_OK;
  sp_params p = {0};
  filler f = {&p, err};
  union {
    char bytes[32];
    int64_t align;
  } dst = {{0}};
  sp_value v = {.type = SP_V_INT, .i = e->idef};
  int rc = SP_OK;
  if (e->type == SP_PARAM_FLOAT) v = (sp_value){.type = SP_V_NUM, .d = e->def};
  if (e->type == SP_PARAM_INT || e->type == SP_PARAM_FLOAT) {
    rc = put_value(&f, e, at, dst.bytes, &v);
  } else if (e->type == SP_PARAM_BOOL) {
    if (e->idef != 0 && e->idef != 1) rc = wrong_type(&f, at, "0 or 1", &v);
  } else if (e->type == SP_PARAM_CHOICE) {
    int64_t n = 0;
    while (e->choices[n]) n++;
    if (e->idef < 0 || e->idef >= n) rc = wrong_type(&f, at, "an index of `choices`", &v);
  } else {
    rc = put_default(&f, e, at, dst.bytes);
  }
  sp_params_free(&p);
  return rc ? sp_prefix(err, "bad default") : SP_OK;
}

/* A bound that its author wrote into the wrong members would not be checked. */
static int check_bounds(const sp_param *e, const char *at, sp_err *err) {
  bool real = e->type == SP_PARAM_FLOAT || e->type == SP_PARAM_FLOATS;
  bool whole = e->type == SP_PARAM_INT || e->type == SP_PARAM_INTS;
  bool one = e->type == SP_PARAM_INT || e->type == SP_PARAM_BOOL || e->type == SP_PARAM_CHOICE;
  if ((e->def != 0 && e->type != SP_PARAM_FLOAT) || ((e->min != 0 || e->max != 0) && !real))
    return sp_fail(err, SP_E_INVALID,
                   "parameter '%s': def, min and max are of FLOAT; other types have idef, imin, imax", at);
  if ((e->idef && !one) || ((e->imin || e->imax) && !whole))
    return sp_fail(err, SP_E_INVALID, "parameter '%s': idef is of INT, BOOL and CHOICE, imin and imax are of INT", at);
  if (!(e->min <= e->max))
    return sp_fail(err, SP_E_INVALID, "parameter '%s': the smallest value %g is above the largest %g", at, e->min,
                   e->max);
  if (e->imin > e->imax)
    return sp_fail(err, SP_E_INVALID, "parameter '%s': the smallest value %lld is above the largest %lld", at,
                   (long long)e->imin, (long long)e->imax);
  return SP_OK;
}

static int check_element(const sp_param *e, size_t size, const char *base, int depth, sp_err *err) {
  path at = path_of(base, e->name);
#define BAD(...) return sp_fail(err, SP_E_INVALID, "parameter '" __VA_ARGS__)
  size_t bytes = type_size(e->type);
  if (!name_ok(e->name)) BAD("%s': the name is not [a-z][a-z0-9_]*", at.s);
  if (!bytes) BAD("%s': there is no type %d", at.s, e->type);
  if (e->offset > size || bytes > size - e->offset)
    BAD("%s': bytes %zu..%zu lie outside the struct of %zu bytes", at.s, e->offset, e->offset + bytes, size);
  if (e->offset % (bytes < 8 ? bytes : 8)) BAD("%s': offset %zu is not aligned", at.s, e->offset);
  if (e->flags & ~(uint32_t)(SP_PARAM_REQUIRED | SP_PARAM_LIVE | SP_PARAM_FIRST))
    BAD("%s': unknown flags 0x%x", at.s, e->flags);
  if ((e->flags & SP_PARAM_LIVE) && (e->type != SP_PARAM_FLOAT || depth)) BAD("%s': only a FLOAT can be LIVE", at.s);
  if ((e->flags & SP_PARAM_FIRST) && !depth) BAD("%s': only a parameter in `fields` can be FIRST", at.s);
  if (e->old && (!name_ok(e->old) || depth)) BAD("%s': `old` is no name, or of a parameter in `fields`", at.s);
  if (e->reserved[0]) BAD("%s': the reserved words are not 0", at.s);
  if (check_bounds(e, at.s, err)) return err->status;
  if (e->max_n && e->min_n > e->max_n) BAD("%s': min_n %u is above max_n %u", at.s, e->min_n, e->max_n);
  if (e->max_n > 1u << 20) BAD("%s': max_n %u is above %u", at.s, e->max_n, 1u << 20);
  if (e->type == SP_PARAM_CHOICE && (!e->choices || !e->choices[0])) BAD("%s': `choices` is empty", at.s);
  if (e->type == SP_PARAM_LIST) {
    if (!e->fields || !e->fields[0].name) BAD("%s': `fields` is empty", at.s);
    if (depth + 1 >= NEST_MAX) BAD("%s': lists are nested more than %d deep", at.s, NEST_MAX);
    int rc = check_table(e->fields, e->fields_size, at.s, depth + 1, err);
    if (rc) return rc;
  }
#undef BAD
  return check_default(e, at.s, err);
}

static int check_table(const sp_param *table, size_t size, const char *base, int depth, sp_err *err) {
  size_t n = 0, live = 0;
  if (size > STRUCT_MAX)
    return sp_fail(err, SP_E_INVALID, "%s%sthe parameter struct of %zu bytes is larger than %u", base,
                   *base ? ": " : "", size, STRUCT_MAX);
  for (const sp_param *e = table; e && e->name; e++, n++) {
    if (n >= TABLE_MAX)
      return sp_fail(err, SP_E_INVALID, "more than %d parameters: the table is not ended by a NULL name", TABLE_MAX);
    int rc = check_element(e, size, base, depth, err);
    if (rc) return rc;
    for (const sp_param *o = table; o < e; o++) {
      if (is_called(o, e->name) || (e->old && is_called(o, e->old)))
        return sp_fail(err, SP_E_INVALID, "parameter '%s' is there twice", path_of(base, e->name).s);
      if (o->offset < e->offset + type_size(e->type) && e->offset < o->offset + type_size(o->type))
        return sp_fail(err, SP_E_INVALID, "parameters '%s' and '%s' overlap in the struct", path_of(base, o->name).s,
                       e->name);
    }
    if ((e->flags & SP_PARAM_LIVE) && ++live > SP_MAX_LIVE)
      return sp_fail(err, SP_E_INVALID, "parameter '%s': more than %d LIVE parameters", e->name, SP_MAX_LIVE);
  }
  return SP_OK;
}

int sp_params_check_table(const sp_param *table, size_t size, sp_err *err) {
  return check_table(table, size, "", 0, err);
}

/* ---- live parameters --------------------------------------------------------------------------------------------- */

int sp_params_live(const sp_param *table, const void *data, float *live) {
  int n = 0;
  for (const sp_param *e = table; e && e->name; e++) {
    if (!(e->flags & SP_PARAM_LIVE) || n >= SP_MAX_LIVE) continue;
    double d;
    memcpy(&d, (const char *)data + e->offset, sizeof d);
    live[n++] = (float)d;
  }
  return n;
}

int sp_params_find_live(const sp_param *table, const char *name, const sp_param **element) {
  int n = 0;
  for (const sp_param *e = table; e && e->name; e++) {
    if (!(e->flags & SP_PARAM_LIVE)) continue;
    if (strcmp(e->name, name) == 0) {
      if (element) *element = e;
      return n;
    }
    n++;
  }
  return -1;
}
