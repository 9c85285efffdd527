# SPDX-License-Identifier: MIT
# Installs spcore under a folder of its own and builds a stage against that installation alone, in C and in C++: found by
# --plugin, by SPCORE_PLUGIN_PATH and in the plugin folder, from any working directory.
# once: it makes a build of its own
set -u
if [ "${SP_SANITIZERS:-none}" != none ]; then
  echo 'skipped: a sanitizer build (the stage outside would not be instrumented)'
  exit 77
fi
src=${top_srcdir:?}
if ! pkg-config --exists 'lua5.4 >= 5.4' 2>/dev/null && ! pkg-config --exists 'lua >= 5.4' 2>/dev/null; then
  echo 'skipped: what this builds needs the development files of Lua 5.4, which are not here'
  exit 77
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-outside.XXXXXX") || exit 99
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
unset SPCORE_PLUGIN_PATH MAKEFLAGS MFLAGS MAKELEVEL

fail() { echo "FAIL: $*"; exit 1; }
quietly() { "$@" >"$dir/log" 2>&1 || { tail -n 40 "$dir/log"; fail "$*"; }; }

# The folders are compiled in, so this is a build of its own: unoptimised, of the plugins only `sleep`.
mkdir "$dir/build" && cd "$dir/build" || exit 99
quietly "$src/configure" -q --prefix="$dir/prefix" --without-cuda CC="${CC:-cc}" CFLAGS=-O0
quietly make -j2 install plugin_LTLIBRARIES=sleep.la
cd / || exit 99
rm -rf "$dir/build"
spcore=$dir/prefix/bin/spcore plugins=$dir/prefix/lib/spcore
[ -x "$spcore" ] || fail "no $spcore after make install"
[ -z "$(find "$dir/prefix" -xtype l)" ] || fail "links to modules that were not built are installed"
[ -z "$(find "$dir/prefix" -name '*.la')" ] || fail "libtool's .la files are installed"

PKG_CONFIG_PATH=$dir/prefix/lib/pkgconfig
export PKG_CONFIG_PATH
cflags=$(pkg-config --cflags spcore) || fail "pkg-config does not find spcore.pc"
[ -z "$(pkg-config --libs spcore)" ] || fail "spcore.pc asks a stage to link: $(pkg-config --libs spcore)"
[ "$(pkg-config --variable=plugindir spcore)" = "$plugins" ] ||
  fail "plugindir of spcore.pc is $(pkg-config --variable=plugindir spcore), not $plugins"

warn='-Wall -Wextra -pedantic -Werror'
mkdir "$dir/mine"
# shellcheck disable=SC2086
quietly ${CC:-cc} -std=c11 $warn -O2 -fPIC -shared -Wl,-z,defs $cflags -o "$dir/mine/negate_c.so" \
  "$src/tests/outside/negate.c"
stages=negate_c
if command -v "${CXX:-g++}" >/dev/null; then
  # shellcheck disable=SC2086
  quietly "${CXX:-g++}" -std=c++17 $warn -O2 -fPIC -shared $cflags -o "$dir/mine/negate_cc.so" \
    "$src/tests/outside/negate.cc"
  stages='negate_c negate_cc'
else
  echo "note: no C++ compiler (${CXX:-g++}), C only"
fi

# shows HOW STAGE ARGS...: inspect prints the stage's page.
shows() {
  how=$1 stage=$2
  shift 2
  out=$("$spcore" inspect "$@" "$stage" 2>&1) || fail "$how: $out"
  case $out in
    *gain*factor*) echo "ok: $stage by $how" ;;
    *) fail "$how: inspect $stage prints no parameter 'gain': $out" ;;
  esac
}

out=$("$spcore" inspect 2>&1) || fail "inspect: $out"
case $out in *sleep*) ;; *) fail "the installed stage sleep is not listed: $out" ;; esac
for stage in $stages; do
  out=$("$spcore" inspect "$stage" 2>&1) && fail "$stage is found before it is anywhere: $out"
  shows --plugin "$stage" --plugin "$dir/mine/$stage.so"
  (SPCORE_PLUGIN_PATH=/nowhere:$dir/mine; export SPCORE_PLUGIN_PATH; shows SPCORE_PLUGIN_PATH "$stage") || exit 1
  cp "$dir/mine/$stage.so" "$plugins/"
  shows 'the plugin folder' "$stage"
  "$spcore" check "$plugins/$stage.so" >"$dir/log" 2>&1 || { cat "$dir/log"; fail "check $stage.so"; }
done
