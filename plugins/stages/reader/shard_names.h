/* SPDX-License-Identifier: MIT
 * shard_names.h - which tar files are read, and where those at an address lie on this machine. */
#ifndef SP_PLUGINS_READER_SHARD_NAMES_H
#define SP_PLUGINS_READER_SHARD_NAMES_H

#include "table.h"

/* Brings what `path` and `val_path` name at addresses, whichever part is read. */
int rd_fetch(sp_ctx *ctx, const rd_params *p);
int rd_shards_like(const char *dir);
/* Those of both parts, or of one; addresses without what is secret of them. */
int rd_find_shards(rd_listing *l, rd_names shards[2]);
/* Where classes.txt belongs: the folder, that of the file, the pattern or the list, or that of the address. */
void rd_shards_home(const char *path, char home[4096]);
/* The path itself, or where what was fetched lies. */
const char *rd_shard_file(const char *path);
/* Where that is, and what its content is, into the source. SP_OK or SP_E_NOMEM. */
int rd_add_fetched(rd_table *t, uint32_t source, const char *path);

#endif
