/* SPDX-License-Identifier: MIT
 * names.h - lists of names, and what names of files say. */
#ifndef SP_PLUGINS_READER_NAMES_H
#define SP_PLUGINS_READER_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* The names lie one behind another in a few large pieces. Zero-initialised is empty. */
typedef struct rd_names {
  char **v;
  size_t n, cap;
  struct rd_piece *piece;
} rd_names;
void rd_names_free(rd_names *l);
void rd_names_clear(rd_names *l);             /* keeps memory for the next ones */
int rd_names_add(rd_names *l, const char *s); /* keeps a copy; SP_OK or SP_E_NOMEM */
void rd_names_sort(rd_names *l, int (*order)(const void *a, const void *b));
/* Orders of pointers to strings. By full name "a-1.png" lies between "a.jpg" and "a.png"; by stem equal ones are
 * neighbours. */
int rd_by_name(const void *a, const void *b);
int rd_by_stem(const void *a, const void *b);

/* Different names, each with a number: the order in which they came. */
typedef struct rd_numbered {
  rd_names names;
  uint32_t *slots; /* 1 + the number, at the hash or behind it; 0: free */
  size_t n_slots;
} rd_numbered;
void rd_numbered_free(rd_numbered *l);
int64_t rd_number_of(rd_numbered *l, const char *s); /* adds it where it is new; -1: no memory */
int rd_has_number(const rd_numbered *l, const char *s);

size_t rd_stem_length(const char *name);
int rd_is_picture(const char *name); /* by its ending: RD_ENDINGS in any case */
int rd_is_mask(const char *name);    /* by its ending: .png, in any case */
int rd_is_array(const char *name);
int rd_is_image(const char *name);   /* .npy */
int rd_has_labels(const char *name); /* one of the two, or TIFF: its numbers are those that were saved */
int rd_same_stem(const char *a, const char *b);
char **rd_find_stem(const rd_names *names, const char *stem); /* sorted by stem: the first that has it, or NULL */
uint64_t rd_hash_name(const char *name);                      /* of all but the ending */
uint64_t rd_hash_bytes(const char *p, size_t n);

#endif
