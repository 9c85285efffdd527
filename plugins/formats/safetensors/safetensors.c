/* SPDX-License-Identifier: MIT
 * safetensors.c - the plugin: what the format is called, and its data types. */
#include "st.h"

#include <string.h>

#include <spcore/plugin.h>

static const struct {
  const char *word;
  int dtype;
} words[] = {{"U8", SP_U8},   {"I8", SP_I8},     {"I32", SP_I32}, {"I64", SP_I64},
             {"F16", SP_F16}, {"BF16", SP_BF16}, {"F32", SP_F32}, {"F64", SP_F64}};

const char *st_dtype_word(int dtype) {
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (words[i].dtype == dtype) return words[i].word;
  return NULL;
}

int st_dtype_of(const char *word) {
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i].word, word)) return words[i].dtype;
  return 0;
}

/* Those of the format that we have not. */
static const struct {
  const char *word;
  unsigned bits;
} others[] = {{"BOOL", 8},        {"U16", 16},    {"I16", 16},    {"U32", 32},    {"U64", 64},
              {"C64", 64},        {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
              {"F8_E5M2FNUZ", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}};

unsigned st_bits(const char *word) {
  int dtype = st_dtype_of(word);
  if (dtype) return (unsigned)st_dtype_size(dtype) * 8;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (!strcmp(others[i].word, word)) return others[i].bits;
  return 0;
}

size_t st_dtype_size(int dtype) {
  switch (dtype) {
#define ST_SIZE(name, value, bytes, word) \
  case name: return bytes;
    SP_DTYPE_LIST(ST_SIZE)
#undef ST_SIZE
    default: return 0;
  }
}

int st_bytes(const sp_spec *spec, unsigned bits, uint64_t *bytes) {
  uint64_t n = 1;
  for (int d = 0; d < spec->ndim; d++)
    if (spec->shape[d] < 0 || __builtin_mul_overflow(n, (uint64_t)spec->shape[d], &n)) return 0;
  if (n % 8 * bits % 8 || __builtin_mul_overflow(n / 8, (uint64_t)bits, bytes)) return 0;
  return !__builtin_add_overflow(*bytes, n % 8 * bits / 8, bytes) && *bytes <= INT64_MAX;
}

static const sp_format_type st_format = {.size = sizeof(sp_format_type),
                                         .name = "safetensors",
                                         .extension = ".safetensors",
                                         .doc = "Weights as other frameworks read them",
                                         .open = st_open,
                                         .entries = st_entries,
                                         .read = st_read,
                                         .close = st_close,
                                         .write = st_write};
static const sp_format_type *const formats[] = {&st_format, NULL};

SP_PLUGIN_WITH("safetensors", "Weight files", NULL, NULL, formats);
