# SPDX-License-Identifier: MIT
# What bootstrap says and does: wrong words, a path that Autoconf refuses, packages that are missing; what it builds with and
# without a GPU, and how far it is meanwhile.
# once: a shell script, and nothing that is built
set -u
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-bootstrap.XXXXXX") || exit 99
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
unset CI SPCORE_CONFIGURE CC CFLAGS CPPFLAGS LDFLAGS NVCC NVCCFLAGS MAKEFLAGS MFLAGS
status=0

# expect CODE TEXT COMMAND...: the exit code, and TEXT in one line on stderr
expect() {
  code=$1 text=$2
  shift 2
  "$@" >"$dir/out" 2>"$dir/err" </dev/null
  got=$?
  if [ $got -eq "$code" ] && [ "$(wc -l <"$dir/err")" -eq 1 ] && grep -qF -- "$text" "$dir/err"; then return; fi
  echo "FAIL: $*: exit code $got, wanted $code and one line with: $text"
  cat "$dir/err"
  status=1
}

mkdir "$dir/tree" "$dir/a tree" "$dir/bin"
cp "${top_srcdir:?}/bootstrap" "$dir/tree/"
cp "$top_srcdir/bootstrap" "$dir/a tree/"
expect 2 "unknown command 'bild'" "$dir/tree/bootstrap" bild
expect 2 "unknown option '--bild'" "$dir/tree/bootstrap" --bild
expect 2 'which script?' "$dir/tree/bootstrap" run
expect 2 'takes no arguments' "$dir/tree/bootstrap" check now
expect 1 'without blanks' "$dir/a tree/bootstrap" build
[ ! -e "$dir/a tree/build" ] || { echo 'FAIL: something is made where nothing can be built'; status=1; }
if [ "$(id -u)" -ne 0 ]; then
  mkdir "$dir/tree/build" && chmod a-w "$dir/tree/build"
  expect 1 "cannot write $dir/tree/build/bootstrap.log" "$dir/tree/bootstrap" build
  chmod u+w "$dir/tree/build"
fi

# A Debian on which only gcc and Check are installed.
cat >"$dir/bin/dpkg-query" <<'END'
#!/bin/sh
printf 'installed gcc\ninstalled check\nconfig-files make\n'
END
printf '#!/bin/sh\necho "installs something: $*" >&2\nexit 1\n' >"$dir/bin/apt-get"
chmod +x "$dir/bin/dpkg-query" "$dir/bin/apt-get"
PATH=$dir/bin:$PATH "$dir/tree/bootstrap" --no-install check >"$dir/out" 2>&1
code=$?
[ $code -eq 1 ] || { echo "FAIL: --no-install: exit code $code"; status=1; }
for wanted in make liblua5.4-dev libdnnl-dev 'g++'; do
  grep -qE "^  .* $(printf %s "$wanted" | sed 's/[+]/[+]/g')( |\$)" "$dir/out" || { echo "FAIL: $wanted is missing, but not listed"; status=1; }
done
if grep -qE ' (gcc|check)$|installs something' "$dir/out"; then echo 'FAIL: too much is listed or installed'; status=1; fi
[ $status -eq 0 ] || cat "$dir/out"

# ---- what is built, and what is said meanwhile: make, configure, the clock and the GPU are stand-ins ----
tree=$dir/tree
fake() { # NAME, its text on stdin
  { echo '#!/bin/sh'; cat; } >"$dir/bin/$1"
  chmod +x "$dir/bin/$1"
}
mkdir -p "$tree/build-aux/m4" "$dir/cuda/bin" "$dir/gpu"
: >"$tree/configure.ac" && : >"$tree/Makefile.in" && : >"$tree/build-aux/ltmain.sh" && : >"$tree/build-aux/m4/sp_x.m4"
cat >"$tree/configure" <<'END'
#!/bin/sh
echo "configure $*" >>"$FAKE/calls"
printf 'SP_CUDA_FOUND = %s\nSP_GENCODE = -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_90a,code=compute_90a\n' \
  "$(cat "$FAKE/cuda_found")" >Makefile
END
chmod +x "$tree/configure"
fake dpkg-query <<'END'
shift 2
for package; do echo "installed $package"; done
END
# Five seconds later at each look.
fake date <<'END'
now=$(($(cat "$FAKE/clock") + 5))
echo $now >"$FAKE/clock"
echo $now
END
fake nvidia-smi <<'END'
cat "$FAKE/gpus"
END
# Nothing else runs here.
fake head <<'END'
case $* in *loadavg) echo "0.00 0.00 0.00 1/100 1000" ;; *) exec /usr/bin/head "$@" ;; esac
END
fake nproc <<'END'
echo 2
END
fake make <<'END'
echo "make $*" >>"$FAKE/calls"
case " $* " in
  *' -n '*) sed 's/^  \([A-Z]*\) *\(.*\)/echo "  \1      " \2;cc -c -o \2/' "$FAKE/jobs" ;;
  *)
    cat "$FAKE/jobs"
    [ ! -f "$FAKE/error" ] || { cat "$FAKE/error"; exit 2; }
    : >"$FAKE/jobs"
    ;;
esac
END
: >"$dir/cuda/bin/nvcc" && chmod +x "$dir/cuda/bin/nvcc"
FAKE=$dir
export FAKE
printf '#!/bin/sh\necho "spcore $*"\n' >"$dir/spcore"
chmod +x "$dir/spcore"

# anew GPUS FOUND: a tree that was never built; what nvidia-smi prints, what configure finds
anew() {
  rm -rf "$tree/build"
  mkdir "$tree/build"
  cp "$dir/spcore" "$tree/build/spcore"
  echo "$1" >"$dir/gpus"
  echo "$2" >"$dir/cuda_found"
  again
}
again() { # there is something to compile
  echo 1000 >"$dir/clock"
  : >"$dir/calls"
  printf '  CC       core/a.lo\n  CC       plugins/b.lo\n  CCLD     libspcore.la\n  GEN      links\n' >"$dir/jobs"
}
boot() { # CODE ARGS...
  code=$1
  shift
  CUDA_HOME=$dir/cuda PATH=$dir/bin:$PATH "$tree/bootstrap" "$@" >"$dir/out" 2>"$dir/err" </dev/null
  got=$?
  [ $got -eq "$code" ] || { echo "FAIL: $*: exit code $got, wanted $code"; cat "$dir/err"; status=1; }
}
says() { grep -qF -- "$1" "$dir/err" || { echo "FAIL: not said: $1"; cat "$dir/err"; status=1; }; }
silent() { if grep -q -- "$1" "$dir/err"; then echo "FAIL: said: $1"; cat "$dir/err"; status=1; fi; }
called() { grep -q -- "^make -C build V=0 -j 2 $1\$" "$dir/calls" || { echo "FAIL: make $1 was not called"; cat "$dir/calls"; status=1; }; }
not_called() { if grep -q -- "$1" "$dir/calls"; then echo "FAIL: called: $1"; status=1; fi; }

none='No devices were found' toolkit='yes: /usr/local/cuda (sm_80, sm_90, PTX 90)'
left_out='no NVIDIA GPU here: the stages for CUDA are not built; ./bootstrap --with-cuda run x.lua builds them'

anew "$none" "$toolkit"
boot 0 run x.lua --steps 1
called all-but-cuda
not_called ' all$'
[ "$(cat "$dir/out")" = 'spcore run x.lua --steps 1' ] || { echo 'FAIL: the script is not run'; status=1; }
says "$left_out"
[ "$(grep -c "stages for CUDA" "$dir/err")" -eq 1 ] || { echo 'FAIL: the notice is not one line'; status=1; }
says 'bootstrap: [0/4] 4 files, about 1 s left'
says 'bootstrap: [2/4] about '
grep -q '^== make took [1-9][0-9]* s, of processors [0-9]* s$' "$tree/build/bootstrap.log" ||
  { echo 'FAIL: the log has no seconds'; status=1; }
again && : >"$dir/jobs"
boot 0 run x.lua # nothing to do, nothing to say
silent .
not_called ' -j '

again
boot 0 build # the same configuration, and the rest of the modules
called all
not_called configure
silent 'GPU'
again
boot 0 --with-cuda run x.lua
called all
silent 'not built'
again
boot 0 check
called all
grep -q '^make -n .* check TESTS=$' "$dir/calls" || { echo 'FAIL: the programs of the tests are not built first'; status=1; }
grep -q '^make -C build -j 3 check$' "$dir/calls" || { echo 'FAIL: no tests are run'; status=1; }
again
MAKEFLAGS='j3 --jobserver-auth=8,9' && export MAKEFLAGS # as .ci/run does: the jobs are that make's
boot 0 check
unset MAKEFLAGS
grep -q '^make -C build check$' "$dir/calls" || { echo 'FAIL: tests do not share the jobs of a make around them'; status=1; }
not_called ' -j '

anew "$none" 'no: no device "cuda": no CUDA toolkit: no nvcc'
boot 0 run x.lua
called all-but-cuda
says 'no NVIDIA GPU and no CUDA toolkit here: the stages for CUDA are not built'
anew "$none" 'no: --without-cuda'
boot 0 run x.lua
silent CUDA
anew "$none" 'no: no device "cuda": nvcc does not compile: no g++' # which --with-cuda installs
boot 0 run x.lua
says "$left_out"
anew "$none" 'no: no device "cuda": no CUDA toolkit: no nvcc'
boot 1 --with-cuda run x.lua
says '--with-cuda: no device "cuda": no CUDA toolkit: no nvcc'
not_called ' -j '
[ ! -s "$dir/out" ] || { echo 'FAIL: runs without what was asked for'; status=1; }

anew 'GPU 0: NVIDIA H100 (UUID: GPU-0)' "$toolkit"
boot 0 run x.lua
called all
silent 'not built'
anew 'GPU 0: NVIDIA H100 (UUID: GPU-0)' 'no: no device "cuda": cudnn.h was not found'
boot 0 run x.lua
says 'a GPU is here, but CUDA is left out: no device "cuda": cudnn.h was not found'

# Files for CUDA weigh what they take: seven of them are not near the end because most files are done.
anew "$none" "$toolkit"
{ seq -f '  CC       core/%g.lo' 93; seq -f '  NVCC     plugins/%g.lo' 7; } >"$dir/jobs"
boot 0 --with-cuda run x.lua
says 'bootstrap: [0/100] 100 files, about '
grep -q '^bootstrap: \[9[0-3]/100\] about [0-9]* min' "$dir/err" || { echo 'FAIL: the kernels are forgotten'; cat "$dir/err"; status=1; }

# A terminal has one line, which is rewritten, no wider than it.
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
  anew "$none" "$toolkit"
  export tree
  CUDA_HOME=$dir/cuda PATH=$dir/bin:$PATH script -qec 'stty cols 40; "$tree/bootstrap" run x.lua' /dev/null >"$dir/err" </dev/null
  esc=$(printf '\033')
  says "$esc[K[4/4] about 1 s left GEN links"
  tr '\r' '\n' <"$dir/err" | sed "s/$esc\\[K//" | grep '^\[' >"$dir/lines"
  [ "$(wc -l <"$dir/lines")" -eq 5 ] || { echo 'FAIL: not a line for each file'; cat "$dir/lines"; status=1; }
  [ "$(wc -L <"$dir/lines")" -le 40 ] || { echo 'FAIL: wider than the terminal'; cat "$dir/lines"; status=1; }
  [ "$(grep -c '\[[0-9]*/4\]' "$dir/err")" -eq 1 ] || { echo 'FAIL: progress is more than one line'; status=1; }
fi

# An error of make's is the end, with its words.
anew "$none" "$toolkit"
echo "a.c:1: error: no such thing" >"$dir/error"
boot 1 run x.lua
says 'a.c:1: error: no such thing'
says 'bootstrap: make failed; all of its output is in '
[ ! -s "$dir/out" ] || { echo 'FAIL: runs what was not built'; status=1; }

# The target itself: modules for CUDA are kept up to date where they are there, and not asked for where they are not.
if [ -f "${top_builddir:?}/Makefile" ]; then
  make -C "$top_builddir" -n all-but-cuda plugin_LTLIBRARIES='nowhere_cuda.la' >"$dir/out" 2>&1 ||
    { echo 'FAIL: all-but-cuda builds modules for CUDA'; tail -n 3 "$dir/out"; status=1; }
fi
exit $status
