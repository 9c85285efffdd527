/* SPDX-License-Identifier: MIT
 * csv_paths.c - where the files are that a column names: in the .csv file's folder, in one beside or below it, or
 * where another machine had them.
 *
 * The first name that is not found as it stands is looked for; what that shows holds for the column. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "csv.h"
#include "folder_names.h"
#include "words.h"

#define MAX_FOLDERS 2000 /* that are looked into */
#define MAX_CUTS 32      /* folders in front of a name */

static const char *const endings[] = {"",     ".jpg",  ".png", ".jpeg", ".JPG",  ".PNG", ".JPEG", ".webp",
                                      ".tif", ".tiff", ".bmp", ".gif",  ".jfif", ".ppm", ".npy"};
enum { ENDINGS = sizeof endings / sizeof *endings };

static int is_file(const char *path) {
  struct stat st;
  return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, R_OK);
}

/* Windows writes '\\' between folders; here it may be part of a name. */
static void straighten(char *name) {
  for (char *p = name; (p = strchr(p, '\\'));) *p = '/';
}

static int is_url(const char *name) {
  const char *at = strstr(name, "://");
  return at && at > name && at - name < 8 && strncasecmp(name, "file:", 5) != 0;
}

static int is_absolute(const char *name) { return *name == '/' || (*name && name[1] == ':'); }

/* ---- what is known ---- */
/* Returns less than 0 where there is no room for it. */
static int join(const rd_csv *j, const rd_csv_place *w, const char *name, const char *ending, char to[4096]) {
  size_t cut = strlen(w->cut);
  if (cut && !strncmp(name, w->cut, cut)) {
    name += cut;
    while (*name == '/') name++;
  } else if (*name == '/') return snprintf(to, 4096, "%s%s", name, ending) < 4096 ? 0 : -1;
  int own = *w->folder == '/';
  const char *dir = own ? "" : j->dirs[j->k];
  return snprintf(to, 4096, "%s%s%s%s%s", dir, own ? "" : "/", w->folder, name, ending) < 4096 ? 0 : -1;
}

/* The parameter `root`: "FOLDER", or "CUT=FOLDER". */
static void take_root(const rd_csv *j, rd_csv_place *w) {
  const char *root = j->l->p->csv.root, *is = strchr(root, '='), *to = is ? is + 1 : root;
  if (is) snprintf(w->cut, sizeof w->cut, "%.*s", (int)(is - root), root);
  if (strcmp(to, ".") && *to)
    snprintf(w->folder, sizeof w->folder, "%.2000s%s", to, to[strlen(to) - 1] == '/' ? "" : "/");
  w->known = 1;
}

/* ---- looking ---- */
typedef struct search {
  rd_csv *j;
  const char *name;
  rd_names folders; /* below or beside the .csv file's, each with a / behind */
  int hits;
  rd_csv_place found, other;
} search;

static void try_place(search *s, const rd_csv_place *place) {
  rd_csv_place w = *place;
  char path[4096];
  for (int e = 0; e < ENDINGS; e++) {
    if (e && rd_is_image(s->name)) return;
    if (join(s->j, &w, s->name, endings[e], path) || !is_file(path)) continue;
    snprintf(w.ending, sizeof w.ending, "%s", endings[e]);
    *(s->hits++ ? &s->other : &s->found) = w;
    return;
  }
}

/* images_only: those whose names say so. */
static void add_folders(search *s, const char *rel, int depth, int images_only) {
  char path[4096];
  rd_names names = {0};
  if (snprintf(path, sizeof path, "%s/%s", s->j->dirs[s->j->k], rel) >= (int)sizeof path || rd_subfolders(path, &names))
    return;
  for (size_t i = 0; i < names.n && s->folders.n < MAX_FOLDERS; i++) {
    if (images_only && rd_read_folder_name(names.v[i]).kind != RD_IMAGES) continue;
    if (snprintf(path, sizeof path, "%.2000s%.1000s/", rel, names.v[i]) >= 2048) continue;
    if (rd_names_add(&s->folders, path)) break;
    if (depth) add_folders(s, path, depth - 1, 0);
  }
  rd_names_free(&names);
}

/* The name behind its first `cut` folders; NULL: it has not so many. */
static const char *behind(const char *name, int cut) {
  const char *p = name;
  for (; cut && *p; cut--) {
    while (*p == '/') p++;
    const char *slash = strchr(p, '/');
    if (!slash || !slash[1]) return NULL;
    p = slash + 1;
  }
  return cut ? NULL : p;
}

static void try_all(search *s, int cut, int folders) {
  const char *rest = behind(s->name, cut);
  rd_csv_place w = {.known = 1};
  if (!rest || rest - s->name >= (long)sizeof w.cut) return;
  snprintf(w.cut, sizeof w.cut, "%.*s", (int)(rest - s->name), s->name);
  if (!folders) try_place(s, &w);
  for (size_t i = 0; folders && i < s->folders.n; i++) {
    snprintf(w.folder, sizeof w.folder, "%s", s->folders.v[i]);
    try_place(s, &w);
  }
}

/* The nearest places first: the folder itself, those in it; then without the first folders of the name; then beside
 * it. */
static void look(search *s) {
  int from = is_absolute(s->name) ? 1 : 0;
  if (!from) try_all(s, 0, 0);
  if (!s->hits) add_folders(s, "", 1, 0);
  if (!s->hits && !from) try_all(s, 0, 1);
  for (int cut = 1; !s->hits && cut < MAX_CUTS; cut++) try_all(s, cut, 0);
  for (int cut = 1; !s->hits && cut < MAX_CUTS; cut++) try_all(s, cut, 1);
  if (s->hits) return;
  rd_names_free(&s->folders);
  if (!rd_names_add(&s->folders, "../")) add_folders(s, "../", 0, 1); /* other folders there are other people's */
  for (int cut = from; !s->hits && cut < MAX_CUTS; cut++) try_all(s, cut, 1);
}

static void root_of(const rd_csv_place *w, char to[3200]) {
  size_t n = strlen(w->folder);
  snprintf(to, 3200, "%s%s%.*s", w->cut, *w->cut ? "=" : "", n ? (int)n - 1 : 1, n ? w->folder : ".");
}

/* One place has the file; several: it is asked. */
static int settle(search *s, rd_csv_place *w) {
  rd_csv *j = s->j;
  char a[3200], b[3200];
  root_of(&s->found, a);
  root_of(&s->other, b);
  if (s->hits > 1)
    return rd_csv_fail(j, SP_E_DATA,
                       "%s line %" PRId64 ": %s is not in this file's folder, but below %s and %s: `root = \"%s\"` "
                       "or `root = \"%s\"`",
                       j->in.path, j->in.line, s->name, a, b, a, b);
  *w = s->found;
  if (*w->cut)
    rd_note(j->l, "files are looked for without %s in front, in %s, as `root = \"%s\"` says", w->cut,
            *w->folder ? w->folder : "the .csv file's folder", a);
  else if (*w->folder) rd_note(j->l, "files are looked for in %s, as `root = \"%s\"` says", w->folder, a);
  if (*w->ending) rd_note(j->l, "names have no ending: %s is put behind", w->ending);
  return SP_OK;
}

/* Behind a name that was not found. 1: there are words. */
static int search_for(rd_csv *j, const char *name, rd_csv_place *w, int *rc) {
  search s = {.j = j, .name = name};
  look(&s);
  *rc = s.hits ? settle(&s, w) : SP_E_DATA;
  rd_names_free(&s.folders);
  return s.hits > 0;
}

/* ---- one file ---- */
static int there(rd_csv *j, const rd_csv_place *w, const char *name, char path[4096]) {
  if (join(j, w, name, w->ending, path)) return 0;
  if (*w->ending || rd_is_image(name) ? !access(path, R_OK) : is_file(path)) return 1;
  for (int e = 0; w->known && *w->ending && e < ENDINGS; e++)
    if (!join(j, w, name, endings[e], path) && is_file(path)) return 1;
  join(j, w, name, w->ending, path);
  return 0;
}

/* Images in several folders, as images_part_1/ and images_part_2/: a name that is not where the others are is looked
 * for once more, and its folder is remembered. */
static int in_another(rd_csv *j, const char *name, char path[4096]) {
  for (int i = 0; i < j->n_more; i++)
    if (there(j, &j->more[i], name, path)) return 1;
  if (j->n_more == RD_MORE_PLACES) return 0;
  search s = {.j = j, .name = name};
  look(&s);
  rd_names_free(&s.folders);
  if (s.hits != 1 || !*s.found.folder) return 0;
  j->more[j->n_more++] = s.found;
  rd_note(j->l, "files are also looked for in %s", s.found.folder);
  return there(j, &s.found, name, path);
}

int rd_csv_locate(rd_csv *j, int column, const char *name, char path[4096]) {
  rd_csv_place *w = &j->places[column == j->at[RD_FILE_COLUMN] ? 0 : column == j->at[RD_SECOND_COLUMN] ? 2 : 1];
  char straight[4096];
  int rc = SP_E_DATA;
  if (!w->known && *j->l->p->csv.root) take_root(j, w);
  if (!strncasecmp(name, "file://", 7)) name += 7;
  if (there(j, w, name, path)) return SP_OK;
  if (strlen(name) >= sizeof straight) return SP_E_RANGE;
  strcpy(straight, name);
  straighten(straight);
  if (strcmp(straight, name) && there(j, w, straight, path)) return SP_OK;
  if (w->known && *w->folder && !*j->l->p->csv.root && w == j->places) {
    char first[4096]; /* where the others are: an error names it */
    strcpy(first, path);
    if (in_another(j, straight, path)) return SP_OK;
    strcpy(path, first);
  }
  if (w->known || (is_url(name) && !behind(straight, 1)) || !search_for(j, straight, w, &rc)) return SP_E_DATA;
  return rc ? SP_E_INVALID : there(j, w, straight, path) ? SP_OK : SP_E_DATA;
}

/* A file of that name in another case, or nothing. */
static void near(const char *path, char *to, size_t size) {
  char dir[4096];
  const char *slash = strrchr(path, '/');
  *to = 0;
  if (!slash) return;
  snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));)
    if (!strcasecmp(e->d_name, slash + 1)) snprintf(to, size, "; the folder has %s", e->d_name);
    else if (!*to && rd_is_alike(e->d_name, slash + 1))
      snprintf(to, size,
               "; the folder has %.180s, whose accents or blanks are other bytes (as of Unicode's NFC and NFD)",
               e->d_name);
  if (d) closedir(d);
}

static int not_there(rd_csv *j, int column, const char *name, const char *path) {
  char words[4096 + 600], other[300], cure[700];
  if (is_url(name)) {
    const char *slash = strrchr(name, '/');
    snprintf(words, sizeof words, "%.600s is an address, and files are read from this machine", name);
    snprintf(cure, sizeof cure, "download them into a folder FOLDER: `root = \"%.*s=FOLDER\"`",
             (int)(slash - name > 500 ? 500 : slash - name + 1), name);
    return rd_csv_complain(j, column, words, cure);
  }
  int why = access(path, R_OK) ? errno : ENOENT;
  near(path, other, sizeof other);
  snprintf(words, sizeof words, "%s: %s%s", path, strerror(why), other);
  return rd_csv_complain(j, column, words,
                         "files are looked for from the .csv file's folder on, or in `root = \"FOLDER\"`");
}

int rd_csv_take_file(rd_csv *j, int column, rd_ref *ref) {
  rd_table *t = j->l->t;
  const char *name = rd_csv_value(j, column);
  char path[4096], folder[4096];
  if (!*name) return rd_csv_complain(j, column, "it is empty", "write the path of a file, from this one's folder on");
  if (strlen(name) + strlen(j->dirs[j->k]) > 4000)
    return rd_csv_complain(j, column, "the path is too long", "4095 bytes are possible");
  int rc = rd_csv_locate(j, column, name, path);
  if (rc == SP_E_INVALID) return SP_E_DATA; /* it is said */
  if (rc) return not_there(j, column, name, path);
  int n = (int)(strrchr(path, '/') - path);
  snprintf(folder, sizeof folder, "%.*s", n ? n : 1, path);
  int64_t source = rd_number_of(&j->folders, folder);
  uint32_t added = (uint32_t)source;
  if (source < 0 || (source == (int64_t)t->n_sources && rd_add_source(t, RD_FILES, folder, &added)))
    return rd_no_memory(j->l);
  const char *last = path + n + 1;
  return rd_set_file(t, ref, added, last, strlen(last)) ? rd_no_memory(j->l) : SP_OK;
}
