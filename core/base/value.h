/* SPDX-License-Identifier: MIT
 * value.h - what a script passes as parameters, free of Lua: nil, bool, int, number, string, table. */
#ifndef SP_CORE_VALUE_H
#define SP_CORE_VALUE_H

#include "base/util.h"

typedef enum { SP_V_NIL, SP_V_BOOL, SP_V_INT, SP_V_NUM, SP_V_STR, SP_V_TABLE } sp_vtype;

typedef struct sp_value sp_value;
typedef struct sp_vfield sp_vfield;
struct sp_value {
  sp_vtype type;
  int64_t i;       /* BOOL, INT */
  double d;        /* NUM; INT too, as nearest */
  char *s;         /* STR, owned */
  sp_value *items; /* TABLE: [1..n_items] of the array part */
  size_t n_items, cap_items;
  sp_vfield *fields; /* TABLE: string keys, in no order */
  size_t n_fields, cap_fields;
};
struct sp_vfield {
  char *key;
  sp_value value;
};

void sp_value_free(sp_value *v); /* what it holds, not v itself; v becomes NIL */
bool sp_value_set_str(sp_value *v, const char *s);
sp_value *sp_value_push(sp_value *table);                             /* a new NIL item; NULL when out of memory */
sp_value *sp_value_put(sp_value *table, const char *key);             /* a new or present field */
const sp_value *sp_value_get(const sp_value *table, const char *key); /* NULL: not there */
/* The number that `text` begins with: INT where it is a whole one that fits, else NUM. What comes behind it;
 * NULL: none. */
const char *sp_value_number(sp_value *v, const char *text);
const char *sp_vtype_name(sp_vtype t); /* "number" ... */

#endif
