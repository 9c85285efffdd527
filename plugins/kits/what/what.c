/* SPDX-License-Identifier: MIT
 * what.c - what a file is by its first bytes. */
#include "what.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define PICTURE "convert it to PNG or JPEG"
#define PFM "a PFM of floats; save it as .npy: numpy.save(\"NEW.npy\", cv2.imread(\"OLD.pfm\", -1)), in Python"
#define UNPACK "unpack it"
#define IMPORT "spcore_import.py FILE -o NEW makes tar files of it"

typedef struct magic {
  int at, n;
  const char *bytes, *words;
} magic;

#define MAGIC(at, bytes, words) \
  { at, sizeof(bytes) - 1, bytes, words }

static const magic magics[] = {
    MAGIC(0, "version https://git-lfs", "a Git LFS pointer, not the file itself; `git lfs pull` fetches that"),
    MAGIC(0, "%PDF", "a PDF document; " PICTURE ", as with pdftoppm"),
    MAGIC(0, "%!PS", "a PostScript document; " PICTURE), /* so many may be all text */
    MAGIC(0, "\xFF\xD8\xFF", "a JPEG image"),
    MAGIC(0, "\x89PNG\r\n\x1A\n", "a PNG image"),
    MAGIC(0, "GIF8", "a GIF image"),
    MAGIC(8, "WEBP", "a WebP image"),
    MAGIC(0, "II*\0", "a TIFF image"),
    MAGIC(0, "MM\0*", "a TIFF image"),
    MAGIC(0, "II\xBC\1", "a JPEG XR image; " PICTURE ", as with JxrDecApp"),
    MAGIC(0, "BM", "a BMP image"),
    MAGIC(4, "ftypavif", "an AVIF image; " PICTURE ", as with heif-convert"),
    MAGIC(4, "ftypavis", "an AVIF image; " PICTURE ", as with heif-convert"),
    MAGIC(4, "ftyphe", "a HEIC image, as iPhones write it; " PICTURE ", as with heif-convert"),
    MAGIC(4, "ftypmif1", "a HEIC image, as iPhones write it; " PICTURE ", as with heif-convert"),
    MAGIC(4, "ftypmsf1", "a HEIC image, as iPhones write it; " PICTURE ", as with heif-convert"),
    MAGIC(4, "ftyp", "a film (MP4 or MOV); take images out of it, as with ffmpeg"),
    MAGIC(0, "\0\0\0\x0CjP  ", "a JPEG 2000 image; " PICTURE ", as with opj_decompress"),
    MAGIC(0, "\xFF\x4F\xFF\x51", "a JPEG 2000 image; " PICTURE ", as with opj_decompress"),
    MAGIC(0, "\0\0\0\x0CJXL ", "a JPEG XL image; " PICTURE ", as with djxl"),
    MAGIC(0, "\xFF\x0A", "a JPEG XL image; " PICTURE ", as with djxl"),
    MAGIC(0, "8BPS", "a Photoshop file; " PICTURE ", as with ImageMagick"),
    MAGIC(128, "DICM", "a DICOM file; " PICTURE ", as with dcmj2pnm"),
    MAGIC(0, "v/1\x01", "an OpenEXR image; " PICTURE),
    MAGIC(0, "#?RADIANCE", "a Radiance HDR image; " PICTURE),
    MAGIC(0, "SIMPLE  =", "a FITS file; " PICTURE),
    MAGIC(0, "DDS ", "a DDS texture; " PICTURE),
    MAGIC(0, "\0\0\1\0", "an icon (.ico); " PICTURE),
    MAGIC(0, "Pf\n", PFM),
    MAGIC(0, "PF\n", PFM),
    MAGIC(0, "P7\n", "a PAM image; " PICTURE ", as with: magick OLD NEW.png"),
    MAGIC(0, "qoif", "a QOI image; " PICTURE),
    MAGIC(0, "PK\3\4", "a zip archive; " UNPACK),
    MAGIC(0, "PK\5\6", "an empty zip archive"),
    MAGIC(0, "\x1F\x8B", "compressed by gzip; " UNPACK),
    MAGIC(0, "\x28\xB5\x2F\xFD", "compressed by zstd; " UNPACK),
    MAGIC(0, "BZh", "compressed by bzip2; " UNPACK),
    MAGIC(0, "\xFD" "7zXZ", "compressed by xz; " UNPACK),
    MAGIC(0, "7z\xBC\xAF\x27\x1C", "a 7z archive; " UNPACK),
    MAGIC(0, "Rar!\x1A", "a RAR archive; " UNPACK),
    MAGIC(257, "ustar", "a tar archive; " UNPACK),
    MAGIC(0, "\x93NUMPY", "a NumPy array (.npy)"),
    MAGIC(0, "\x89HDF\r\n", "an HDF5 file; save its arrays as .npy"),
    MAGIC(0, "PAR1", "a Parquet file; " IMPORT),
    MAGIC(0, "ARROW1", "an Arrow file; " IMPORT),
    MAGIC(16, "\xDE\xC0\xEF\xBE", "an LMDB; " IMPORT),
    MAGIC(0, "MATLAB ", "a MATLAB file; save its arrays as .npy"),
    MAGIC(344, "n+1\0", "a NIfTI file; save its slices as .npy"),
    MAGIC(0, "NRRD000", "an NRRD file; save its slices as .npy"),
    MAGIC(0, "GGUF", "the weights of a language model (GGUF)"),
    MAGIC(0, "\x04\x22\x4D\x18", "compressed by lz4; " UNPACK),
    MAGIC(0, "SQLite format 3", "an SQLite database"),
    MAGIC(0, "\x80\2", "a pickle of Python; save the array with numpy.save(..., allow_pickle=False)"),
    MAGIC(0, "\x80\3", "a pickle of Python; save the array with numpy.save(..., allow_pickle=False)"),
    MAGIC(0, "\x80\4", "a pickle of Python; save the array with numpy.save(..., allow_pickle=False)"),
    MAGIC(0, "\x80\5", "a pickle of Python; save the array with numpy.save(..., allow_pickle=False)"),
    MAGIC(0, "\x7F" "ELF", "a program"),
    MAGIC(8, "AVI ", "a film (AVI); take images out of it, as with ffmpeg"),
    MAGIC(0, "\0\5\x16\7", "the file of a Mac that goes with another (._NAME); delete it"),
    MAGIC(0, "\xFF\xFE", "text in UTF-16"),
    MAGIC(0, "\xFE\xFF", "text in UTF-16"),
};

/* ---- by ending ---- */
#define MAGICK "magick FILE FILE.png, of ImageMagick"

static const struct {
  const char *endings; /* each between blanks */
  what_format format;
} formats[WHAT_FORMATS] = {
    {" heic heif hif heics ", {"HEIC image", "HEIC images", "heif-convert FILE.heic FILE.png, of libheif"}},
    {" avif avifs ", {"AVIF image", "AVIF images", "heif-convert FILE.avif FILE.png, of libheif"}},
    {" jxl ", {"JPEG XL image", "JPEG XL images", "djxl FILE.jxl FILE.png, of libjxl"}},
    {" jp2 j2k j2c jpx jpf ",
     {"JPEG 2000 image", "JPEG 2000 images", "opj_decompress -i FILE.jp2 -o FILE.png, of OpenJPEG"}},
    {" psd psb xcf ", {"file of Photoshop or GIMP", "files of Photoshop or GIMP", MAGICK}},
    {" dcm dicom ", {"DICOM file", "DICOM files", "dcmj2pnm +on FILE.dcm FILE.png, of DCMTK"}},
    {" mp4 m4v mov avi mkv webm mpg mpeg wmv flv ",
     {"film", "films", "ffmpeg -i FILE FILE-%05d.png takes its images out"}},
    {" cr2 cr3 nef nrw arw dng orf rw2 raf pef srw crw raw ",
     {"raw file of a camera", "raw files of a camera", "darktable-cli FILE FILE.png, of darktable"}},
    {" svg ", {"SVG drawing", "SVG drawings", "rsvg-convert -o FILE.png FILE.svg, of librsvg"}},
    {" pdf eps ps ai ", {"page to print", "pages to print", "pdftoppm -png FILE.pdf FILE, of Poppler"}},
    {" exr hdr tga ico icns dds pcx qoi pam fits fts ",
     {"image of a format that is not read", "images of formats that are not read", MAGICK}},
    {" nii nii.gz mha mhd nrrd mgz npz mat h5 hdf5 ",
     {"file of arrays", "files of arrays", "numpy.save(\"FILE.npy\", array) for each image, in Python"}},
    {" zip 7z rar tar.xz txz tar.bz2 tbz2 tar.zst tzst ",
     {"archive that is not read", "archives that are not read",
      "unpack it, or let spcore_import.py FILE.zip -o NEW read it"}},
    {" pfm ", {"PFM of floats", "PFMs of floats", "numpy.save(\"FILE.npy\", cv2.imread(\"FILE.pfm\", -1)), in Python"}},
    {" parquet pq arrow feather tfrecord tfrecords tfrec mdb ",
     {"file of records", "files of records", "spcore_import.py FOLDER -o NEW makes tar files of them"}},
    {" pkl pickle pt pth ",
     {"pickle of Python", "pickles of Python", "numpy.save(\"FILE.npy\", array) for each image, in Python"}},
};

int what_ending(const char *name) {
  const char *slash = strrchr(name, '/'), *dot;
  char word[16];
  for (dot = strchr(slash ? slash + 1 : name, '.'); dot; dot = strchr(dot + 1, '.')) { /* nii.gz before gz */
    if (snprintf(word, sizeof word, " %s ", dot + 1) >= (int)sizeof word) continue;
    for (char *p = word; *p; p++) *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 'a' - 'A' : *p);
    for (int i = 0; i < WHAT_FORMATS; i++)
      if (strstr(formats[i].endings, word)) return i;
  }
  return -1;
}

const what_format *what_of(int i) { return &formats[i].format; }

/* ---- by bytes ---- */
/* By the name of the first member of a zip: .npz, and what torch.save() writes. */
static const char *zip_words(const char *p, size_t n) {
  for (size_t i = 30; i + 4 <= n && i < 200; i++) {
    if (!memcmp(p + i, ".npy", 4)) return "a NumPy archive (.npz), not one array; save each with numpy.save()";
    if (!memcmp(p + i, ".pkl", 4)) return "a file of PyTorch (a pickle); save each array with numpy.save()";
  }
  return NULL;
}

/* Of the beginning of text: marks of what is written in it. */
static const char *mark_words(const char *p, size_t n) {
  static const struct {
    const char *mark, *words;
  } marks[] = {{"<!doctype html", "a page of the web (HTML): the download has failed"},
               {"<html", "a page of the web (HTML): the download has failed"},
               {"<svg", "an SVG drawing; " PICTURE ", as with rsvg-convert"},
               {"<?xml", "an XML document"},
               {"<error", "a server's message of an error (XML): the download has failed"},
               {"{", "text, such as JSON"}};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    size_t m = strlen(marks[i].mark);
    if (n >= m && !strncasecmp(p, marks[i].mark, m)) return marks[i].words;
  }
  return NULL;
}

/* Printable, but for what belongs to the next byte of a letter. */
static int is_text(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)p[i] < ' ' && (!p[i] || !strchr("\t\n\r\f", p[i]))) return 0;
  return 1;
}

static int all_zero(const char *p, size_t n) {
  while (n && !*p) p++, n--;
  return !n;
}

static void quote_text(const char *p, size_t n, char to[WHAT_WORDS]) {
  size_t m = 0;
  while (m < n && m < 40 && p[m] != '\n' && p[m] != '\r') m++;
  while (m < n && m > 0 && ((unsigned char)p[m] & 0xC0) == 0x80) m--; /* no half of a letter */
  snprintf(to, WHAT_WORDS, "it is text: \"%.*s\"", (int)m, p);
  for (char *c = to; *c; c++)
    if (*c == '\t' || *c == '\f') *c = ' ';
}

int what_is(const void *bytes, size_t n, char to[WHAT_WORDS]) {
  const char *p = bytes, *words = NULL;
  *to = 0;
  if (!n) return snprintf(to, WHAT_WORDS, "the file is empty");
  if (n > WHAT_BYTES) n = WHAT_BYTES;
  size_t of_text = 3, n_magics = is_text(p, n) ? of_text : sizeof magics / sizeof *magics; /* text may begin as any */
  for (size_t i = 0; !words && i < n_magics; i++) {
    const magic *m = &magics[i];
    if (n >= (size_t)(m->at + m->n) && !memcmp(p + m->at, m->bytes, (size_t)m->n)) words = m->words;
  }
  if (n >= 4 && !memcmp(p, "PK\3\4", 4) && zip_words(p, n)) words = zip_words(p, n);
  const char *text = p, *end = p + n;
  if (n >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) text += 3;
  while (text < end && (unsigned char)*text <= ' ' && *text) text++;
  if (!words) words = mark_words(text, (size_t)(end - text));
  if (words) return snprintf(to, WHAT_WORDS, "it is %s", words);
  if (all_zero(p, n)) return snprintf(to, WHAT_WORDS, "it is zeros, as a download leaves that was not finished");
  if (text < end && is_text(text, (size_t)(end - text))) quote_text(text, (size_t)(end - text), to);
  return *to != 0;
}

int what_is_file(const char *path, char to[WHAT_WORDS]) {
  char first[WHAT_BYTES];
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  ssize_t n = fd < 0 ? -1 : pread(fd, first, sizeof first, 0);
  if (fd >= 0) close(fd);
  *to = 0;
  return n < 0 ? 0 : what_is(first, (size_t)n, to);
}
