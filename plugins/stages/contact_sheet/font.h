/* SPDX-License-Identifier: MIT
 * font.h - the letters of a contact sheet. */
#ifndef CONTACT_SHEET_FONT_H
#define CONTACT_SHEET_FONT_H

#include <stdint.h>

#define CS_GLYPH_W 5
#define CS_GLYPH_H 9
#define CS_ADVANCE (CS_GLYPH_W + 1) /* from letter to letter */
#define CS_LINE (CS_GLYPH_H + 2)    /* from line to line */

/* Whether column x of row y of a character is ink; letters with marks lose them, unknown ones are a question mark.
 * This function can't fail. */
int cs_glyph(uint32_t code, int x, int y);

#endif
