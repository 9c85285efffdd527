/* SPDX-License-Identifier: MIT
 * known_sets.c - public data sets whose labels, or whose parts, are in lists of their own form: they are known by the
 * files that they have, and scripts/tools/spcore_import.py, which has a row for each, reads the lists. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "table.h"

enum { MOST_STEPS = 3 };

typedef struct known {
  const char *name, *has[2]; /* files, or folders where / is behind; has[0] is named */
  int is_whole;              /* folders of classes are there: only the parts are in lists */
  const char *masks;         /* masks that are read, as mask_values; NULL: there are none */
} known;

static const known sets[] = {
    {"Tiny ImageNet", {"val/val_annotations.txt", "train/"}, 0, NULL},
    {"CUB-200", {"train_test_split.txt", "images.txt"}, 1, NULL},
    {"Food-101", {"meta/train.txt", "meta/test.txt"}, 1, NULL},
    {"Stanford Dogs", {"train_list.mat", "test_list.mat"}, 1, NULL},
    {"Stanford Dogs", {"lists/train_list.mat", "lists/test_list.mat"}, 1, NULL},
    {"DTD", {"labels/train1.txt", "labels/test1.txt"}, 1, NULL},
    {"Oxford 102 Flowers", {"imagelabels.mat", "setid.mat"}, 0, NULL},
    {"FGVC-Aircraft", {"images_variant_train.txt", "images/"}, 0, NULL},
    {"Stanford Cars", {"devkit/cars_train_annos.mat", "cars_train/"}, 0, NULL},
    {"Oxford-IIIT Pet", {"annotations/trainval.txt", "annotations/trimaps/"}, 0, "1=pet,2=background,3=border"},
    {"ImageNet", {"LOC_val_solution.csv", "ILSVRC/"}, 0, NULL},
    {"CIFAR", {"data_batch_1", "batches.meta"}, 0, NULL},
    {"CIFAR", {"data_batch_1.bin", "batches.meta.txt"}, 0, NULL},
    {"CIFAR-100", {"train", "meta"}, 0, NULL},
    {"MNIST", {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}, 0, NULL},
    {"MNIST", {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"}, 0, NULL},
    {"SVHN", {"train_32x32.mat", "test_32x32.mat"}, 0, NULL},
};

static int is_there(const char *dir, const char *name) {
  char path[4096];
  struct stat st;
  int is_folder = name[strlen(name) - 1] == '/';
  if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path || stat(path, &st)) return 0;
  return is_folder ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode);
}

static const known *find(const char *dir) {
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    if (is_there(dir, sets[i].has[0]) && is_there(dir, sets[i].has[1])) return &sets[i];
  return NULL;
}

/* In `path`, or in folders in it that hold nothing else. */
static const known *find_below(const char *path, char dir[4096]) {
  const known *k = NULL;
  snprintf(dir, 4096, "%s", path);
  for (int step = 0; !(k = find(dir)) && step < MOST_STEPS; step++) {
    rd_names names = {0};
    size_t at = strlen(dir);
    int only = !rd_subfolders(dir, &names) && names.n == 1 &&
               snprintf(dir + at, 4096 - at, "/%s", names.v[0]) < (int)(4096 - at);
    rd_names_free(&names);
    if (!only) return NULL;
  }
  return k;
}

int rd_check_known(rd_listing *l) {
  const rd_params *p = l->p;
  char dir[4096], masks[256] = "";
  if (p->folders != RD_FOLDERS_AUTO || *p->val_path) return SP_OK;
  const known *k = find_below(p->path, dir);
  if (!k || (p->target != RD_TARGET_CLASS && (k->is_whole || k->masks))) return SP_OK;
  if (k->masks)
    snprintf(masks, sizeof masks,
             "; its masks, in %.*s, are read with target = \"mask\" (train_seg.lua) and `mask_values = \"%s\"`",
             (int)strlen(k->has[1]) - 1, k->has[1], k->masks);
  if (!k->is_whole)
    return l->ctx->host->fail(l->ctx, SP_E_DATA,
                              "%s is laid out as %s, with labels in %s, for target = \"class\" (train_cls.lua): "
                              "spcore_import.py %s -o NEW makes tar files of it, which are read%s",
                              dir, k->name, k->has[0], dir, masks);
  rd_note(l, "laid out as %s, whose parts, in %s, are not read: spcore_import.py %s -o NEW makes tar files with them",
          k->name, k->has[0], dir);
  return SP_OK;
}
