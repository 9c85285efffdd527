/* SPDX-License-Identifier: MIT
 * cure.c - see cure.h. */
#include "base/cure.h"

#include "base/text.h"
#include "base/util.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct own {
  struct own *next;
  char *param, *option;
} own;

static bool typed; /* the command line takes --set */
static own *owns;

void sp_cure_option(const char *param, const char *option) {
  typed = true;
  if (!param) return;
  own *o = sp_calloc(1, sizeof *o);
  if (!o) return;
  *o = (own){owns, sp_strdup(param), sp_strdup(option)};
  if (o->param && o->option) {
    owns = o;
    return;
  }
  free(o->param);
  free(o->option);
  free(o);
}

static const char *own_option(const char *stage, const char *name, size_t len) {
  size_t n = strlen(stage);
  for (const own *o = owns; o; o = o->next)
    if (!strncmp(o->param, stage, n) && o->param[n] == '.' && !strncmp(o->param + n + 1, name, len) &&
        !o->param[n + 1 + len])
      return o->option;
  return NULL;
}

/* What a shell would take apart is quoted. */
static void put_value(sp_sb *sb, const char *value, size_t len, const char *before) {
  bool plain = len > 0;
  for (size_t i = 0; i < len; i++) plain = plain && (isalnum((unsigned char)value[i]) || strchr("_-.,:/+=", value[i]));
  if (plain) {
    sp_sb_putf(sb, "%s%.*s", before, (int)len, value);
    return;
  }
  sp_sb_putf(sb, "'%s", before);
  for (size_t i = 0; i < len; i++) {
    if (value[i] == '\'') sp_sb_putf(sb, "'\\''");
    else sp_sb_putf(sb, "%c", value[i]);
  }
  sp_sb_putf(sb, "'");
}

/* "name = value" of `len` bytes; false: it is something else. */
static bool put_cure(sp_sb *sb, const char *stage, const char *cure, size_t len) {
  size_t name = 0;
  while (name < len && (isalnum((unsigned char)cure[name]) || cure[name] == '_')) name++;
  if (!name || len < name + 4 || memcmp(cure + name, " = ", 3)) return false;
  const char *value = cure + name + 3;
  size_t n = len - name - 3;
  sp_sb_putf(sb, "%.*s", (int)len, cure);
  if (!typed) return true;
  if (n > 1 && *value == '"' && value[n - 1] == '"') value++, n -= 2; /* a shell needs no quotes of Lua */
  const char *option = own_option(stage, cure, name);
  if (option && n == 5 && !memcmp(value, "false", 5)) {
    sp_sb_putf(sb, " (--no-%s)", option + 2);
  } else if (option && n == 4 && !memcmp(value, "true", 4)) {
    sp_sb_putf(sb, " (%s)", option);
  } else if (option) {
    sp_sb_putf(sb, " (%s ", option);
    put_value(sb, value, n, "");
    sp_sb_putf(sb, ")");
  } else {
    char before[160];
    snprintf(before, sizeof before, "%.70s.%.*s=", stage, (int)(name < 70 ? name : 70), cure);
    sp_sb_putf(sb, " (--set ");
    put_value(sb, value, n, before);
    sp_sb_putf(sb, ")");
  }
  return true;
}

void sp_cure_words(char *text, size_t size, const char *stage) {
  sp_sb sb = {0};
  const char *at = text;
  for (const char *open; (open = strchr(at, '`'));) {
    const char *end = strchr(open + 1, '`');
    if (!end) break;
    sp_sb_putf(&sb, "%.*s", (int)(open - at), at);
    if (!put_cure(&sb, stage, open + 1, (size_t)(end - open - 1))) sp_sb_putf(&sb, "%.*s", (int)(end + 1 - open), open);
    at = end + 1;
  }
  if (at != text && !sb.broken) {
    sp_sb_putf(&sb, "%s", at);
    if (!sb.broken) snprintf(text, size, "%s", sp_sb_str(&sb));
  }
  sp_sb_free(&sb);
}
