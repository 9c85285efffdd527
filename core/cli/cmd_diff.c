/* SPDX-License-Identifier: MIT
 * cmd_diff.c - spcore diff: where the bits of two runs with --checksums first differ. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cmd.h"

#define MAX_LINE (64u << 20)

/* As diff(1): 1 says that they differ, 2 that it could not tell. */
enum { SAME = 0, DIFFERENT = 1, TROUBLE = 2 };

typedef struct sum {
  const char *name, *hash; /* in the line's text; no hash: the run does not compute it */
} sum;

/* One side: the file and the step that was read last. */
typedef struct side {
  const char *run;
  char *path;
  FILE *file;
  uint64_t line;
  char *text;
  size_t cap;
  uint64_t step;
  sum *sums;
  size_t n, cap_sums;
  bool end, any; /* no more steps; there was one */
} side;

typedef struct tally {
  uint64_t steps, differing, only[2];
  size_t edges;    /* compared in a step */
  size_t alone[2]; /* computed by one run, which the other one knows and spares */
  bool begun, shown;
} tally;

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Reads a line without its newline; 0: the file is at its end, -1: failure. */
static int read_line(side *s, sp_err *err) {
  size_t n = 0;
  int c;
  while ((c = getc(s->file)) != EOF && c != '\n') {
    if (n + 1 >= MAX_LINE) {
      sp_fail(err, SP_E_FORMAT, "%s:%" PRIu64 ": a line of more than %u bytes", s->path, s->line + 1, MAX_LINE);
      return -1;
    }
    if (!sp_grow(&s->text, &s->cap, n + 2, 1)) return sp_nomem(err, n + 2, s->path), -1;
    s->text[n++] = (char)c;
  }
  if (ferror(s->file)) return sp_fail(err, SP_E_IO, "%s: %s", s->path, strerror(errno)), -1;
  if (c == EOF && n == 0) return 0;
  if (!s->text && !sp_grow(&s->text, &s->cap, 1, 1)) return sp_nomem(err, 1, s->path), -1;
  s->text[n] = 0;
  s->line++;
  return 1;
}

static bool take(char **p, const char *word) {
  size_t n = strlen(word);
  if (strncmp(*p, word, n) != 0) return false;
  *p += n;
  return true;
}

/* A string in quotes, ended in place. */
static char *take_string(char **p) {
  if (**p != '"') return NULL;
  char *begin = ++*p;
  for (; **p && **p != '"'; ++*p)
    if (**p == '\\' && (*p)[1]) ++*p;
  if (!**p) return NULL;
  *(*p)++ = 0;
  return begin;
}

/* {"step":12,"hashes":{"encoder.features":"0123456789abcdef","encoder.maps[1]":null,...}}. NULL, or what is wrong. */
static const char *parse(side *s, sp_err *err) {
  char *p = s->text;
  s->n = 0;
  if (!take(&p, "{\"step\":") || *p < '0' || *p > '9') return "no step";
  errno = 0;
  s->step = strtoull(p, &p, 10);
  if (errno) return "a step that is no number";
  if (!take(&p, ",\"hashes\":{")) return "no hashes";
  while (*p == '"' || (s->n && *p == ',')) {
    if (*p == ',') p++;
    char *name = take_string(&p), *hash = NULL;
    if (!name || !take(&p, ":") || (!take(&p, "null") && !(hash = take_string(&p)))) return "a broken hash";
    if (!sp_grow(&s->sums, &s->cap_sums, s->n + 1, sizeof *s->sums)) {
      sp_nomem(err, (s->n + 1) * sizeof *s->sums, s->path);
      return "out of memory";
    }
    s->sums[s->n++] = (sum){.name = name, .hash = hash};
  }
  return take(&p, "}}") && !*p ? NULL : "cut short";
}

/* The next good line; bad ones are named and passed over. */
static int next_step(side *s, sp_err *err) {
  while (!s->end) {
    int rc = read_line(s, err);
    if (rc < 0) return err->status;
    if (rc == 0) {
      s->end = true;
      break;
    }
    uint64_t last = s->step;
    const char *bad = parse(s, err);
    if (!bad && s->any && s->step <= last) bad = "steps are not in order";
    if (!bad) {
      s->any = true;
      return SP_OK;
    }
    s->step = last;
    sp_log(SP_LOG_WARN, "%s:%" PRIu64 ": line left out: %s", s->path, s->line, bad);
  }
  return SP_OK;
}

static int open_side(side *s, const char *run, sp_err *err) {
  struct stat st;
  sp_sb path = {0};
  s->run = run;
  if (stat(run, &st) != 0) return sp_fail(err, SP_E_NOTFOUND, "%s: %s", run, strerror(errno));
  sp_sb_put(&path, run);
  if (S_ISDIR(st.st_mode)) sp_sb_put(&path, "/checksums.jsonl");
  if (path.broken) return sp_nomem(err, path.n, run);
  s->path = path.s;
  s->file = fopen(s->path, "r");
  if (!s->file && errno == ENOENT)
    return sp_fail(err, SP_E_NOTFOUND, "%s has no checksums; run it with --checksums", run);
  if (!s->file) return sp_fail(err, SP_E_IO, "%s: %s", s->path, strerror(errno));
  if (next_step(s, err)) return err->status;
  if (s->end) return sp_fail(err, SP_E_FORMAT, "%s: not one step in it", s->path);
  return SP_OK;
}

static void close_side(side *s) {
  if (s->file) fclose(s->file);
  free(s->path);
  free(s->text);
  free(s->sums);
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/* What a run's settings.json says of its options: a line each, "    \"NAME\": VALUE,". */
typedef struct settings {
  char *text;
  const char **names, **values; /* in it, ended by 0 */
  size_t n, cap;
} settings;

static char *read_text(const char *path) {
  FILE *f = fopen(path, "re");
  char *text = NULL;
  size_t n = 0, cap = 0;
  for (int c; f && (c = getc(f)) != EOF && n < MAX_LINE;) {
    if (!sp_grow(&text, &cap, n + 2, 1)) break;
    text[n++] = (char)c;
    text[n] = 0;
  }
  if (f) fclose(f);
  return text;
}

static void add_option(settings *s, char *line) {
  char *end, *colon = strstr(line, "\": ");
  size_t cap = s->cap;
  if (!colon || strncmp(line, "    \"", 5) != 0) return;
  if (!sp_grow(&s->names, &cap, s->n + 1, sizeof *s->names) ||
      !sp_grow(&s->values, &s->cap, s->n + 1, sizeof *s->values))
    return;
  *colon = 0;
  s->names[s->n] = line + 5;
  s->values[s->n++] = colon + 3;
  end = colon + 3 + strlen(colon + 3);
  if (end[-1] == ',') end[-1] = 0;
}

/* Without a file, or of another form, there are none: this only explains. */
static settings read_settings(const char *run) {
  settings s = {0};
  sp_sb path = {0};
  sp_sb_putf(&path, "%s/settings.json", run);
  if (!path.broken) s.text = read_text(sp_sb_str(&path));
  sp_sb_free(&path);
  char *at = s.text ? strstr(s.text, "\n  \"options\": {\n") : NULL;
  for (char *line = at ? strchr(at + 1, '\n') + 1 : NULL, *next; line && strncmp(line, "  }", 3) != 0; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    add_option(&s, line);
  }
  return s;
}

static void free_settings(settings *s) {
  free(s->text);
  free(s->names);
  free(s->values);
}

/* Of what changes no bit nobody wants to hear here. */
static bool matters(const char *name) {
  static const char *const idle[] = {"out",        "quiet", "trace", "trace_steps", "log_every", "checkpoint_every",
                                     "tensorboard"};
  for (size_t i = 0; i < SP_ARRAY(idle); i++)
    if (!strcmp(name, idle[i])) return false;
  return true;
}

static const char *value_of(const settings *s, const char *name) {
  for (size_t i = 0; i < s->n; i++)
    if (!strcmp(s->names[i], name)) return s->values[i];
  return NULL;
}

/* Before the first difference: the options that the two runs do not share, which may be why. */
static void show_settings(const char *run_a, const char *run_b) {
  settings a = read_settings(run_a), b = read_settings(run_b);
  size_t shown = 0;
  for (size_t i = 0; i < a.n; i++) {
    const char *other = value_of(&b, a.names[i]);
    if (!other || !strcmp(a.values[i], other) || !matters(a.names[i])) continue;
    printf("%s%s %s and %s", shown++ ? "; " : "settings differ: ", a.names[i], a.values[i], other);
  }
  if (shown) printf("\n");
  free_settings(&a);
  free_settings(&b);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* The sum of that name, looked for first at the place where it should be. */
static const sum *find(const side *s, const char *name, size_t hint) {
  if (hint < s->n && strcmp(s->sums[hint].name, name) == 0) return &s->sums[hint];
  for (size_t i = 0; i < s->n; i++)
    if (strcmp(s->sums[i].name, name) == 0) return &s->sums[i];
  return NULL;
}

static void show_edge(const side *a, const side *b, const sum *x, const sum *y) {
  int n = (int)strcspn(x->name, ".");
  printf("first difference: step %" PRIu64 ", stage '%.*s', edge '%s'\n", sp_step_said(a->step), n, x->name, x->name);
  printf("  %s  %s\n  %s  %s\n", x->hash, a->run, y->hash, b->run);
}

/* Once, before the first words. */
static void begin_words(const side *a, const side *b, tally *t) {
  if (!t->begun) show_settings(a->run, b->run);
  t->begun = true;
}

/* Whether the step at hand differs; the first difference is shown. */
static bool step_differs(const side *a, const side *b, tally *t) {
  bool differs = false;
  size_t edges = 0, alone[2] = {0, 0};
  for (size_t i = 0; i < a->n; i++) {
    const sum *x = &a->sums[i], *y = find(b, x->name, i);
    if (!x->hash || (y && !y->hash)) {
      alone[0] += x->hash != NULL;
      alone[1] += y && y->hash;
      continue;
    }
    edges++;
    if (y && strcmp(y->hash, x->hash) == 0) continue;
    differs = true;
    if (t->shown) continue;
    begin_words(a, b, t);
    if (y) show_edge(a, b, x, y);
    else printf("edge '%s' is only in %s (step %" PRIu64 ")\n", x->name, a->run, sp_step_said(a->step));
    t->shown = y != NULL;
  }
  for (size_t i = 0; i < b->n; i++) {
    if (!b->sums[i].hash || find(a, b->sums[i].name, i)) continue;
    differs = true;
    if (t->shown) continue;
    begin_words(a, b, t);
    printf("edge '%s' is only in %s (step %" PRIu64 ")\n", b->sums[i].name, b->run, sp_step_said(b->step));
  }
  if (edges > t->edges) t->edges = edges;
  for (int k = 0; k < 2; k++)
    if (alone[k] > t->alone[k]) t->alone[k] = alone[k];
  return differs;
}

static int compare(side *a, side *b, tally *t, sp_err *err) {
  while (!a->end || !b->end) {
    bool take_a = !a->end && (b->end || a->step <= b->step), take_b = !b->end && (a->end || b->step <= a->step);
    if (take_a && take_b) {
      t->steps++;
      if (step_differs(a, b, t)) {
        t->differing++;
        t->shown = true; /* one step's worth of words is enough */
      }
    } else {
      const side *s = take_a ? a : b;
      begin_words(a, b, t);
      if (t->only[take_a ? 0 : 1]++ == 0) printf("step %" PRIu64 " is only in %s\n", sp_step_said(s->step), s->run);
    }
    if (take_a && next_step(a, err)) return err->status;
    if (take_b && next_step(b, err)) return err->status;
  }
  return SP_OK;
}

static int diff_runs(const char *run_a, const char *run_b) {
  side a = {0}, b = {0};
  tally t = {0};
  sp_err err;
  int code = TROUBLE;
  if (open_side(&a, run_a, &err) || open_side(&b, run_b, &err) || compare(&a, &b, &t, &err)) {
    sp_cmd_failed(&err);
  } else if (t.steps && !t.edges) {
    sp_fail(&err, SP_E_DATA, "%s and %s: no edge has a checksum in both", run_a, run_b);
    sp_cmd_failed(&err);
  } else if (t.differing || t.only[0] || t.only[1]) {
    code = DIFFERENT;
    printf("%" PRIu64 " of %" PRIu64 " common steps differ", t.differing, t.steps);
    if (t.only[0]) printf("; %" PRIu64 " steps only in %s", t.only[0], run_a);
    if (t.only[1]) printf("; %" PRIu64 " steps only in %s", t.only[1], run_b);
    printf("\n");
  } else {
    code = SAME;
    printf("same bits: %" PRIu64 " steps, %zu edges", t.steps, t.edges);
    for (int k = 0; k < 2; k++)
      if (t.alone[k]) printf("; %zu only %s computes", t.alone[k], k ? run_b : run_a);
    printf("\n");
  }
  close_side(&a);
  close_side(&b);
  if (fflush(stdout) != 0) code = TROUBLE;
  return code;
}

static int diff_main(int argc, char **argv) {
  int code = -1;
  sp_cmd_next(&sp_cmd_diff, argc, argv, &code);
  if (code >= 0) return code;
  if (argc - optind != 2) return sp_cmd_usage(&sp_cmd_diff, "two runs are wanted, got %d", argc - optind);
  return diff_runs(argv[optind], argv[optind + 1]);
}

const sp_cmd sp_cmd_diff = {
    .name = "diff",
    .args = "RUN RUN",
    .doc = "Compares two runs bit by bit, and names the first step, stage and edge that differ",
    .help = "A RUN is a folder of a run with --checksums. Exit code: 0 same bits, 1 different, 2 trouble.\n",
    .main = diff_main,
};
