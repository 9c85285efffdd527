/* SPDX-License-Identifier: MIT
 * fuzz_text.c - damaged text and .csv files: read as UTF-8 or refused in words, rows with all of their fields. */
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "plugins/kits/text/text.h"
#include "plugins/kits/what/what.h"
#include "plugins/stages/reader/csv_file.h"

#define BYTES(s) s, sizeof(s) - 1

static const struct {
  const char *bytes;
  size_t n;
} seeds[] = {
    {BYTES("\xEF\xBB\xBF" "file,label\r\nin\\a.png,ant\r\n\"in/b, c.png\",\"be\"\"e\"\r\n , \r\n")},
    {BYTES("a\rb \xC2\xA0\rd\xC3\xA9j\xC3\xA0 vu\xE3\x80\x80\r\r")},
    {BYTES("\xFF\xFE" "f\0,\0l\0\r\0\n\0\x3D\xD8\x00\xDE,\0\xE9\0\n\0")},
    {BYTES("\xFE\xFF" "\0f\0,\0l\0\n\0\"\0x\0\n\0\"\0,\0y")},
    {BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n")},
    {BYTES("sep=;\nimage;age\n\"a;b.png\";1,5\n")},
    {BYTES("image\tdx\na b.png\t\"x\ty\"\n\t\n")},
    {BYTES("a.png  cat \n\"b c.png\" dog")},
    {BYTES("PK\3\4\24\0\0\0\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0a.npy")},
};

/* All rows of the file; whether it was read to its end. */
static int take_rows(const char *path, int separator) {
  rd_csv_file c;
  int status = rd_csv_open(NULL, path, separator, &c);
  size_t sum = 0;
  while (!status && !(status = rd_csv_next(&c)) && c.n)
    for (int i = 0; i < c.n; i++) sum += strlen(rd_csv_field(&c, i));
  rd_csv_close(&c);
  return !status && sum < SIZE_MAX;
}

static void look_at(const text_file *t, long r) {
  char *p = t->p, *end = p + t->n;
  FZ_CHECK(strlen(t->p) == t->n && !memchr(t->p, '\r', t->n), "round %ld: a 0 or CR is left", r);
  FZ_CHECK(text_wrong(t->p, t->n) <= t->n, "round %ld: text_wrong", r);
  text_trim(&p, &end);
  FZ_CHECK(p >= t->p && p <= end && end <= t->p + t->n, "round %ld: text_trim", r);
  FZ_CHECK(text_plain_blanks(p, (size_t)(end - p)) <= (size_t)(end - p), "round %ld: text_plain_blanks", r);
}

int main(int argc, char **argv) {
  fz f;
  long rounds = fz_begin(&f, argc, argv, 20000), taken = 0, rows = 0;
  char path[64], why[TEXT_WHY], what[WHAT_WORDS];
  int fd = memfd_create("fuzz", 0);
  FZ_CHECK(fd >= 0, "no file in memory");
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  for (long r = 0; r < rounds; r++) {
    uint32_t k = fz_below(&f, sizeof seeds / sizeof *seeds);
    uint8_t bytes[256];
    memcpy(bytes, seeds[k].bytes, seeds[k].n);
    size_t n = fz_mutate(&f, bytes, seeds[k].n);
    FZ_CHECK(!ftruncate(fd, 0) && pwrite(fd, bytes, n, 0) == (ssize_t)n, "the file cannot be written");
    uint8_t *exact = malloc(n); /* so that a read beyond it is seen */
    FZ_CHECK(exact, "no memory");
    what_is(memcpy(exact, bytes, n), n, what);
    free(exact);
    text_file t;
    int status = text_read(path, sizeof bytes, 0, &t, why);
    if (status) FZ_CHECK(*why && !t.p, "round %ld: refused without words", r);
    else look_at(&t, r), taken++;
    text_free(&t);
    rows += take_rows(path, (int)fz_below(&f, 2 * RD_SEPARATORS) % RD_SEPARATORS);
  }
  close(fd);
  printf("%ld rounds, %ld taken, %ld with rows\n", rounds, taken, rows);
  FZ_CHECK(rounds < 1000 || (taken > rounds / 20 && rows > rounds / 20), "the mutations are too harsh");
  return 0;
}
