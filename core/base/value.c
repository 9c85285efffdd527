/* SPDX-License-Identifier: MIT
 * value.c - what a script passes as parameters. */
#include "base/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void sp_value_free(sp_value *v) {
  free(v->s);
  for (size_t i = 0; i < v->n_items; i++) sp_value_free(&v->items[i]);
  free(v->items);
  for (size_t i = 0; i < v->n_fields; i++) {
    free(v->fields[i].key);
    sp_value_free(&v->fields[i].value);
  }
  free(v->fields);
  memset(v, 0, sizeof *v);
}

bool sp_value_set_str(sp_value *v, const char *s) {
  char *copy = sp_strdup(s);
  if (!copy) return false;
  sp_value_free(v);
  v->type = SP_V_STR;
  v->s = copy;
  return true;
}

/* A NIL becomes an empty table; anything else that is no table is left alone. */
static bool as_table(sp_value *v) {
  if (v->type == SP_V_NIL) v->type = SP_V_TABLE;
  return v->type == SP_V_TABLE;
}

sp_value *sp_value_push(sp_value *table) {
  if (!as_table(table) || !sp_grow(&table->items, &table->cap_items, table->n_items + 1, sizeof *table->items))
    return NULL;
  sp_value *v = &table->items[table->n_items++];
  memset(v, 0, sizeof *v);
  return v;
}

sp_value *sp_value_put(sp_value *table, const char *key) {
  sp_value *old = (sp_value *)sp_value_get(table, key);
  if (old) return old;
  if (!as_table(table) || !sp_grow(&table->fields, &table->cap_fields, table->n_fields + 1, sizeof *table->fields))
    return NULL;
  char *copy = sp_strdup(key);
  if (!copy) return NULL;
  sp_vfield *f = &table->fields[table->n_fields++];
  memset(f, 0, sizeof *f);
  f->key = copy;
  return &f->value;
}

const sp_value *sp_value_get(const sp_value *table, const char *key) {
  for (size_t i = 0; i < table->n_fields; i++)
    if (strcmp(table->fields[i].key, key) == 0) return &table->fields[i].value;
  return NULL;
}

const char *sp_value_number(sp_value *v, const char *text) {
  char *end, *whole_end;
  double d = strtod(text, &end);
  errno = 0;
  long long i = strtoll(text, &whole_end, 10);
  bool whole = whole_end == end && errno == 0;
  *v = (sp_value){.type = whole ? SP_V_INT : SP_V_NUM, .i = whole ? i : 0, .d = d};
  return end == text ? NULL : end;
}

const char *sp_vtype_name(sp_vtype t) {
  switch (t) {
    case SP_V_NIL: return "nil";
    case SP_V_BOOL: return "boolean";
    case SP_V_INT: return "integer";
    case SP_V_NUM: return "number";
    case SP_V_STR: return "string";
    case SP_V_TABLE: return "table";
  }
  return "unknown";
}
