/* SPDX-License-Identifier: MIT
 * text.h - the words of a contact sheet: captions made of numbers, and lines that fit a width. */
#ifndef CONTACT_SHEET_TEXT_H
#define CONTACT_SHEET_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <spcore/plugin.h>

#define CS_WORDS 512 /* bytes of a caption */

/* The next character of UTF-8 text; *s moves on. What is no UTF-8 is U+FFFD; marks that a letter is
 * combined with are passed over. 0 at the end, where *s stays. */
uint32_t cs_next(const char **s);

/* The next line of at most `width` characters (at least 1): *s moves behind it and the blanks there, the result is its
 * length in bytes. It breaks at blanks and '\n', and within a word that is longer than the line. */
size_t cs_take_line(const char **s, int width);
int cs_count_lines(const char *s, int width);
int cs_longest_word(const char *s); /* letters between blanks and line breaks */

/* A caption is text with {} where a number of its tensor goes, in the order of the columns:
 *   {}            a whole number as it is, others with up to 6 digits
 *   {.2}, {+.2}   so many digits behind the point, + with its sign
 *   {no|yes}      the word that the number counts, from 0; the number itself where there is none
 * Words are those of the caller: NULL, or what is wrong with it. */
const char *cs_check_caption(const char *text, int64_t columns);
/* The caption of row n of t, a tensor of N or N x columns numbers; t NULL: with numbers of usual length. */
void cs_write_caption(const char *text, const sp_tensor *t, int64_t n, char out[CS_WORDS]);

#endif
