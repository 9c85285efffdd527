/* SPDX-License-Identifier: MIT
 * text.h - files of text as programs and people write them, in one form: UTF-8 without a mark, lines that end in LF. */
#ifndef SP_PLUGINS_TEXT_H
#define SP_PLUGINS_TEXT_H

#include <stddef.h>

#include <spcore/abi.h>

enum { TEXT_WHY = 256 }; /* bytes of words */

typedef struct text_file {
  char *p;  /* n bytes and a 0, on the heap; NULL: there is no such file */
  size_t n; /* without a 0 in them */
} text_file;

/* Reads the file: UTF-8 with or without a byte order mark, or UTF-16 with one; CR LF and CR become LF. Bytes that are
 * no UTF-8 stay, as names of files may have them. most: bytes that it may have. head: takes so many of its first bytes
 * alone; 0: all. SP_OK, also where there is no such file, SP_E_IO, SP_E_NOMEM or SP_E_DATA: `why` says what is wrong,
 * without the file's name, and how to mend it. */
int text_read(const char *path, size_t most, size_t head, text_file *out, char why[TEXT_WHY]);
void text_free(text_file *t);
/* The memory of the bytes begin..end - 1 goes back to the system: they are read no more. */
void text_drop(text_file *t, size_t begin, size_t end);

/* Where the first byte is that is no UTF-8; n: there is none. */
size_t text_wrong(const char *p, size_t n);
/* Bytes of the blank at p, of n that there are; 0: it is none. */
size_t text_blank(const char *p, size_t n);
/* Takes blanks off both ends: all that are below ' ', and those of Unicode, as of no width or not to be broken at. */
void text_trim(char **p, char **end);
/* Blanks of Unicode within n bytes become ' '. Returns how many bytes are left. */
size_t text_plain_blanks(char *p, size_t n);

#endif
