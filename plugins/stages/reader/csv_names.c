/* SPDX-License-Identifier: MIT
 * csv_names.c - what people call the columns of a .csv file. */
#include "csv_names.h"

#include <ctype.h>
#include <string.h>

#include "csv.h"

const char *const rd_called_files[] = {
    "file",          "filename", "filenames", "filepath",  "filepaths",   "files",     "path",
    "paths",         "image",    "images",    "imagepath", "imagepaths",  "imagefile", "imagename",
    "imagefilename", "imgpath",  "imgfile",   "imgname",   "imgfilename", "img",       "imgs",
    "picture",       "photo",    "photopath", "pic",       "fname",       NULL};
const char *const rd_called_ids[] = {"id",     "imageid", "imgid", "photoid", "pictureid", "imageindex",
                                     "fileid", "name",    "key",   "uid",     "uuid",      NULL};
const char *const rd_called_labels[] = {
    "label",         "labels",  "class",  "classes", "classname", "classid",    "classlabel",   "classnames",
    "labelname",     "labelid", "target", "targets", "category",  "categoryid", "categoryname", "categories",
    "diagnosis",     "dx",      "tag",    "tags",    "species",   "breed",      "gt",           "groundtruth",
    "findinglabels", NULL};
const char *const rd_called_masks[] = {
    "mask",         "masks",        "maskpath",         "maskfile",         "maskname",
    "maskfilename", "segmentation", "segmentationpath", "segmentationfile", "seg",
    "labelpath",    "labelfile",    "annotationpath",   "annotationfile",   NULL};
const char *const rd_called_maps[] = {
    "map",      "maps",      "mappath",    "mapfile",       "depth",     "depths",
    "depthmap", "depthpath", "depthfile",  "depthfilename", "disparity", "disparitypath",
    "height",   "heightmap", "heightpath", "dsm",           NULL};
const char *const rd_called_splits[] = {"split",        "set",       "fold",      "subset",   "partition", "part",
                                        "phase",        "usage",     "datasplit", "dataset",  "isvalid",   "isval",
                                        "isvalidation", "traintest", "trainval",  "splitset", NULL};

void rd_plain_name(const char *name, char to[64]) {
  size_t n = 0;
  for (; *name && n < 63; name++)
    if (isalnum((unsigned char)*name) || (unsigned char)*name >= 128) to[n++] = (char)tolower((unsigned char)*name);
  to[n] = 0;
}

int rd_is_called(const char *const *list, const char *name) {
  char low[64];
  rd_plain_name(name, low);
  for (; *list; list++)
    if (!strcmp(*list, low)) return 1;
  return 0;
}

int rd_csv_is_label(const char *name) { return rd_is_called(rd_called_labels, name); }

int rd_is_index_name(const char *name) {
  char low[64];
  rd_plain_name(name, low);
  return !*low || !strncmp(low, "unnamed", 7) || !strcmp(low, "index") || !strcmp(low, "idx");
}
