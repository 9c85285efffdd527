/* SPDX-License-Identifier: MIT
 * tar.h - tar files whose members are read at random: where each lies is found once, by libarchive, its bytes by pread.
 * Of .gz and .zst files the process keeps one copy without compression, in a file that has no name. */
#ifndef SP_PLUGINS_TAR_H
#define SP_PLUGINS_TAR_H

#include <stddef.h>
#include <stdint.h>

#include <spcore/plugin.h>

typedef struct tar_file tar_file;

/* What opening has unpacked. compressed: files that were unpacked now or before. */
typedef struct tar_unpacked {
  size_t files, compressed;
  int64_t bytes;
  char dir[1024]; /* where to: $TMPDIR, or /var/tmp */
} tar_unpacked;

/* Opens a tar file, and unpacks it where it is compressed, which its first bytes say, and no file that is open
 * shares what was unpacked of it. Counts that in `unpacked`. name: what words call it, as it may come from
 * elsewhere; NULL: by its path. SP_E_UNSUPPORTED: the build has no libarchive. */
int tar_open(sp_ctx *ctx, const char *path, const char *name, tar_unpacked *unpacked, tar_file **out);
void tar_close(tar_file *t);

/* name lives as long as the call. at: of its bytes, for tar_read; is_link: it has none of its own; archive: of several
 * that lie one behind another in the file, as `cat a.tar b.tar` makes it, from 0. */
typedef struct tar_member {
  const char *name;
  int64_t at, size;
  int is_link, archive;
} tar_member;

/* Calls found() for the members in order, but for folders and devices. What it returns besides SP_OK ends the walk. */
int tar_walk(sp_ctx *ctx, const tar_file *t, int (*found)(void *arg, const tar_member *m), void *arg);

/* Several threads may call it at once. Not SP_OK: `why` has words, without the file's name. */
int tar_read(const tar_file *t, int64_t at, void *to, size_t bytes, char *why, size_t why_bytes);

#endif
