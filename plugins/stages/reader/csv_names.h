/* SPDX-License-Identifier: MIT
 * csv_names.h - what people call the columns of a .csv file. */
#ifndef SP_PLUGINS_READER_CSV_NAMES_H
#define SP_PLUGINS_READER_CSV_NAMES_H

/* Names as rd_plain_name() leaves them, NULL behind the last. */
extern const char *const rd_called_files[];
extern const char *const rd_called_ids[]; /* of samples, by name or number */
extern const char *const rd_called_labels[];
extern const char *const rd_called_masks[];
extern const char *const rd_called_maps[];
extern const char *const rd_called_splits[];

/* Letters and digits, in lower case. */
void rd_plain_name(const char *name, char to[64]);
int rd_is_called(const char *const *list, const char *name);
int rd_is_index_name(const char *name); /* of a column that counts the rows */

#endif
