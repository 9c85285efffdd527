/* SPDX-License-Identifier: MIT
 * folders.c - what lies in a folder. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "table.h"

int rd_entry_kind(const char *path, const struct dirent *e) {
  struct stat st;
  if (e->d_type == DT_DIR || e->d_type == DT_REG) return e->d_type;
  if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN) return DT_UNKNOWN;
  if (stat(path, &st)) return -1;
  return S_ISDIR(st.st_mode) ? DT_DIR : S_ISREG(st.st_mode) ? DT_REG : DT_UNKNOWN;
}

int rd_is_folder(const char *base, const char *sub) {
  char path[4096];
  struct stat st;
  return snprintf(path, sizeof path, "%s/%s", base, sub) < (int)sizeof path && !stat(path, &st) && S_ISDIR(st.st_mode);
}

int rd_subfolders(const char *base, rd_names *out) {
  char path[4096];
  DIR *d = opendir(base);
  int rc = d ? 0 : -1;
  errno = d ? 0 : errno;
  for (struct dirent *e; !rc && (e = readdir(d)); errno = 0) {
    if (rd_is_junk(e->d_name)) continue;
    if (snprintf(path, sizeof path, "%s/%s", base, e->d_name) >= (int)sizeof path) errno = ENAMETOOLONG;
    else if (rd_entry_kind(path, e) == DT_DIR && rd_names_add(out, e->d_name)) errno = ENOMEM;
    else continue;
    rc = -1;
    break; /* with errno as it is */
  }
  if (d && !rc && errno) rc = -1;
  int why = errno;
  if (d) closedir(d);
  errno = why;
  if (!rc) rd_names_sort(out, rd_by_name);
  return rc;
}
