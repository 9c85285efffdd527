/* SPDX-License-Identifier: MIT
 * address.c - what an address is, and what of it may be shown. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "fetch_impl.h"

static size_t scheme_length(const char *text) {
  return !strncasecmp(text, "http://", 7) ? 7 : !strncasecmp(text, "https://", 8) ? 8 : 0;
}

int fetch_is_address(const char *text) { return scheme_length(text) > 0; }

int fetch_bare(const char *text, char *to, size_t size) {
  size_t scheme = scheme_length(text);
  if (!scheme) return snprintf(to, size, "%s", text);
  const char *host = text + scheme, *end = host + strcspn(host, "/?#");
  for (const char *p = host; p < end; p++)
    if (*p == '@') host = p + 1;
  return snprintf(to, size, "%.*s%.*s", (int)scheme, text, (int)strcspn(host, "?#"), host);
}
