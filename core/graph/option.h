/* SPDX-License-Identifier: MIT
 * option.h - one row for each option of a graph, of a stage in it, and each property of a lane: name, range, default,
 * words, and where the value is kept. What reads and checks options goes by these rows, and so do --help, the man
 * page, the annotations for editors and docs/lua.md, which scripts/spcore/options.lua makes of them. */
#ifndef SP_CORE_OPTION_H
#define SP_CORE_OPTION_H

#include <stddef.h>

#include "base/err.h"

typedef enum {
  SP_OPTION_INT,  /* a whole number, or with `choices` one of these words, kept as `least` + its place */
  SP_OPTION_MIB,  /* a number of MiB, kept in bytes */
  SP_OPTION_FLAG, /* true or false */
  SP_OPTION_NOT,  /* the same, kept negated: what is 0 in the struct is the default */
  SP_OPTION_TEXT  /* a string, with `choices` one of these; NULL where it is absent */
} sp_option_type;

typedef struct sp_option {
  const char *name; /* of the last row NULL */
  sp_option_type type;
  size_t offset, size; /* of the member */
  int64_t least, most, first; /* `first` is the default; of words one that is none: nothing is said */
  int64_t zero;               /* MIB: what 0 is kept as */
  const char *text;           /* TEXT: the default, in words only */
  const char *const *choices; /* ended by NULL */
  const char *value;          /* what help calls the value; NULL: N, or the choices */
  const char *otherwise;      /* what help says in place of the default */
  const char *groups;         /* of a graph: a script that lacks one of these has no use for it (spcore/options.lua); of
                                 a stage: only "source" or "requests" take it, "": all */
  const char *resume;         /* "free": may differ when a run goes on; "session": nor is it kept; NULL: neither */
  const char *help;           /* one line */
  const char *more;           /* what the man page says instead of it; *word* is bold, _word_ italic. NULL: the same */
} sp_option;

extern const sp_option sp_graph_rows[]; /* of sp_graph_opts */
extern const sp_option sp_lane_rows[];  /* of sp_lane_props */
extern const sp_option sp_stage_rows[]; /* of sp_node_opts */

/* The row of a name; NULL: there is none. */
const sp_option *sp_option_find(const sp_option *rows, const char *name);
/* Keeps a number, or a flag, in the struct that the rows are of. */
void sp_option_set(const sp_option *row, void *to, int64_t value);
/* The members of type int, as whoever calls from C has written them: SP_E_RANGE, and which is outside of its range. */
int sp_option_check(const sp_option *rows, const void *from, sp_err *err);

#endif
