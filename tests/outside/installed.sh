# SPDX-License-Identifier: MIT
# make installcheck: a stage is built against what `make install` has installed, in C and in C++, and is found by --plugin,
# by SPCORE_PLUGIN_PATH and in the plugin folder. `make distcheck` runs it; an installation of its own would cost a build.
set -u
src=${top_srcdir:?} spcore=${bindir:?}/spcore plugins=${plugindir:?}
if [ "${SP_SANITIZERS:-none}" != none ]; then
  echo 'skipped: a sanitizer build (the stage outside would not be instrumented)'
  exit 0
fi
if [ -n "${DESTDIR-}" ]; then
  echo 'skipped: what is installed with DESTDIR looks for its files elsewhere'
  exit 0
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-outside.XXXXXX") || exit 99
trap 'rm -rf "$dir"; rm -f "$plugins/negate_c.so" "$plugins/negate_cc.so"' EXIT
unset SPCORE_PLUGIN_PATH MAKEFLAGS MFLAGS MAKELEVEL

fail() { echo "FAIL: $*"; exit 1; }
quietly() { "$@" >"$dir/log" 2>&1 || { tail -n 40 "$dir/log"; fail "$*"; }; }

cd / || exit 99
[ -x "$spcore" ] || fail "no $spcore after make install"
[ -z "$(find "$plugins" -xtype l)" ] || fail "links to modules that were not built are installed"
[ -z "$(find "$plugins" "$bindir" -name '*.la')" ] || fail "libtool's .la files are installed"
# a build may have made a part of the modules
mkdir -p "$dir/part$plugins" && cp "$plugins/sleep.so" "$dir/part$plugins" || fail "no stage 'sleep' in $plugins"
quietly make -C "${top_builddir:?}" install-links DESTDIR="$dir/part"
[ "$(ls "$dir/part$plugins")" = sleep.so ] || fail "links to modules that were not built: $(ls "$dir/part$plugins")"

PKG_CONFIG_PATH=${pkgconfigdir:?}
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
  cp "$dir/mine/$stage.so" "$plugins/" || fail "make installcheck has to write to $plugins"
  shows 'the plugin folder' "$stage"
  "$spcore" check "$plugins/$stage.so" >"$dir/log" 2>&1 || { cat "$dir/log"; fail "check $stage.so"; }
done
