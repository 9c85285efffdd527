#!/bin/sh
# SPDX-License-Identifier: MIT
# Arrows between the folders of core point down only: what a file includes, and what its object takes from others. Within a
# folder no two files call each other, directly or by way of others: small queries are in a leaf such as graph/query.c.
# once: it reads sources, and objects that are the same in every build
set -u
fail() { echo "FAIL: $*"; exit 1; }
command -v nm >/dev/null 2>&1 || { echo "no nm here"; exit 77; }

# Which folders each may know. A folder that is not here, or one that knows another way round, is a mistake.
below() {
  case $1 in
    base) ;;
    device | schedule | source | ranks) echo base ;;
    host) echo device source ranks base ;;
    params) echo host device source ranks base ;;
    graph) echo params host device source ranks base ;;
    plan) echo graph params host device schedule source ranks base ;;
    run) echo plan graph params host device schedule source ranks base ;;
    hand) echo graph params host device source ranks base ;;
    lua) echo run hand plan graph params host device schedule source ranks base ;;
    check) echo params host device source ranks base ;;
    cli) echo lua check run hand plan graph params host device schedule source ranks base ;;
    *) fail "core/$1 is in none of the layers of tests/core/layers.sh" ;;
  esac
}

may() { # may FROM TO
  [ "$1" = "$2" ] && return 0
  for folder in $(below "$1"); do [ "$folder" = "$2" ] && return 0; done
  return 1
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# ---- includes ----
includes=0
for file in "$top_srcdir"/core/*/*.[ch]; do
  from=$(basename "$(dirname "$file")")
  for name in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file"); do
    case $name in */*) to=${name%%/*} ;; *) fail "$file includes \"$name\": give the folder, as \"$from/$name\"" ;; esac
    may "$from" "$to" || fail "$file includes \"$name\": core/$from is below core/$to, or beside it"
    case $file:$name in
      */lua/main.c:* | */cli/*) ;;
      *:lua/main.h) fail "$file includes \"$name\", which runs scripts: what bindings stand on is lua/state.h" ;;
    esac
    includes=$((includes + 1))
  done
done
[ "$includes" -gt 100 ] || fail "only $includes includes were found: is this test looking at the right files?"

# ---- symbols ----
for object in "$top_builddir"/core/*/.libs/*.o "$top_builddir"/core/*/*.o; do
  [ -f "$object" ] || continue
  folder=${object#"$top_builddir"/core/} folder=${folder%%/*}
  source=$(basename "$object" .o).c
  [ -f "$top_srcdir/core/$folder/${source#*-}" ] || continue # left there by a build of before its source went
  nm "$object" | awk -v folder="$folder" -v object="$(basename "$object")" '
    NF == 3 && $2 ~ /^[TDBRV]$/ { print "has", $3, folder, object }
    NF == 2 && $1 == "U" { print "takes", $2, folder, object }'
done >"$work/all"
awk '$1 == "has" && !($2 in at) { at[$2] = $3 } { line[NR] = $0 }
  END { for (i = 1; i <= NR; i++) { split(line[i], f, " "); if (f[1] == "takes" && f[2] in at) print f[3], at[f[2]], f[2], f[4] } }' \
  "$work/all" | sort -u >"$work/arrows"
[ "$(wc -l <"$work/arrows")" -gt 100 ] || fail "only $(wc -l <"$work/arrows") symbols were found: is this test looking at the right objects?"
while read -r from to symbol object; do
  may "$from" "$to" || fail "$object of core/$from takes $symbol from core/$to, which is above it or beside it"
done <"$work/arrows"

# ---- circles of files ----
# hand, host, lua, ranks, run and schedule have some.
awk '$1 == "has" { if (!($2 in at)) at[$2] = $3 "/" $4 } { line[NR] = $0 }
  END { for (i = 1; i <= NR; i++) { split(line[i], f, " "); if (f[1] == "takes" && f[2] in at) print f[3] "/" f[4], at[f[2]] } }' \
  "$work/all" | sed 's/libspcore_la-//g; s/\.o//g' | sort -u >"$work/calls"
for folder in base device source params graph plan check cli; do
  awk -v folder="$folder/" 'index($1, folder) == 1 && index($2, folder) == 1 && $1 != $2' "$work/calls" >"$work/within"
  tsort "$work/within" >/dev/null 2>"$work/circle" || fail "files of core/$folder call each other in a circle:
$(sed 's/^tsort: //' "$work/circle")"
done
[ "$(grep -c '^graph/.* graph/' "$work/calls")" -gt 10 ] || fail "few calls within core/graph: are these the right objects?"

# ---- core/lua ----
# main.c makes the state and opens the bindings; what they stand on is below it, in state.c.
grep -q '^has sp_lua_run lua .*main\.o$' "$work/all" || fail "sp_lua_run is not in lua/main.o: is this test looking at the right objects?"
awk '$1 == "has" && $3 == "lua" && $4 ~ /main\.o$/ { main[$2] } { line[NR] = $0 }
  END { for (i = 1; i <= NR; i++) { split(line[i], f, " "); if (f[1] == "takes" && f[3] == "lua" && f[2] in main) print f[4], f[2] } }' \
  "$work/all" >"$work/top"
while read -r object symbol; do fail "$object takes $symbol of lua/main.c, which is above all else of core/lua"; done <"$work/top"
# ---- kits/nn ----
# What a compute capability means is in device.c alone, and no kernel is made for a number of multiprocessors.
nn=$top_srcdir/plugins/kits/nn
[ -f "$nn/cuda/ways/device.c" ] || fail "$nn/cuda/ways/device.c is not there: is this test looking at the right files?"
grep -rnE '\b132\b|(capability|major|minor) *[!=<>]=? *[0-9]|has_tf32' "$nn" --include='*.[ch]' --include='*.cu' --include='*.cuh' |
  grep -v '/cuda/ways/device\.c:' >"$work/facts"
[ -s "$work/facts" ] && fail "a fact of a device outside of cuda/ways/device.c: $(cat "$work/facts")"
sed -n 's/^NNC_WAY(.*, \(.*\))$/\1/p' "$nn/cuda/ways/ways.list" >"$work/ways"
[ "$(wc -l <"$work/ways")" -gt 10 ] || fail "ways.list has $(wc -l <"$work/ways") ways"
while read -r way; do
  grep -q "^| [^|]*\`$way\`" "$nn/README.md" || fail "the table of ways in $nn/README.md has no row for $way"
done <"$work/ways"
# What is one way's is in its own files.
grep -nE 'nnc_way_|NNC_WAY_[A-Z]' "$nn"/cuda/*.[ch] | grep -v 'NNC_WAY_##ID' >"$work/single"
[ -s "$work/single" ] && fail "single ways outside of cuda/ways: $(cat "$work/single")"
echo "$includes includes and $(wc -l <"$work/arrows") symbols point down"
