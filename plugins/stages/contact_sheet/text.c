/* SPDX-License-Identifier: MIT
 * text.c - the words of a contact sheet: captions made of numbers, and lines that fit a width. */
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- characters and lines ---- */
static uint32_t decode(const char **s) {
  const unsigned char *p = (const unsigned char *)*s;
  uint32_t code = p[0];
  int more = code >= 0xf0 && code < 0xf8 ? 3 : code >= 0xe0 && code < 0xf0 ? 2 : code >= 0xc0 && code < 0xe0 ? 1 : 0;
  if (!code) return 0;
  *s += 1;
  if (code < 0x80) return code;
  if (!more) return 0xfffd;
  code &= 0x3fu >> more;
  for (int i = 1; i <= more; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0xfffd; /* also where the text ends */
    code = code << 6 | (p[i] & 0x3f);
  }
  *s += more;
  return code;
}

uint32_t cs_next(const char **s) {
  uint32_t code = decode(s);
  const char *p = *s;
  for (uint32_t mark = decode(&p); mark >= 0x300 && mark <= 0x36f; mark = decode(&p)) *s = p;
  return code;
}

/* A line breaks at its last blank, else behind its last mark that joins words, as in names of files. */
size_t cs_take_line(const char **s, int width) {
  const char *begin = *s, *at = begin, *blank = NULL, *mark = NULL, *end;
  int n = 0;
  for (;; n++) {
    const char *here = at;
    uint32_t code = cs_next(&at);
    end = here;
    if (!code || code == '\n') break;
    if (code == ' ') blank = here;
    if (n < width && strchr("_-/", (int)code)) mark = at;
    if (n < width) continue;
    if (blank && blank > begin) end = blank;
    else if (mark) end = mark;
    break;
  }
  *s = end;
  while (**s == ' ') ++*s;
  if (**s == '\n') ++*s;
  return (size_t)(end - begin);
}

int cs_longest_word(const char *s) {
  int most = 0, n = 0;
  for (uint32_t code; (code = cs_next(&s));) {
    n = code == ' ' || code == '\n' ? 0 : n + 1;
    if (n > most) most = n;
  }
  return most;
}

int cs_count_lines(const char *s, int width) {
  int n = 0;
  for (; *s; n++) cs_take_line(&s, width);
  return n;
}

/* ---- captions ---- */
/* What stands between { and }. */
typedef struct field {
  const char *words; /* a|b|c, or NULL: a number */
  size_t n;
  int sign, digits; /* digits -1: as many as there are */
} field;

/* *s is behind the {; it moves behind the }. 0: that is no field. */
static int take_field(const char **s, field *f) {
  const char *end = strchr(*s, '}'), *p = *s;
  if (!end) return 0;
  *f = (field){.words = NULL, .n = (size_t)(end - p), .sign = *p == '+', .digits = -1};
  *s = end + 1;
  if (memchr(p, '{', f->n)) return 0;
  if (memchr(p, '|', f->n)) {
    f->words = p;
    return 1;
  }
  p += f->sign;
  if (p == end) return 1;
  if (end - p != 2 || p[0] != '.' || p[1] < '0' || p[1] > '9') return 0;
  f->digits = p[1] - '0';
  return 1;
}

const char *cs_check_caption(const char *text, int64_t columns) {
  int64_t n = 0;
  if (!*text) return "it is empty";
  if (strlen(text) >= CS_WORDS / 2) return "it is too long; 255 bytes are possible";
  for (field f; *text;) {
    if (*text == '}') return "there is a } without a {";
    if (*text++ != '{') continue;
    if (!take_field(&text, &f)) return "between { and } nothing, .DIGITS, +.DIGITS or WORD|WORD is expected";
    n++;
  }
  return n > columns ? "it has more {} than the tensor has numbers in a row" : NULL;
}

static int64_t whole_at(const sp_tensor *t, int64_t i) {
  switch (t->spec.dtype) {
    case SP_U8: return ((const uint8_t *)t->data)[i];
    case SP_I32: return ((const int32_t *)t->data)[i];
    default: return ((const int64_t *)t->data)[i];
  }
}

/* No word is meant by 1.5, or by a number that is none. */
static int word_of(const field *f, double v, const char **word) {
  const char *p = f->words, *end = f->words + f->n;
  if (!(v >= 0 && v < CS_WORDS) || v != floor(v)) return -1;
  for (int64_t skip = (int64_t)v; skip > 0; skip--) {
    p = memchr(p, '|', (size_t)(end - p));
    if (!p++) return -1;
  }
  const char *bar = memchr(p, '|', (size_t)(end - p));
  *word = p;
  return (int)((bar ? bar : end) - p);
}

static int longest_word(const field *f, const char **word) {
  const char *one;
  int best = 0, n;
  for (int i = 0; (n = word_of(f, i, &one)) >= 0; i++)
    if (n >= best) {
      best = n;
      *word = one;
    }
  return best;
}

static void write_number(const field *f, double v, char *out, size_t cap) {
  if (v != v) {
    snprintf(out, cap, "nan"); /* printf would tell apart two kinds */
  } else if (f->digits >= 0 && fabs(v) < 1e9) {
    snprintf(out, cap, f->sign ? "%+.*f" : "%.*f", f->digits, v);
    /* what rounds to 0 has no sign, but a + where one is asked for */
    if (out[0] == '-' && !strpbrk(out, "123456789")) {
      if (f->sign) out[0] = '+';
      else memmove(out, out + 1, strlen(out));
    }
  } else snprintf(out, cap, f->sign ? "%+.6g" : "%.6g", v);
}

/* 1: a word that the next number says nothing of, as WORD! has it. */
static int write_field(const field *f, const sp_tensor *t, int64_t i, char *out, size_t cap) {
  static const char usual[] = "-00.000000000";
  const char *word = "";
  int n;
  if (!t) {
    if (f->words) n = longest_word(f, &word);
    else n = f->digits > 0 ? 4 + f->digits : 4, word = usual;
    snprintf(out, cap, "%.*s", n, word);
    return 0;
  }
  int real = t->spec.dtype == SP_F32 || t->spec.dtype == SP_F64;
  double v = !real                     ? (double)whole_at(t, i)
             : t->spec.dtype == SP_F32 ? ((const float *)t->data)[i]
                                       : ((const double *)t->data)[i];
  if (f->words && (n = word_of(f, v, &word)) >= 0) {
    int alone = n && word[n - 1] == '!';
    snprintf(out, cap, "%.*s", n - alone, word);
    return alone;
  }
  if (!real && f->digits < 0) snprintf(out, cap, f->sign ? "%+" PRId64 : "%" PRId64, whole_at(t, i));
  else write_number(f, v, out, cap);
  return 0;
}

void cs_write_caption(const char *text, const sp_tensor *t, int64_t n, char out[CS_WORDS]) {
  int64_t i = t && t->spec.ndim > 1 ? n * t->spec.shape[1] : n;
  char *end = out + CS_WORDS - 1;
  while (*text && out < end) {
    field f;
    if (*text != '{') {
      *out++ = *text++;
      continue;
    }
    text++;
    if (!take_field(&text, &f)) break; /* cs_check_caption has seen that it is one */
    int alone = write_field(&f, t, i++, out, (size_t)(end - out) + 1);
    out += strlen(out);
    const char *next = alone ? strchr(text, '{') : NULL;
    if (next && take_field(&(const char *){next + 1}, &f)) {
      text = strchr(next, '}') + 1;
      i++;
    }
  }
  *out = 0;
}
