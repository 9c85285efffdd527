/* SPDX-License-Identifier: MIT
 * words.c - labels as files say them become numbers of classes. */
#include "words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kits/text/text.h"
#include "class_file.h"

/* ---- the different ones ---- */
void rd_words_free(rd_words *w) {
  rd_numbered_free(&w->words);
  rd_names_free(&w->places);
}

int rd_add_word(rd_words *w, const char *text, size_t n, const char *where, int64_t *id) {
  char word[4096], *p = (char *)text, *end = p + n;
  text_trim(&p, &end);
  n = (size_t)(end - p);
  if ((!n && !w->empty) || n >= (w->most ? w->most : 256) || memchr(p, '\n', n) || memchr(p, 0, n) ||
      text_wrong(p, n) < n)
    return SP_E_DATA;
  memcpy(word, p, n);
  word[text_plain_blanks(word, n)] = 0;
  *id = rd_number_of(&w->words, word);
  if (*id < 0 || ((size_t)*id == w->places.n && rd_names_add(&w->places, where))) return SP_E_NOMEM;
  return SP_OK;
}

/* ---- their classes ---- */
typedef struct numbering {
  rd_listing *l;
  const rd_words *w;
  int64_t *class_of;  /* of each word; -1: it is none */
  int64_t *alias;     /* the word that it stands for */
  const char **names; /* of the classes, NULL where they have none */
  rd_numbered listed; /* the names in classes.txt, in order */
  int64_t classes;
} numbering;

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Stands for itself. */
static int counts(const numbering *n, size_t i) { return n->alias[i] == (int64_t)i; }

/* Names, or numbers, of classes that are known. */
static int number_by_list(numbering *n, const char *folder) {
  for (size_t i = 0; i < n->w->words.names.n; i++) {
    const char *word = n->w->words.names.v[i];
    int64_t *c = &n->class_of[i];
    if (!counts(n, i)) continue;
    if ((*c = rd_number_of(&n->listed, word)) < 0) return rd_no_memory(n->l);
    if (*c < n->classes) continue;
    if (rd_is_whole(word, c) && *c >= 0 && *c < n->classes) continue;
    int64_t alike = 0;
    while (alike < n->classes && !rd_is_alike(word, n->names[alike])) alike++;
    *c = alike;
    if (alike < n->classes && n->l->p->csv.label_case == RD_CASE_IGNORE) continue;
    if (alike < n->classes)
      return n->l->ctx->host->fail(
          n->l->ctx, SP_E_DATA,
          "%s: the label is \"%s\", and %s/classes.txt has \"%s\", which differs by case, blanks or accents alone: "
          "`label_case = \"ignore\"` takes them for one",
          n->w->places.v[i], word, folder, n->names[alike]);
    return n->l->ctx->host->fail(n->l->ctx, SP_E_DATA,
                                 "%s: the label is \"%s\", but %s/classes.txt has %" PRId64
                                 " classes, and this is neither the name nor the number (from 0) of one",
                                 n->w->places.v[i], word, folder, n->classes);
  }
  return SP_OK;
}

static int too_large(const numbering *n, size_t i) {
  sp_ctx *ctx = n->l->ctx;
  const char *place = n->w->places.v[i], *word = n->w->words.names.v[i];
  if (n->class_of[i] < 0)
    return ctx->host->fail(ctx, SP_E_DATA, "%s: label %s; classes are counted from 0", place, word);
  if (n->l->p->classes)
    return ctx->host->fail(ctx, SP_E_DATA,
                           "%s: label %s, but there are %" PRId64 " classes (0 to %" PRId64
                           "): correct it, or give `classes = %" PRId64 "`",
                           place, word, n->l->p->classes, n->l->p->classes - 1, n->class_of[i] + 1);
  return ctx->host->fail(ctx, SP_E_DATA,
                         "%s: label %s would make more than %d classes; if there are so many, give `classes = %" PRId64
                         "`",
                         place, word, RD_MOST_CLASSES, n->class_of[i] + 1);
}

/* The words are numbers: the largest says how many classes there are, unless the parameter does. */
static int number_by_value(numbering *n) {
  int64_t most = n->l->p->classes ? n->l->p->classes : RD_MOST_CLASSES, largest = -1;
  for (size_t i = 0; i < n->w->words.names.n; i++) {
    if (!counts(n, i)) continue;
    if (n->class_of[i] < 0 || n->class_of[i] >= most) return too_large(n, i);
    if (n->class_of[i] > largest) largest = n->class_of[i];
  }
  n->classes = n->l->p->classes ? n->l->p->classes : largest + 1;
  return SP_OK;
}

static int number_by_order(numbering *n) {
  if (!(n->names = malloc((n->w->words.names.n + 1) * sizeof *n->names))) return rd_no_memory(n->l);
  for (size_t i = 0; i < n->w->words.names.n; i++)
    if (counts(n, i)) {
      n->class_of[i] = n->classes;
      n->names[n->classes++] = n->w->words.names.v[i];
    }
  if (n->w->as_given) return SP_OK;
  qsort(n->names, (size_t)n->classes, sizeof *n->names, by_name);
  for (size_t i = 0; i < n->w->words.names.n; i++) {
    if (!counts(n, i)) continue;
    const char **at = bsearch(&n->w->words.names.v[i], n->names, (size_t)n->classes, sizeof *n->names, by_name);
    n->class_of[i] = at - n->names;
  }
  return SP_OK;
}

static int is_real(const char *word) {
  char *end, point[64];
  const char *comma = strchr(word, ',');
  if (comma && comma[1] && strlen(word) < sizeof point) { /* 0,5 where another sign is between columns */
    snprintf(point, sizeof point, "%s", word);
    point[comma - word] = '.';
    word = point;
  }
  strtod(word, &end);
  return end > word && !*end && strspn(word, "+-.0123456789eE") == strlen(word);
}

static int no_whole_number(const numbering *n, size_t i) {
  return n->l->ctx->host->fail(
      n->l->ctx, SP_E_DATA,
      "%s: the label %s is no whole number, so it is of no class but for target = \"numbers\" "
      "(train_cls.lua, `target = \"numbers\"`); as the name of a class it is wanted in a classes.txt",
      n->w->places.v[i], n->w->words.names.v[i]);
}

/* Without a list of classes. */
static int number_alone(numbering *n) {
  size_t numbers = 0, all = 0, reals = 0, real = 0, first[2] = {0, 0}; /* first: of names, of numbers */
  const char *odd = NULL; /* another number may be written like it: 1.0, 01 */
  for (size_t i = n->w->words.names.n; i-- > 0;) {
    const char *word = n->w->words.names.v[i];
    if (!counts(n, i)) continue;
    int is = rd_is_whole(word, &n->class_of[i]);
    first[is] = i;
    numbers += (size_t)is;
    all++;
    if (is_real(word)) reals++;
    if (is_real(word) && !is) real = i;
    if (is && (strpbrk(word, ".eE+") || (word[word[0] == '-'] == '0' && word[1]))) odd = word;
  }
  if (n->w->as_given || n->w->as_names) return number_by_order(n);
  if (numbers < all && reals == all) return no_whole_number(n, real);
  if (odd) rd_note(n->l, "labels such as %s are read as whole numbers", odd);
  if (numbers == all) return number_by_value(n);
  if (!numbers) return number_by_order(n);
  return n->l->ctx->host->fail(
      n->l->ctx, SP_E_DATA,
      "%s: the label is the number %s, but at %s it is the name \"%s\"; all must be numbers, or "
      "names, or a classes.txt must say the names in order",
      n->w->places.v[first[1]], n->w->words.names.v[first[1]], n->w->places.v[first[0]], n->w->words.names.v[first[0]]);
}

/* ---- into the table ---- */
static int keep_names(numbering *n) {
  size_t bytes = 0;
  for (int64_t c = 0; n->names && c < n->classes; c++) bytes += strlen(n->names[c]) + 1;
  n->l->t->classes = n->classes;
  char *p = n->l->t->class_names = bytes ? malloc(bytes) : NULL;
  if (bytes && !p) return rd_no_memory(n->l);
  for (int64_t c = 0; n->names && c < n->classes; c++) p += sprintf(p, c ? "\n%s" : "%s", n->names[c]);
  return SP_OK;
}

/* Stable, by counting. `counts` has room for a number more than there are classes. */
/* Samples from..end of t go to `to`, and their second images to `seconds`. */
static void sort_part(const rd_table *t, size_t from, size_t end, rd_sample *to, rd_ref *seconds, size_t *counts,
                      int64_t classes) {
  memset(counts, 0, ((size_t)classes + 1) * sizeof *counts);
  for (size_t i = from; i < end; i++) counts[t->samples[i].label + 1]++;
  for (int64_t c = 0; c < classes; c++) counts[c + 1] += counts[c];
  for (size_t i = from; i < end; i++) {
    size_t at = from + counts[t->samples[i].label]++;
    to[at] = t->samples[i];
    if (seconds) seconds[at] = t->seconds[i];
  }
}

static int sort(numbering *n) {
  rd_table *t = n->l->t;
  rd_sample *to = malloc((t->n + 1) * sizeof *to);
  rd_ref *seconds = t->seconds ? malloc((t->n + 1) * sizeof *seconds) : NULL;
  size_t *counts = malloc(((size_t)n->classes + 1) * sizeof *counts), from = 0;
  int rc = to && counts && !seconds == !t->seconds ? SP_OK : rd_no_memory(n->l);
  for (int k = 0; !rc && k < t->n_parts; from = t->ends[k++])
    sort_part(t, from, t->ends[k], to, seconds, counts, n->classes);
  free(counts);
  if (rc) {
    free(to);
    free(seconds);
    return rc;
  }
  free(t->samples);
  free(t->seconds);
  t->samples = to;
  t->seconds = seconds;
  t->cap = t->seconds_cap = t->n + 1;
  return SP_OK;
}

/* The hash leaves out what is behind the last dot. */
static void set_keys(numbering *n, void (*stem)(const rd_table *t, const rd_sample *s, char *to, size_t size)) {
  rd_table *t = n->l->t;
  char name[4096];
  for (size_t i = 0; i < t->n; i++) {
    rd_sample *s = &t->samples[i];
    const char *part = t->n_parts == 1 || *n->l->p->val_path ? "" : i < t->ends[0] ? "train/" : "val/";
    int at = snprintf(name, 512, "%s%s%s", part, n->names ? n->names[s->label] : "", n->names ? "/" : "");
    stem(t, s, name + at, sizeof name - 1 - (size_t)at);
    strcat(name + at, ".");
    s->key = rd_hash_name(name);
  }
}

static int take_list(numbering *n, const char *folder, char *list) {
  if (!(n->names = malloc((size_t)n->classes * sizeof *n->names))) return rd_no_memory(n->l);
  for (int64_t c = 0; c < n->classes; c++) {
    int64_t id = rd_number_of(&n->listed, n->names[c] = strsep(&list, "\n"));
    if (id < 0) return rd_no_memory(n->l);
    if (id < c)
      return n->l->ctx->host->fail(n->l->ctx, SP_E_DATA, "%s/classes.txt names '%s' twice", folder, n->names[c]);
  }
  return SP_OK;
}

/* How a list of classes is asked; it grows no more. */
typedef struct known {
  rd_numbered *listed;
  int64_t classes;
} known;

static int is_known(void *arg, const char *word) {
  known *k = arg;
  int64_t v;
  return k->classes && (rd_has_number(k->listed, word) || (rd_is_whole(word, &v) && v >= 0 && v < k->classes));
}

/* Words become classes, in samples or in the cells that these have. Those without a label are left out. */
static void put_classes(numbering *n) {
  rd_table *t = n->l->t;
  size_t to = 0, ends[2] = {t->ends[0], t->ends[1]}, words = n->w->words.names.n;
  for (size_t i = 0; i < words; i++) {
    int64_t k = n->alias[i];
    n->class_of[i] = k < 0 ? -1 : n->class_of[k];
  }
  for (size_t i = 0; t->gives == RD_LABELS && i < t->n_cells; i++) t->cells[i] = (uint32_t)n->class_of[t->cells[i]];
  for (size_t i = 0; t->gives == RD_LABEL && i < t->n; i++) {
    int64_t c = n->class_of[t->samples[i].label];
    for (int k = 0; c < 0 && k < t->n_parts; k++) ends[k] -= i < t->ends[k];
    if (c < 0) continue;
    rd_move_sample(t, to, i);
    t->samples[to++].label = c;
  }
  if (t->gives != RD_LABEL) return;
  if (to < t->n)
    rd_note(n->l, "%zu sample%s without a label %s left out", t->n - to, t->n - to == 1 ? "" : "s",
            t->n - to == 1 ? "is" : "are");
  t->n = to;
  memcpy(t->ends, ends, sizeof ends);
}

int rd_number_words(rd_listing *l, const char *folder, const rd_words *w,
                    void (*stem)(const rd_table *t, const rd_sample *s, char *to, size_t size)) {
  size_t words = w->words.names.n;
  numbering n = {
      .l = l, .w = w, .class_of = calloc(words + 1, sizeof *n.class_of), .alias = calloc(words + 1, sizeof *n.alias)};
  rd_class_file file = {0};
  int rc = n.class_of && n.alias ? rd_read_classes(l->ctx, folder, &file) : rd_no_memory(l);
  n.classes = file.n;
  if (!rc && file.names) rc = take_list(&n, folder, file.names);
  if (!rc) rc = rd_judge_words(l, w, is_known, &(known){&n.listed, n.classes}, n.alias);
  if (!rc) rc = file.names ? number_by_list(&n, folder) : number_alone(&n);
  if (!rc) put_classes(&n);
  if (!rc && stem) rc = sort(&n);
  if (!rc && stem) set_keys(&n, stem);
  if (!rc) rc = keep_names(&n);
  free(file.names);
  free(file.palette);
  free(n.names);
  rd_numbered_free(&n.listed);
  free(n.class_of);
  free(n.alias);
  return rc;
}

int rd_settle_words(sp_ctx *ctx, rd_self *self) {
  const rd_table *t = self->table;
  self->classes = t->classes;
  if (t->class_names && !(self->class_names = strdup(t->class_names)))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the names of %" PRId64 " classes", t->classes);
  if (!self->p->classes || self->p->classes == t->classes) return SP_OK;
  return ctx->host->fail(ctx, SP_E_INVALID, "classes = %" PRId64 ", but the labels of %s name %" PRId64,
                         self->p->classes, self->p->path, t->classes);
}
