/* SPDX-License-Identifier: MIT
 * npy_header.c - the header of a .npy file: a Python dict of three entries. */
#include "npy.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../what/what.h"
#include "image.h"

void im_npy_words(const im_npy *a, char *to, size_t size) {
  const char *type = a->type == 'u'   ? "uint"
                     : a->type == 'i' ? "int"
                     : a->type == 'f' ? "float"
                     : a->type == 'b' ? "bool"
                     : a->type == 'c' ? "complex"
                                      : "other type";
  size_t n = 0;
  *to = 0;
  for (int i = 0; i < a->ndim && n < size; i++)
    n += (size_t)snprintf(to + n, size - n, i ? " x %" PRId64 : "%" PRId64, a->shape[i]);
  if (n < size && strchr("uifc", a->type)) snprintf(to + n, size - n, "%s%s%d", n ? " of " : "", type, a->item * 8);
  else if (n < size) snprintf(to + n, size - n, "%s%s", n ? " of " : "", type);
}

/* ---- the header: a Python dict of three entries ---- */
typedef struct text {
  const char *p, *why;
} text;

static void skip(text *t) {
  while (isspace((unsigned char)*t->p)) t->p++;
}

static int eat(text *t, char c) {
  skip(t);
  if (*t->p != c) return 0;
  t->p++;
  return 1;
}

/* Between ' or ". */
static int string(text *t, char *to, size_t size) {
  skip(t);
  char quote = *t->p;
  const char *end = quote == '\'' || quote == '"' ? strchr(t->p + 1, quote) : NULL;
  size_t n = end ? (size_t)(end - t->p - 1) : size;
  if (n >= size) return 0;
  memcpy(to, t->p + 1, n);
  to[n] = 0;
  t->p = end + 1;
  return 1;
}

/* Byte order, letter, bytes of an element: "<i8", "|u1". */
static int dtype(text *t, im_npy *a) {
  char d[16], *end;
  if (!string(t, d, sizeof d)) {
    t->why = "its elements are records; save each field as an array of its own";
    return 0;
  }
  if (d[0] && d[1] == 'O') {
    t->why =
        "it holds objects (a pickle of Python), as of rows of unequal shapes: give all one shape and type, and save "
        "it with numpy.save(path, numpy.stack(rows), allow_pickle=False)";
    return 0;
  }
  if (d[0] && strchr("USVmM", d[1] ? d[1] : '-')) {
    t->why = d[1] == 'V'          ? "its elements are records; save each field as an array of its own"
             : strchr("mM", d[1]) ? "its elements are times; save numbers, array.astype(\"int64\")"
                                  : "its elements are texts; save numbers, and the names in classes.txt, one a line";
    return 0;
  }
  long item = strchr("<>|=", d[0]) && d[0] && d[1] ? strtol(d + 2, &end, 10) : 0;
  if (item < 1 || item > 64 || *end) return 0;
  a->type = d[1];
  a->item = (int)item;
  a->big_endian = d[0] == '>' || (d[0] == '=' && __BYTE_ORDER == __BIG_ENDIAN);
  return 1;
}

static int shape(text *t, im_npy *a) {
  if (!eat(t, '(')) return 0;
  for (a->ndim = 0; !eat(t, ')'); a->ndim++) {
    char *end;
    if (a->ndim == IM_NPY_DIMS || !isdigit((unsigned char)*t->p)) return 0;
    errno = 0;
    a->shape[a->ndim] = strtoll(t->p, &end, 10);
    t->p = end;
    if (errno || (!eat(t, ',') && (skip(t), *t->p != ')'))) return 0;
  }
  return 1;
}

static int entry(text *t, im_npy *a, int *seen) {
  char key[16];
  if (!string(t, key, sizeof key) || !eat(t, ':')) return 0;
  int k = !strcmp(key, "descr") ? 0 : !strcmp(key, "fortran_order") ? 1 : !strcmp(key, "shape") ? 2 : -1;
  if (k < 0 || *seen & 1 << k) return 0;
  *seen |= 1 << k;
  skip(t);
  if (k == 0) return dtype(t, a);
  if (k == 2) return shape(t, a);
  int no = !strncmp(t->p, "False", 5);
  if (no) t->p += 5;
  else t->why = "its elements lie in Fortran's order; save it from numpy.ascontiguousarray(array)";
  return no;
}

const char *im_npy_parse(const char *header, im_npy *a) {
  text t = {header, "its header is damaged"};
  int seen = 0;
  if (!eat(&t, '{')) return t.why;
  while (!eat(&t, '}'))
    if (!entry(&t, a, &seen) || (!eat(&t, ',') && (skip(&t), *t.p != '}'))) return t.why;
  return seen == 7 ? NULL : t.why;
}

int64_t im_npy_bytes(const im_npy *a) {
  int64_t n = a->item;
  for (int i = 0; i < a->ndim; i++)
    if (__builtin_mul_overflow(n, a->shape[i], &n)) return -1;
  return n;
}

int im_npy_type(const im_npy *a) {
  static const struct {
    char letter, item, type;
  } types[] = {{'b', 1, IM_U8},  {'u', 1, IM_U8},  {'i', 1, IM_I8},  {'u', 2, IM_U16},
               {'i', 2, IM_I16}, {'u', 4, IM_U32}, {'i', 4, IM_I32}, {'u', 8, IM_U64},
               {'i', 8, IM_I64}, {'f', 2, IM_F16}, {'f', 4, IM_F32}, {'f', 8, IM_F64}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].letter == a->type && types[i].item == a->item) return types[i].type;
  return -1;
}

const char *im_npy_begin(const uint8_t *first, size_t n, size_t *at, size_t *bytes, char *words, size_t n_words) {
  if (n < 10 || memcmp(first, "\x93NUMPY", 6)) {
    char what[WHAT_WORDS];
    int known = what_is(first, n, what);
    snprintf(words, n_words, "it is no .npy file by its first bytes%s%s", known ? ": " : "", known ? what : "");
    return words;
  }
  if (first[6] < 1 || first[6] > 3) {
    snprintf(words, n_words, "it is of version %d.%d, those from 1 to 3 are read", first[6], first[7]);
    return words;
  }
  *at = first[6] == 1 ? 10 : 12;
  if (n < *at) return "it ends within its header";
  *bytes = (size_t)(first[8] | first[9] << 8);
  if (first[6] > 1) *bytes |= (size_t)first[10] << 16 | (size_t)first[11] << 24;
  return *bytes > IM_NPY_HEADER ? "its header is damaged" : NULL;
}
