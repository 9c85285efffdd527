/* SPDX-License-Identifier: MIT
 * env.h - what one process has once: plugins, worker threads, where scripts and plugins lie. */
#ifndef SP_CORE_ENV_H
#define SP_CORE_ENV_H

#include "host/registry.h"
#include "host/stage.h"
#include "ranks/ranks.h"

typedef struct sp_env_opts {
  const char *const *plugins; /* --plugin FILE.so, loaded at once */
  size_t n_plugins;
  int threads;     /* --threads; 0: the processors this process may use */
  int max_helpers; /* most worker threads; 0: 64 */
} sp_env_opts;

typedef struct sp_env {
  sp_registry *reg; /* built-in devices are in it */
  sp_team *team;
  sp_stage_host host; /* copied into graphs */
  int threads;
  char *script_dir; /* where train_seg.lua and spcore/init.lua lie: the source tree's scripts/ or $(pkgdatadir) */
  char *plugin_dir;
  bool in_tree;    /* run from a build tree */
  sp_ranks *ranks; /* of this job; not owned. NULL: this process is alone */
} sp_env;

/* Plugins are looked for in $SPCORE_PLUGIN_PATH (folders, ':' between), then in plugin_dir. */
int sp_env_new(sp_env **env, const sp_env_opts *opts, sp_err *err);
void sp_env_free(sp_env *env);

#endif
