# SPDX-License-Identifier: MIT
# Compiler flags: optimisation, warnings, sanitizers.

# SP_DEFAULT_CFLAGS
# Autoconf's default of "-g -O2" would come after, and so beat, the -O3 of the plugins. CFLAGS given by the user are kept
# and are then the only source of optimisation flags.
AC_DEFUN([SP_DEFAULT_CFLAGS],
[AC_BEFORE([$0], [AC_PROG_CC])dnl
AS_IF([test "${CFLAGS+set}" = set], [sp_own_opt=no], [CFLAGS=-g sp_own_opt=yes])
AS_IF([test "${CXXFLAGS+set}" = set], [sp_own_cxx_opt=no], [sp_own_cxx_opt=yes])])

# SP_TRY_FLAGS(VARIABLE, FLAG...)
# Appends to VARIABLE those flags that the compiler and the linker take.
AC_DEFUN([SP_TRY_FLAGS],
[for sp_flag in $2; do
  AC_MSG_CHECKING([whether $CC accepts $sp_flag])
  sp_saved_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -Werror $sp_flag"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
    [AC_MSG_RESULT([yes]); $1="$$1 $sp_flag"], [AC_MSG_RESULT([no])])
  CFLAGS=$sp_saved_CFLAGS
done])

AC_DEFUN([SP_WARNINGS],
[AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [make every warning an error])], [], [enable_werror=no])
SP_CFLAGS="-std=gnu11"
# Contraction would give bits that depend on the processor that the compiler was told of; fmaf() says it where it is meant.
SP_TRY_FLAGS([SP_CFLAGS], [-ffp-contract=off -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes])
AS_IF([test "x$enable_werror" = xyes], [SP_CFLAGS="$SP_CFLAGS -Werror"])
SP_OPT_CORE= SP_OPT_PLUGIN=
AS_IF([test "x$sp_own_opt" = xyes], [SP_OPT_CORE=-O2 SP_OPT_PLUGIN=-O3])
AC_SUBST([SP_CFLAGS])
AC_SUBST([SP_OPT_CORE])
AC_SUBST([SP_OPT_PLUGIN])])

AC_DEFUN([SP_SANITIZERS],
[AC_ARG_ENABLE([asan], [AS_HELP_STRING([--enable-asan], [build with AddressSanitizer and LeakSanitizer])],
  [], [enable_asan=no])
AC_ARG_ENABLE([ubsan], [AS_HELP_STRING([--enable-ubsan], [build with UndefinedBehaviorSanitizer])],
  [], [enable_ubsan=no])
AC_ARG_ENABLE([tsan], [AS_HELP_STRING([--enable-tsan], [build with ThreadSanitizer])], [], [enable_tsan=no])
AS_IF([test "x$enable_asan$enable_tsan" = xyesyes],
  [AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other: build twice, in two folders])])
sp_san=
AS_IF([test "x$enable_asan" = xyes], [sp_san="$sp_san,address"])
AS_IF([test "x$enable_ubsan" = xyes], [sp_san="$sp_san,undefined"])
AS_IF([test "x$enable_tsan" = xyes], [sp_san="$sp_san,thread"])
SP_SAN_CFLAGS=
sp_san=`AS_ECHO(["$sp_san"]) | sed 's/^,//'`
AS_IF([test "x$sp_san" != x],
  [SP_SAN_CFLAGS="-fsanitize=$sp_san -fno-omit-frame-pointer"
   AS_CASE([$sp_san], [*undefined*], [SP_SAN_CFLAGS="$SP_SAN_CFLAGS -fno-sanitize-recover=undefined"])
   sp_saved_CFLAGS=$CFLAGS
   CFLAGS="$CFLAGS $SP_SAN_CFLAGS"
   AC_MSG_CHECKING([whether $CC links with -fsanitize=$sp_san])
   AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
     [AC_MSG_RESULT([no])
      AC_MSG_ERROR([$CC cannot link with -fsanitize=$sp_san: install its sanitizer libraries])])
   CFLAGS=$sp_saved_CFLAGS
   # Lines for the sanitizers' reports; what a debugger reads besides takes a fifth of the time to compile.
   AS_IF([test "x$sp_own_opt" = xyes], [CFLAGS=-g1 SP_OPT_CORE=-O1 SP_OPT_PLUGIN=-O1])])
# A plugin that needs a symbol of the host would fail only when loaded; sanitizers leave theirs open by design.
SP_PLUGIN_LDFLAGS=
AS_IF([test "x$sp_san" = x], [SP_TRY_FLAGS([SP_PLUGIN_LDFLAGS], [-Wl,-z,defs])])
AS_IF([test "x$sp_san" = x], [sp_san=none])
AC_SUBST([SP_SAN_CFLAGS])
AC_SUBST([SP_PLUGIN_LDFLAGS])
AC_SUBST([SP_SANITIZERS_ON], [$sp_san])])
