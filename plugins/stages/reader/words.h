/* SPDX-License-Identifier: MIT
 * words.h - labels as files say them: numbers, or names of classes. */
#ifndef SP_PLUGINS_READER_WORDS_H
#define SP_PLUGINS_READER_WORDS_H

#include "table.h"

#define RD_MOST_CLASSES 1000000 /* that a label alone may ask for */

/* The different labels of a set, each with the place where it stood first. Zero-initialised is empty. */
typedef struct rd_words {
  rd_numbered words;
  rd_names places;
  size_t most;  /* bytes of one; 0: those of the name of a class */
  int empty;    /* one may be empty */
  int as_given; /* classes have the order in which the words came */
  int as_names; /* what is written in digits is a name, too */
} rd_words;
void rd_words_free(rd_words *w);

/* *id: the number of this label, without the blanks around it; where: as messages call its place. SP_OK, SP_E_NOMEM, or
 * SP_E_DATA: it is empty, or has a line break, or is no UTF-8. */
int rd_add_word(rd_words *w, const char *text, size_t n, const char *where, int64_t *id);

/* What samples of the table have as labels, which are numbers of words, become numbers of classes: by classes.txt in
 * `folder`, else the words are numbers themselves, or names that are sorted. Sets the table's classes and their names.
 * Samples of one class become neighbours in each part, as they are in a folder of classes, and else stay in order;
 * their keys become those of the files PART/CLASS/STEM, so that they are on the same side of a split. stem() writes
 * that; NULL: order and keys stay. */
int rd_number_words(rd_listing *l, const char *folder, const rd_words *w,
                    void (*stem)(const rd_table *t, const rd_sample *s, char *to, size_t size));

/* ---- word_check.c ---- */
/* What words say that may be read in two ways: no label, several labels, names that differ by case alone. alias[i]
 * becomes the number of the word that word i stands for, or -1: it is none. is_known(arg, word):
 * a list of classes has it. */
int rd_judge_words(rd_listing *l, const rd_words *w, int (*is_known)(void *arg, const char *word), void *arg,
                   int64_t *alias);
int rd_is_missing(const char *cell); /* empty, nan, NA and the like */
/* A whole number, as 7, 07 or 7.0. */
int rd_is_whole(const char *word, int64_t *v);
/* 1: they differ by case, blanks or accents alone. */
int rd_is_alike(const char *a, const char *b);

/* The first two names, of a line each, that differ by case, blanks or accents alone; 0: there are none. */
int rd_find_alike(const char *names, char a[256], char b[256]);

/* settle() of such layouts. */
int rd_settle_words(sp_ctx *ctx, rd_self *self);

#endif
