/* SPDX-License-Identifier: MIT
 * names.h - which entry of a file is which weight. */
#ifndef SP_CORE_NAMES_H
#define SP_CORE_NAMES_H

#include <spcore/format.h>

#include "params/params.h"

/* One way to understand the file's names: what comes before ours, and which of ours are others there. */
typedef struct sp_view {
  char *prefix;
  bool scoped;               /* behind it comes the stage's name */
  const sp_dialect *dialect; /* NULL: our names */
} sp_view;

typedef struct sp_names {
  const sp_load *from;
  const char *path;
  sp_weights *const *stages;
  size_t n_stages;
  bool whole; /* of a graph: every entry has a stage's name */
  const sp_entry *entries, **sorted;
  size_t n;
  sp_dialect given;
  sp_view *views; /* those as the names are, those with another prefix, those in a dialect */
  size_t n_as_is, n_plain, n_views, cap_views;
  const sp_view *view; /* the one that fits */
  sp_sb key, notice;
} sp_names;

/* Finds the view that fits all of these stages, or fails with all that does not, and a cure. To be freed either way. */
int sp_names_match(sp_names *names, sp_err *err);
void sp_names_free(sp_names *names);
/* The entry of weight i; NULL: there is none, and it is zero. */
const sp_entry *sp_names_find(sp_names *names, const sp_weights *stage, size_t i);
/* The file's are filters of 3 channels, and those that are wanted differ in this alone. */
bool sp_names_of_rgb(const sp_spec *file, const sp_spec *want);
/* An optimizer need not be in the file. */
bool sp_names_have(sp_names *names, const sp_weights *stage);

#endif
