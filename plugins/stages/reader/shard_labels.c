/* SPDX-License-Identifier: MIT
 * shard_labels.c - KEY.cls and KEY.json of tar files: a class, several labels, or numbers. KEY.cls has one in each
 * line, or is a list as JSON writes it; of KEY.json `columns` names the fields. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SP_HAVE_JSON
#include <jansson.h>
#endif

#include "../../kits/text/text.h"
#include "csv.h"
#include "values.h"

#define APART "\x1f" /* between labels in a text of rd_csv.cells, whatever signs labels have */

struct rd_shard_labels {
  rd_listing *l;
  const char *home;
  rd_csv *j;       /* with target labels: collects texts */
  rd_words words;  /* of one class */
  rd_names fields; /* of KEY.json */
  int guessed;     /* the first file says which field */
  rd_names parts;  /* of the member that is being read */
  int listed;      /* `parts` are labels or numbers, one each, whatever signs they have */
  int of_files;    /* some label was a member's */
  char *within;    /* the folder that those of the classes lie in, where these are the labels */
};

static sp_ctx *ctx_of(const rd_shard_labels *s) { return s->l->ctx; }

/* ---- making ---- */
/* "a,b" or "label=a". */
static int take_columns(rd_shard_labels *s) {
  char *text = strdup(s->l->p->csv.columns), *rest = text;
  int rc = text ? SP_OK : SP_E_NOMEM;
  for (char *item; !rc && rest && *text && (item = strsep(&rest, ","));) {
    char *end = item + strlen(item);
    text_trim(&item, &end);
    *end = 0;
    if (!strncmp(item, "label=", 6)) item += 6;
    if (*item) rc = rd_names_add(&s->fields, item);
  }
  free(text);
  return rc;
}

rd_shard_labels *rd_open_shard_labels(rd_listing *l, const char *home) {
  rd_shard_labels *s = calloc(1, sizeof *s);
  if (s) *s = (rd_shard_labels){.l = l, .home = home, .j = calloc(1, sizeof *s->j)};
  if (!s || !s->j || take_columns(s)) {
    if (s) rd_close_shard_labels(s);
    rd_no_memory(l);
    return NULL;
  }
  s->j->l = l;
  s->j->cells.most = 4096;
  s->j->cells.empty = 1;
  snprintf(s->j->files[0], sizeof s->j->files[0], "%s", l->p->path);
  snprintf(s->j->dirs[0], sizeof s->j->dirs[0], "%s", home);
  return s;
}

void rd_close_shard_labels(rd_shard_labels *s) {
  if (s->j) {
    rd_words_free(&s->j->cells);
    rd_words_free(&s->j->labels);
  }
  free(s->j);
  free(s->within);
  rd_words_free(&s->words);
  rd_names_free(&s->fields);
  rd_names_free(&s->parts);
  free(s);
}

/* ---- JSON ---- */
#ifdef SP_HAVE_JSON
static int add_part(rd_shard_labels *s, const char *text) {
  return rd_names_add(&s->parts, text) ? rd_no_memory(s->l) : SP_OK;
}

static const char *number_text(double v, char to[32]) { return snprintf(to, 32, "%.9g", v), to; }

/* A value that is no list; 0: it is one, or an object. A real number stays one. */
static int scalar(const json_t *v, char *to, size_t size) {
  char real[32];
  if (json_is_string(v)) snprintf(to, size, "%s", json_string_value(v));
  else if (json_is_integer(v)) snprintf(to, size, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
  else if (json_is_real(v))
    snprintf(to, size, strpbrk(number_text(json_real_value(v), real), ".en") ? "%s" : "%s.0", real);
  else if (json_is_boolean(v)) snprintf(to, size, "%d", json_is_true(v));
  else if (json_is_null(v)) *to = 0;
  else return 0;
  return 1;
}

/* Truth of 0, 1, true and false; -1: it is something else. */
static int truth(const json_t *v) {
  double d = json_is_number(v) ? json_number_value(v) : json_is_boolean(v) ? json_is_true(v) : -1;
  return d == 0 || d == 1 ? (int)d : -1;
}

/* A label that is there or not, called `name`. */
static int add_truth(rd_shard_labels *s, const char *where, const char *name, const json_t *v) {
  int64_t id;
  int is = truth(v);
  if (is < 0)
    return ctx_of(s)->host->fail(ctx_of(s), SP_E_DATA,
                                 "%s: \"%s\" is neither 0 nor 1, true nor false, as one of several labels is", where,
                                 name);
  if (rd_add_word(&s->j->labels, name, strlen(name), where, &id)) return rd_no_memory(s->l);
  s->listed = 1;
  return is ? add_part(s, name) : SP_OK;
}

static int add_value(rd_shard_labels *s, const char *where, const json_t *v) {
  char text[4096];
  size_t i;
  const char *name;
  json_t *item;
  int rc = SP_OK;
  if (scalar(v, text, sizeof text)) return json_is_null(v) ? SP_OK : add_part(s, text);
  if (json_is_object(v)) {
    if (s->l->p->target == RD_TARGET_LABELS) {
      json_object_foreach((json_t *)v, name, item) if (!rc) rc = add_truth(s, where, name, item);
      return rc;
    }
    return ctx_of(s)->host->fail(
        ctx_of(s), SP_E_DATA,
        s->l->p->target == RD_TARGET_CLASS
            ? "%s: the label is an object, so it is for target = \"labels\" (train_cls.lua, `target = "
              "\"labels\"`)"
            : "%s: the label is an object; a number or a list of numbers is expected",
        where);
  }
  s->listed = 1;
  json_array_foreach((json_t *)v, i, item) {
    if (!scalar(item, text, sizeof text))
      return ctx_of(s)->host->fail(ctx_of(s), SP_E_DATA, "%s: a list of numbers or texts is expected, not of lists",
                                   where);
    if ((rc = add_part(s, text))) return rc;
  }
  return rc;
}

/* Names of fields, of many the first. */
static void names_of(const json_t *v, char *to, size_t size) {
  const char *name;
  json_t *item;
  size_t at = 0;
  *to = 0;
  json_object_foreach((json_t *)v, name, item) {
    if (at + 80 > size) break;
    at += (size_t)snprintf(to + at, size - at, "%s%.60s", at ? ", " : "", name);
  }
  (void)item;
}

/* Which field is the label, where nobody has said it: the only one that is called so. */
static int guess_field(rd_shard_labels *s, const char *where, const json_t *v) {
  char all[1024], cures[256] = "";
  const char *name, *found = NULL;
  json_t *item;
  int n = 0;
  size_t at = 0;
  names_of(v, all, sizeof all);
  json_object_foreach((json_t *)v, name, item) {
    if (!rd_csv_is_label(name)) continue;
    found = name;
    if (n++ < 3)
      at += (size_t)snprintf(cures + at, sizeof cures - at, "%s`columns = \"label=%.40s\"`", at ? " or " : "", name);
  }
  (void)item;
  if (n == 1) {
    rd_note(s->l, "field %s of KEY.json is the label", found);
    s->guessed = 1;
    return rd_names_add(&s->fields, found) ? rd_no_memory(s->l) : SP_OK;
  }
  return ctx_of(s)->host->fail(ctx_of(s), SP_E_DATA, "%s: which field is the label? It has %s: %s", where,
                               *all ? all : "none", n ? cures : "`columns = \"label=NAME\"`");
}

static int add_fields(rd_shard_labels *s, const char *where, const json_t *v) {
  int rc = SP_OK;
  if (!s->fields.n) rc = guess_field(s, where, v);
  for (size_t i = 0; !rc && i < s->fields.n; i++) {
    const json_t *item = json_object_get(v, s->fields.v[i]);
    char all[1024];
    if (!item) {
      names_of(v, all, sizeof all);
      return ctx_of(s)->host->fail(ctx_of(s), SP_E_DATA, "%s has no field \"%s\"; it has %s", where, s->fields.v[i],
                                   *all ? all : "none");
    }
    if (s->fields.n > 1 && s->l->p->target == RD_TARGET_LABELS) rc = add_truth(s, where, s->fields.v[i], item);
    else rc = add_value(s, where, item);
  }
  return rc;
}

static int read_json(rd_shard_labels *s, const char *where, const char *text, size_t n) {
  json_error_t e;
  json_t *v = json_loadb(text, n, JSON_DECODE_ANY, &e);
  if (!v) return ctx_of(s)->host->fail(ctx_of(s), SP_E_DATA, "%s: no JSON: line %d: %s", where, e.line, e.text);
  int rc = json_is_object(v) ? add_fields(s, where, v) : add_value(s, where, v);
  json_decref(v);
  return rc;
}

/* KEY.cls that is a list; 0: it is none. */
static int is_list(const char *text, size_t n) {
  json_t *v = n && *text == '[' ? json_loadb(text, n, 0, NULL) : NULL;
  int is = json_is_array(v);
  json_decref(v);
  return is;
}
#else
static int read_json(rd_shard_labels *s, const char *where, const char *text, size_t n) {
  (void)text, (void)n;
  return ctx_of(s)->host->fail(ctx_of(s), SP_E_UNSUPPORTED, "%s: spcore was built without jansson, which reads JSON",
                               where);
}
static int is_list(const char *text, size_t n) { return (void)text, (void)n, 0; }
#endif

/* ---- KEY.cls ---- */
/* A part for each line, but for empty ones. */
static int read_lines(rd_shard_labels *s, const char *text, size_t n) {
  const char *end = text + n;
  while (text < end) {
    const char *line = memchr(text, '\n', (size_t)(end - text));
    char part[4096], *a = (char *)text, *b = (char *)(line ? line : end);
    text = line ? line + 1 : end;
    text_trim(&a, &b);
    if (a == b) continue;
    size_t size = (size_t)(b - a) < sizeof part - 1 ? (size_t)(b - a) : sizeof part - 1;
    memcpy(part, a, size);
    part[size] = 0;
    if (rd_names_add(&s->parts, part)) return rd_no_memory(s->l);
  }
  s->listed |= s->parts.n > 1;
  return SP_OK;
}

/* ---- into the sample ---- */
/* Numbers that are no classes by their point or sign. */
static int all_reals(const rd_names *parts) {
  int reals = 0;
  float v;
  for (size_t i = 0; i < parts->n; i++) {
    if (!rd_read_number(parts->v[i], &v)) return 0;
    reals |= v < 0 || strpbrk(parts->v[i], ".eE") != NULL;
  }
  return reals;
}

static int no_label(const rd_shard_labels *s, const char *where) {
  return ctx_of(s)->host->fail(ctx_of(s), SP_E_DATA,
                               "%s is empty, or no single line of UTF-8; a label is a number, or the name of a class",
                               where);
}

static int take_class(rd_shard_labels *s, const char *where, rd_sample *to) {
  if (s->parts.n > 1 || (!s->parts.n && s->listed)) {
    const char *target = all_reals(&s->parts) ? "numbers" : "labels";
    return ctx_of(s)->host->fail(ctx_of(s), SP_E_DATA,
                                 "%s has %zu %s, so it is for target = \"%s\" (train_cls.lua, `target = \"%s\"`)",
                                 where, s->parts.n, target, target, target);
  }
  if (!s->parts.n) return no_label(s, where);
  int rc = rd_add_word(&s->words, s->parts.v[0], strlen(s->parts.v[0]), where, &to->label);
  return rc == SP_E_NOMEM ? rd_no_memory(s->l) : rc ? no_label(s, where) : SP_OK;
}

static int take_labels(rd_shard_labels *s, const char *where, rd_sample *to) {
  char text[4096] = "";
  size_t at = 0;
  for (size_t i = 0; i < s->parts.n; i++) {
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? APART : "", s->parts.v[i]);
    if (at >= sizeof text)
      return ctx_of(s)->host->fail(ctx_of(s), SP_E_DATA, "%s: labels of more than %zu bytes", where, sizeof text - 1);
  }
  int rc = rd_add_word(&s->j->cells, text, at, where, &to->label);
  if (rc == SP_E_DATA) return ctx_of(s)->host->fail(ctx_of(s), SP_E_DATA, "%s is no text of UTF-8", where);
  return rc ? rd_no_memory(s->l) : SP_OK;
}

/* One line may have several numbers. */
static int split_numbers(rd_shard_labels *s) {
  rd_names parts = {0};
  char *text = s->parts.n == 1 ? strdup(s->parts.v[0]) : NULL, *rest = text;
  int rc = SP_OK;
  if (s->parts.n != 1) return SP_OK;
  if (!text) return rd_no_memory(s->l);
  for (char *item; (item = strsep(&rest, " \t;"));)
    if (*item && rd_names_add(&parts, item)) rc = rd_no_memory(s->l);
  free(text);
  rd_names_free(&s->parts);
  s->parts = parts;
  return rc;
}

static int take_numbers(rd_shard_labels *s, const char *where, rd_sample *to) {
  rd_table *t = s->l->t;
  int rc = split_numbers(s);
  if (rc) return rc;
  int64_t n = (int64_t)s->parts.n;
  if (t->classes ? n != t->classes : n < 1 || n > RD_MOST_NUMBERS)
    return ctx_of(s)->host->fail(ctx_of(s), SP_E_DATA, "%s has %" PRId64 " numbers; %s%" PRId64 " %s expected", where,
                                 n, t->classes ? "" : "1 to ", t->classes ? t->classes : RD_MOST_NUMBERS,
                                 t->classes == 1 ? "is" : "are");
  if (!t->classes && (rc = rd_name_values(s->l, s->home, where, "value", n))) return rc;
  t->classes = n;
  to->cells = (rd_cells){.at = t->n_cells, .n = (uint32_t)n};
  for (int64_t i = 0; !rc && i < n; i++) {
    float v;
    if (!rd_read_number(s->parts.v[i], &v))
      return ctx_of(s)->host->fail(ctx_of(s), SP_E_DATA,
                                   "%s: \"%.80s\" is no number; write 1234.5, one a line, or a list as JSON has it",
                                   where, s->parts.v[i]);
    rc = rd_add_number(s->l, v);
  }
  return rc;
}

/* ---- folders ---- */
/* Parts, and images beside masks, are no classes. */
static int is_class(const char *folder) {
  rd_folder_name n = rd_read_folder_name(folder);
  return !n.part && !n.kind;
}

int rd_take_shard_folder(rd_shard_labels *s, const char *where, const char *member, rd_sample *to) {
  char folder[4096], *name;
  if (s->of_files || s->l->p->target != RD_TARGET_CLASS) return 1;
  while (!strncmp(member, "./", 2)) member += 2;
  snprintf(folder, sizeof folder, "%s", member);
  if (!(name = strrchr(folder, '/'))) return 1;
  *name = 0;
  name = strrchr(folder, '/');
  if (name) *name++ = 0;
  else name = memmove(folder + 1, folder, strlen(folder) + 1), *folder = 0;
  if (!s->within && !(s->within = strdup(folder))) return rd_no_memory(s->l);
  if (strcmp(s->within, folder) != 0 || !is_class(name)) return 1;
  if (!s->words.as_names)
    rd_note(s->l, "no labels are there, so the folders are the classes, such as %s of %s", name, member);
  s->words.as_names = 1;
  return rd_add_word(&s->words, name, strlen(name), where, &to->label) ? no_label(s, where) : SP_OK;
}

/* ---- a label ---- */
int rd_take_shard_label(rd_shard_labels *s, const char *where, const char *text, size_t n, int is_json, rd_sample *to) {
  int target = s->l->p->target, rc;
  if (s->within)
    return ctx_of(s)->host->fail(ctx_of(s), SP_E_DATA,
                                 "%s is a label, and samples before it have none; pack all samples alike", where);
  s->of_files = 1;
  rd_names_clear(&s->parts);
  while (n && strchr(" \t\r\n", text[n - 1]) && text[n - 1]) n--;
  while (n && strchr(" \t\r\n", *text) && *text) text++, n--;
  if (memchr(text, 0, n)) return no_label(s, where);
  if (is_json || is_list(text, n)) rc = read_json(s, where, text, n);
  else rc = read_lines(s, text, n);
  if (rc) return rc;
  return target == RD_TARGET_CLASS    ? take_class(s, where, to)
         : target == RD_TARGET_LABELS ? take_labels(s, where, to)
                                      : take_numbers(s, where, to);
}

/* ---- all of them ---- */
/* Columns of numbers are called as the fields that they are from, where each has one. */
static int rename_numbers(rd_shard_labels *s) {
  rd_table *t = s->l->t;
  size_t size = 1;
  if (t->classes != (int64_t)s->fields.n || !t->class_names || strncmp(t->class_names, "value", 5)) return SP_OK;
  for (size_t i = 0; i < s->fields.n; i++) size += strlen(s->fields.v[i]) + 1;
  char *p = malloc(size), *at = p;
  if (!p) return rd_no_memory(s->l);
  for (size_t i = 0; i < s->fields.n; i++) at += sprintf(at, "%s%s", i ? "\n" : "", s->fields.v[i]);
  free(t->class_names);
  t->class_names = p;
  return SP_OK;
}

int rd_number_shard_labels(rd_shard_labels *s,
                           void (*stem)(const rd_table *t, const rd_sample *s, char *to, size_t size)) {
  rd_table *t = s->l->t;
  int rc = SP_OK;
  if (t->gives == RD_LABEL) return rd_number_words(s->l, s->home, &s->words, stem);
  if (t->gives == RD_NUMBERS) rc = rename_numbers(s);
  if (t->gives == RD_NUMBERS) return rc ? rc : rd_note_constant(s->l);
  if (t->gives != RD_LABELS) return SP_OK;
  if (s->listed) s->j->apart = *APART;
  return rd_csv_number_cells(s->j);
}
