/* SPDX-License-Identifier: MIT
 * fuzz_tables.c - damaged tables of files and labels, with all ways to read them: listed, or refused in one line. */
#include "fuzz_reader.h"

static const char *const seeds[] = {
    "file,label,split\n0.png,ant,train\n1.png,bee,val\n2.png,ant,train\n0.png,ant,test\n",
    ",image_id;note;dx\n0;0;\"a;b\";ant\n1;./1;;Ant\n2;in\\2.png;x;nan\n",
    "0.png\tant bee\n1.png\tant\n2.png\tbee\n3.png\t\n",
    "file,labels\n0.png,\"['ant', 'bee']\"\n1.png,[]\n2.png,\"['c']\"\n3.png,\"a,b\"\n",
    "file,labels\n0.png,a|b\n1.png,b\n2.png,a|c\n3.png,c\n",
    "file,labels\n0.png,\"[1, 0, 1]\"\n1.png,\"[0, 0, 1]\"\n2.png,\"[0, 1, 0]\"\n",
    "image,ant,bee,cow\n0,1.0,0,0\n1,0,True,false\n2,0,0,1\n3,1,1,0\n",
    "file;x;y\n0.png;1,5;-2e3\n1.png;1,25;7\n2.png;3;4\n3.png;0,5;1\n",
    "file,x,y\n0.png,1.5,-2e3\n1.png,nan,7\n2.png,3,inf\n3.png,0.5,1\n",
    "file;x\n0.png;1.234,5\n1.png;7 kg\n3.png;1'000\n",
    "https://host/a/0.png,caf\xC3\xA9\nC:\\x\\1.png,cafe\xCC\x81\n/a/b/2.png,\xD0\x9A\n",
    "file,mask\n0.png,1.png\n2.png,m/3.png\n",
    "Unnamed: 0,path,category,class,fold\n0,0.png,a/b,a,0\n1,1.png,\"b, c\",b,1\n2,2.png,b,\"c\",2\n",
};
static const char *const options[] = {"",
                                      "missing = \"skip\"",
                                      "missing = \"class\"",
                                      "label_case = \"ignore\"",
                                      "label_case = \"keep\"",
                                      "cells = \"name\"",
                                      "cells = \"list\"",
                                      "cells = \"vector\"",
                                      "repeats = \"once\"",
                                      "repeats = \"keep\"",
                                      "header = \"no\"",
                                      "header = \"yes\"",
                                      "columns = \"file=1,label=2\"",
                                      "columns = \"2,3\"",
                                      "columns = \"file=path,split=\"",
                                      "separator = \"blank\"",
                                      "separator = \"tab\"",
                                      "root = \"in\"",
                                      "root = \"/a/b=.\"",
                                      "val_value = \"1,test\"",
                                      "label_separator = \"|\"",
                                      "decimal = \"comma\"",
                                      "decimal = \"point\"",
                                      "mean = {1}, std = {2}"};
static const char *const targets[] = {"mask", "class", "labels", "numbers"};

int main(int argc, char **argv) {
  fz f;
  long rounds = fz_begin(&f, argc, argv, 1000), taken = 0;
  const char pixel[] = "P5\n1 1\n255\n\1";
  fzr_begin();
  FZ_CHECK(!mkdir("in", 0777) && !mkdir("m", 0777), "no folder");
  for (int i = 0; i < 12; i++) {
    char name[32];
    snprintf(name, sizeof name, "%s%d.png", (const char *[]){"", "in/", "m/"}[i % 3], i / 3);
    fzr_put(name, pixel, sizeof pixel - 1);
  }
  for (long r = 0; r < rounds; r++) {
    uint8_t bytes[512];
    char params[700];
    const char *seed = seeds[fz_below(&f, sizeof seeds / sizeof *seeds)];
    size_t n = strlen(seed);
    memcpy(bytes, seed, n);
    if (fz_below(&f, 2)) n = fz_mutate(&f, bytes, n);
    fzr_put("d.csv", bytes, n);
    snprintf(params, sizeof params, "{ path = \"d.csv\", target = \"%s\", size = 1, classes = %u, %s }",
             targets[fz_below(&f, 4)], (unsigned)fz_below(&f, 2) * 3,
             options[fz_below(&f, sizeof options / sizeof *options)]);
    int good = fzr_take(params, 1);
    FZ_CHECK(good >= 0, "round %ld: %s: refused as '%s'", r, params, fzr_words);
    taken += good;
  }
  for (int i = 0; i < 12; i++) {
    char name[32];
    snprintf(name, sizeof name, "%s%d.png", (const char *[]){"", "in/", "m/"}[i % 3], i / 3);
    unlink(name);
  }
  unlink("d.csv");
  FZ_CHECK(!rmdir("in") && !rmdir("m"), "a folder is not empty");
  fzr_end();
  printf("%ld rounds, %ld taken\n", rounds, taken);
  FZ_CHECK(rounds < 1000 || taken > rounds / 50, "the mutations are too harsh");
  return 0;
}
