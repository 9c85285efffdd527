# SPDX-License-Identifier: MIT
# A new stage costs its folder and one line of plugins/stages.list: in a copy of the tree make notices the line, builds
# that one module, and a script runs it. With a twin for CUDA and a test of its own it is still one line.
set -u
src=${top_srcdir:?} build=${top_builddir:?}
if [ "${SP_SANITIZERS:-none}" != none ]; then
  echo 'skipped: a sanitizer build (the new stage would not be instrumented)'
  exit 77
fi
for tool in autoconf automake aclocal; do
  $tool --version >/dev/null 2>&1 || { echo "skipped: $tool is not installed"; exit 77; }
done
if ! pkg-config --exists 'lua5.4 >= 5.4' 2>/dev/null && ! pkg-config --exists 'lua >= 5.4' 2>/dev/null; then
  echo 'skipped: what this builds needs the development files of Lua 5.4, which are not here'
  exit 77
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-add-stage.XXXXXX") || exit 99
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL

fail() { echo "FAIL: $*"; exit 1; }
quietly() { "$@" >"$dir/log" 2>&1 || { tail -n 40 "$dir/log"; fail "$*"; }; }
has() { grep -q "$1" plugins/stages.am || fail "plugins/stages.am has no $1"; }

# What was made by autoreconf comes along, with its times, so that only what the line changes is made again.
mkdir "$dir/tree" && (cd "$src" && tar cf - --exclude='*.o' --exclude='*.lo' --exclude='*.la' --exclude='.libs' \
  --exclude='.deps' configure configure.ac aclocal.m4 Makefile.am Makefile.in build-aux core docs include plugins \
  scripts tests LICENSE README.md HACKING.md bootstrap spcore.pc.in) | tar xf - -C "$dir/tree" || exit 99
chmod -R u+w "$dir/tree"
cd "$dir/tree" || exit 99

mkdir plugins/stages/twice
sed -e 's/negate_c/twice/g' -e 's/-\*(double/2 * *(double/' tests/outside/negate.c >plugins/stages/twice/twice.c
grep -q '2 \* \*(double' plugins/stages/twice/twice.c || fail 'tests/outside/negate.c is not what this test changes'
out=$(sh build-aux/stages.sh 2>&1) && fail 'a folder without a line goes unnoticed'
case $out in *plugins/stages.list*plugins/stages/twice*) ;; *) fail "of a folder without a line it says: $out" ;; esac
echo 'twice' >>plugins/stages.list

mkdir o && cd o || exit 99
quietly ../configure -q --without-cuda --without-onednn --without-images --without-jansson --without-check \
  --without-python CC="${CC:-cc}" CFLAGS=-O0
quietly make twice.la
[ -f .libs/twice.so ] || fail 'make twice.la makes no .libs/twice.so'
cat >run.lua <<'END'
local sp = require "spcore"
local g <close> = sp.graph { device = "cpu" }
local x = g.toy_source { samples = 4, batch = 4 }
local y = g.twice { x.x }
assert(tostring(y.y):find "float32", tostring(y.y))
for step in g:steps(2) do print("step", step) end
END
SPCORE_PLUGIN_PATH=$PWD/.libs:${SP_TEST_PLUGINS:?} "$build/spcore" run run.lua >"$dir/log" 2>&1 ||
  { cat "$dir/log"; fail 'a script with the new stage'; }
cd .. || exit 99

# A twin and a test: more files, no more lines.
echo '#include "twice.h"' >plugins/stages/twice/twice_cuda.c
: >plugins/stages/twice/twice_kernels.cu
: >plugins/stages/twice/twice.h
: >tests/stages/check_twice.c
quietly sh build-aux/stages.sh
has '^plugin_LTLIBRARIES += twice_cuda.la$'
has '^check_LTLIBRARIES += tests/emu/twice_cuda.la$'
has 'tests/emu/cu/stages/twice/twice_kernels.lo'
has 'plugins/stages/twice/twice.h$'
has '^check_c += tests/stages/check_twice$'

# In a module with another it takes that one's flags, and is found by a link.
cp plugins/stages.list list
cp -R plugins/stages/twice plugins/stages/twins
cp -R plugins/stages/twice plugins/stages/thrice
mkdir plugins/modules/twos
sed -i 's/^twice$/module twos aug\ntwins twos\nthrice twos\ntwice/' plugins/stages.list
quietly sh build-aux/stages.sh
has '^twos_la_CFLAGS = .*-fno-trapping-math$'
has '^  twos:thrice$'
grep -q 'twos_cuda' plugins/stages.am && fail 'a module for CUDA without a stage for CUDA'
sed -i 's/^twins twos$/twins twos -lm/' plugins/stages.list
out=$(sh build-aux/stages.sh 2>&1) && fail 'flags of a stage in a module are dropped'
case $out in *"are in the line \`module twos\`") ;; *) fail "of a library beside a module it says: $out" ;; esac
mv list plugins/stages.list
rm -r plugins/stages/twins plugins/stages/thrice plugins/modules/twos

# Mistakes in the list are named, with their line.
for line in 'nowhere' 'twice' 'Twice' 'add2 aug nokit' 'kit nowhere' 'module nowhere aug'; do
  cp plugins/stages.list list
  echo "$line" >>plugins/stages.list
  out=$(sh build-aux/stages.sh 2>&1) && fail "'$line' is taken"
  case $out in "plugins/stages.list:"*[0-9]": "*) ;; *) fail "of '$line' it says: $out" ;; esac
  mv list plugins/stages.list
done
echo 'one stage, one line'
