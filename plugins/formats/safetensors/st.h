/* SPDX-License-Identifier: MIT
 * st.h - the safetensors format: u64 length, JSON header, data. Shared by its reader and its writer. */
#ifndef SP_PLUGINS_ST_H
#define SP_PLUGINS_ST_H

#include <spcore/format.h>

#define ST_MAX_HEADER (UINT64_C(16) << 20)
#define ST_META "__metadata__"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensor data is copied as it lies, which is little-endian");

/* The format's word for a dtype, or NULL; and back, or 0. */
const char *st_dtype_word(int dtype);
int st_dtype_of(const char *word);
size_t st_dtype_size(int dtype);
/* Of an element of any type of the format, also of those that we have not; 0: there is no such type. */
unsigned st_bits(const char *word);
/* Bytes of a tensor of elements of so many bits; false where they overflow, an extent is negative,
 * or bits are left over. */
int st_bytes(const sp_spec *spec, unsigned bits, uint64_t *bytes);

int st_open(sp_ctx *ctx, const char *path, void **file);
int st_entries(void *file, const sp_entry **entries, size_t *n, const sp_meta **meta, size_t *n_meta);
int st_read(sp_ctx *ctx, void *file, size_t i, void *dst, size_t bytes);
void st_close(void *file);
int st_write(sp_ctx *ctx, const char *path, const sp_entry *entries, size_t n, const sp_meta *meta, size_t n_meta);

#endif
