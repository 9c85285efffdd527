/* SPDX-License-Identifier: MIT
 * fuzz_safetensors.c - damaged weight files: read or refused in words. */
#include <unistd.h>

#include "host/stage.h"
#include "fuzz.h"
#include "tests/kit/harness.h"

static const char head[] = "{\"__metadata__\":{\"a\":\"b\"},\"x.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],"
                           "\"data_offsets\":[0,24]},\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[24,32]}}";
enum { HEAD = sizeof head - 1, DATA = 32, ALL = 8 + HEAD + DATA };

/* Opens the file and reads all that it says it has; whether it was accepted. */
static int take(const sp_format_type *st, const char *path, long round) {
  sp_err err;
  sp_ctx_holder holder;
  sp_ctx *ctx = sp_ctx_for(&holder, "safetensors", &err);
  const sp_entry *entries;
  const sp_meta *meta;
  size_t n, n_meta;
  void *file = NULL;
  if (st->open(ctx, path, &file)) {
    FZ_CHECK(err.msg[0], "round %ld: refused without words", round);
    return 0;
  }
  FZ_CHECK(st->entries(file, &entries, &n, &meta, &n_meta) == SP_OK, "round %ld: no entries", round);
  for (size_t i = 0; i < n; i++) {
    uint8_t dst[DATA];
    if (!entries[i].spec.dtype) { /* of a type that is not taken */
      FZ_CHECK(st->read(ctx, file, i, dst, 0) == SP_E_DTYPE, "round %ld: '%s' is read", round, entries[i].name);
      continue;
    }
    int64_t bytes = sp_spec_bytes(&entries[i].spec);
    FZ_CHECK(bytes >= 0 && bytes <= DATA, "round %ld: '%s' of %lld bytes", round, entries[i].name, (long long)bytes);
    FZ_CHECK(st->read(ctx, file, i, dst, (size_t)bytes) == SP_OK, "round %ld: %s", round, err.msg);
  }
  st->close(file);
  return 1;
}

int main(int argc, char **argv) {
  fz f;
  long rounds = fz_begin(&f, argc, argv, 1500), accepted = 0;
  const char *tmp = getenv("TMPDIR");
  char path[300];
  sp_err err;
  const sp_format_type *st;
  snprintf(path, sizeof path, "%s/sp_fuzzXXXXXX.safetensors", tmp && strlen(tmp) < 200 ? tmp : "/tmp");
  int fd = mkstemps(path, (int)strlen(".safetensors"));
  FZ_CHECK(fd >= 0, "%s cannot be made", path);
  FZ_CHECK(spt_format(path, &st, &err) == SP_OK, "%s", err.msg);
  for (long r = 0; r < rounds; r++) {
    uint8_t b[ALL] = {0};
    size_t n = ALL;
    memcpy(b + 8, head, HEAD);
    if (fz_below(&f, 4)) { /* the header, with a length that fits it */
      size_t left = fz_mutate(&f, b + 8, HEAD);
      memset(b + 8 + left, ' ', HEAD - left);
      b[0] = HEAD & 0xff;
      b[1] = HEAD >> 8;
    } else {
      b[0] = HEAD & 0xff;
      b[1] = HEAD >> 8;
      n = fz_mutate(&f, b, ALL);
    }
    FZ_CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, b, n, 0) == (ssize_t)n, "%s cannot be written", path);
    accepted += take(st, path, r);
  }
  close(fd);
  unlink(path);
  printf("%ld rounds, %ld accepted\n", rounds, accepted);
  FZ_CHECK(rounds < 1000 || (accepted > 0 && accepted < rounds), "the mutations are too harsh or too mild");
  return 0;
}
