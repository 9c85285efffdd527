/* SPDX-License-Identifier: MIT
 * word_check.c - labels that may be read in two ways: that there is none, several in one, names that differ by case
 * alone. */
#include "words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- words ---- */
int rd_is_missing(const char *cell) {
  static const char *const none[] = {"",  "nan", "na", "n/a",  "null", "none", "nil",
                                     "-", "--",  "?",  "#n/a", "<na>", "nat",  NULL};
  for (const char *const *p = none; *p; p++)
    if (!strcasecmp(*p, cell)) return 1;
  return 0;
}

int rd_is_whole(const char *word, int64_t *v) {
  const char *p = word + (*word == '-' || *word == '+');
  size_t n = strspn(p, "0123456789");
  if (!n || n > 18) return 0;
  const char *end = p + n;
  if (*end == '.') end += 1 + strspn(end + 1, "0");
  if (*end) return 0;
  *v = strtoll(word, NULL, 10);
  return 1;
}

/* The next letter of UTF-8 in its plain form: in lower case, without an accent; blanks and '_' are one blank. 0: an
 * accent by itself. */
static unsigned next_letter(const char **at) {
  static const char bare[] = "aaaaaa?ceeeeiiii?nooooo?ouuuuy?saaaaaa?ceeeeiiii?nooooo?ouuuuy?y"; /* from U+00C0 */
  const unsigned char *p = (const unsigned char *)*at;
  unsigned c = *p;
  size_t n = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < n; i++) c = p[i] ? c << 6 | (p[i] & 0x3F) : c;
  if (n == 2) c &= 0x7FF;
  else if (n == 3) c &= 0xFFFF;
  else if (n == 4) c &= 0x1FFFFF;
  *at += n;
  if (n == 1) return isspace((int)c) || c == '_' ? ' ' : (unsigned)tolower((int)c);
  if (c >= 0xC0 && c <= 0xFF && bare[c - 0xC0] != '?') return (unsigned char)bare[c - 0xC0];
  if ((c >= 0xC0 && c <= 0xDE) || (c >= 0x391 && c <= 0x3A9) || (c >= 0x410 && c <= 0x42F)) return c + 32;
  if (c >= 0x400 && c <= 0x40F) return c + 80;
  if (c >= 0x100 && c <= 0x17F) return c | 1;
  return c >= 0x300 && c <= 0x36F ? 0 : c;
}

static void plain(const char *word, char to[1024]) {
  size_t n = 0;
  while (*word && n < 1020) {
    unsigned c = next_letter(&word);
    if (!c || (c == ' ' && (!n || to[n - 1] == ' '))) continue;
    for (int shift = c < 0x100 ? 0 : c < 0x10000 ? 8 : 16; shift >= 0; shift -= 8)
      to[n++] = (char)(c >> shift & 0xFF ? c >> shift & 0xFF : 1);
  }
  while (n && to[n - 1] == ' ') n--;
  to[n] = 0;
}

int rd_is_alike(const char *a, const char *b) {
  char x[1024], y[1024];
  plain(a, x);
  plain(b, y);
  return !strcmp(x, y);
}

/* ---- no label ---- */
static int ask_missing(rd_listing *l, const rd_words *w, size_t i) {
  return l->ctx->host->fail(
      l->ctx, SP_E_DATA,
      "%s: the label is \"%s\": that there is none, or the name of a class? `missing = \"skip\"` leaves such samples "
      "out, `missing = \"class\"` makes it a class",
      w->places.v[i], w->words.names.v[i]);
}

/* ---- several in one ---- */
static int ask_several(rd_listing *l, const rd_words *w, size_t i) {
  int blanks = !strpbrk(w->words.names.v[i], "|;,/+&[{(") && !*l->p->csv.label_separator;
  return l->ctx->host->fail(
      l->ctx, SP_E_DATA,
      "%s: the label is \"%.100s\": several labels, or the name of one class? `target = \"labels\"`%s reads several, "
      "`cells = \"name\"` one",
      w->places.v[i], w->words.names.v[i], blanks ? " with `label_separator = \" \"`" : "");
}

static int is_bracketed(const char *s) {
  size_t n = strlen(s);
  return n >= 2 && ((*s == '[' && s[n - 1] == ']') || (*s == '{' && s[n - 1] == '}') || (*s == '(' && s[n - 1] == ')'));
}

/* At least two labels between signs, all of which are labels of other samples, too. shared: or stand in several words:
 * counts of their numbers in `parts`. */
static int splits_into_known(const rd_words *w, const char *word, char sign, rd_numbered *parts, const uint32_t *uses) {
  char part[256];
  int n = 0;
  for (const char *p = word; *p; n++) {
    size_t len = sign == ' ' ? strcspn(p, " ") : strcspn(p, (char[]){sign, 0});
    const char *a = p, *b = p + len;
    while (a < b && *a == ' ') a++;
    while (b > a && b[-1] == ' ') b--;
    if (a == b || b - a >= (long)sizeof part) return 0;
    snprintf(part, sizeof part, "%.*s", (int)(b - a), a);
    int known = rd_has_number(&w->words, part) || (uses && uses[rd_number_of(parts, part)] > 1);
    if (!known) return 0;
    p += len + (p[len] != 0);
    p += strspn(p, " ");
  }
  return n > 1;
}

/* How many words have each part between these signs. NULL: no memory. */
static uint32_t *count_parts(const rd_words *w, rd_numbered *parts, char sign) {
  size_t all = 1;
  for (size_t i = 0; i < w->words.names.n; i++)
    for (const char *p = w->words.names.v[i]; *p; p++) all += *p == sign || !p[1];
  uint32_t *uses = calloc(all + 1, sizeof *uses);
  char part[256];
  for (size_t i = 0; uses && i < w->words.names.n; i++) {
    const char *word = w->words.names.v[i];
    if (!strchr(word, sign)) continue;
    for (const char *p = word; *p;) {
      size_t len = strcspn(p, (char[]){sign, 0});
      const char *a = p, *b = p + len;
      while (a < b && *a == ' ') a++;
      while (b > a && b[-1] == ' ') b--;
      snprintf(part, sizeof part, "%.*s", b - a < 255 ? (int)(b - a) : 255, a);
      int64_t id = rd_number_of(parts, part);
      if (id >= 0 && (size_t)id < all) uses[id]++;
      p += len + (p[len] != 0);
    }
  }
  return uses;
}

/* The first word with that sign all of whose parts stand in other words, too; n: there is none. all: only where that is
 * so of every word with the sign, since a class may be a black tern beside a least tern. */
static size_t find_shared(const rd_words *w, char sign, int all, int (*is_known)(void *arg, const char *word),
                          void *arg) {
  size_t n = w->words.names.n, found = n, signed_ones = 0;
  rd_numbered parts = {0};
  uint32_t *uses = count_parts(w, &parts, sign);
  for (size_t i = 0; uses && i < n && (all || found == n); i++) {
    const char *word = w->words.names.v[i];
    if (!strchr(word, sign)) continue;
    signed_ones++;
    if (!is_known(arg, word) && splits_into_known(w, word, sign, &parts, uses)) {
      if (found == n) found = i;
    } else if (all) {
      found = n;
      break;
    }
  }
  free(uses);
  rd_numbered_free(&parts);
  return all && signed_ones < 3 ? n : found; /* two may be one name that is written in two ways */
}

/* The first word that may be several labels; n: there is none. */
static size_t find_several(const rd_words *w, int (*is_known)(void *arg, const char *word), void *arg) {
  static const char signs[] = " /+&";
  size_t n = w->words.names.n, found = n;
  int has[sizeof signs] = {0}; /* the last: commas */
  for (size_t i = 0; i < n && found == n; i++) {
    const char *word = w->words.names.v[i];
    if (is_known(arg, word)) continue;
    has[sizeof signs - 1] |= strchr(word, ',') != NULL;
    const char *sign = strpbrk(word, "|;");
    if ((sign && sign > word && sign[1]) || is_bracketed(word)) found = i;
    for (size_t k = 0; signs[k] && found == n; k++) {
      if (!strchr(word, signs[k])) continue;
      has[k] = 1;
      if (splits_into_known(w, word, signs[k], NULL, NULL)) found = i;
    }
  }
  if (found == n && has[sizeof signs - 1]) found = find_shared(w, ',', 0, is_known, arg);
  for (size_t k = 0; signs[k] && found == n; k++)
    if (has[k]) found = find_shared(w, signs[k], 1, is_known, arg);
  return found;
}

/* ---- by case alone ---- */
static int ask_case(rd_listing *l, const rd_words *w, size_t a, size_t b) {
  return l->ctx->host->fail(
      l->ctx, SP_E_DATA,
      "%s: the label \"%s\" differs from \"%s\" (%s) by case, blanks or accents alone: one class or two? `label_case "
      "= \"ignore\"` or `label_case = \"keep\"`",
      w->places.v[b], w->words.names.v[b], w->words.names.v[a], w->places.v[a]);
}

static int check_case(rd_listing *l, const rd_words *w, int (*is_known)(void *arg, const char *word), void *arg,
                      int64_t *alias) {
  rd_numbered forms = {0};
  size_t n = w->words.names.n, merged = 0, one = 0;
  uint32_t *first = calloc(n + 1, sizeof *first); /* of each form 1 + the word that it was first */
  int rc = first ? SP_OK : rd_no_memory(l), how = l->p->csv.label_case;
  char form[1024];
  for (int listed = 1; listed >= 0; listed--) /* those of a list of classes first: others stand for them */
    for (size_t i = 0; !rc && i < n; i++) {
      const char *word = w->words.names.v[i];
      if (alias[i] < 0 || !!is_known(arg, word) != listed) continue;
      plain(word, form);
      int64_t id = rd_number_of(&forms, form);
      if (id < 0) rc = rd_no_memory(l);
      else if (!first[id]) first[id] = (uint32_t)i + 1;
      else if (listed) continue;
      else if (how == RD_CASE_ASK) rc = ask_case(l, w, first[id] - 1, i);
      else {
        alias[i] = first[id] - 1;
        if (!merged++) one = i;
      }
    }
  if (!rc && merged)
    rd_note(l, "%zu label%s read as another that differs by case, blanks or accents alone: %s as %s", merged,
            merged == 1 ? " is" : "s are", w->words.names.v[one], w->words.names.v[alias[one]]);
  free(first);
  rd_numbered_free(&forms);
  return rc;
}

int rd_find_alike(const char *names, char a[256], char b[256]) {
  rd_numbered forms = {0};
  rd_names first = {0};
  char form[1024];
  int found = 0;
  for (const char *p = names; p && *p && !found; p += strcspn(p, "\n"), p += *p == '\n') {
    snprintf(b, 256, "%.*s", (int)strcspn(p, "\n"), p);
    plain(b, form);
    int64_t id = rd_number_of(&forms, form);
    if (id < 0) break;
    found = id < (int64_t)first.n;
    if (found) snprintf(a, 256, "%.255s", first.v[id]);
    else if (rd_names_add(&first, b)) break;
  }
  rd_names_free(&first);
  rd_numbered_free(&forms);
  return found;
}

/* ---- all of it ---- */
int rd_judge_words(rd_listing *l, const rd_words *w, int (*is_known)(void *arg, const char *word), void *arg,
                   int64_t *alias) {
  size_t n = w->words.names.n;
  int one = l->t->gives == RD_LABEL && !w->as_given;
  for (size_t i = 0; i < n; i++) {
    const char *word = w->words.names.v[i];
    alias[i] = (int64_t)i;
    if (w->as_given || !rd_is_missing(word) || is_known(arg, word) || l->p->csv.missing == RD_MISSING_CLASS) continue;
    if (one && l->p->csv.missing == RD_MISSING_ASK) return ask_missing(l, w, i);
    alias[i] = -1;
  }
  if (one && l->p->csv.cells != RD_CELLS_NAME) {
    size_t i = find_several(w, is_known, arg);
    if (i < n) return ask_several(l, w, i);
  }
  return l->p->csv.label_case == RD_CASE_KEEP ? SP_OK : check_case(l, w, is_known, arg, alias);
}
