/* SPDX-License-Identifier: MIT
 * one_folder.c - two images a sample that lie in one folder: the parameter second_name says by which part of their
 * names the first and the second are told apart, as "_pre=_post". */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mask_names.h"
#include "pairs.h"
#include "two_names.h"

/* What names of first images have, and names of second ones instead; one of them may be "". */
typedef struct parts {
  char of[2][64];
} parts;

static int take_parts(rd_listing *l, parts *p) {
  const char *text = l->p->second_name, *equals = strchr(text, '=');
  size_t n = equals ? (size_t)(equals - text) : 0;
  if (equals && n < 64 && strlen(equals + 1) < 64) {
    snprintf(p->of[0], 64, "%.*s", (int)n, text);
    snprintf(p->of[1], 64, "%s", equals + 1);
    if (strcmp(p->of[0], p->of[1]) != 0) return SP_OK;
  }
  return l->ctx->host->fail(
      l->ctx, SP_E_INVALID,
      "second_name = \"%s\": what the names of first images have, and those of second ones instead, is "
      "wanted, such as \"_pre=_post\"",
      text);
}

/* ---- names ---- */
static long last_of(const char *stem, const char *part) {
  long at = -1;
  for (const char *p = stem; *part && (p = strstr(p, part)); p++) at = p - stem;
  return at;
}

static void stem_of(const char *name, char to[NAME_MAX + 1]) {
  snprintf(to, NAME_MAX + 1, "%.*s", (int)rd_stem_length(name), name);
}

/* 0: a first image, 1: a second one, -1: neither. */
static int which(const parts *p, const char *name) {
  char stem[NAME_MAX + 1];
  stem_of(name, stem);
  long at[2] = {last_of(stem, p->of[0]), last_of(stem, p->of[1])};
  if (at[0] < 0 && at[1] < 0) return !*p->of[0] ? 0 : !*p->of[1] ? 1 : -1;
  return at[1] > at[0] || (at[1] == at[0] && strlen(p->of[1]) > strlen(p->of[0]));
}

/* The stem of `name` with `to` instead of the last `from`. */
static int other_stem(const char *name, const char *from, const char *to, char out[NAME_MAX + 1]) {
  char stem[NAME_MAX + 1];
  stem_of(name, stem);
  long at = *from ? last_of(stem, from) : (long)strlen(stem);
  return at >= 0 && snprintf(out, NAME_MAX + 1, "%.*s%s%s", (int)at, stem, to, stem + at + strlen(from)) <= NAME_MAX &&
         *out;
}

static const char *find(const rd_names *names, const char *name, const char *from, const char *to) {
  char stem[NAME_MAX + 1];
  char **found = other_stem(name, from, to, stem) ? rd_find_stem(names, stem) : NULL;
  return found ? *found : NULL;
}

/* ---- first and second ---- */
typedef struct twos {
  rd_names first, second; /* sorted by stem */
  const char **of;        /* of each of `first` its second */
} twos;

static int divide(rd_listing *l, const char *where, const rd_names *images, const parts *p, twos *t) {
  size_t n[2] = {0, 0}, missing = 0, lone = 0;
  const char *odd[2] = {"", ""}, *without = "", *alone = "";
  t->of = calloc(images->n + 1, sizeof *t->of);
  int rc = t->of ? SP_OK : rd_no_memory(l);
  for (size_t i = 0; !rc && i < images->n; i++) {
    const char *name = images->v[i], *other;
    int k = which(p, name);
    if (k < 0 && !n[0]++) odd[0] = name;
    if (k < 0) continue;
    n[1]++;
    other = find(images, name, p->of[k], p->of[!k]);
    if (other && which(p, other) != !k) other = NULL;
    if (k && !other && !lone++) alone = name;
    if (!k && !other && !missing++) without = name;
    if (!other) continue;
    if (!k) t->of[t->first.n] = other;
    if (rd_names_add(k ? &t->second : &t->first, name)) rc = rd_no_memory(l);
  }
  const char *text = l->p->second_name;
  if (!rc && !t->first.n && !missing)
    return l->ctx->host->fail(l->ctx, SP_E_DATA,
                              "second_name = \"%s\": no image in %s has \"%s\" in its name; the first one there is %s",
                              text, where, p->of[0], images->v[0]);
  if (!rc && missing)
    return l->ctx->host->fail(l->ctx, SP_E_DATA,
                              "%s/%s has no second image by second_name = \"%s\"; %zu of %zu first images have none; "
                              "take them out, or add those",
                              where, without, text, missing, missing + t->first.n);
  if (lone)
    rd_note(l, "%zu second image%s in %s, such as %s, %s no first one and %s left out", lone, lone == 1 ? "" : "s",
            where, alone, lone == 1 ? "has" : "have", lone == 1 ? "is" : "are");
  if (n[0])
    rd_note(l, "%zu image%s in %s, such as %s, %s neither by second_name = \"%s\" and %s left out", n[0],
            n[0] == 1 ? "" : "s", where, odd[0], n[0] == 1 ? "is" : "are", text, n[0] == 1 ? "is" : "are");
  return rc;
}

/* ---- masks ---- */
/* What the stem of a mask has behind that of an image; NULL: it does not begin so. */
static const char *behind(const char *mask, const char *image) {
  size_t n = rd_stem_length(image);
  if (strncmp(mask, image, n) || isalnum((unsigned char)mask[n])) return NULL;
  return mask + n;
}

/* The first mask whose name begins as the image's does, and not as `other`, which may begin so too. */
static const char *mask_behind(const rd_names *masks, const char *image, const char *other) {
  size_t longer = rd_stem_length(other) > rd_stem_length(image);
  for (size_t i = 0; i < masks->n; i++)
    if (behind(masks->v[i], image) && !(longer && behind(masks->v[i], other))) return masks->v[i];
  return NULL;
}

static int ask(rd_listing *l, const char *where, const parts *p, const char *image, const char *const of[2]) {
  char stem[NAME_MAX + 1], side[2][3 * NAME_MAX], back[2][64];
  stem_of(image, stem);
  long at = *p->of[0] ? last_of(stem, p->of[0]) : (long)strlen(stem);
  const char *tail = stem + at + strlen(p->of[0]), *second = l->p->second_name;
  for (int k = 0; k < 2; k++) {
    size_t n = rd_stem_length(of[k]), used = (size_t)at + strlen(p->of[k]) + strlen(tail);
    snprintf(back[k], sizeof back[k], "%.*s", (int)(n > used ? n - used : 0), of[k] + (n > used ? used : 0));
    snprintf(side[k], sizeof side[k], "*%s%s%s", p->of[k], tail, back[k]);
  }
  return l->ctx->host->fail(
      l->ctx, SP_E_DATA,
      "by second_name = \"%s\" the first image of a sample has a mask, %s/%s, and so has the second, %s; "
      "say which are meant: `mask_name = \"*%s%s=%s\"` or `mask_name = \"*%s%s=%s\"`",
      second, where, of[0], of[1], p->of[0], tail, side[0], p->of[0], tail, side[1]);
}

/* Masks of the second images, in the order of the first. */
static int match_second(rd_listing *l, const char *const where[2], const twos *t, const rd_names *masks,
                        const char **out) {
  const char **of = calloc(t->second.n + 1, sizeof *of);
  int rc = of ? rd_match_masks(l, where, &t->second, masks, of) : rd_no_memory(l);
  for (size_t i = 0; !rc && i < t->first.n; i++) {
    char stem[NAME_MAX + 1];
    stem_of(t->of[i], stem);
    out[i] = of[rd_find_stem(&t->second, stem) - t->second.v];
  }
  free(of);
  return rc;
}

static int match(rd_listing *l, const char *const where[2], const twos *t, const parts *p, const rd_names *masks,
                 const char **out) {
  size_t bare = 0;
  if (*l->p->mask_name) return rd_match_masks(l, where, &t->first, masks, out);
  while (*p->of[0] && bare < t->first.n && (out[bare] = find(masks, t->first.v[bare], p->of[0], ""))) bare++;
  if (bare == t->first.n) return SP_OK;
  const char *first = t->first.v[0], *second = t->of[0];
  const char *const of[2] = {mask_behind(masks, first, second), mask_behind(masks, second, first)};
  if (of[0] && of[1]) return ask(l, where[1], p, first, of);
  return of[1] ? match_second(l, where, t, masks, out) : rd_match_masks(l, where, &t->first, masks, out);
}

/* ---- into the table ---- */
static int is_stereo(const parts *p) {
  for (int row = 0; row < rd_n_two_words; row++)
    if (rd_is_stereo(row) && rd_two_word(p->of[0], strlen(p->of[0]), row) == RD_TWO_FIRST &&
        rd_two_word(p->of[1], strlen(p->of[1]), row) == RD_TWO_SECOND)
      return 1;
  return 0;
}

static int add_all(rd_listing *l, const char *const where[2], const twos *t, const char *const *masks) {
  uint32_t source[2];
  int rc = SP_OK;
  for (int k = 0; !rc && k < 2; k++) rc = rd_add_source(l->t, RD_FILES, where[k], &source[k]) ? rd_no_memory(l) : SP_OK;
  for (size_t i = 0; !rc && i < t->first.n; i++) {
    if ((rc = rd_check_ending(l, where, t->first.v[i], masks[i]))) break;
    rd_ref *second = rd_add_pair(l->t, source[0], source[1], t->first.v[i], masks[i]) ? NULL : rd_add_second(l->t);
    if (!second || rd_set_file(l->t, second, source[0], t->of[i], strlen(t->of[i]))) rc = rd_no_memory(l);
  }
  return rc;
}

int rd_add_twos(rd_listing *l, const char *const where[2], const rd_names *images, const rd_names *masks) {
  parts p;
  twos t = {{0}, {0}, NULL};
  const char **of = NULL;
  int rc = take_parts(l, &p);
  if (!rc) rc = divide(l, where[0], images, &p, &t);
  if (!rc && !(of = calloc(t.first.n + 1, sizeof *of))) rc = rd_no_memory(l);
  if (!rc) rc = match(l, where, &t, &p, masks, of);
  if (!rc) rc = add_all(l, where, &t, of);
  if (!rc) {
    l->t->is_stereo = is_stereo(&p);
    rd_note(l, "two images a sample, such as %s and %s, whose %s is %s", t.first.v[0], t.of[0],
            l->p->target == RD_TARGET_MAP ? "map" : "mask", of[0]);
  }
  rd_names_free(&t.first);
  rd_names_free(&t.second);
  free(t.of);
  free(of);
  return rc;
}
