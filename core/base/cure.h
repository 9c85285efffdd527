/* SPDX-License-Identifier: MIT
 * cure.h - what a stage's message says to do, as it is typed in the command that prints it.
 *
 * Stages know their parameters, not who gives them. A message has a cure between backquotes, "take a smaller batch, or
 * `drop_last = false`". Where the command takes options, the option for it stands behind: "drop_last = false (--set
 * reader.drop_last=false)", or the script's own for that parameter. */
#ifndef SP_CORE_CURE_H
#define SP_CORE_CURE_H

#include <stddef.h>

/* From now on the command line gives STAGE.NAME (a type of stage and its parameter) by this option; all others by
 * --set. param is NULL: only that the command line takes --set. The strings are copied; without memory the cure is
 * printed without its option. [one thread, before graphs] */
void sp_cure_option(const char *param, const char *option);

/* Rewrites the cures in `text`, which has room for `size` bytes. stage: the type of the stage that says it. */
void sp_cure_words(char *text, size_t size, const char *stage);

#endif
