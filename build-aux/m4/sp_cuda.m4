# SPDX-License-Identifier: MIT
# The CUDA toolkit: nvcc, the runtime, cuBLAS and cuDNN, which the device "cuda" and its stages need.

# SP_CUDA_ARCH
# Sets SP_GENCODE. By default machine code for the first target of each generation, which runs on all of that generation,
# and PTX of the newest, which later GPUs translate.
AC_DEFUN([SP_CUDA_ARCH],
[sp_targets=
AS_CASE([$with_cuda_arch],
  [auto], [],
  [native], [],
  [yes | no | '' | *[[!0-9,af]]*],
    [AC_MSG_ERROR([--with-cuda-arch=$with_cuda_arch: give native, or compute capabilities such as 90 or 80,90])],
  [sp_targets=`AS_ECHO(["$with_cuda_arch"]) | tr ',' ' '`])
sp_known=`"$NVCC" --list-gpu-arch 2>/dev/null | sed -n 's/.*compute_@<:@^0-9@:>@*\(@<:@0-9@:>@@<:@0-9@:>@*\).*/\1/p' |
  sort -n -u | awk '@S|@1 >= 75' | paste -s -d ' ' -`
AC_MSG_CHECKING([for GPU targets])
SP_GENCODE=
AS_IF([test "x$with_cuda_arch" = xnative], [SP_GENCODE="-arch=native"],
  [AS_IF([test "x$sp_targets" = x],
     [sp_targets=`AS_ECHO(["$sp_known"]) | tr ' ' '\n' | awk '{ g = int(@S|@1 / 10) } g != last { print; last = g }' |
        paste -s -d ' ' -`
      sp_ptx=`AS_ECHO(["$sp_known"]) | sed 's/.* //'`],
     [sp_ptx=`AS_ECHO(["$sp_targets"]) | sed 's/.* //'`])
   for sp_target in $sp_targets; do
     SP_GENCODE="$SP_GENCODE${SP_GENCODE:+ }-gencode arch=compute_$sp_target,code=sm_$sp_target"
   done
   AS_IF([test "x$sp_ptx" != x],
     [SP_GENCODE="$SP_GENCODE -gencode arch=compute_$sp_ptx,code=compute_$sp_ptx"])])
AC_MSG_RESULT([${SP_GENCODE:-none}])])

# SP_CUDA_TRY_NVCC
# Sets sp_why if nvcc does not compile: a host compiler that is too new, a target that it does not know, no GPU for native.
AC_DEFUN([SP_CUDA_TRY_NVCC],
[AC_MSG_CHECKING([whether $NVCC compiles])
cat >conftest.cu <<_ACEOF
__global__ void sp_kernel(int *p) { *p = 1; }
_ACEOF
AS_IF(["$NVCC" -std=c++17 $SP_GENCODE $NVCCFLAGS -c -o conftest.$ac_objext conftest.cu >conftest.err 2>&1],
  [AC_MSG_RESULT([yes])],
  [AC_MSG_RESULT([no])
   cat conftest.err >&AS_MESSAGE_LOG_FD
   sp_why="nvcc does not compile: `grep -i -m 1 -e error -e fatal conftest.err || sed -n 1p conftest.err`"])
rm -f conftest.cu conftest.err conftest.$ac_objext])

# SP_CUDA_TRY_LIBRARIES
# Sets sp_why if a header or a library of the toolkit is missing.
AC_DEFUN([SP_CUDA_TRY_LIBRARIES],
[sp_saved_CPPFLAGS=$CPPFLAGS sp_saved_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
AC_CHECK_HEADERS([cuda_runtime_api.h cublasLt.h cublas_v2.h cudnn.h], [],
  [AS_IF([test "x$sp_why" = x], [sp_why="$ac_header was not found (cuBLAS comes with the CUDA toolkit, cuDNN 9 apart)"])])
AS_IF([test "x$sp_why" = x],
  [LIBS="$CUDNN_LIBS $CUBLAS_LIBS $CUDA_LIBS $LIBS"
   AC_MSG_CHECKING([for CUDA 12 or newer, cuBLAS and cuDNN 9 in $CUDNN_LIBS $CUBLAS_LIBS $CUDA_LIBS])
   AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#if CUDART_VERSION < 12000 || CUDNN_MAJOR < 9
#error too old
#endif]], [[int v; return cudaRuntimeGetVersion(&v) + (int)cublasLtGetVersion() + (int)cudnnGetVersion() +
      (int)cublasCreate_v2(0);]])],
     [AC_MSG_RESULT([yes])],
     [AC_MSG_RESULT([no])
      sp_why="the libraries cudart, cublas, cublasLt, cudnn (CUDA 12, cuDNN 9 or newer) do not link"])])
CPPFLAGS=$sp_saved_CPPFLAGS LIBS=$sp_saved_LIBS])

# Sets sp_cuda_dir to the folder of the toolkit and NVCC to its compiler, or sp_why.
AC_DEFUN([SP_CUDA_FIND],
[sp_cuda_dir=
AS_CASE([$with_cuda],
  [auto | yes],
    [for sp_dir in "$CUDA_HOME" "$CUDA_PATH" /usr/local/cuda; do
       AS_IF([test "x$sp_dir" != x && test -x "$sp_dir/bin/nvcc"], [sp_cuda_dir=$sp_dir; break])
     done
     sp_nvcc=`command -v nvcc 2>/dev/null`
     AS_IF([test "x$sp_cuda_dir" = x && test "x$sp_nvcc" != x],
       [sp_nvcc=`readlink -f "$sp_nvcc"`
        sp_cuda_dir=`dirname "$sp_nvcc"`
        sp_cuda_dir=`dirname "$sp_cuda_dir"`])
     AS_IF([test "x$sp_cuda_dir" = x && test "x$NVCC" = x],
       [sp_why="no CUDA toolkit: no nvcc in CUDA_HOME, CUDA_PATH, /usr/local/cuda or PATH"])],
  [sp_cuda_dir=$with_cuda
   AS_IF([test ! -x "$with_cuda/bin/nvcc" && test "x$NVCC" = x], [sp_why="there is no $with_cuda/bin/nvcc"])])
: ${NVCC=$sp_cuda_dir/bin/nvcc}])

# A toolkit outside of the system's folders is found again at run time through the path written into the modules.
AC_DEFUN([SP_CUDA_FLAGS],
[sp_lib=
AS_IF([test "x$sp_cuda_dir" != x && test "x$sp_cuda_dir" != x/usr],
  [: ${CUDA_CPPFLAGS="-I$sp_cuda_dir/include"}
   for sp_dir in "$sp_cuda_dir/lib64" "$sp_cuda_dir/lib"; do
     AS_IF([test -f "$sp_dir/libcudart.so"], [sp_lib="-L$sp_dir -Wl,-rpath,$sp_dir "; break])
   done])
: ${CUDA_LIBS="$sp_lib-lcudart"}
: ${CUBLAS_LIBS="-lcublas -lcublasLt"}
: ${CUDNN_LIBS="-lcudnn"}])

AC_DEFUN([SP_CUDA],
[AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR],
  [the CUDA toolkit, for the device "cuda" @<:@CUDA_HOME, CUDA_PATH, /usr/local/cuda, nvcc in PATH@:>@; --without-cuda
   builds without it; --with-cuda fails where it is missing])], [], [with_cuda=auto])
AC_ARG_WITH([cuda-arch], [AS_HELP_STRING([--with-cuda-arch=native|LIST],
  [GPUs to build for: the one of this machine, or compute capabilities such as 80,90 @<:@all from 75 on@:>@])],
  [], [with_cuda_arch=auto])
AC_ARG_VAR([NVCC], [the CUDA compiler])
AC_ARG_VAR([NVCCFLAGS], [further flags for the CUDA compiler])
AC_ARG_VAR([CUDA_CPPFLAGS], [C preprocessor flags for CUDA])
AC_ARG_VAR([CUDA_LIBS], [linker flags for the CUDA runtime @<:@-lcudart@:>@])
AC_ARG_VAR([CUBLAS_LIBS], [linker flags for cuBLAS @<:@-lcublas -lcublasLt@:>@])
AC_ARG_VAR([CUDNN_LIBS], [linker flags for cuDNN @<:@-lcudnn@:>@])
sp_cuda=no sp_why= SP_GENCODE=
AS_IF([test "x$with_cuda" = xno], [sp_why="--without-cuda"],
  [SP_CUDA_FIND
   AS_IF([test "x$sp_why" = x],
     [SP_CUDA_FLAGS
      AC_MSG_CHECKING([for the CUDA compiler])
      AC_MSG_RESULT([$NVCC])
      SP_CUDA_ARCH
      SP_CUDA_TRY_NVCC])
   AS_IF([test "x$sp_why" = x], [SP_CUDA_TRY_LIBRARIES])])
AS_IF([test "x$sp_why" = x], [sp_cuda="yes: $sp_cuda_dir"],
  [SP_WITHOUT([cuda], [no device "cuda": $sp_why])])
SP_NVCC_WERROR=
AS_IF([test "x$enable_werror" = xyes], [SP_NVCC_WERROR="-Werror all-warnings"])
AC_SUBST([SP_GENCODE])
AC_SUBST([SP_NVCC_WERROR])
AM_CONDITIONAL([HAVE_CUDA], [test "x$sp_why" = x])])
