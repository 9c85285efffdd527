/* SPDX-License-Identifier: MIT
 * hand_tensor.c - tensors as objects: made, read, written, filled, cut into rows. */
#include <math.h>
#include <string.h>

#include <spcore/rng.h>

#include "hand/races.h"
#include "lua/graph.h"
#include "lua/hand.h"

#define MAX_READ (1 << 24) /* elements that become Lua values at once */

static const char *const kinds[] = {"device", "pinned", "pageable", NULL}; /* as SP_AT_... */

void sp_lua_push_htensor(lua_State *L, int hand_idx, sp_htensor *t) {
  hand_idx = lua_absindex(L, hand_idx);
  if (sp_lua_hand_find(L, hand_idx, t)) {
    sp_htensor_drop(t);
    return;
  }
  *sp_lua_hand_object(L, hand_idx, SP_LUA_TENSOR) = t;
  sp_lua_hand_remember(L, hand_idx, t);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static int dtype_of(lua_State *L, const char *word) {
  static const struct {
    const char *name;
    int dtype;
  } brief[] = {{"u8", SP_U8},   {"i8", SP_I8},     {"i32", SP_I32}, {"i64", SP_I64},
               {"f16", SP_F16}, {"bf16", SP_BF16}, {"f32", SP_F32}, {"f64", SP_F64}};
  for (size_t i = 0; i < SP_ARRAY(brief); i++)
    if (!strcmp(word, brief[i].name) || !strcmp(word, sp_dtype_name(brief[i].dtype))) return brief[i].dtype;
  return sp_lua_fail(L, "tensor: there is no type '%s'; u8, i8, i32, i64, f16, bf16, f32 and f64 are", word);
}

static int kind_of(lua_State *L, const char *word) {
  for (int i = 0; kinds[i]; i++)
    if (!strcmp(word, kinds[i])) return i;
  return sp_lua_fail(L, "tensor: at = '%s': choose one of device, pinned, pageable", word);
}

/* device:tensor(dtype, { extents }, at, name or nil) */
static int hand_tensor(lua_State *L) {
  sp_hand *h = sp_lua_check_hand(L, 1);
  sp_spec spec = {.dtype = dtype_of(L, luaL_checkstring(L, 2))};
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_Unsigned n = lua_rawlen(L, 3);
  int at = kind_of(L, luaL_checkstring(L, 4));
  if (n > SP_MAX_DIMS) return sp_lua_fail(L, "tensor: %d dimensions, at most %d are possible", (int)n, SP_MAX_DIMS);
  spec.ndim = (int)n;
  for (int i = 0; i < spec.ndim; i++) {
    int whole;
    lua_rawgeti(L, 3, i + 1);
    spec.shape[i] = lua_tointegerx(L, -1, &whole);
    if (!whole || lua_type(L, -1) != LUA_TNUMBER)
      return sp_lua_fail(L, "tensor: extent %d must be a whole number, got a %s", i + 1, luaL_typename(L, -1));
    lua_pop(L, 1);
  }
  sp_htensor *t;
  sp_err err;
  if (sp_htensor_new(h, &spec, at, luaL_optstring(L, 5, NULL), sp_lua_hand_where(L, h, true), &t, &err))
    return sp_lua_raise(L, &err);
  sp_lua_push_htensor(L, 1, t);
  return 1;
}

/* device:like(tensor, at, name or nil): the same type, shape and order in memory */
static int hand_like(lua_State *L) {
  sp_hand *h = sp_lua_check_hand(L, 1);
  const sp_spec spec = *sp_htensor_spec(sp_lua_check_tensor(L, 2));
  int at = kind_of(L, luaL_checkstring(L, 3));
  sp_htensor *t;
  sp_err err;
  if (sp_htensor_new(h, &spec, at, luaL_optstring(L, 4, NULL), sp_lua_hand_where(L, h, true), &t, &err))
    return sp_lua_raise(L, &err);
  sp_lua_push_htensor(L, 1, t);
  return 1;
}

const luaL_Reg sp_lua_tensor_makers[] = {{"tensor", hand_tensor}, {"like", hand_like}, {NULL, NULL}};

/* t:rows(first, n), from 1 */
static int tensor_rows(lua_State *L) {
  sp_htensor *t = sp_lua_check_tensor(L, 1), *rows;
  lua_Integer first = luaL_checkinteger(L, 2), n = luaL_optinteger(L, 3, 1);
  sp_err err;
  if (first < 1) return sp_lua_fail(L, "rows are counted from 1, got %lld", (long long)first);
  if (sp_htensor_rows(t, first - 1, n, &rows, &err)) return sp_lua_raise(L, &err);
  sp_lua_hand_of(L, 1);
  sp_lua_push_htensor(L, -1, rows);
  return 1;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void *map(lua_State *L, sp_htensor *t, int mode, const char *who) {
  const sp_hand *h = sp_lua_hand_of(L, 1);
  void *data;
  sp_err err;
  if (sp_htensor_map(t, mode, who, sp_lua_hand_where(L, h, false), &data, &err)) sp_lua_raise(L, &err);
  lua_pop(L, 1);
  return data;
}

static int64_t count_of(lua_State *L, const sp_htensor *t) {
  int64_t n = sp_spec_count(sp_htensor_spec(t));
  if (n > MAX_READ)
    sp_lua_fail(L, "'%s' has %lld values, and at most %d can be Lua's at once: take rows", sp_htensor_name(t),
                (long long)n, MAX_READ);
  return n;
}

/* t:read() -> a number, or nested lists */
static int tensor_read(lua_State *L) {
  sp_htensor *t = sp_lua_check_tensor(L, 1);
  sp_spec rows = *sp_htensor_spec(t);
  count_of(L, t);
  const void *data = map(L, t, SP_RACE_READ, "t:read()");
  if (rows.order != SP_ROW_MAJOR) { /* as its shape says, not as it lies */
    void *copy = lua_newuserdatauv(L, (size_t)sp_spec_bytes(&rows) + 1, 0);
    rows.order = SP_ROW_MAJOR;
    sp_spec_copy(&rows, copy, sp_htensor_spec(t), data);
    data = copy;
  }
  sp_lua_push_tensor(L, &rows, data, false);
  return 1;
}

static void range(int dtype, double *low, double *high) {
  *low = dtype == SP_I8 ? -128 : dtype == SP_I32 ? -0x1p31 : dtype == SP_I64 ? -0x1p63 : 0;
  *high = dtype == SP_U8 ? 255 : dtype == SP_I8 ? 127 : dtype == SP_I32 ? 0x1p31 - 1 : 0x1p63;
}

static void put(lua_State *L, const sp_htensor *t, void *data, int64_t i, double v) {
  int dtype = sp_htensor_spec(t)->dtype;
  double low, high;
  if (dtype == SP_F32) ((float *)data)[i] = (float)v;
  else if (dtype == SP_F64) ((double *)data)[i] = v;
  else if (dtype == SP_F16 || dtype == SP_BF16)
    sp_lua_fail(L, "'%s' is of half floats, which Lua cannot write", sp_htensor_name(t));
  if (dtype == SP_F32 || dtype == SP_F64) return;
  range(dtype, &low, &high);
  if (v != floor(v) || v < low || v > high || v >= 0x1p63)
    sp_lua_fail(L, "'%s' is %s: %f cannot be in it", sp_htensor_name(t), sp_dtype_name(dtype), v);
  switch (dtype) {
    case SP_U8: ((uint8_t *)data)[i] = (uint8_t)v; break;
    case SP_I8: ((int8_t *)data)[i] = (int8_t)v; break;
    case SP_I32: ((int32_t *)data)[i] = (int32_t)v; break;
    default: ((int64_t *)data)[i] = (int64_t)v; break;
  }
}

static double number_at(lua_State *L, int idx) {
  if (lua_type(L, idx) != LUA_TNUMBER)
    sp_lua_fail(L, "a number is wanted in a tensor, got a %s", luaL_typename(L, idx));
  return lua_tonumber(L, idx);
}

/* The values of the table on top, lists in lists, one after another. */
static int64_t put_table(lua_State *L, const sp_htensor *t, void *data, int64_t at, int64_t n, int depth) {
  lua_Integer len = luaL_len(L, -1);
  if (depth > SP_MAX_DIMS) sp_lua_fail(L, "t:write: lists are nested deeper than %d", SP_MAX_DIMS);
  luaL_checkstack(L, 4, "t:write");
  for (lua_Integer i = 1; i <= len; i++) {
    if (lua_rawgeti(L, -1, i) == LUA_TTABLE) at = put_table(L, t, data, at, n, depth + 1);
    else if (at < n) put(L, t, data, at++, number_at(L, -1));
    else at++;
    lua_pop(L, 1);
    if (at > n) break;
  }
  return at;
}

/* t:write(number or lists) */
static int tensor_write(lua_State *L) {
  sp_htensor *t = sp_lua_check_tensor(L, 1);
  int64_t n = count_of(L, t), at = 1;
  if (sp_htensor_spec(t)->order != SP_ROW_MAJOR)
    return sp_lua_fail(L, "t:write: '%s' does not lie row by row", sp_htensor_name(t));
  void *data = map(L, t, SP_RACE_WRITE, "t:write()");
  lua_settop(L, 2);
  if (lua_istable(L, 2)) at = put_table(L, t, data, 0, n, 1);
  else if (n == 1) put(L, t, data, 0, number_at(L, 2));
  if (at != n)
    return sp_lua_fail(L, "t:write: '%s' has %lld values, got %s%lld", sp_htensor_name(t), (long long)n,
                       at > n ? "more, at least " : "", (long long)at);
  return 0;
}

/* t:fill(number) */
static int tensor_fill(lua_State *L) {
  sp_htensor *t = sp_lua_check_tensor(L, 1);
  double v = number_at(L, 2);
  void *data = map(L, t, SP_RACE_WRITE, "t:fill()");
  int64_t n = sp_spec_count(sp_htensor_spec(t));
  for (int64_t i = 0; i < n; i++) put(L, t, data, i, v);
  return 0;
}

static double opt_number(lua_State *L, const char *key, double def) {
  double v = def;
  if (lua_istable(L, 2) && lua_getfield(L, 2, key) != LUA_TNIL) v = number_at(L, -1);
  return v;
}

/* t:random{ seed =, low =, high = }: floats in low..high without high, integers in low..high */
static int tensor_random(lua_State *L) {
  sp_htensor *t = sp_lua_check_tensor(L, 1);
  int dtype = sp_htensor_spec(t)->dtype;
  bool whole = dtype != SP_F32 && dtype != SP_F64;
  uint64_t seed = (uint64_t)sp_lua_opt_int(L, 2, "seed", 1, 0, LUA_MAXINTEGER);
  double low = opt_number(L, "low", 0), high = opt_number(L, "high", 1), most = whole ? high - low + 1 : 0;
  if (!(low <= high) || (whole && (low != floor(low) || high != floor(high) || most > 0x1p32 - 1)))
    return sp_lua_fail(L, "t:random: %g..%g is no range%s", low, high, whole ? " of whole numbers" : "");
  void *data = map(L, t, SP_RACE_WRITE, "t:random()");
  int64_t n = sp_spec_count(sp_htensor_spec(t));
  uint64_t key = sp_rng_key(seed, "spcore.tensor");
  sp_rng4 r = {{0}};
  for (int64_t i = 0; i < n; i++) {
    if (i % 4 == 0) r = sp_rng(key, (uint64_t)i / 4, 0);
    uint32_t bits = r.v[i % 4];
    put(L, t, data, i,
        whole ? low + sp_rng_below(bits, (uint32_t)most) : low + (high - low) * (double)sp_rng_float(bits));
  }
  return 0;
}

/* ---- facts ------------------------------------------------------------------------------------------------------- */

/* t:grad() -> the tensor of its gradient */
static int tensor_grad(lua_State *L) {
  sp_htensor *t = sp_lua_check_tensor(L, 1), *grad;
  const sp_hand *h = sp_lua_hand_of(L, 1);
  sp_err err;
  if (sp_htensor_grad(t, sp_lua_hand_where(L, h, false), &grad, &err)) return sp_lua_raise(L, &err);
  sp_htensor_hold(grad);
  sp_lua_push_htensor(L, -1, grad);
  return 1;
}

static int tensor_shape(lua_State *L) {
  sp_lua_push_shape(L, sp_htensor_spec(sp_lua_check_tensor(L, 1)));
  return 1;
}

static int tensor_dtype(lua_State *L) {
  lua_pushstring(L, sp_dtype_name(sp_htensor_spec(sp_lua_check_tensor(L, 1))->dtype));
  return 1;
}

static int tensor_name(lua_State *L) {
  lua_pushstring(L, sp_htensor_name(sp_lua_check_tensor(L, 1)));
  return 1;
}

static int tensor_at(lua_State *L) {
  lua_pushstring(L, kinds[sp_htensor_at(sp_lua_check_tensor(L, 1))]);
  return 1;
}

static int tensor_close(lua_State *L) {
  sp_htensor *t = sp_lua_check_tensor(L, 1);
  const sp_hand *h = sp_lua_hand_of(L, 1);
  sp_err err;
  if (sp_htensor_close(t, sp_lua_hand_where(L, h, false), &err)) return sp_lua_raise(L, &err);
  return 0;
}

static int tensor_gc(lua_State *L) {
  sp_htensor **t = luaL_checkudata(L, 1, SP_LUA_TENSOR);
  if (*t) sp_htensor_drop(*t);
  *t = NULL;
  return 0;
}

static int tensor_tostring(lua_State *L) {
  const sp_htensor *t = sp_lua_check_tensor(L, 1);
  char spec[160];
  lua_pushfstring(L, "%s %s, %s%s", sp_htensor_name(t), sp_spec_str(sp_htensor_spec(t), spec, sizeof spec),
                  kinds[sp_htensor_at(t)], sp_htensor_is_open(t) ? "" : " (closed)");
  return 1;
}

void sp_lua_open_tensor(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__gc", tensor_gc}, {"__close", tensor_gc}, {"__tostring", tensor_tostring}, {NULL, NULL}};
  static const luaL_Reg calls[] = {{"read", tensor_read},     {"write", tensor_write}, {"fill", tensor_fill},
                                   {"random", tensor_random}, {"rows", tensor_rows},   {"grad", tensor_grad},
                                   {"shape", tensor_shape},   {"dtype", tensor_dtype}, {"name", tensor_name},
                                   {"at", tensor_at},         {"close", tensor_close}, {NULL, NULL}};
  luaL_newmetatable(L, SP_LUA_TENSOR);
  luaL_setfuncs(L, meta, 0);
  luaL_newlib(L, calls);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
