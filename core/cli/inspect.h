/* SPDX-License-Identifier: MIT
 * inspect.h - what plugins hold, in words, as JSON, and as annotations for editors; from the tables that check them. */
#ifndef SP_CORE_INSPECT_H
#define SP_CORE_INSPECT_H

#include "base/util.h"
#include "host/registry.h"

typedef struct sp_inspect_bad {
  char *path;
  sp_err why;
} sp_inspect_bad;

/* Everything that was loaded, and what did not load. */
typedef struct sp_inspect {
  const sp_registry *reg;
  const char *device; /* list stages for that one; NULL: all */
  const sp_inspect_bad *bad;
  size_t n_bad;
} sp_inspect;

/* The stages of all files sorted by name, then device; of two with the same both only the one that would be used. */
typedef struct sp_inspect_stage {
  const sp_stage_type *type;
  const sp_plugin_file *file;
} sp_inspect_stage;
int sp_inspect_stages(const sp_registry *reg, sp_inspect_stage **list, size_t *n, sp_err *err);
/* The same of what an sp_inspect shows: those for its device, if it has one. */
int sp_inspect_shown(const sp_inspect *in, sp_inspect_stage **list, size_t *n, sp_err *err);

int sp_inspect_list(sp_sb *sb, const sp_inspect *in, sp_err *err);
void sp_inspect_one(sp_sb *sb, const sp_inspect_stage *st);
int sp_inspect_json_list(sp_sb *sb, const sp_inspect *in, sp_err *err);
void sp_inspect_json_one(sp_sb *sb, const sp_inspect_stage *st); /* an object */
int sp_inspect_meta(sp_sb *sb, const sp_inspect *in, sp_err *err);

/* Words for parts of a table, shared by the three. */
const char *sp_inspect_type(int32_t type);             /* "integer", "list of numbers" */
void sp_inspect_default(sp_sb *sb, const sp_param *e); /* as a script would write it; nothing where required */
bool sp_inspect_range(sp_sb *sb, const sp_param *e);   /* "1..64", "at least 1"; false: no limit */
/* Calls each(arg, words) for every flag that is set. */
void sp_inspect_stage_flags(uint32_t flags, void (*each)(void *arg, const char *word), void *arg);
void sp_inspect_port_flags(uint32_t flags, void (*each)(void *arg, const char *word), void *arg);

#endif
