/* SPDX-License-Identifier: MIT
 * library.h - what is taken of libcurl and libcrypto. */
#ifndef SP_PLUGINS_FETCH_LIBRARY_H
#define SP_PLUGINS_FETCH_LIBRARY_H

#include "fetch_impl.h"

#ifdef HAVE_CURL
#define CURL_DISABLE_TYPECHECK /* its macros would call the functions by name */
#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/opensslv.h>
#undef curl_easy_setopt
#undef curl_easy_getinfo

#define FETCH_STRING_(x) #x
#define FETCH_STRING(x) FETCH_STRING_(x)
#define FETCH_CRYPTO "libcrypto.so." FETCH_STRING(OPENSSL_SHLIB_VERSION)

#define FETCH_FUNCTION(name) __typeof__(name) *name
typedef struct fetch_library {
  FETCH_FUNCTION(curl_global_init);
  FETCH_FUNCTION(curl_easy_init);
  FETCH_FUNCTION(curl_easy_setopt);
  FETCH_FUNCTION(curl_easy_perform);
  FETCH_FUNCTION(curl_easy_getinfo);
  FETCH_FUNCTION(curl_easy_reset);
  FETCH_FUNCTION(curl_easy_cleanup);
  FETCH_FUNCTION(curl_easy_strerror);
  FETCH_FUNCTION(curl_slist_append);
  FETCH_FUNCTION(curl_slist_free_all);
  FETCH_FUNCTION(EVP_MD_CTX_new);
  FETCH_FUNCTION(EVP_MD_CTX_free);
  FETCH_FUNCTION(EVP_sha256);
  FETCH_FUNCTION(EVP_DigestInit_ex);
  FETCH_FUNCTION(EVP_DigestUpdate);
  FETCH_FUNCTION(EVP_DigestFinal_ex);
} fetch_library;
extern fetch_library fetch_lib;
#endif

#endif
