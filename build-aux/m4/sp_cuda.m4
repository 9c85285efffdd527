# SPDX-License-Identifier: MIT
# The CUDA toolkit: nvcc, the runtime, cuBLAS and cuDNN, which the device "cuda" and its stages need.

# SP_CUDA_ARCH
# Sets SP_GENCODE, or sp_why where nobody asked for targets.
AC_DEFUN([SP_CUDA_ARCH],
[AC_MSG_CHECKING([for GPU targets])
AS_IF([SP_GENCODE=`sh "$srcdir/build-aux/cuda_arch.sh" "$NVCC" "$with_cuda_arch" 2>conftest.err`],
  [AC_MSG_RESULT([$SP_GENCODE])],
  [AC_MSG_RESULT([none])
   sp_why=`cat conftest.err`
   AS_IF([test "x$with_cuda_arch" != xauto], [AC_MSG_ERROR([$sp_why])])])
rm -f conftest.err])

# SP_CUDA_TRY_NVCC
# Sets sp_why if nvcc does not compile: a host compiler that is too new, a target that it does not know.
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

# NCCL comes with some CUDA toolkits, and else apart. The tests' emulator needs its header alone.
AC_DEFUN([SP_NCCL],
[SP_WITH([nccl], [NCCL: no communicator "nccl" between GPUs])
AC_ARG_VAR([NCCL_LIBS], [linker flags for NCCL @<:@-lnccl@:>@])
sp_nccl=no sp_nccl_header=no
sp_why="no communicator between GPUs (NCCL 2.19 or newer)"
: ${NCCL_LIBS=-lnccl}
sp_saved_CPPFLAGS=$CPPFLAGS sp_saved_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
AS_IF([test "x$with_nccl" != xno && test "x$sp_cuda_found" = xyes],
  [AC_CHECK_HEADER([nccl.h], [sp_nccl_header=yes])])
AS_CASE([$sp_nccl_header:$sp_cuda],
  [yes:yes*],
    [LIBS="$NCCL_LIBS $CUDA_LIBS $LIBS"
     AC_MSG_CHECKING([for NCCL 2.19 or newer in $NCCL_LIBS])
     AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <nccl.h>
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 19, 0)
#error too old
#endif]], [[void *p; return ncclMemAlloc(&p, 1);]])],
       [AC_MSG_RESULT([yes]); sp_nccl=yes], [AC_MSG_RESULT([no])])],
  [*:no*], [sp_why="no device \"cuda\""])
CPPFLAGS=$sp_saved_CPPFLAGS LIBS=$sp_saved_LIBS
AS_IF([test "x$sp_nccl" = xno], [SP_WITHOUT([nccl], [$sp_why])])
AM_CONDITIONAL([HAVE_NCCL], [test "x$sp_nccl" = xyes])])

# CUPTI comes with the CUDA toolkit, in older ones in a folder of its own. It is opened when a trace asks for it, so its header
# alone is needed; CUPTI_LIBS says where it lies.
AC_DEFUN([SP_CUPTI],
[SP_WITH([cupti], [CUPTI: a trace has no times of single calls in CUDA graphs])
AC_ARG_VAR([CUPTI_LIBS], [linker flags that say where CUPTI lies])
sp_cupti=no CUPTI_CPPFLAGS=
sp_saved_CPPFLAGS=$CPPFLAGS
AS_IF([test -f "$sp_cuda_dir/extras/CUPTI/include/cupti.h"],
  [CUPTI_CPPFLAGS="-isystem $sp_cuda_dir/extras/CUPTI/include "
   : ${CUPTI_LIBS="-Wl,-rpath,$sp_cuda_dir/extras/CUPTI/lib64"}])
CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS $CUPTI_CPPFLAGS"
AS_IF([test "x$with_cupti" != xno && test "x$sp_cuda_found" = xyes], [AC_CHECK_HEADER([cupti.h], [sp_cupti=yes])])
CPPFLAGS=$sp_saved_CPPFLAGS
AS_IF([test "x$sp_cupti" = xyes], [CUPTI_CPPFLAGS="$CUPTI_CPPFLAGS-DDEVICE_CUDA_CUPTI"],
  [SP_WITHOUT([cupti], [no times of single calls in CUDA graphs])])
AC_SUBST([CUPTI_CPPFLAGS])])

# Headers of NVTX, of which there is no library: without a profiler they cost nothing.
AC_DEFUN([SP_NVTX],
[sp_nvtx=no NVTX_CPPFLAGS=
sp_saved_CPPFLAGS=$CPPFLAGS
CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
AS_IF([test "x$sp_cuda_found" = xyes], [AC_CHECK_HEADER([nvtx3/nvToolsExtCudaRt.h], [sp_nvtx=yes NVTX_CPPFLAGS=-DDEVICE_CUDA_NVTX])])
CPPFLAGS=$sp_saved_CPPFLAGS
AC_SUBST([NVTX_CPPFLAGS])])

AC_DEFUN([SP_CUDA],
[AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR],
  [the CUDA toolkit, for the device "cuda" @<:@CUDA_HOME, CUDA_PATH, /usr/local/cuda, nvcc in PATH@:>@; --without-cuda
   builds without it; --with-cuda fails where it is missing])], [], [with_cuda=auto])
AC_ARG_WITH([cuda-arch], [AS_HELP_STRING([--with-cuda-arch=native|all|none|LIST],
  [GPUs to build for: those of this machine, all that nvcc knows from 75 on (for a distribution), none (only the tests'
   emulator), or compute capabilities such as 80,90 @<:@those of this machine, without a GPU 80,90@:>@])],
  [], [with_cuda_arch=auto])
AC_ARG_VAR([NVCC], [the CUDA compiler])
AC_ARG_VAR([NVCCFLAGS], [further flags for the CUDA compiler])
AC_ARG_VAR([CUDA_CPPFLAGS], [C preprocessor flags for CUDA])
AC_ARG_VAR([CUDA_LIBS], [linker flags for the CUDA runtime @<:@-lcudart@:>@])
AC_ARG_VAR([CUBLAS_LIBS], [linker flags for cuBLAS @<:@-lcublas -lcublasLt@:>@])
AC_ARG_VAR([CUDNN_LIBS], [linker flags for cuDNN @<:@-lcudnn@:>@])
sp_cuda=no sp_cuda_found=no sp_why= SP_GENCODE=
AS_IF([test "x$with_cuda" = xno], [sp_why="--without-cuda"],
  [SP_CUDA_FIND
   AS_IF([test "x$sp_why" = x],
     [SP_CUDA_FLAGS
      AC_MSG_CHECKING([for the CUDA compiler])
      AC_MSG_RESULT([$NVCC])
      sp_cuda_found=yes
      AS_IF([test "x$with_cuda_arch" = xnone], [sp_why="--with-cuda-arch=none"], [SP_CUDA_ARCH])])
   AS_IF([test "x$sp_why" = x], [SP_CUDA_TRY_NVCC])
   AS_IF([test "x$sp_why" = x], [SP_CUDA_TRY_LIBRARIES])])
AS_IF([test "x$sp_why" = x],
  [sp_targets=`AS_ECHO(["$SP_GENCODE"]) | sed 's/-gencode arch=compute_@<:@^,@:>@*,code=//g; s/ /, /g; s/compute_/PTX /'`
   sp_cuda="yes: $sp_cuda_dir ($sp_targets)"],
  [SP_WITHOUT([cuda], [no device "cuda": $sp_why])])
SP_NVCC_WERROR=
AS_IF([test "x$enable_werror" = xyes], [SP_NVCC_WERROR="-Werror all-warnings"])
AC_SUBST([SP_GENCODE])
AC_SUBST([SP_CUDA_FOUND], [$sp_cuda])
AC_CONFIG_COMMANDS([build-aux/gpu_targets],
  [AS_ECHO(["$SP_GENCODE"]) >conftest.gpu
   cmp -s conftest.gpu build-aux/gpu_targets || cp conftest.gpu build-aux/gpu_targets
   rm -f conftest.gpu], [SP_GENCODE='$SP_GENCODE'])
AC_SUBST([SP_NVCC_WERROR])
AM_CONDITIONAL([HAVE_CUDA], [test "x$sp_why" = x])])
