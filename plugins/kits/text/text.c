/* SPDX-License-Identifier: MIT
 * text.c - files of text in one form. */
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../what/what.h"

static int say(char why[TEXT_WHY], int status, const char *words) {
  snprintf(why, TEXT_WHY, "%s", words);
  return status;
}

void text_free(text_file *t) {
  free(t->p);
  *t = (text_file){NULL, 0};
}

void text_drop(text_file *t, size_t begin, size_t end) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), at = (size_t)((uintptr_t)t->p % page); /* whole pages within the block */
  size_t from = (at + begin + page - 1) / page * page, to = (at + end) / page * page;
  if (to > from) madvise(t->p + (from - at), to - from, MADV_DONTNEED);
}

/* ---- bytes ---- */
static int read_all(int fd, size_t want, text_file *t, char why[TEXT_WHY]) {
  if (!(t->p = malloc(want + 1))) return say(why, SP_E_NOMEM, "no memory to read it");
  while (t->n < want) {
    ssize_t n = read(fd, t->p + t->n, want - t->n);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return say(why, SP_E_IO, strerror(errno));
    if (!n) break;
    t->n += (size_t)n;
  }
  t->p[t->n] = 0;
  return SP_OK;
}

static int load(const char *path, size_t most, size_t head, text_file *t, char why[TEXT_WHY]) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), status;
  if (fd < 0) return errno == ENOENT ? SP_OK : say(why, SP_E_IO, strerror(errno));
  if (fstat(fd, &st)) status = say(why, SP_E_IO, strerror(errno));
  else if (!S_ISREG(st.st_mode)) status = say(why, SP_E_IO, "not a regular file");
  else if (!head && (uint64_t)st.st_size > most) {
    snprintf(why, TEXT_WHY, "it has %jd bytes, and may have %zu", (intmax_t)st.st_size, most);
    status = SP_E_DATA;
  } else {
    size_t size = (size_t)st.st_size;
    status = read_all(fd, head && head < size ? head : size, t, why);
  }
  close(fd);
  return status;
}

/* ---- encodings ---- */
enum { HIGH = 0xD800, LOW = 0xDC00, BEYOND = 0xE000 }; /* surrogates: halves of letters */

static uint32_t unit(const unsigned char *p, int big) {
  return big ? (uint32_t)p[0] << 8 | p[1] : p[0] | (uint32_t)p[1] << 8;
}

static char *put_letter(char *to, uint32_t c) {
  if (c < 0x80) {
    *to++ = (char)c;
    return to;
  }
  int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
  *to++ = (char)(first[more] | c >> 6 * more);
  while (more-- > 0) *to++ = (char)(0x80 | (c >> 6 * more & 0x3F));
  return to;
}

/* UTF-16 behind its mark. A letter takes 2 bytes and becomes 3 at most. */
static int widen(text_file *t, int big, char why[TEXT_WHY]) {
  const unsigned char *p = (const unsigned char *)t->p + 2, *end = (const unsigned char *)t->p + t->n;
  char *to = malloc(t->n / 2 * 3 + 1), *at = to;
  if (!to) return say(why, SP_E_NOMEM, "no memory to read it");
  for (; end - p >= 2; p += 2) {
    uint32_t c = unit(p, big);
    if (c >= HIGH && c < LOW && end - p >= 4 && unit(p + 2, big) >= LOW && unit(p + 2, big) < BEYOND) {
      c = 0x10000 + ((c - HIGH) << 10) + (unit(p + 2, big) - LOW);
      p += 2;
    } else if (c >= HIGH && c < BEYOND) {
      free(to);
      return say(why, SP_E_DATA, "it is UTF-16 with half of a letter; save it as UTF-8");
    }
    at = put_letter(at, c);
  }
  *at = 0;
  free(t->p);
  *t = (text_file){to, (size_t)(at - to)};
  return SP_OK;
}

static int take_mark(text_file *t, char why[TEXT_WHY]) {
  const unsigned char *p = (const unsigned char *)t->p;
  if (t->n >= 4 && (!memcmp(p, "\xFF\xFE\0\0", 4) || !memcmp(p, "\0\0\xFE\xFF", 4)))
    return say(why, SP_E_DATA, "it is UTF-32; save it as UTF-8");
  if (t->n >= 2 && p[0] + p[1] == 0xFF + 0xFE && (p[0] == 0xFF || p[0] == 0xFE)) return widen(t, p[0] == 0xFE, why);
  if (t->n < 3 || memcmp(p, "\xEF\xBB\xBF", 3)) return SP_OK;
  memmove(t->p, t->p + 3, t->n - 3 + 1);
  t->n -= 3;
  return SP_OK;
}

/* ---- lines ---- */
static void end_in_lf(text_file *t) {
  char *to = memchr(t->p, '\r', t->n), *end = t->p + t->n;
  if (!to) return;
  for (char *p = to; p < end; p++) {
    int is_cr = *p == '\r';
    *to++ = is_cr ? '\n' : *p;
    if (is_cr && p + 1 < end && p[1] == '\n') p++;
  }
  *to = 0;
  t->n = (size_t)(to - t->p);
}

static int check_kind(const text_file *t, char why[TEXT_WHY]) {
  char what[WHAT_WORDS];
  if (!t->n || !what_is(t->p, t->n, what) || !strncmp(what, "it is text", 10)) return SP_OK;
  snprintf(why, TEXT_WHY, "%s; text is wanted", what);
  return SP_E_DATA;
}

/* Bytes 0 are no text; those at the end are filling. */
static int check_zeros(text_file *t, char why[TEXT_WHY]) {
  int64_t line = 1;
  while (t->n && !t->p[t->n - 1]) t->n--;
  const char *zero = memchr(t->p, 0, t->n);
  if (!zero) return SP_OK;
  for (const char *p = t->p; p < zero; p++) line += *p == '\n';
  snprintf(why, TEXT_WHY, "line %" PRId64 ": a byte 0: this is no text, or UTF-16 without its mark; save it as UTF-8",
           line);
  return SP_E_DATA;
}

int text_read(const char *path, size_t most, size_t head, text_file *out, char why[TEXT_WHY]) {
  *out = (text_file){NULL, 0};
  *why = 0;
  int status = load(path, most, head, out, why);
  if (!status && !out->p) return SP_OK;
  if (!status) status = take_mark(out, why);
  if (!status) status = check_kind(out, why);
  if (!status) status = check_zeros(out, why);
  if (!status) end_in_lf(out);
  if (status) text_free(out);
  return status;
}

/* ---- letters ---- */
/* Bytes of the letter at p, of n that there are; 0: they are none. */
static size_t letter(const char *bytes, size_t n) {
  const unsigned char *p = (const unsigned char *)bytes;
  if (*p < 0x80) return 1;
  size_t more = *p >= 0xF0 ? 3 : *p >= 0xE0 ? 2 : 1;
  if (*p < 0xC2 || *p > 0xF4 || n <= more) return 0;
  for (size_t i = 1; i <= more; i++)
    if ((p[i] & 0xC0) != 0x80) return 0;
  if ((*p == 0xE0 && p[1] < 0xA0) || (*p == 0xED && p[1] > 0x9F) || (*p == 0xF0 && p[1] < 0x90) ||
      (*p == 0xF4 && p[1] > 0x8F))
    return 0;
  return 1 + more;
}

size_t text_wrong(const char *p, size_t n) {
  for (size_t at = 0, m; at < n; at += m)
    if (!(m = letter(p + at, n - at))) return at;
  return n;
}

/* ---- blanks ---- */
static const char *const blanks[] = {"\xC2\xA0",     "\xC2\x85",     "\xE2\x80\x80", "\xE2\x80\x81", "\xE2\x80\x82",
                                     "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86", "\xE2\x80\x87",
                                     "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\x8B", "\xE2\x80\x8E",
                                     "\xE2\x80\x8F", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F",
                                     "\xE2\x81\xA0", "\xE3\x80\x80", "\xEF\xBB\xBF"};

size_t text_blank(const char *p, size_t n) {
  if ((unsigned char)*p <= ' ') return 1;
  if ((unsigned char)*p < 0xC2) return 0;
  for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
    size_t m = strlen(blanks[i]);
    if (n >= m && !memcmp(p, blanks[i], m)) return m;
  }
  return 0;
}

static size_t blank_before(const char *p, size_t n) {
  for (size_t m = 1; m <= 3 && m <= n; m++)
    if (text_blank(p - m, m) == m) return m;
  return 0;
}

void text_trim(char **p, char **end) {
  size_t m;
  while (*p < *end && (m = text_blank(*p, (size_t)(*end - *p)))) *p += m;
  while (*end > *p && (m = blank_before(*end, (size_t)(*end - *p)))) *end -= m;
}

size_t text_plain_blanks(char *p, size_t n) {
  char *to = p;
  for (size_t at = 0, m; at < n; at += m) {
    m = (unsigned char)p[at] < 0x80 ? 0 : text_blank(p + at, n - at);
    *to++ = m ? ' ' : p[at];
    if (!m) m = 1;
  }
  return (size_t)(to - p);
}
