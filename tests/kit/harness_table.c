/* SPDX-License-Identifier: MIT
 * harness_table.c - parameter tables of tests, written as Lua writes them: { classes = 10, layers = { { "conv",
 * 64 } } }. */
#include "harness.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
  const char *text, *p;
  sp_err *err;
  int depth;
} parser;

static int bad(parser *s, const char *what) {
  return sp_fail(s->err, SP_E_FORMAT, "test table, at character %d: %s", (int)(s->p - s->text) + 1, what);
}

static void skip_space(parser *s) {
  while (isspace((unsigned char)*s->p)) s->p++;
}

static bool name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

static int parse_value(parser *s, sp_value *v);

static int parse_string(parser *s, sp_value *v) {
  char quote = *s->p++;
  const char *end = strchr(s->p, quote);
  if (!end) return bad(s, "string without end");
  char *copy = malloc((size_t)(end - s->p) + 1);
  if (!copy) return sp_nomem(s->err, (size_t)(end - s->p), "a test table");
  memcpy(copy, s->p, (size_t)(end - s->p));
  copy[end - s->p] = 0;
  bool ok = sp_value_set_str(v, copy);
  free(copy);
  if (!ok) return sp_nomem(s->err, 0, "a test table");
  s->p = end + 1;
  return SP_OK;
}

static int parse_number(parser *s, sp_value *v) {
  char *end_i, *end_d;
  errno = 0;
  long long i = strtoll(s->p, &end_i, 10);
  bool fits = errno == 0;
  double d = strtod(s->p, &end_d);
  if (end_d == s->p) return bad(s, "a value was expected");
  if (end_i == end_d && fits) *v = (sp_value){.type = SP_V_INT, .i = i, .d = (double)i};
  else *v = (sp_value){.type = SP_V_NUM, .d = d};
  s->p = end_d;
  return SP_OK;
}

/* The key of `key = value`, or false where the text is a plain item. */
static bool take_key(parser *s, char *key, size_t cap) {
  const char *e = s->p;
  size_t n;
  if (!isalpha((unsigned char)*e) && *e != '_') return false;
  while (name_char(*e)) e++;
  n = (size_t)(e - s->p);
  while (isspace((unsigned char)*e)) e++;
  if (*e != '=' || n >= cap) return false;
  memcpy(key, s->p, n);
  key[n] = 0;
  s->p = e + 1;
  return true;
}

static int parse_table(parser *s, sp_value *v) {
  char key[128];
  if (++s->depth > 16) return bad(s, "nested too deeply");
  *v = (sp_value){.type = SP_V_TABLE};
  s->p++;
  for (;;) {
    skip_space(s);
    if (*s->p == '}') break;
    sp_value *slot = take_key(s, key, sizeof key) ? sp_value_put(v, key) : sp_value_push(v);
    if (!slot) return sp_nomem(s->err, 0, "a test table");
    int rc = parse_value(s, slot);
    if (rc) return rc;
    skip_space(s);
    if (*s->p == ',' || *s->p == ';') s->p++;
    else if (*s->p != '}') return bad(s, "'}' or ',' was expected");
  }
  s->p++;
  s->depth--;
  return SP_OK;
}

static int parse_value(parser *s, sp_value *v) {
  skip_space(s);
  if (*s->p == '{') return parse_table(s, v);
  if (*s->p == '"' || *s->p == '\'') return parse_string(s, v);
  static const struct {
    const char *word;
    sp_vtype type;
    int64_t i;
  } words[] = {{"true", SP_V_BOOL, 1}, {"false", SP_V_BOOL, 0}, {"nil", SP_V_NIL, 0}};
  for (size_t i = 0; i < SP_ARRAY(words); i++) {
    size_t n = strlen(words[i].word);
    if (strncmp(s->p, words[i].word, n) || name_char(s->p[n])) continue;
    *v = (sp_value){.type = words[i].type, .i = words[i].i};
    s->p += n;
    return SP_OK;
  }
  return parse_number(s, v);
}

int spt_table(sp_value *v, const char *text, sp_err *err) {
  parser s = {text, text, err, 0};
  *v = (sp_value){.type = SP_V_NIL};
  int rc = parse_value(&s, v);
  skip_space(&s);
  if (!rc && *s.p) rc = bad(&s, "text after the end");
  if (!rc && v->type != SP_V_TABLE) rc = bad(&s, "not a table");
  if (rc) sp_value_free(v);
  return rc;
}
