/* SPDX-License-Identifier: MIT
 * names.c - which entry of a file is which weight: prefixes that wrappers put before all names, dialects, what may be
 * left out; and words for what does not fit. */
#include "params/names.h"

#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- what a script says ------------------------------------------------------------------------------------------ */

static const sp_param pattern_params[] = {
    {.name = "pattern", .type = SP_PARAM_STRING, .flags = SP_PARAM_FIRST | SP_PARAM_REQUIRED}, {0}};
static const sp_param pair_params[] = {{.name = "ours",
                                        .type = SP_PARAM_STRING,
                                        .flags = SP_PARAM_FIRST | SP_PARAM_REQUIRED,
                                        .offset = offsetof(sp_pair, ours)},
                                       {.name = "file",
                                        .type = SP_PARAM_STRING,
                                        .flags = SP_PARAM_FIRST | SP_PARAM_REQUIRED,
                                        .offset = offsetof(sp_pair, file)},
                                       {0}};
#define PAIRS(what, member)                                                                          \
  {                                                                                                  \
    .name = #member, .type = SP_PARAM_LIST, .offset = offsetof(what, member), .fields = pair_params, \
    .fields_size = sizeof(sp_pair)                                                                   \
  }
#define PATTERNS(member)                                                                                   \
  {                                                                                                        \
    .name = #member, .type = SP_PARAM_LIST, .offset = offsetof(sp_load, member), .fields = pattern_params, \
    .fields_size = sizeof(const char *)                                                                    \
  }
static const sp_param dialect_params[] = {
    {.name = "name", .type = SP_PARAM_STRING, .offset = offsetof(sp_dialect, name)}, PAIRS(sp_dialect, names), {0}};
const sp_param sp_load_params[] = {
    {.name = "file", .type = SP_PARAM_STRING, .flags = SP_PARAM_REQUIRED, .offset = offsetof(sp_load, file)},
    {.name = "prefix", .type = SP_PARAM_STRING, .offset = offsetof(sp_load, prefix)},
    {.name = "channels", .type = SP_PARAM_BOOL, .offset = offsetof(sp_load, channels)},
    {.name = "tried", .type = SP_PARAM_BOOL, .offset = offsetof(sp_load, tried)},
    {.name = "option", .type = SP_PARAM_STRING, .offset = offsetof(sp_load, option)},
    PATTERNS(ignore),
    PATTERNS(head),
    PAIRS(sp_load, names),
    {.name = "dialects",
     .type = SP_PARAM_LIST,
     .offset = offsetof(sp_load, dialects),
     .fields = dialect_params,
     .fields_size = sizeof(sp_dialect)},
    {0}};

/* Of the command line that has named the file; "": a script has. */
static const char *option_of(const sp_names *k) { return k->from->option ? k->from->option : ""; }

static const char *match(const sp_structs *patterns, const char *name) {
  const char *const *v = patterns->v;
  for (uint32_t i = 0; i < patterns->n; i++)
    if (!fnmatch(v[i], name, 0)) return v[i];
  return NULL;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
  return strcmp((*(const sp_entry *const *)a)->name, (*(const sp_entry *const *)b)->name);
}

/* The first entry that is not before `name`. */
static size_t place(const sp_names *k, const char *name) {
  size_t from = 0, to = k->n;
  while (from < to) {
    size_t mid = from + (to - from) / 2;
    if (strcmp(k->sorted[mid]->name, name) < 0) from = mid + 1;
    else to = mid;
  }
  return from;
}

static bool begins(const char *name, const char *prefix) { return !strncmp(name, prefix, strlen(prefix)); }

static bool any(const sp_names *k, const char *prefix) {
  size_t at = place(k, prefix);
  return at < k->n && begins(k->sorted[at]->name, prefix);
}

/* The pair with the longest name, ours or the file's, that is `name` or whole components before it. */
static const sp_pair *longest(const sp_dialect *d, const char *name, bool file) {
  const sp_pair *p = d ? d->names.v : NULL, *best = NULL;
  size_t most = 0;
  for (uint32_t i = 0; d && i < d->names.n; i++) {
    const char *word = file ? p[i].file : p[i].ours;
    size_t len = strlen(word);
    if (len > most && begins(name, word) && (name[len] == '.' || !name[len])) best = &p[i], most = len;
  }
  return best;
}

static void put_translated(sp_sb *sb, const sp_dialect *d, const char *name, bool of_file) {
  const sp_pair *p = longest(d, name, of_file);
  if (p) sp_sb_putf(sb, "%s%s", of_file ? p->ours : p->file, name + strlen(of_file ? p->file : p->ours));
  else sp_sb_put(sb, name);
}

/* What names of this stage's weights begin with; in k->key. */
static const char *prefix_of(sp_names *k, const sp_view *v, const sp_weights *stage) {
  k->key.n = 0;
  if (k->key.s) *k->key.s = 0;
  sp_sb_putf(&k->key, "%s%s%s", v->prefix, v->scoped ? stage->name : "", v->scoped ? "." : "");
  return sp_sb_str(&k->key);
}

/* What names begin with that are of these stages: an `ignore` has what comes behind. */
static const char *common_prefix(sp_names *k, const sp_view *v) {
  return k->whole ? v->prefix : prefix_of(k, v, k->stages[0]);
}

/* The entry that a weight has by its name, in k->key; *hidden: by the pattern of `ignore` that leaves it out. */
static const sp_entry *find(sp_names *k, const sp_view *v, const sp_weights *stage, size_t i, const char **hidden) {
  size_t behind = strlen(prefix_of(k, v, stage)), at;
  put_translated(&k->key, v->dialect, stage->weights[i].name, false);
  const char *name = sp_sb_str(&k->key);
  *hidden = NULL;
  if ((at = place(k, name)) == k->n || strcmp(k->sorted[at]->name, name) != 0) return NULL;
  *hidden = match(&k->from->ignore, name + (k->whole ? strlen(v->prefix) : behind));
  return *hidden ? NULL : k->sorted[at];
}

const sp_entry *sp_names_find(sp_names *k, const sp_weights *stage, size_t i) {
  const char *hidden;
  return find(k, k->view, stage, i, &hidden);
}

/* An optimizer's moments may be missing; so they are where `ignore` leaves all of them out. */
static bool have(sp_names *k, const sp_view *v, const sp_weights *stage) {
  const char *prefix = prefix_of(k, v, stage);
  size_t behind = strlen(k->whole ? v->prefix : prefix);
  if (!stage->optimizer) return true;
  for (size_t i = place(k, prefix); i < k->n && begins(k->sorted[i]->name, prefix); i++)
    if (!match(&k->from->ignore, k->sorted[i]->name + behind)) return true;
  return false;
}

bool sp_names_have(sp_names *k, const sp_weights *stage) { return have(k, k->view, stage); }

/* ---- does it fit? ------------------------------------------------------------------------------------------------ */

/* Batches that were counted: files made before PyTorch 0.4.1 have none, and with a momentum nothing depends on it. */
static bool may_be_missing(const char *name) {
  static const char word[] = "num_batches_tracked";
  size_t len = strlen(name);
  return len >= sizeof word - 1 && !strcmp(name + len - (sizeof word - 1), word);
}

static sp_spec wanted(const sp_weights *stage, size_t i) {
  sp_spec want = stage->weights[i].spec;
  want.order = SP_ROW_MAJOR;
  return want;
}

bool sp_names_of_rgb(const sp_spec *file, const sp_spec *want) {
  bool other = file->ndim == 4 && want->ndim == 4 && file->shape[1] == 3 && want->shape[1] != 3;
  for (int d = 0; d < 4 && other; d++) other = d == 1 || file->shape[d] == want->shape[d];
  return other;
}

/* A file may have floating numbers of another type, also of what counts, and filters of RGB where others are asked for;
 * sp_spec_equal but for that. */
static bool same(const sp_names *k, const sp_spec *file, sp_spec want) {
  sp_spec as = *file;
  if (k->from->channels && sp_names_of_rgb(file, &want)) as.shape[1] = want.shape[1];
  bool real = file->dtype == SP_F16 || file->dtype == SP_BF16 || file->dtype == SP_F64;
  if (want.dtype == SP_F32 && real) as.dtype = SP_F32;
  if (want.dtype == SP_I64 && (real || file->dtype == SP_F32 || file->dtype == SP_I32)) as.dtype = SP_I64;
  return sp_spec_equal(&as, &want);
}

/* Whether all weights have their entries; *found: how many have one, of whatever shape. */
static bool fits(sp_names *k, const sp_view *v, size_t *found) {
  const char *hidden;
  bool all = true;
  *found = 0;
  for (size_t j = 0; j < k->n_stages; j++) {
    const sp_weights *stage = k->stages[j];
    for (size_t i = 0; have(k, v, stage) && i < stage->n_weights; i++) {
      const sp_entry *e = find(k, v, stage, i, &hidden);
      *found += e != NULL;
      all = all && (e ? same(k, &e->spec, wanted(stage, i)) : !hidden && may_be_missing(stage->weights[i].name));
    }
  }
  return all;
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

/* A stage may be called as a wrapper's word. */
static bool is_there(sp_names *k, const sp_view *v) {
  char *before = sp_strdup(prefix_of(k, v, k->stages[0]));
  bool there = false;
  for (size_t i = 0; before && i < k->n_views && !there; i++)
    there = k->views[i].dialect == v->dialect && !strcmp(prefix_of(k, &k->views[i], k->stages[0]), before);
  free(before);
  return there;
}

static int add_view(sp_names *k, const char *prefix, bool scoped, const sp_dialect *d, sp_err *err) {
  sp_view v = {.prefix = sp_strdup(prefix), .scoped = scoped, .dialect = d};
  if (v.prefix && is_there(k, &v)) {
    free(v.prefix);
    return SP_OK;
  }
  if (!v.prefix || !sp_grow(&k->views, &k->cap_views, k->n_views + 1, sizeof *k->views)) {
    free(v.prefix);
    return sp_nomem(err, sizeof v, "names");
  }
  k->views[k->n_views++] = v;
  return SP_OK;
}

static int add_prefix(sp_names *k, const char *prefix, const sp_dialect *d, sp_err *err) {
  sp_view scoped = {.prefix = (char *)prefix, .scoped = true};
  int status = SP_OK;
  if (k->whole || any(k, prefix_of(k, &scoped, k->stages[0]))) status = add_view(k, prefix, true, d, err);
  if (!status && !k->whole) status = add_view(k, prefix, false, d, err);
  return status;
}

/* What the wrappers of others put before all names, one behind another, where the file has it so. */
static int add_wrapped(sp_names *k, const char *before, int depth, const sp_dialect *d, sp_err *err) {
  static const char *const words[] = {"module", "_orig_mod", "encoder", "backbone"};
  int status = SP_OK;
  for (size_t i = 0; i < SP_ARRAY(words) && !status && depth < 4; i++) {
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s%s.", before, words[i]);
    if (!any(k, prefix)) continue;
    status = add_prefix(k, prefix, d, err);
    if (!status) status = add_wrapped(k, prefix, depth + 1, d, err);
  }
  return status;
}

static int add_views(sp_names *k, sp_err *err) {
  const sp_load *from = k->from;
  const sp_dialect *ours = from->names.n ? &k->given : NULL, *d = from->dialects.v;
  int status = add_prefix(k, from->prefix, ours, err);
  k->n_as_is = k->n_views;
  if (!status && from->tried) status = add_wrapped(k, "", 0, ours, err);
  k->n_plain = k->n_views;
  for (uint32_t i = 0; !ours && i < from->dialects.n && !status; i++) {
    status = add_prefix(k, from->prefix, &d[i], err);
    if (!status && from->tried) status = add_wrapped(k, "", 0, &d[i], err);
  }
  return status;
}

static void put_view(sp_names *k, sp_sb *sb, const sp_view *v) {
  const char *prefix = common_prefix(k, v);
  if (*prefix) sp_sb_putf(sb, " behind '%s'", prefix);
  if (v->dialect && v->dialect != &k->given)
    sp_sb_putf(sb, "%s in the dialect '%s'", *prefix ? "" : " with names", v->dialect->name);
}

static void put_who(const sp_names *k, sp_sb *sb) {
  if (k->whole) sp_sb_put(sb, "the graph");
  else sp_sb_putf(sb, "stage '%s'", k->stages[0]->name);
}

static int both_fit(sp_names *k, const sp_view *a, const sp_view *b, sp_err *err) {
  sp_sb sb = {0};
  put_who(k, &sb);
  put_view(k, &sb, a);
  sp_sb_put(&sb, " and");
  put_view(k, &sb, b);
  if (*option_of(k)) sp_sb_putf(&sb, ": %s takes a file that has one of them", option_of(k));
  else
    sp_sb_putf(&sb, ": say which with prefix or names, as in weights = { FILE, prefix = \"%s\" }", common_prefix(k, a));
  int status = sp_fail(err, SP_E_SHAPE, "%s fits %s", k->path, sp_sb_str(&sb));
  sp_sb_free(&sb);
  return status;
}

/* The one of views[from] to views[to - 1] that fits becomes k->view; *best: the one that most names are found in. */
static int choose(sp_names *k, size_t from, size_t to, const sp_view **best, size_t *most, sp_err *err) {
  for (size_t i = from; i < to; i++) {
    const sp_view *v = &k->views[i];
    size_t found;
    bool fit = fits(k, v, &found);
    if (!*best || found > *most) *best = v, *most = found;
    if (fit && k->view) return both_fit(k, k->view, v, err);
    if (fit) k->view = v;
    if (fit && i < k->n_as_is) break; /* what is not guessed goes first */
  }
  return SP_OK;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

#define MAX_LISTED 8
typedef struct listed {
  sp_sb list;
  size_t n, of_type, quantised; /* of_type: whose type alone is wrong; quantised: few bits where floats are wanted */
} listed;

static void note(listed *l, const char *fmt, ...) SP_PRINTF(2, 3);
static void note(listed *l, const char *fmt, ...) {
  char buf[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(buf, sizeof buf, fmt, ap);
  va_end(ap);
  if (l->n++ < MAX_LISTED) sp_sb_putf(&l->list, "%s%s", l->n > 1 ? ", " : "", buf);
}

static void put_list(sp_sb *sb, const listed *l) {
  sp_sb_putf(sb, "%s%s", sp_sb_str(&l->list), l->n > MAX_LISTED ? " ..." : "");
}

enum { MISSING, EXTRA, BAD, OF_HEAD, OUTSIDE, N_LISTS };

/* The weights' side; used[entry] becomes true. */
static void look_at_weights(sp_names *k, const sp_view *v, const sp_weights *stage, listed *to, bool *used) {
  char a[128], b[128];
  for (size_t i = 0; i < stage->n_weights; i++) {
    const char *hidden;
    const sp_entry *e = find(k, v, stage, i, &hidden);
    sp_spec want = wanted(stage, i), like = e ? e->spec : want;
    like.dtype = want.dtype;
    if (e) used[e - k->entries] = true;
    if (hidden) note(&to[MISSING], "%s (ignore '%s' leaves it out)", sp_sb_str(&k->key), hidden);
    else if (!e && !may_be_missing(stage->weights[i].name)) note(&to[MISSING], "%s", sp_sb_str(&k->key));
    if (!e || same(k, &e->spec, want)) continue;
    const char *has = e->spec.dtype ? sp_spec_str(&e->spec, a, sizeof a) : "of a type that is not taken";
    note(&to[BAD], "%s is %s, wanted %s", e->name, has, sp_spec_str(&want, b, sizeof b));
    to[BAD].of_type += sp_spec_equal(&like, &want);
    to[BAD].quantised += !e->spec.dtype || (want.dtype == SP_F32 && (e->spec.dtype == SP_I8 || e->spec.dtype == SP_U8));
  }
}

/* The known classifier of the list of layers, by the file's names or ours. */
static bool of_head(sp_names *k, const sp_view *v, const char *name) {
  sp_sb ours = {0};
  put_translated(&ours, v->dialect, name, true);
  bool is = match(&k->from->head, name) || match(&k->from->head, sp_sb_str(&ours));
  sp_sb_free(&ours);
  return is;
}

/* The file's side: first what has values, then batches that were counted. */
static void look_at_entries(sp_names *k, const sp_view *v, listed *to, const bool *used) {
  const char *prefix = common_prefix(k, v);
  for (size_t j = 0; j < 2 * k->n; j++) {
    size_t i = j % k->n;
    const char *name = k->entries[i].name, *rest = name + strlen(prefix);
    if (used[i] || may_be_missing(name) != (j >= k->n)) continue;
    if (!begins(name, prefix)) note(&to[OUTSIDE], "%s", name);
    else if (match(&k->from->ignore, rest)) continue;
    else note(&to[of_head(k, v, rest) ? OF_HEAD : EXTRA], "%s", name);
  }
}

/* Up to four of what names begin with. */
static void put_first_words(const sp_names *k, sp_sb *sb) {
  size_t n = 0, len = 0;
  const char *last = "";
  for (size_t i = 0; i < k->n; i++) {
    const char *name = k->sorted[i]->name;
    if (i && strcspn(name, ".") == len && !strncmp(name, last, len)) continue;
    last = name;
    len = strcspn(name, ".");
    if (n++ < 4) sp_sb_putf(sb, "%s'%.*s%s'", n > 1 ? ", " : "", len > 80 ? 80 : (int)len, name, name[len] ? "." : "");
  }
  if (n > 4) sp_sb_put(sb, " ...");
}

/* A prefix that nobody knows, behind which all names are: found by the first weight. */
static bool put_other_prefix(sp_names *k, sp_sb *sb) {
  const sp_weights *stage = k->stages[0];
  size_t first = 0, found, tries = 0;
  while (first < stage->n_weights && may_be_missing(stage->weights[first].name)) first++;
  if (k->whole || first == stage->n_weights) return false;
  const char *word = stage->weights[first].name;
  for (size_t i = 0; i < k->n && tries < 16; i++) {
    const char *name = k->entries[i].name;
    size_t len = strlen(name), behind = strlen(word);
    if (len <= behind || strcmp(name + len - behind, word) != 0) continue;
    sp_view v = {.prefix = sp_strdup(name)};
    if (v.prefix) v.prefix[len - behind] = 0;
    bool fit = v.prefix && fits(k, &v, &found);
    if (fit) sp_sb_putf(sb, "; all are there behind '%s'", v.prefix);
    if (fit && *option_of(k)) sp_sb_putf(sb, ", which %s does not know: save them without it", option_of(k));
    else if (fit) sp_sb_putf(sb, ": weights = { FILE, prefix = \"%s\" }", v.prefix);
    free(v.prefix);
    tries++;
    if (fit) return true;
  }
  return false;
}

/* Where a run left its weights it says beside them what model they are of. */
static void put_settings(const sp_names *k, sp_sb *sb) {
  const char *path = k->path, *slash = strrchr(path, '/');
  struct stat status;
  sp_sb settings = {0};
  sp_sb_putf(&settings, "%.*ssettings.json", slash ? (int)(slash - path) + 1 : 0, path);
  if (*option_of(k)) sp_sb_putf(sb, "; %s takes a file of this network", option_of(k));
  else sp_sb_put(sb, "; make the stages with the parameters that it was trained with");
  if (!settings.broken && !stat(settings.s, &status)) sp_sb_putf(sb, ", which %s tells", settings.s);
  sp_sb_free(&settings);
}

/* The entries behind the prefix that are taken: whether one begins so. */
static bool is_taken(const sp_names *k, const char *prefix, const bool *used, const char *begin, size_t len) {
  for (size_t i = 0; i < k->n; i++)
    if (used[i] && begins(k->entries[i].name, prefix) && !strncmp(k->entries[i].name + strlen(prefix), begin, len))
      return true;
  return false;
}

/* A pattern for the first of the entries that are too many, and for as many of its neighbours as may go with it. */
static void put_ignore(sp_names *k, const sp_view *v, const bool *used, const char *extra, sp_sb *sb) {
  const char *prefix = common_prefix(k, v);
  size_t end = strcspn(extra, ","), len = strcspn(extra, ".,");
  if (*option_of(k)) {
    sp_sb_putf(sb, "; %s takes a file of this network alone", option_of(k));
    return;
  }
  while (len < end && is_taken(k, prefix, used, extra, len + 1)) len += 1 + strcspn(extra + len + 1, ".,");
  sp_sb_putf(sb, "; what is another's may be left out: weights = { FILE, ignore = { \"%.*s%s\" } }", (int)len, extra,
             len < end ? ".*" : "");
}

static void put_cure(sp_names *k, const sp_view *v, const listed *lists, const bool *used, sp_sb *sb) {
  size_t behind = strlen(common_prefix(k, v));
  if (!lists[MISSING].n && !lists[BAD].n && !k->whole && behind < lists[EXTRA].list.n) {
    put_ignore(k, v, used, lists[EXTRA].list.s + behind, sb);
  } else if (*v->prefix && !any(k, v->prefix)) {
    sp_sb_putf(sb, "; no entry begins with '%s', but with ", v->prefix);
    put_first_words(k, sb);
    put_other_prefix(k, sb);
  } else if (lists[BAD].quantised) {
    sp_sb_put(sb,
              "; numbers of 8 bits and fewer are a quantised network's: get the file of float32, float16 or bfloat16; "
              "otherwise save it with the types that are wanted");
  } else if (lists[BAD].n && lists[BAD].of_type == lists[BAD].n) {
    sp_sb_put(sb, "; save it with the types that are wanted");
  } else if (lists[BAD].n || !put_other_prefix(k, sb)) {
    put_settings(k, sb);
  }
}

static int refuse(sp_names *k, const sp_view *v, const listed *lists, const bool *used, sp_err *err) {
  static const char *const words[] = {"missing", "unexpected", "of another shape or type"};
  sp_sb sb = {0};
  put_who(k, &sb);
  if (v->dialect || strcmp(v->prefix, k->from->prefix) != 0) put_view(k, &sb, v);
  for (size_t i = 0, n = 0; i < SP_ARRAY(words); i++) {
    if (!lists[i].n) continue;
    sp_sb_putf(&sb, "%s%zu %s: ", n++ ? "; " : ": ", lists[i].n, words[i]);
    put_list(&sb, &lists[i]);
  }
  put_cure(k, v, lists, used, &sb);
  int status = sp_fail(err, SP_E_SHAPE, "%s does not fit %s", k->path, sp_sb_str(&sb));
  sp_sb_free(&sb);
  return status;
}

/* One of `ignore` that nothing is left out by is a slip of the pen. */
static int check_ignore(sp_names *k, sp_err *err) {
  const char *const *patterns = k->from->ignore.v;
  const char *prefix = common_prefix(k, k->view);
  for (uint32_t p = 0; p < k->from->ignore.n; p++) {
    bool hit = false;
    for (size_t i = place(k, prefix); !hit && i < k->n && begins(k->sorted[i]->name, prefix); i++)
      hit = !fnmatch(patterns[p], k->sorted[i]->name + strlen(prefix), 0);
    if (!hit)
      return sp_fail(err, SP_E_INVALID, "%s: ignore '%s' is the name of no entry%s%s%s", k->path, patterns[p],
                     *prefix ? " behind '" : "", prefix, *prefix ? "'" : "");
  }
  return SP_OK;
}

/* What was guessed and what was left out. */
static void put_notice(sp_names *k, const listed *lists) {
  sp_sb *sb = &k->notice;
  bool wrapped = strcmp(k->view->prefix, k->from->prefix) != 0;
  bool guessed = wrapped || k->view >= k->views + k->n_plain;
  const char *sep = "";
  if (!guessed && !lists[OF_HEAD].n) return;
  sp_sb_putf(sb, "%s: ", k->path);
  put_who(k, sb);
  if (guessed) {
    sp_sb_put(sb, " takes the entries");
    put_view(k, sb, k->view);
    sep = ";";
  }
  if (lists[OF_HEAD].n) {
    sp_sb_putf(sb, "%s leaves out ", sep);
    put_list(sb, &lists[OF_HEAD]);
    sp_sb_put(sb, " (the classifier, which its layers do not have)");
    sep = ";";
  }
  if (wrapped && lists[OUTSIDE].n) {
    sp_sb_putf(sb, "%s %zu of other parts: ", sep, lists[OUTSIDE].n);
    put_list(sb, &lists[OUTSIDE]);
  }
}

static int look(sp_names *k, const sp_view *best, sp_err *err) {
  const sp_view *v = k->view ? k->view : best;
  listed lists[N_LISTS] = {0};
  bool *used = sp_calloc(k->n + 1, sizeof *used);
  int status = used ? SP_OK : sp_nomem(err, k->n, "names");
  for (size_t j = 0; !status && j < k->n_stages; j++)
    if (have(k, v, k->stages[j])) look_at_weights(k, v, k->stages[j], lists, used);
  if (!status) look_at_entries(k, v, lists, used);
  if (!status && k->view) status = check_ignore(k, err);
  if (!status && (lists[MISSING].n || lists[EXTRA].n || lists[BAD].n)) status = refuse(k, v, lists, used, err);
  if (!status) put_notice(k, lists);
  for (size_t i = 0; i < N_LISTS; i++) sp_sb_free(&lists[i].list);
  free(used);
  return status;
}

/* ------------------------------------------------------------------------------------------------------------------ */

int sp_names_match(sp_names *k, sp_err *err) {
  const sp_view *best = NULL;
  size_t most = 0;
  k->given = (sp_dialect){.name = "names", .names = k->from->names};
  if (!(k->sorted = sp_calloc(k->n + 1, sizeof *k->sorted))) return sp_nomem(err, k->n * sizeof *k->sorted, "names");
  for (size_t i = 0; i < k->n; i++) k->sorted[i] = &k->entries[i];
  if (k->n) qsort(k->sorted, k->n, sizeof *k->sorted, by_name);
  int status = add_views(k, err);
  if (!status) status = choose(k, 0, k->n_as_is, &best, &most, err);
  if (!status && !k->view) status = choose(k, k->n_as_is, k->n_plain, &best, &most, err);
  if (!status && !k->view) status = choose(k, k->n_plain, k->n_views, &best, &most, err);
  if (!status) status = look(k, best, err);
  return status || !k->key.broken ? status : sp_nomem(err, k->key.n, "names");
}

void sp_names_free(sp_names *k) {
  for (size_t i = 0; i < k->n_views; i++) free(k->views[i].prefix);
  free(k->views);
  free(k->sorted);
  sp_sb_free(&k->key);
  sp_sb_free(&k->notice);
}
