/* SPDX-License-Identifier: MIT
 * mask_values.c - the parameter mask_values: "0=bg,255=fg", with ranges (0-127=bg), colours (#ff0000=fg), and ignore
 * or void for no label; "/1000" in front divides values from 1000 on, as in numbers of objects that are
 * class * 1000 + k. */
#include "masks.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 200

typedef struct job {
  sp_ctx *ctx;
  const char *text;
  rd_values *v;
  rd_numbered names; /* of the classes */
  int listed;        /* classes.txt has named them */
  int numbers, colours;
} job;

static int complain(job *j, const char *entry, size_t n, const char *words) {
  return j->ctx->host->fail(
      j->ctx, SP_E_INVALID,
      "mask_values = \"%.200s\": %.*s %s; entries are VALUE=CLASS with a comma between, such as "
      "\"0=ground,255=object\", \"0-127=ground,128-65535=object\" or \"#ff0000=object,#000000=ignore\"",
      j->text, (int)(n < 80 ? n : 80), entry, words);
}

static void trim(const char **p, size_t *n) {
  while (*n && isspace((unsigned char)**p)) ++*p, --*n;
  while (*n && isspace((unsigned char)(*p)[*n - 1])) --*n;
}

/* A number of digits alone, of nine at most; -1: it is none. */
static int number_of(const char *p, size_t n) {
  int v = 0;
  for (size_t i = 0; i < n; i++) {
    if (!isdigit((unsigned char)p[i]) || i == 9) return -1;
    v = v * 10 + (p[i] - '0');
  }
  return n ? v : -1;
}

/* The class of that name; a number is one where no class is called so. -1: there is none, -2: no memory. */
static int class_of(job *j, const char *p, size_t n) {
  char name[MAX_NAME + 1];
  snprintf(name, sizeof name, "%.*s", (int)n, p);
  if (!strcmp(name, "ignore") || !strcmp(name, "void")) return RD_VOID;
  size_t before = j->names.names.n;
  int64_t id = rd_number_of(&j->names, name);
  if (id < 0) return -2;
  if (!j->listed || (size_t)id < before) return (int)id;
  int number = number_of(p, n);
  return number >= 0 && (size_t)number < before ? number : -1;
}

static int add_colour(job *j, const char *entry, size_t n, const char *key, size_t k, int label) {
  char digits[7] = "";
  int good = k == 7;
  for (size_t i = 1; i < k && good; i++) good = isxdigit((unsigned char)(digits[i - 1] = key[i])) != 0;
  if (!good) return complain(j, entry, n, "begins with no colour, which is # and six digits");
  int added = rd_add_colour(&j->v->colours, (uint32_t)strtol(digits, NULL, 16), label);
  j->colours = 1;
  return added == 1 ? SP_OK
                    : complain(j, entry, n, added ? "cannot be kept" : "names a colour that has a class already");
}

/* Values that have no byte. */
static int add_wide(job *j, const char *entry, size_t n, int from, int to, int label) {
  rd_values *v = j->v;
  for (size_t i = 0; i < v->n_ranges; i++)
    if (v->ranges[i].from <= to && from <= v->ranges[i].to && v->ranges[i].label != label)
      return complain(j, entry, n, "names a value that has a class already");
  rd_value_range *more = realloc(v->ranges, (v->n_ranges + 1) * sizeof *more);
  if (!more) return j->ctx->host->fail(j->ctx, SP_E_NOMEM, "no memory for mask_values");
  v->ranges = more;
  more[v->n_ranges++] = (rd_value_range){from, to, label};
  return SP_OK;
}

static int add_range(job *j, const char *entry, size_t n, const char *key, size_t k, int label) {
  const char *dash = memchr(key, '-', k);
  size_t front = dash ? (size_t)(dash - key) : k;
  int from = number_of(key, front), to = dash ? number_of(dash + 1, k - front - 1) : from;
  j->numbers = 1;
  if (from < 0 || to < from) return complain(j, entry, n, "begins with no value and no range of values");
  for (int v = from; v <= to && v < 256; v++) {
    if (j->v->known[v] && j->v->of[v] != label) return complain(j, entry, n, "names a value that has a class already");
    j->v->known[v] = 1;
    j->v->of[v] = (uint8_t)label;
  }
  return to < 256 ? SP_OK : add_wide(j, entry, n, from < 256 ? 256 : from, to, label);
}

/* "/1000": what is left of values from there on once they are divided. */
static int take_divisor(job *j, const char *p, size_t n) {
  int by = number_of(p + 1, n - 1);
  if (by < 2) return complain(j, p, n, "begins with / and no number above 1");
  if (j->v->divisor) return complain(j, p, n, "is a second divisor");
  j->v->divisor = by;
  return SP_OK;
}

static int take_entry(job *j, const char *p, size_t n) {
  trim(&p, &n);
  if (n && *p == '/') return take_divisor(j, p, n);
  const char *equals = memchr(p, '=', n), *key = p, *name = equals + 1;
  if (!equals) return complain(j, p, n, "has no =");
  size_t k = (size_t)(equals - p), m = n - k - 1;
  trim(&key, &k);
  trim(&name, &m);
  if (!m || m > MAX_NAME || memchr(name, '\n', m)) return complain(j, p, n, "ends with no name of a class");
  int label = class_of(j, name, m);
  if (label == -2) return j->ctx->host->fail(j->ctx, SP_E_NOMEM, "no memory for mask_values");
  if (label == -1) return complain(j, p, n, "ends with a name that classes.txt has not");
  if (label >= 255 && label != RD_VOID) return complain(j, p, n, "is one class too many; masks have at most 255");
  j->v->is_listed = 1;
  return *key == '#' ? add_colour(j, p, n, key, k, label) : add_range(j, p, n, key, k, label);
}

/* The names become those of the classes; numbers alone are no names. */
static int keep_names(job *j, rd_class_file *f) {
  size_t bytes = 1;
  int largest = -1, plain = 1;
  for (size_t i = 0; i < j->names.names.n; i++) {
    int v = number_of(j->names.names.v[i], strlen(j->names.names.v[i]));
    plain &= v >= 0 && v < 255;
    if (v > largest) largest = v;
    bytes += strlen(j->names.names.v[i]) + 1;
  }
  if (plain && j->names.names.n) { /* from the order in which they came to what they say */
    for (int v = 0; v < 256; v++)
      if (j->v->known[v] && j->v->of[v] != RD_VOID)
        j->v->of[v] = (uint8_t)number_of(j->names.names.v[j->v->of[v]], strlen(j->names.names.v[j->v->of[v]]));
    for (size_t i = 0; i < j->v->n_ranges; i++) {
      int32_t *label = &j->v->ranges[i].label;
      if (*label != RD_VOID) *label = number_of(j->names.names.v[*label], strlen(j->names.names.v[*label]));
    }
    f->n = largest + 1;
    if (!j->colours) return SP_OK;
  }
  char *p = f->names = malloc(bytes);
  if (!p) return j->ctx->host->fail(j->ctx, SP_E_NOMEM, "no memory for the names of the classes");
  *p = 0;
  for (size_t i = 0; i < j->names.names.n; i++) p += sprintf(p, i ? "\n%s" : "%s", j->names.names.v[i]);
  f->n = (int64_t)j->names.names.n;
  return SP_OK;
}

static int take_list(job *j, const rd_class_file *f) {
  char name[1024];
  for (const char *p = f->names; p && *p; p += strcspn(p, "\n"), p += *p == '\n') {
    snprintf(name, sizeof name, "%.*s", (int)strcspn(p, "\n"), p);
    if (rd_number_of(&j->names, name) < 0) return j->ctx->host->fail(j->ctx, SP_E_NOMEM, "no memory for mask_values");
  }
  return SP_OK;
}

int rd_read_values(sp_ctx *ctx, rd_self *self, rd_class_file *f) {
  const char *text = self->p->mask_values;
  if (!*text) return SP_OK;
  job j = {.ctx = ctx, .text = text, .v = self->values = calloc(1, sizeof *self->values), .listed = f->names != NULL};
  int rc = j.v ? take_list(&j, f) : ctx->host->fail(ctx, SP_E_NOMEM, "no memory for mask_values");
  for (const char *p = text; !rc && *p;) {
    size_t n = strcspn(p, ",");
    rc = take_entry(&j, p, n);
    p += n + (p[n] == ',');
  }
  if (!rc && j.numbers && j.colours)
    rc = complain(&j, text, strlen(text), "has numbers and colours; one kind is possible");
  if (!rc && j.v->divisor && j.colours) rc = complain(&j, text, strlen(text), "has colours, which are not divided");
  if (!rc && !j.v->is_listed && j.v->divisor) {
    rd_numbered_free(&j.names);
    return SP_OK;
  }
  if (!rc && !j.listed && !j.names.names.n) rc = complain(&j, text, strlen(text), "names no class");
  if (!rc && !j.listed) rc = keep_names(&j, f);
  rd_numbered_free(&j.names);
  return rc;
}

int rd_label_of(const rd_values *v, int32_t value) {
  int32_t key = v->divisor && value >= v->divisor ? value / v->divisor : value;
  if (key < 0) return -1;
  if (!v->is_listed) return key <= 255 ? key : -1;
  if (key < 256) return v->known[key] ? v->of[key] : -1;
  for (size_t i = 0; i < v->n_ranges; i++)
    if (key >= v->ranges[i].from && key <= v->ranges[i].to) return v->ranges[i].label;
  return -1;
}

void rd_free_values(rd_values *v) {
  if (v) free(v->colours);
  if (v) free(v->ranges);
  free(v);
}
