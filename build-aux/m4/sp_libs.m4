# SPDX-License-Identifier: MIT
# Libraries and programs that configure looks for. The core needs Lua; each other one belongs to a few plugins or tests.

AC_DEFUN([SP_LUA],
[AC_ARG_VAR([LUA_CFLAGS], [C compiler flags for Lua 5.4, overriding pkg-config])
AC_ARG_VAR([LUA_LIBS], [linker flags for Lua 5.4, overriding pkg-config])
AS_IF([test "x$LUA_LIBS" = x],
  [AC_MSG_CHECKING([for Lua 5.4])
   sp_lua=
   for sp_name in lua5.4 lua-5.4 lua54 lua; do
     AS_IF([$PKG_CONFIG --exists "$sp_name >= 5.4 $sp_name < 5.5" 2>/dev/null], [sp_lua=$sp_name; break])
   done
   AS_IF([test "x$sp_lua" = x],
     [AC_MSG_RESULT([no])
      AC_MSG_ERROR([Lua 5.4 is needed: install its development files (Debian: liblua5.4-dev), or set LUA_CFLAGS and LUA_LIBS])])
   LUA_CFLAGS=`$PKG_CONFIG --cflags $sp_lua`
   LUA_LIBS=`$PKG_CONFIG --libs $sp_lua`
   AC_MSG_RESULT([$sp_lua])])])

# SP_WITH(NAME, LIBRARY): --with-NAME and --without-NAME; sets with_NAME to yes (must be there), no, or auto.
AC_DEFUN([SP_WITH],
[AC_ARG_WITH([$1], [AS_HELP_STRING([--without-$1], [build without $2; --with-$1 fails where that is missing])],
  [], [with_$1=auto])])

# SP_WITHOUT(NAME, WHY): NAME is left out, and WHY is an error if it was asked for.
AC_DEFUN([SP_WITHOUT],
[AS_IF([test "x$with_$1" = xno], [sp_$1="no: --without-$1"],
  [test "x$with_$1" != xauto], [AC_MSG_ERROR([--with-$1: $2])],
  [sp_$1="no: $2"])])

AC_DEFUN([SP_CHECK],
[SP_WITH([check], [the C unit tests, which need the library Check])
sp_check=no
AS_IF([test "x$with_check" != xno], [PKG_CHECK_MODULES([CHECK], [check >= 0.12], [sp_check=yes], [:])])
AS_IF([test "x$sp_check" = xno], [SP_WITHOUT([check], [the C unit tests are skipped (Debian: check)])])
AM_CONDITIONAL([HAVE_CHECK], [test "x$sp_check" = xyes])])

AC_DEFUN([SP_DNNL],
[SP_WITH([onednn], [oneDNN: no stages encoder, decoder, layers, classifier])
AC_ARG_VAR([DNNL_CFLAGS], [C compiler flags for oneDNN])
AC_ARG_VAR([DNNL_LIBS], [linker flags for oneDNN @<:@-ldnnl@:>@])
sp_onednn=no
sp_why="no stages encoder, decoder, layers, classifier (Debian: libdnnl-dev)"
AC_OPENMP
sp_saved_CPPFLAGS=$CPPFLAGS sp_saved_LIBS=$LIBS
: ${DNNL_LIBS=-ldnnl}
CPPFLAGS="$CPPFLAGS $DNNL_CFLAGS"
AS_IF([test "x$with_onednn" != xno],
  [AC_CHECK_HEADER([dnnl.h],
    [LIBS="$DNNL_LIBS $LIBS"
     AC_MSG_CHECKING([for oneDNN 2.6 or newer in $DNNL_LIBS])
     AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <dnnl.h>
#if DNNL_VERSION_MAJOR < 2 || (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 6)
#error too old
#endif]], [[return !dnnl_version();]])],
       [AC_MSG_RESULT([yes]); sp_onednn=yes], [AC_MSG_RESULT([no])])])])
CPPFLAGS=$sp_saved_CPPFLAGS LIBS=$sp_saved_LIBS
AS_IF([test "x$sp_onednn" = xyes && test "x$OPENMP_CFLAGS" = x && test "x$ac_cv_prog_c_openmp" = xunsupported],
  [sp_onednn=no sp_why="oneDNN's threads need a compiler with OpenMP; no stages encoder, decoder, layers, classifier"])
AS_IF([test "x$sp_onednn" = xno], [SP_WITHOUT([onednn], [$sp_why])])
AM_CONDITIONAL([HAVE_DNNL], [test "x$sp_onednn" = xyes])])

AC_DEFUN([SP_IMAGE],
[SP_WITH([images], [libjpeg-turbo and libpng: no stages reader, image_writer])
sp_images=no
AS_IF([test "x$with_images" != xno],
  [sp_images=yes
   PKG_CHECK_MODULES([TURBOJPEG], [libturbojpeg >= 2.0], [], [sp_images=no])
   PKG_CHECK_MODULES([PNG], [libpng >= 1.6], [], [sp_images=no])])
AS_IF([test "x$sp_images" = xno],
  [SP_WITHOUT([images], [no stages reader, image_writer (Debian: libturbojpeg0-dev libpng-dev)])])
AM_CONDITIONAL([HAVE_IMAGE], [test "x$sp_images" = xyes])
SP_IMAGE_FORMAT([webp], [WEBP], [libwebp], [libwebp >= 0.6 libwebpdemux >= 0.6], [WebP], [libwebp-dev])
SP_IMAGE_FORMAT([tiff], [TIFF], [libtiff], [libtiff-4 >= 4.5], [TIFF], [libtiff-dev, 4.5 or newer])
SP_GIF])

# SP_IMAGE_FORMAT(NAME, VARIABLE, LIBRARY, MODULE, FORMAT, PACKAGE): one more format for the stages that read images.
# The C code, which is the same in all builds, asks for HAVE_VARIABLE.
AC_DEFUN([SP_IMAGE_FORMAT],
[SP_WITH([$1], [$3: $5 files are refused in words])
sp_$1=no
sp_why="$5 files are refused in words (Debian: $6)"
AS_IF([test "x$sp_images" != xyes], [sp_why="no stages that read images"],
  [test "x$with_$1" != xno], [PKG_CHECK_MODULES([$2], [$4], [sp_$1=yes $2_CFLAGS="$$2_CFLAGS -DHAVE_$2"], [:])])
AS_IF([test "x$sp_$1" = xno], [SP_WITHOUT([$1], [$sp_why])])])

# giflib has no pkg-config file where it is not Debian's.
AC_DEFUN([SP_GIF],
[SP_WITH([gif], [giflib: GIF files are refused in words])
AC_ARG_VAR([GIF_CFLAGS], [C compiler flags for giflib])
AC_ARG_VAR([GIF_LIBS], [linker flags for giflib @<:@-lgif@:>@])
sp_gif=no
sp_why="GIF files are refused in words (Debian: libgif-dev)"
sp_saved_CPPFLAGS=$CPPFLAGS sp_saved_LIBS=$LIBS
: ${GIF_LIBS=-lgif}
CPPFLAGS="$CPPFLAGS $GIF_CFLAGS"
AS_IF([test "x$sp_images" != xyes], [sp_why="no stages that read images"],
  [test "x$with_gif" != xno],
  [AC_CHECK_HEADER([gif_lib.h],
    [LIBS="$GIF_LIBS $LIBS"
     AC_MSG_CHECKING([for giflib 5.1 or newer in $GIF_LIBS])
     AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <gif_lib.h>
#if GIFLIB_MAJOR < 5 || (GIFLIB_MAJOR == 5 && GIFLIB_MINOR < 1)
#error too old
#endif]], [[int why; return !DGifOpen(0, 0, &why);]])],
       [AC_MSG_RESULT([yes]); sp_gif=yes GIF_CFLAGS="$GIF_CFLAGS -DHAVE_GIF"], [AC_MSG_RESULT([no])])])])
CPPFLAGS=$sp_saved_CPPFLAGS LIBS=$sp_saved_LIBS
AS_IF([test "x$sp_gif" = xno], [GIF_LIBS=
  SP_WITHOUT([gif], [$sp_why])])])

AC_DEFUN([SP_ARCHIVE],
[SP_WITH([archive], [libarchive: .tar files are refused in words])
sp_archive=no
sp_why=".tar files are refused in words (Debian: libarchive-dev)"
AS_IF([test "x$sp_images" != xyes], [sp_why="no stages that read images"],
  [test "x$with_archive" != xno],
  [PKG_CHECK_MODULES([ARCHIVE], [libarchive >= 3.4], [sp_archive=yes ARCHIVE_CFLAGS="$ARCHIVE_CFLAGS -DHAVE_ARCHIVE"], [:])])
AS_IF([test "x$sp_archive" = xno], [SP_WITHOUT([archive], [$sp_why])])])

# The libraries are opened when an address is fetched, so nothing is linked.
AC_DEFUN([SP_CURL],
[SP_WITH([curl], [libcurl: data at addresses is refused in words])
sp_curl=no
sp_why="data at addresses is refused in words (Debian: libcurl4-openssl-dev libssl-dev)"
AS_IF([test "x$sp_archive" != xyes], [sp_why="no tar files, which are what is read at addresses"],
  [test "x$with_curl" != xno],
  [PKG_CHECK_MODULES([CURL], [libcurl >= 7.61 libcrypto >= 1.1], [sp_curl=yes CURL_CFLAGS="$CURL_CFLAGS -DHAVE_CURL"], [:])])
AS_IF([test "x$sp_curl" = xno], [SP_WITHOUT([curl], [$sp_why])])])

AC_DEFUN([SP_JANSSON],
[SP_WITH([jansson], [jansson: weights are neither loaded nor saved as safetensors])
sp_jansson=no
AS_IF([test "x$with_jansson" != xno],
  [PKG_CHECK_MODULES([JANSSON], [jansson >= 2.11], [sp_jansson=yes], [:])])
AS_IF([test "x$sp_jansson" = xno],
  [SP_WITHOUT([jansson], [weights cannot be loaded or saved as safetensors (Debian: libjansson-dev)])])
AM_CONDITIONAL([HAVE_JANSSON], [test "x$sp_jansson" = xyes])])

AC_DEFUN([SP_RSVG],
[SP_WITH([librsvg], [librsvg: pictures are written as SVG alone])
sp_librsvg=no
AS_IF([test "x$with_librsvg" != xno],
  [PKG_CHECK_MODULES([RSVG], [librsvg-2.0 >= 2.52], [sp_librsvg=yes], [:])])
AS_IF([test "x$sp_librsvg" = xno],
  [SP_WITHOUT([librsvg], [spcore timeline writes SVG, no PNG (Debian: librsvg2-dev)])])
AM_CONDITIONAL([HAVE_RSVG], [test "x$sp_librsvg" = xyes])])

# Open MPI: of others, such as MPICH, MPI_CFLAGS and MPI_LIBS say where they are.
AC_DEFUN([SP_MPI],
[SP_WITH([mpi], [MPI: no communicator "mpi" between hosts])
sp_mpi=no
AS_IF([test "x$with_mpi" != xno],
  [PKG_CHECK_MODULES([MPI], [ompi-c >= 3.0], [sp_mpi=yes], [:])])
AS_IF([test "x$sp_mpi" = xno],
  [SP_WITHOUT([mpi], [no communicator between hosts (Debian: libopenmpi-dev)])])
AM_CONDITIONAL([HAVE_MPI], [test "x$sp_mpi" = xyes])])

# The system's Python is taken first: a distribution's PyTorch belongs to it, not to another Python in PATH.
AC_DEFUN([SP_PYTHON],
[AC_ARG_VAR([PYTHON], [Python 3 for the parity tests])
SP_WITH([python], [the tests that need Python 3])
AC_MSG_CHECKING([for Python 3])
AS_IF([test "x$with_python" = xno], [PYTHON=],
  [test "x$PYTHON" = x],
  [AS_IF([test -x /usr/bin/python3], [PYTHON=/usr/bin/python3],
    [PYTHON=`command -v python3 2>/dev/null`])])
AC_MSG_RESULT([${PYTHON:-none}])
sp_python=$PYTHON
AS_IF([test "x$PYTHON" = x], [SP_WITHOUT([python], [the parity tests are skipped (Debian: python3)])])])

# The ABI's number has one home, the header.
AC_DEFUN([SP_ABI],
[SP_ABI_VERSION=`sed -n 's/^.define SP_ABI_M..OR //p' "$srcdir/include/spcore/abi.h" | paste -s -d . -`
AC_SUBST([SP_ABI_VERSION])])

# What plugins are missing for: the program says it, and tests that need it are skipped.
AC_DEFUN([SP_LIST_LEFT_OUT],
[SP_LEFT_OUT=
AS_IF([test "x$sp_onednn" != xyes], [SP_LEFT_OUT="$SP_LEFT_OUT${SP_LEFT_OUT:+, }onednn"])
AS_IF([test "x$sp_images" != xyes], [SP_LEFT_OUT="$SP_LEFT_OUT${SP_LEFT_OUT:+, }images"])
AS_IF([test "x$sp_jansson" != xyes], [SP_LEFT_OUT="$SP_LEFT_OUT${SP_LEFT_OUT:+, }jansson"])
AS_IF([test "x$sp_librsvg" != xyes], [SP_LEFT_OUT="$SP_LEFT_OUT${SP_LEFT_OUT:+, }librsvg"])
AS_CASE([$sp_cuda], [no*], [SP_LEFT_OUT="$SP_LEFT_OUT${SP_LEFT_OUT:+, }cuda"])
AC_SUBST([SP_LEFT_OUT])
# Formats without which all plugins are there: known to the tests alone.
SP_LEFT_OUT_FORMATS=
AS_IF([test "x$sp_webp" != xyes], [SP_LEFT_OUT_FORMATS="$SP_LEFT_OUT_FORMATS webp"])
AS_IF([test "x$sp_tiff" != xyes], [SP_LEFT_OUT_FORMATS="$SP_LEFT_OUT_FORMATS tiff"])
AS_IF([test "x$sp_gif" != xyes], [SP_LEFT_OUT_FORMATS="$SP_LEFT_OUT_FORMATS gif"])
AS_IF([test "x$sp_archive" != xyes], [SP_LEFT_OUT_FORMATS="$SP_LEFT_OUT_FORMATS archive"])
AS_IF([test "x$sp_curl" != xyes], [SP_LEFT_OUT_FORMATS="$SP_LEFT_OUT_FORMATS curl"])
AC_SUBST([SP_LEFT_OUT_FORMATS])])

AC_DEFUN([SP_SUMMARY],
[AS_ECHO([""])
AS_ECHO(["$PACKAGE_NAME $PACKAGE_VERSION, plugin ABI $SP_ABI_VERSION"])
AS_ECHO(["  compiler                $CC $SP_CFLAGS $SP_OPT_PLUGIN $CFLAGS"])
AS_ECHO(["  sanitizers              $SP_SANITIZERS_ON"])
AS_ECHO(["  oneDNN                  $sp_onednn"])
AS_ECHO(["  libjpeg-turbo, libpng   $sp_images"])
AS_ECHO(["  libwebp                 $sp_webp"])
AS_ECHO(["  libtiff                 $sp_tiff"])
AS_ECHO(["  giflib                  $sp_gif"])
AS_ECHO(["  libarchive              $sp_archive"])
AS_ECHO(["  libcurl                 $sp_curl"])
AS_ECHO(["  jansson                 $sp_jansson"])
AS_ECHO(["  librsvg                 $sp_librsvg"])
AS_ECHO(["  Open MPI                $sp_mpi"])
AS_ECHO(["  CUDA                    $sp_cuda"])
AS_ECHO(["  NCCL                    $sp_nccl"])
AS_ECHO(["  CUPTI                   $sp_cupti"])
AS_ECHO(["  CUDA emulator (tests)   $sp_emu"])
AS_ECHO(["  Check                   $sp_check"])
AS_ECHO(["  Python                  $sp_python"])
AS_ECHO(["  install under           $prefix"])
AS_ECHO([""])])
