/* SPDX-License-Identifier: MIT
 * array.c - .npy files: their header is believed where the file is as long as it says. */
#include "array.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../kits/what/what.h"

#define MOST_HEADER 65536 /* bytes; NumPy's have some hundred */

/* ---- bytes ---- */
int rd_array_read(const rd_array *a, int64_t at, void *to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = pread(a->fd, (char *)to + done, bytes - done, (off_t)(a->at + at + (int64_t)done));
    if (n < 0 && errno == EINTR) continue;
    if (!n) errno = 0;
    if (n <= 0) return -1;
    done += (size_t)n;
  }
  return 0;
}

int64_t rd_array_row(const rd_array *a) {
  int64_t n = 1;
  for (int i = 1; i < a->ndim; i++) n *= a->shape[i];
  return n;
}

void rd_array_close(rd_array *a) {
  if (a->fd >= 0) close(a->fd);
  a->fd = -1;
}

void rd_array_words(const rd_array *a, char *to, size_t size) {
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
static int dtype(text *t, rd_array *a) {
  char d[16], *end;
  if (!string(t, d, sizeof d)) {
    t->why = "its elements are records; save each field as an array of its own";
    return 0;
  }
  if (d[0] && d[1] == 'O') {
    t->why = "it holds objects (a pickle of Python), as of rows of unequal shapes: give all one shape and type, and save "
             "it with numpy.save(path, numpy.stack(rows), allow_pickle=False)";
    return 0;
  }
  if (d[0] && strchr("USVmM", d[1] ? d[1] : '-')) {
    t->why = d[1] == 'V'                ? "its elements are records; save each field as an array of its own"
             : strchr("mM", d[1])       ? "its elements are times; save numbers, array.astype(\"int64\")"
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

static int shape(text *t, rd_array *a) {
  if (!eat(t, '(')) return 0;
  for (a->ndim = 0; !eat(t, ')'); a->ndim++) {
    char *end;
    if (a->ndim == RD_ARRAY_DIMS || !isdigit((unsigned char)*t->p)) return 0;
    errno = 0;
    a->shape[a->ndim] = strtoll(t->p, &end, 10);
    t->p = end;
    if (errno || (!eat(t, ',') && (skip(t), *t->p != ')'))) return 0;
  }
  return 1;
}

static int entry(text *t, rd_array *a, int *seen) {
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

/* NULL, or what is wrong. */
static const char *parse(const char *header, rd_array *a) {
  text t = {header, "its header is damaged"};
  int seen = 0;
  if (!eat(&t, '{')) return t.why;
  while (!eat(&t, '}'))
    if (!entry(&t, a, &seen) || (!eat(&t, ',') && (skip(&t), *t.p != '}'))) return t.why;
  return seen == 7 ? NULL : t.why;
}

/* Bytes of all elements, or -1: more than there can be. */
static int64_t bytes_of(const rd_array *a) {
  int64_t n = a->item;
  for (int i = 0; i < a->ndim; i++)
    if (__builtin_mul_overflow(n, a->shape[i], &n)) return -1;
  return n;
}

/* NULL, or what is wrong; `words` is room for it. */
static const char *read_header(rd_array *a, int64_t size, char *words, size_t n_words) {
  static const char magic[] = "\x93NUMPY";
  uint8_t first[12];
  char header[MOST_HEADER + 1];
  if (size < 10 || rd_array_read(a, 0, first, 10) || memcmp(first, magic, 6)) {
    char what[WHAT_WORDS], bytes[WHAT_BYTES];
    size_t n = size < WHAT_BYTES ? (size_t)size : WHAT_BYTES;
    int known = !rd_array_read(a, 0, bytes, n) && what_is(bytes, n, what);
    snprintf(words, n_words, "it is no .npy file by its first bytes%s%s", known ? ": " : "", known ? what : "");
    return words;
  }
  if (first[6] < 1 || first[6] > 3) {
    snprintf(words, n_words, "it is of version %d.%d, those from 1 to 3 are read", first[6], first[7]);
    return words;
  }
  int64_t begin = first[6] == 1 ? 10 : 12;
  if (size < begin || rd_array_read(a, 0, first, (size_t)begin)) return "it ends within its header";
  uint32_t n = first[6] == 1
                   ? (uint32_t)(first[8] | first[9] << 8)
                   : first[8] | (uint32_t)first[9] << 8 | (uint32_t)first[10] << 16 | (uint32_t)first[11] << 24;
  if (n > MOST_HEADER) return "its header is damaged";
  if (size - begin < n || rd_array_read(a, begin, header, n)) return "it ends within its header";
  header[n] = 0;
  const char *why = parse(header, a);
  a->at = begin + n;
  if (why) return why;
  int64_t bytes = bytes_of(a);
  if (bytes >= 0 && bytes <= size - a->at) return NULL;
  char is[128];
  rd_array_words(a, is, sizeof is);
  snprintf(words, n_words, "its header says %s, and the file has %" PRId64 " bytes of that: it is cut off", is,
           size - a->at);
  return words;
}

int rd_array_open(sp_ctx *ctx, const char *path, rd_array *out) {
  rd_array a = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat st;
  char words[256];
  const char *why;
  if (a.fd < 0 || fstat(a.fd, &st)) why = strerror(errno);
  else if (!S_ISREG(st.st_mode)) why = "not a regular file";
  else why = read_header(&a, st.st_size, words, sizeof words);
  if (!why) {
    *out = a;
    return SP_OK;
  }
  rd_array_close(&a);
  return ctx->host->fail(ctx, SP_E_DATA, "%s: %s", path, why);
}
