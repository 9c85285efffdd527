# SPDX-License-Identifier: MIT
# The CUDA emulator of the tests (tests/emu): a C++ compiler and CUDA's headers; no GPU, and none of its libraries.

# Needs AC_PROG_CXX, SP_CUDA, SP_NCCL, SP_CUPTI and SP_NVTX before, which need not be able to build for a GPU. Autoconf's
# default of "-g -O2" for C++ is kept where there are no sanitizers.
AC_DEFUN([SP_EMU],
[sp_emu="no: no CUDA toolkit"
SP_CXXFLAGS="-std=gnu++17 -ffp-contract=off -fno-strict-aliasing -Wall -Wextra -Wno-unknown-pragmas"
AS_IF([test "x$enable_werror" = xyes], [SP_CXXFLAGS="$SP_CXXFLAGS -Werror"])
SP_EMU_CPPFLAGS=`AS_ECHO(["$CUDA_CPPFLAGS"]) | sed 's/-I */-isystem /g'`
AS_IF([test "x$sp_cuda_found" = xyes],
  [AC_LANG_PUSH([C++])
   sp_saved_CPPFLAGS=$CPPFLAGS sp_saved_CXXFLAGS=$CXXFLAGS
   CPPFLAGS="$CPPFLAGS $SP_EMU_CPPFLAGS" CXXFLAGS="$CXXFLAGS $SP_CXXFLAGS $SP_SAN_CFLAGS"
   AC_MSG_CHECKING([whether $CXX compiles C++17 with the headers of CUDA])
   AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cublas_v2.h>
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#include <functional>]], [[std::function<float()> f = [] { return make_float4(0, 0, 0, 0).x; }; return f() != 0;]])],
     [sp_emu=yes], [sp_emu="no: no C++17 compiler that takes the headers of CUDA"])
   AC_MSG_RESULT([$sp_emu])
   CPPFLAGS=$sp_saved_CPPFLAGS CXXFLAGS=$sp_saved_CXXFLAGS
   # ASan would put the locals of each call of each thread of a kernel on the heap, which takes three times as long.
   AS_IF([test "x$enable_asan" = xyes],
     [for sp_flag in --param=asan-use-after-return=0 -fsanitize-address-use-after-return=never; do
        CXXFLAGS="$sp_saved_CXXFLAGS -Werror $SP_SAN_CFLAGS $sp_flag"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [SP_CXXFLAGS="$SP_CXXFLAGS $sp_flag"; break])
      done
      CXXFLAGS=$sp_saved_CXXFLAGS])
   # In kernels, whose templates take minutes to compile, ASan sees what these checks would: where a pointer leads.
   AS_IF([test "x$enable_asan$enable_ubsan" = xyesyes],
     [sp_flag="-fno-sanitize=null,object-size,pointer-overflow"
      CXXFLAGS="$sp_saved_CXXFLAGS -Werror $SP_SAN_CFLAGS $sp_flag"
      AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [SP_CXXFLAGS="$SP_CXXFLAGS $sp_flag"])
      CXXFLAGS=$sp_saved_CXXFLAGS])
   # Of stages' kernels, where ASan looks is a call: a file of templates then takes a third of the time to compile.
   SP_EMU_STAGES_CXXFLAGS=
   AS_IF([test "x$enable_asan" = xyes],
     [sp_flag="--param=asan-instrumentation-with-call-threshold=0"
      CXXFLAGS="$sp_saved_CXXFLAGS -Werror $SP_SAN_CFLAGS $sp_flag"
      AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [SP_EMU_STAGES_CXXFLAGS=$sp_flag])
      CXXFLAGS=$sp_saved_CXXFLAGS])
   # The emulator's inner loops do without, but tell ASan of their stacks, for which __SANITIZE_ADDRESS__ must stay.
   SP_EMU_HOT_CXXFLAGS=
   AS_IF([test "x$enable_asan" = xyes],
     [sp_flag="--param=asan-instrument-reads=0 --param=asan-instrument-writes=0 --param=asan-stack=0 --param=asan-globals=0"
      sp_flag="$sp_flag -fno-sanitize=undefined"
      CXXFLAGS="$sp_saved_CXXFLAGS -Werror $SP_SAN_CFLAGS $sp_flag"
      AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [SP_EMU_HOT_CXXFLAGS=$sp_flag])
      CXXFLAGS=$sp_saved_CXXFLAGS])
   # Sanitized kernels take more than twice as long to compile at -O2 -g, and run no faster than at -O1 with calls inlined.
   AS_IF([test "x$sp_san" != xnone && test "x$sp_own_cxx_opt" = xyes],
     [sp_flag="-g1 -O1 -finline-small-functions -finline-functions -findirect-inlining"
      CXXFLAGS="-Werror $sp_flag"
      AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [CXXFLAGS=$sp_flag], [CXXFLAGS=$sp_saved_CXXFLAGS])])
   AC_LANG_POP([C++])])
AC_SUBST([SP_CXXFLAGS])
AC_SUBST([SP_EMU_CPPFLAGS])
AC_SUBST([SP_EMU_HOT_CXXFLAGS])
AC_SUBST([SP_EMU_STAGES_CXXFLAGS])
AM_CONDITIONAL([HAVE_EMU], [test "x$sp_emu" = xyes])
AM_CONDITIONAL([HAVE_EMU_CUPTI], [test "x$sp_emu" = xyes && test "x$sp_cupti" = xyes])
AM_CONDITIONAL([HAVE_EMU_NVTX], [test "x$sp_emu" = xyes && test "x$sp_nvtx" = xyes])
AM_CONDITIONAL([HAVE_EMU_NCCL], [test "x$sp_emu" = xyes && test "x$sp_nccl_header" = xyes])
AM_CONDITIONAL([HAVE_EMU_KERNELS], [test "x$sp_emu" = xyes && test "x$enable_tsan" != xyes])])
