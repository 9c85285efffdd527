/* SPDX-License-Identifier: MIT
 * mask_words.c - what the values of a mask look like where they are no labels, and which cure fits that. */
#include "masks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, SLOTS = 4 * MOST };

/* Values in use, ascending; of more than MOST only that there are more. */
typedef struct values {
  size_t all;
  int count, more;
  struct value {
    int32_t v;
    size_t n;
  } list[MOST];
} values;

static int by_value(const void *a, const void *b) {
  int32_t x = ((const struct value *)a)->v, y = ((const struct value *)b)->v;
  return (x > y) - (x < y);
}

static values *count_bytes(const uint8_t *p, size_t n) {
  values *v = calloc(1, sizeof *v);
  size_t counts[256] = {0};
  if (!v) return NULL;
  v->all = n;
  for (size_t i = 0; i < n; i++) counts[p[i]]++;
  for (int k = 0; k < 256; k++)
    if (counts[k]) v->list[v->count++] = (struct value){k, counts[k]};
  return v;
}

static values *count_values(const int32_t *p, size_t n) {
  values *v = calloc(1, sizeof *v);
  uint16_t *slots = calloc(SLOTS, sizeof *slots); /* place in the list, and 1 */
  for (size_t i = 0; v && slots && i < n && !v->more; i++) {
    uint32_t at = (uint32_t)p[i] * 2654435761u >> 18 & (SLOTS - 1);
    while (slots[at] && v->list[slots[at] - 1].v != p[i]) at = (at + 1) & (SLOTS - 1);
    if (!slots[at] && v->count == MOST) v->more = 1;
    else if (!slots[at]) v->list[v->count] = (struct value){p[i], 1}, slots[at] = (uint16_t)++v->count;
    else v->list[slots[at] - 1].n++;
  }
  if (v) v->all = n;
  if (v) qsort(v->list, (size_t)v->count, sizeof *v->list, by_value);
  free(slots);
  return v;
}

const char *rd_class_name(const rd_self *self, int label, char to[128]) {
  const char *p = self->class_names;
  for (int k = 0; p && k < label && label != RD_VOID; k++) p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL;
  if (label == RD_VOID) snprintf(to, 128, "no label");
  else if (p) snprintf(to, 128, "'%.*s'", (int)(strcspn(p, "\n") < 120 ? strcspn(p, "\n") : 120), p);
  else snprintf(to, 128, "%d", label);
  return to;
}

/* "a", without quotes. */
static void put_class(const rd_self *self, int label, char to[128]) {
  char name[128];
  const char *is = label < self->classes ? rd_class_name(self, label, name) : "ignore";
  int quoted = *is == '\'';
  snprintf(to, 128, "%.*s", (int)strlen(is) - 2 * quoted, is + quoted);
}

/* "0=bg,255=fg": the values in use get the classes in order, those that are too many none. */
static void propose(const rd_self *self, const int32_t *list, int count, char *to, size_t size) {
  size_t at = 0;
  char name[128];
  for (int k = 0; k < count && at + 140 < size; k++) {
    put_class(self, k, name);
    at += (size_t)snprintf(to + at, size - at, "%s%d=%s", k ? "," : "", list[k], name);
  }
}

/* The least and the largest of them. */
static void put_some(const values *v, char to[80]) {
  if (v->more) snprintf(to, 80, "more than %d different values", MOST);
  else if (v->count > 4)
    snprintf(to, 80, "%d different values, %d to %d", v->count, v->list[0].v, v->list[v->count - 1].v);
  else
    for (int k = 0, at = 0; k < v->count; k++)
      at += snprintf(to + at, (size_t)(80 - at), k ? ", %d" : "the values %d", v->list[k].v);
}

/* Numbers as Cityscapes has them: class * 1000 + k, and those below 1000 are classes themselves. What is left once
 * they are divided goes to `list`, ascending. */
static int by_thousands(const values *v, int32_t list[256]) {
  enum { BY = 1000, MOST_OF_A_CLASS = 400 };
  int n = 0, some = 0, shared = 0;
  for (int i = 0; i < v->count && !v->more; i++) {
    int32_t value = v->list[i].v, class = value >= BY ? value / BY : value;
    if (value < 0 || class > 255 || (value >= BY && value % BY >= MOST_OF_A_CLASS)) return 0;
    some += value >= BY;
    shared += value >= BY && value % BY <= 1;
    int k = 0;
    while (k < n && list[k] != class) k++;
    if (k < n) continue;
    if (n == 256) return 0;
    for (k = n++; k > 0 && list[k - 1] > class; k--) list[k] = list[k - 1];
    list[k] = class;
  }
  return some && shared && !v->more ? n : 0;
}

/* 0 or 1 and the numbers from there on, nearly without a gap. */
static int counts_up(const values *v) {
  return !v->more && v->count > 2 && v->list[0].v >= 0 && v->list[0].v <= 1 &&
         v->list[v->count - 1].v < 2 * v->count + 2;
}

/* Each object has a number: with two classes all of them are the second. */
static void put_objects(const rd_self *self, int most, char *to, size_t size) {
  char a[128], b[128];
  put_class(self, 0, a);
  put_class(self, 1, b);
  if (self->classes == 2)
    snprintf(to, size, "where they are numbers of objects, `mask_values = \"0=%s,1-%d=%s\"` makes one class of all", a,
             most, b);
  else snprintf(to, size, "where they are numbers of objects, their class is not in the mask: save masks of classes");
}

static int is_soft(const rd_self *self, const values *v) {
  size_t ends = v->list[0].n + v->list[v->count - 1].n;
  return v->count > 8 && self->classes == 2 && ends * 10 > v->all * 7 && v->list[v->count - 1].v <= 255;
}

/* The cure, by what the values look like. most: of their type. */
static void explain(const rd_self *self, const values *v, int most, char *to, size_t size) {
  char list[400] = "", a[128], b[128], some[80], objects[500];
  int32_t of[256];
  int largest = v->list[v->count - 1].v, from_one = v->list[0].v == 1 && v->count == self->classes && !v->more;
  int label = v->count > 1 && largest == RD_VOID ? v->list[v->count - 2].v : largest; /* the largest that is one */
  int near = v->list[0].v >= 0 && label < 2 * self->classes + 8 && !from_one;         /* as numbers of classes are */
  int n = by_thousands(v, of);
  put_some(v, some);
  put_objects(self, most, objects, sizeof objects);
  if (is_soft(self, v)) {
    size_t ends = v->list[0].n + v->list[v->count - 1].n;
    put_class(self, 0, a);
    put_class(self, 1, b);
    snprintf(to, size,
             "%.0f %% of its pixels are %d or %d, and the others lie between: soft edges; `mask_values = "
             "\"0-127=%s,128-255=%s\"` cuts them in the middle",
             100.0 * (double)ends / (double)v->all, v->list[0].v, largest, a, b);
  } else if (n) {
    int fits = of[n - 1] < self->classes || of[n - 1] == RD_VOID;
    if (!fits) propose(self, of, n, list, sizeof list);
    snprintf(
        to, size,
        "it has %s: numbers of objects, class * 1000 + k, as Cityscapes has them; `mask_values = \"/1000%s%s\"` takes "
        "the classes%s",
        some, fits ? "" : ",", list, fits ? "" : "; say which each is");
  } else if (v->count > 16 || v->more) {
    snprintf(to, size,
             "it has %s: numbers of instances, or a picture; each pixel has to be the number of its class; %s", some,
             counts_up(v) ? objects : "a range of values is written 0-99=CLASS in mask_values");
  } else if (near) {
    int up = counts_up(v);
    snprintf(to, size, "correct the mask, or give `classes = %d` or more, or as many lines in classes.txt%s%s",
             label + 1, up ? "; " : "", up ? objects : "");
  } else {
    for (int k = 0; k < v->count; k++) of[k] = v->list[k].v;
    propose(self, of, v->count, list, sizeof list);
    snprintf(to, size, "its values are other numbers%s: say which class each is, `mask_values = \"%s\"`",
             from_one ? ", counted from 1" : "", list);
  }
}

static void tell(const rd_self *self, values *v, int most, char *to, size_t size) {
  snprintf(to, size, "no memory to look at its values");
  if (v) explain(self, v, most, to, size);
  free(v);
}

void rd_explain_bytes(const rd_self *self, const uint8_t *p, size_t n, char *to, size_t size) {
  tell(self, count_bytes(p, n), 255, to, size);
}

void rd_explain_values(const rd_self *self, const int32_t *p, size_t n, char *to, size_t size) {
  tell(self, count_values(p, n), 65535, to, size);
}
