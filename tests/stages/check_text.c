/* SPDX-License-Identifier: MIT
 * check_text.c - files of text as programs and people write them, and what a file is by its first bytes. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "plugins/kits/text/text.h"
#include "plugins/kits/what/what.h"
#include "tests/kit/image_files.h"
#include "base/util.h"
#include "tests/kit/suite.h"

/* Of bytes in quotes, which may hold a 0. */
#define BYTES(s) s, sizeof(s) - 1

/* Each is "a", "bé", "c" in lines. */
static const struct {
  const char *bytes;
  size_t n;
  const char *want;
} readings[] = {
    {BYTES("a\nb\xC3\xA9\nc\n"), "a\nb\xC3\xA9\nc\n"},
    {BYTES("a\nb\xC3\xA9\nc"), "a\nb\xC3\xA9\nc"},
    {BYTES("a\r\nb\xC3\xA9\r\nc\r\n"), "a\nb\xC3\xA9\nc\n"},
    {BYTES("a\rb\xC3\xA9\rc\r"), "a\nb\xC3\xA9\nc\n"},
    {BYTES("a\r\r\nb\xC3\xA9\nc"), "a\n\nb\xC3\xA9\nc"},
    {BYTES("\xEF\xBB\xBF" "a\nb\xC3\xA9\nc\n"), "a\nb\xC3\xA9\nc\n"},
    {BYTES("\xFF\xFE" "a\0\r\0\n\0b\0\xE9\0\n\0c\0"), "a\nb\xC3\xA9\nc"},
    {BYTES("\xFE\xFF" "\0a\0\n\0b\0\xE9\0\n\0c"), "a\nb\xC3\xA9\nc"},
    {BYTES("\xFF\xFE" "\x3D\xD8\x00\xDE\x2D\x4E"), "\xF0\x9F\x98\x80\xE4\xB8\xAD"}, /* beyond 16 bits, and 3 bytes */
    {BYTES("a\n\0\0\0"), "a\n"},
    {BYTES("a\xE9\n"), "a\xE9\n"}, /* as a file's name may be */
    {BYTES("\xEF\xBB\xBF"), ""},
    {BYTES(""), ""},
};

START_TEST(test_readings) {
  text_file t;
  char why[TEXT_WHY];
  for (size_t k = 0; k < SP_ARRAY(readings); k++) {
    if_put("t", readings[k].bytes, readings[k].n);
    ck_assert_msg(text_read(if_path("t"), 1000, 0, &t, why) == SP_OK, "case %zu: %s", k, why);
    ck_assert_msg(t.p && !strcmp(t.p, readings[k].want), "case %zu: %s", k, t.p);
    ck_assert_uint_eq(t.n, strlen(readings[k].want));
    text_free(&t);
  }
  ck_assert_int_eq(text_read(if_path("none"), 1000, 0, &t, why), SP_OK);
  ck_assert_ptr_null(t.p);
  if_put("t", "abcdef", 6);
  ck_assert_int_eq(text_read(if_path("t"), 5, 3, &t, why), SP_OK);
  ck_assert_str_eq(t.p, "abc");
  text_free(&t);
}
END_TEST

START_TEST(test_refusals) {
  static const struct {
    const char *bytes;
    size_t n;
    const char *words;
  } bad[] = {{BYTES("a\nb\0c\n"), "line 2: a byte 0"},
             {BYTES("a\0b\0\n\0c\0"), "line 1: a byte 0: this is no text, or UTF-16 without its mark"},
             {BYTES("\xFF\xFE\0\0a\0\0\0"), "it is UTF-32; save it as UTF-8"},
             {BYTES("\xFF\xFE\x3D\xD8" "a\0"), "half of a letter"},
             {BYTES("\x89PNG\r\n\x1A\n\0\0\0\rIHDR"), "it is a PNG image; text is wanted"},
             {BYTES("PK\3\4\24\0\0\0\0"), "it is a zip archive; unpack it; text is wanted"}};
  text_file t;
  char why[TEXT_WHY];
  for (size_t k = 0; k < SP_ARRAY(bad); k++) {
    if_put("t", bad[k].bytes, bad[k].n);
    ck_assert_int_eq(text_read(if_path("t"), 1000, 0, &t, why), SP_E_DATA);
    ck_assert_msg(strstr(why, bad[k].words) != NULL, "case %zu: %s", k, why);
    ck_assert_ptr_null(t.p);
  }
  ck_assert_int_eq(text_read(if_path("t"), 3, 0, &t, why), SP_E_DATA);
  ck_assert_str_eq(why, "it has 9 bytes, and may have 3");
  ck_assert_int_eq(text_read(if_path("images"), 1000, 0, &t, why), SP_E_IO);
  ck_assert_str_eq(why, "not a regular file");
}
END_TEST

START_TEST(test_letters) {
  static const struct {
    const char *text;
    int right;
  } cases[] = {{"", 0},
               {"ab", 2},
               {"\xC3\xA9x", 3},
               {"a\xE9z", 1},
               {"\xC3", 0},
               {"\xC0\x80", 0},
               {"\xE0\x9F\xBF", 0},
               {"\xED\xA0\x80", 0},
               {"\xF0\x9F\x98\x80", 4},
               {"\xF4\x90\x80\x80", 0},
               {"\xE4\xB8\xAD\xFF", 3},
               {"\xF0\x8F\xBF\xBF", 0},
               {"\xE4\xB8", 0}};
  for (size_t k = 0; k < SP_ARRAY(cases); k++)
    ck_assert_msg(text_wrong(cases[k].text, strlen(cases[k].text)) == (size_t)cases[k].right, "case %zu", k);
}
END_TEST

START_TEST(test_blanks) {
  static const char *const cases[][2] = {
      {"", ""},
      {" \t a b \r\n", "a b"},
      {"\xC2\xA0" "a\xC2\xA0" "b\xE3\x80\x80 \xE2\x80\x8B", "a b"},
      {"\xEF\xBB\xBF" "a", "a"},
      {"\xC3\xA9\xE2\x80\xAF", "\xC3\xA9"},
      {"\xE3\x80\x80", ""},
      {"\xA0", "\xA0"}, /* no UTF-8: left alone */
      {"x\xE3\x80\x81", "x\xE3\x80\x81"}};
  for (size_t k = 0; k < SP_ARRAY(cases); k++) {
    char text[64], *p = text, *end;
    strcpy(text, cases[k][0]);
    end = text + strlen(text);
    text_trim(&p, &end);
    end = p + text_plain_blanks(p, (size_t)(end - p));
    *end = 0;
    ck_assert_msg(!strcmp(p, cases[k][1]), "case %zu: '%s'", k, p);
  }
}
END_TEST

START_TEST(test_what) {
  static const struct {
    const char *bytes;
    size_t n;
    const char *words; /* NULL: nothing is known */
  } cases[] = {
      {BYTES(""), "the file is empty"},
      {BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:12\n"),
       "it is a Git LFS pointer, not the file itself; `git lfs pull`"},
      {BYTES("\n<!DOCTYPE html>\n<html>"), "it is a page of the web (HTML): the download has failed"},
      {BYTES("\xEF\xBB\xBF <HTML lang=en>"), "a page of the web (HTML)"},
      {BYTES("<?xml version=\"1.0\"?>\n<svg"), "it is an XML document"},
      {BYTES("<svg xmlns"), "it is an SVG drawing; convert it"},
      {BYTES("PK\3\4\24\0\0\0\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0a.npy"),
       "a NumPy archive (.npz), not one array"},
      {BYTES("PK\3\4\24\0\0\0\10\0"), "it is a zip archive; unpack it"},
      {BYTES("\x80\4\x95"), "it is a pickle of Python"},
      {BYTES("\0\0\0\x1C"
             "ftypheic"),
       "it is a HEIC image, as iPhones write it; convert it to PNG or JPEG"},
      {BYTES("\0\0\0\x1C"
             "ftypavif"),
       "it is an AVIF image"},
      {BYTES("\0\0\0\x1C"
             "ftypisom"),
       "it is a film"},
      {BYTES("\0\0\0\x0CjP  \r\n"), "it is a JPEG 2000 image"},
      {BYTES("\0\5\x16\7\0\2"), "of a Mac"},
      {BYTES("\0\0\0\0\0\0\0\0"), "it is zeros"},
      {BYTES("hello\nworld"), "it is text: \"hello\""},
      {BYTES("BM is how this begins\n"), "it is text: \"BM is how this begins\""},
      {BYTES("{\"a\": 1}"), "it is text, such as JSON"},
      {BYTES("\1\2\3\4"), NULL},
  };
  char words[WHAT_WORDS];
  for (size_t k = 0; k < SP_ARRAY(cases); k++) {
    int known = what_is(cases[k].bytes, cases[k].n, words);
    ck_assert_msg(!!known == !!cases[k].words && strstr(words, cases[k].words ? cases[k].words : ""), "case %zu: %s", k,
                  words);
  }
  ck_assert_int_eq(what_is_file(if_path("none"), words), 0);
  if_put("t", "PK\3\4", 4);
  ck_assert(what_is_file(if_path("t"), words) && strstr(words, "zip"));
}
END_TEST

int main(void) {
  Suite *s = suite_create("text");
  TCase *c = tcase_create("text");
  tcase_add_checked_fixture(c, if_begin, if_end);
  tcase_add_test(c, test_readings);
  tcase_add_test(c, test_refusals);
  tcase_add_test(c, test_letters);
  tcase_add_test(c, test_blanks);
  tcase_add_test(c, test_what);
  suite_add_tcase(s, c);
  return suite_run(s);
}
