/* SPDX-License-Identifier: MIT
 * reader_params.c - ports and parameters of the stage `reader`. */
#include "csv_params.h"
#include "reader.h"

const char *const rd_targets[] = {"mask", "class", "labels", "numbers", "map", NULL}; /* RD_TARGET_... */

const sp_port rd_outputs[] = {
    {.name = "image",
     .dtypes = SP_DT(SP_U8) | SP_DT(SP_F32),
     .ndim = 4,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "RGB images, N x 3 x H x W, or with grey N x 1 x H x W; with dtype and channels what these say"},
    {.name = "mask",
     .dtypes = SP_DT(SP_U8) | SP_DT(SP_F32),
     .ndim = 3,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "labels of the pixels, N x H x W; 255: no label; with target map their values, float32, NaN: none; of "
            "shapes with target class 0 is ground, 1 + label the shape"},
    {.name = "label",
     .dtypes = SP_DT(SP_U8) | SP_DT(SP_I32) | SP_DT(SP_F32),
     .ndim = -1,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "class of each image, N, int32 where there are more than 256; with target mask 255: no label; with target "
            "labels N x C of 0 and 1, with target numbers N x K"},
    {.name = "origin",
     .dtypes = SP_DT(SP_I32),
     .ndim = 2,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc =
         "N x 3: which of the whole set the sample is, of a broken file's that of its replacement (with check: -1 less "
         "its own); height and width that its file has, turned as orient says"},
    {.name = "second",
     .dtypes = SP_DT(SP_U8) | SP_DT(SP_F32),
     .ndim = 4,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc =
         "of data with two images a sample (A/ and B/, before/ and after/, left/ and right/) the second one, as image "
         "is"},
    {.name = NULL}};

static const sp_param file_fields[] = {{.name = "path",
                                        .type = SP_PARAM_STRING,
                                        .flags = SP_PARAM_REQUIRED | SP_PARAM_FIRST,
                                        .offset = offsetof(rd_file, path),
                                        .doc = "JPEG, PNG, WebP, TIFF, BMP, GIF or PNM file"},
                                       {.name = NULL}};

static const char *const folders_choices[] = {"auto", "parts", "classes", NULL}; /* RD_FOLDERS_... */
static const char *const split_choices[] = {"all", "train", "val", NULL};

#define OFFSET(member) offsetof(rd_params, member)
#define AT(member) .offset = OFFSET(member)
const sp_param rd_param_table[] = {
    {.name = "path",
     .type = SP_PARAM_STRING,
     AT(path),
     .doc =
         "folder with images/ and masks/ (same stem, masks PNG, TIFF or .npy), folder with a subfolder of images for "
         "each class (target class), folder with train/ and val/ of such layout, PASCAL VOC's, a .csv file with a row "
         "for each image, tar files, a pattern or a .txt list of them, also at HTTP(S) addresses, .npy files, or a "
         "built-in set: shapes, random"},
    {.name = "target",
     .type = SP_PARAM_CHOICE,
     AT(target),
     .idef = RD_TARGET_MASK,
     .choices = rd_targets,
     .doc = "what is known of an image: a label for each pixel, one class, several (labels), numbers, or a number for "
            "each pixel (map)"},
    {.name = "files",
     .type = SP_PARAM_LIST,
     AT(files),
     .fields = file_fields,
     .fields_size = sizeof(rd_file),
     .doc = "images without masks, in this order, instead of path; at most 1024, all labels are 255"},
    IM_SIZE_ROW(OFFSET(size), "height and width that everything is resized to; one number: square"),
    IM_WORKERS_ROW(OFFSET(workers), "threads that fill one batch"),
    {.name = "split",
     .type = SP_PARAM_CHOICE,
     AT(split),
     .idef = RD_ALL,
     .choices = split_choices,
     .doc = "which samples: all, those for training or those for validation; of data that says so itself (train/ and "
            "val/, lists, a column split, val_path) what it says"},
    {.name = "val_fraction",
     .type = SP_PARAM_FLOATS,
     AT(val_fraction),
     .min = 0.0,
     .max = 0.9,
     .min_n = 1,
     .max_n = 1,
     .doc =
         "part of the samples that is for validation (not given: default_val_fraction), rounded to the nearest count; "
         "chosen by name or number; not for data that says itself what is for validation"},
    {.name = "default_val_fraction",
     .type = SP_PARAM_FLOAT,
     AT(default_val_fraction),
     .def = RD_VAL_FRACTION,
     .min = 0.0,
     .max = 0.9,
     .doc = "val_fraction where that is not given and the data does not say itself what is for validation"},
    {.name = "sampling",
     .type = SP_PARAM_STRING,
     AT(sampling),
     .doc =
         "steps draw samples: \"balanced\": each class as often, or a number for each class, such as \"1,2,1\": how "
         "often, relative to the others; \"column:NAME\": each sample as often as the .csv file's column says, "
         "\"file:PATH\": as a file with a number a line says (not given: each sample once an epoch)"},
    {.name = "val_path",
     .type = SP_PARAM_STRING,
     AT(val_path),
     .doc = "another folder of the same layout: its samples are those for validation, those of path for training"},
    {.name = "folders",
     .type = SP_PARAM_CHOICE,
     AT(folders),
     .idef = RD_FOLDERS_AUTO,
     .choices = folders_choices,
     .doc = "what subfolders called train, valid, test and the like are: auto: parts of the data, an error where they "
            "could be classes too; parts: parts, and other folders are left out; classes: classes like any other"},
    {.name = "folds",
     .type = SP_PARAM_INT,
     AT(folds),
     .idef = 0,
     .imin = 0,
     .imax = 1000,
     .doc = "the samples are divided into so many folds, of which `fold` validates; each sample is in one of them; 0: "
            "val_fraction divides"},
    {.name = "fold",
     .type = SP_PARAM_INT,
     AT(fold),
     .idef = 0,
     .imin = 0,
     .imax = 1000,
     .doc = "which of `folds` validates, from 1"},
    {.name = "limit",
     .type = SP_PARAM_INT,
     AT(limit),
     .idef = 0,
     .imin = 0,
     .imax = INT32_MAX,
     .doc =
         "at most so many samples, before the split, for a quick try: the first of an order that depends on the names "
         "alone, each class by its share; of data that says itself what is for validation so many of each part; 0: "
         "all"},
    {.name = "mask_name",
     .type = SP_PARAM_STRING,
     AT(mask_name),
     .doc = "how masks are called, * being the stem of the image, as \"*_mask\", or \"img_*=mask_*\" where images have "
            "more than that too; not given: of the same stem, or by the one rule that fits them all"},
    {.name = "mask_folder",
     .type = SP_PARAM_STRING,
     AT(mask_folder),
     .doc = "which folder has the masks, where several may: of data with two images a sample, such as label1 beside "
            "label2; of folders within masks/; of VOC, SegmentationClassAug"},
    {.name = "second_name",
     .type = SP_PARAM_STRING,
     AT(second_name),
     .doc = "of two images a sample in one folder: what the names of the first ones have, and those of the second ones "
            "instead, as \"_pre=_post\"; not given: each image is a sample"},
    {.name = "mask_values",
     .type = SP_PARAM_STRING,
     AT(mask_values),
     .doc =
         "which class a value of the masks is, as \"0=bg,255=fg\", with ranges (0-127=bg), colours (#ff0000=fg), and "
         "ignore for no label; /1000 in front divides values from 1000 on, class * 1000 + k; without classes.txt it "
         "names the classes, in this order"},
    {.name = "samples",
     .type = SP_PARAM_INT,
     AT(samples),
     .idef = 0,
     .imin = 0,
     .imax = INT32_MAX,
     .doc = "samples before the split: shapes and random make so many (0: 2048), of a folder the first, or with target "
            "class a choice by name (0: all); of data that says itself what is for validation so many of each part"},
    {.name = "classes",
     .type = SP_PARAM_INT,
     AT(classes),
     .idef = 0,
     .imin = 0,
     .imax = INT32_MAX,
     .doc =
         "of random (0: 10), or of files (0: as many as classes.txt has lines, there are subfolders, or their labels "
         "name); shapes has 6, with target class 5; at most 255 with target mask"},
    {.name = "max_bad",
     .type = SP_PARAM_INT,
     AT(max_bad),
     .idef = 16,
     .imin = 0,
     .imax = INT32_MAX,
     .doc = "how many broken files are replaced by others before the run stops"},
    IM_MAX_PIXELS_ROW(OFFSET(max_pixels), "an image whose header says more counts as broken"),
    IM_RESIZE_ROW(OFFSET(fit.how), "how files of another shape than size are fitted: squash changes the aspect; crop "
                                   "keeps it and cuts the middle out; pad keeps it and fills with 0, masks with 255"),
    IM_SHORTER_ROW(OFFSET(fit.shorter), "the shorter side of a file becomes this, and size is cut out of the middle; "
                                        "0: resize says what is done"),
    IM_INTERPOLATION_ROW(OFFSET(fit.interpolation), "of images, with antialiasing; bicubic has Pillow's bits. Masks "
                                                    "take the nearest pixel"),
    IM_ORIENT_ROW(OFFSET(orient), "images and masks are turned upright as their EXIF orientation says; false: as "
                                  "they are stored"),
    IM_GREY_ROW(OFFSET(grey), "images have one channel, their brightness, as Pillow's mode L"),
    IM_KEEP_ROWS(OFFSET(keep)),
    {.name = "map_scale",
     .type = SP_PARAM_STRING,
     AT(map_scale),
     .doc = "with target map: what a number of the files is multiplied by, as \"1/256\" or \"0.001\"; not given: 1"},
    {.name = "map_offset",
     .type = SP_PARAM_FLOAT,
     AT(map_offset),
     .def = 0.0,
     .min = -1e30,
     .max = 1e30,
     .doc = "with target map: added to that"},
    {.name = "map_nodata",
     .type = SP_PARAM_STRING,
     AT(map_nodata),
     .doc = "with target map: the number in files that says that a pixel has no value, as \"0\" or \"-9999\"; "
            "\"none\": every number is one; NaN, infinite ones and what a TIFF's GDAL tag says have none in any case; "
            "not given: a file with a 0 is an error that asks"},
    {.name = "map_range",
     .type = SP_PARAM_STRING,
     AT(map_range),
     .doc = "with target map: \"LO,HI\": values outside, after scale and offset, do not count; they are reported"},
    RD_CSV_ROWS,
    {.name = "cache_dir",
     .type = SP_PARAM_STRING,
     AT(cache_dir),
     .doc =
         "folder for what is fetched from addresses; not given: shards/ in $SPCORE_CACHE, else ~/.cache/spcore/shards"},
    {.name = "cache_size",
     .type = SP_PARAM_STRING,
     AT(cache_size),
     .doc = "bytes of that folder, such as \"20G\": what was used longest ago and nobody reads is deleted; not given: "
            "any"},
    {.name = "data_checksums",
     .type = SP_PARAM_STRING,
     AT(data_checksums),
     .doc = "file with the SHA-256 of each shard at an address, as sha256sum prints it; not given: SHARD.sha256 at the "
            "server"},
    {.name = "fetch_tries",
     .type = SP_PARAM_INT,
     AT(fetch_tries),
     .idef = 5,
     .imin = 1,
     .imax = 1000,
     .doc = "how often a request is tried that may succeed later"},
    {.name = "fetch_pause",
     .type = SP_PARAM_FLOAT,
     AT(fetch_pause),
     .def = 0.5,
     .min = 0.0,
     .max = 60.0,
     .unit = "s",
     .doc = "before the second try; doubled before each further one"},
    {.name = "fetch_timeout",
     .type = SP_PARAM_FLOAT,
     AT(fetch_timeout),
     .def = 60.0,
     .min = 1.0,
     .max = 3600.0,
     .unit = "s",
     .doc = "after so long without a byte a try has failed"},
    {.name = "check",
     .type = SP_PARAM_BOOL,
     AT(check),
     .idef = 0,
     .doc =
         "every sample that is wrong is named, its image is black and nothing takes its place: to look for mistakes, "
         "not to train"},
    {.name = "data_seed",
     .type = SP_PARAM_INT,
     AT(data_seed),
     .idef = 0,
     .imin = 0,
     .imax = INT32_MAX,
     .doc = "seed of the built-in sets"},
    {.name = NULL}};
