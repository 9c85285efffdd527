/* SPDX-License-Identifier: MIT
 * param.h - parameter tables: check a table of values against them and fill the author's struct. */
#ifndef SP_CORE_PARAM_H
#define SP_CORE_PARAM_H

#include <spcore/plugin.h>

#include "base/value.h"

/* One filled struct and all that hangs on it. */
typedef struct sp_params {
  void *data; /* params_size bytes, or NULL where the type has none */
  void **owned;
  size_t n_owned, cap_owned;
} sp_params;

/* Fills from `v` (NULL or a TABLE). Unknown key: the nearest name is offered; wrong type, out of range, missing: the
 * message names parameter, value and what is wanted ("parameter 'kernel' of layer 3: 0 is below 1"). A field's LIST
 * elements are named "layers[3].kernel". */
int sp_params_fill(sp_params *p, const sp_param *table, size_t size, const sp_value *v, sp_err *err);
void sp_params_free(sp_params *p);
/* Has a LIST's element one FIRST parameter alone? Then { "a", "b" } is written for { { "a" }, { "b" } },
 * and "a" for { "a" }. */
bool sp_params_bare(const sp_param *list);

/* Checks a plugin's table itself: types, offsets within size, defaults in range, duplicate names. */
int sp_params_check_table(const sp_param *table, size_t size, sp_err *err);

/* Current values of the LIVE parameters in table order, into live[SP_MAX_LIVE]; returns how many. */
int sp_params_live(const sp_param *table, const void *data, float *live);
/* Index among the LIVE parameters and its element, or -1. */
int sp_params_find_live(const sp_param *table, const char *name, const sp_param **element);

#endif
