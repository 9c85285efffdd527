/* SPDX-License-Identifier: MIT
 * registry_impl.h - what a registry holds, for registry.c, which keeps it, and lookup.c, which finds in it. */
#ifndef SP_CORE_REGISTRY_IMPL_H
#define SP_CORE_REGISTRY_IMPL_H

#include "host/registry.h"

#include <dirent.h>
#include <limits.h>
#include <sys/types.h>

typedef struct sp_reg_file {
  sp_plugin_file file; /* first: a pointer to it is a pointer to this */
  dev_t dev;
  ino_t ino;
  bool given; /* asked for by path: comes before what was found in folders */
} sp_reg_file;

typedef struct sp_reg_refused {
  char *path;
  sp_err why;
} sp_reg_refused;

typedef struct sp_reg_folder {
  char *path;
  bool scanned;
  sp_reg_refused *bad;
  size_t n_bad, cap_bad;
} sp_reg_folder;

struct sp_registry {
  sp_reg_file **files;
  size_t n_files, cap_files;
  sp_reg_folder *dirs;
  size_t n_dirs, cap_dirs;
  const sp_device_type **devices; /* built in */
  size_t n_devices, cap_devices;
};

/* Loads a file that was found in a folder, unless it is there already. */
int sp_registry_load_found(sp_registry *reg, const char *path, sp_err *err);
/* scandir() of the folder's FILE.so, sorted by name: below 0 where there is no such folder. */
int sp_registry_list_dir(const char *dir, struct dirent ***names);
/* Is the folder's file `name` a link to another file of the folder, which is there? So a module of several stages has
 * the names of all of them. */
bool sp_registry_link_beside(const char *dir, const char *name, char target[NAME_MAX + 1]);

#endif
