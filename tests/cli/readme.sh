# SPDX-License-Identifier: MIT
# Runs what README.md, HACKING.md and the guides tell the reader to type. For each document, in a folder of its own: code blocks
# with a file name (```lua first.lua, ```c blur.c) are written to that file; blocks marked ```sh test are run, in order.
# Scripts get few steps and samples. Unnamed Lua blocks must at least parse. Links must lead somewhere.
# needs: onednn images jansson
# once: other tests run the same scripts
set -u
case ${SP_SANITIZERS-} in
  *thread*) echo 'skipped: a minute under TSan, of what other tests do as well'; exit 77 ;;
esac
src=${top_srcdir:?} build=${top_builddir:?}
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-readme.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
status=0
fail() { echo "FAIL: $*"; status=1; }

# ---- what the reader has on the path; here each is cut to a test's size ----
mkdir "$dir/bin"
real_spcore=$build/spcore real_cc=${CC:-gcc} real_path=$PATH
export real_spcore real_cc real_path src
cat >"$dir/bin/spcore" <<'END'
#!/bin/sh
# spcore run SCRIPT ...: a few small steps, by the options that the script has.
if [ "$1" = run ] && [ -n "${2-}" ]; then
  help=$("$real_spcore" run "$2" --help 2>&1)
  for option in steps=4 samples=64 size=32 batch=4; do
    case $help in *"--${option%=*} N"*) set -- "$@" "--$option" ;; esac
  done
fi
exec "$real_spcore" "$@"
END
cat >"$dir/bin/pkg-config" <<'END'
#!/bin/sh
[ "$*" = '--cflags spcore' ] || { echo "pkg-config $*: not in this test" >&2; exit 1; }
echo "-I$src/include"
END
cat >"$dir/bin/cc" <<'END'
#!/bin/sh
PATH=$real_path
exec $real_cc -Wall -Wextra -Werror "$@"
END
chmod +x "$dir"/bin/*
PATH=$dir/bin:$PATH

# split DOCUMENT: its blocks into the current folder: named files; run.sh; fragments of Lua as .part-N.lua; marks of the rest.
split() {
  awk '
    function shut() { if (out != "") close(out); out = "" }
    /^```/ {
      if (inside) { inside = 0; shut(); next }
      inside = 1; lang = substr($1, 4); out = ""
      if (lang == "sh" && $2 == "test") { out = "run.sh"; print "# line " NR >>out; tests++ }
      else if (lang == "sh" || lang == "text") out = ""
      else if ($2 != "") { out = $2; files++; if ((getline old < out) > 0) print FILENAME ":" NR ": " out ": twice" >"/dev/stderr" }
      else if (lang == "lua") out = ".part-" ++parts ".lua"
      next }
    inside && out != "" { print >>out }
    END { if (inside) { print FILENAME ": a code block is not closed" >"/dev/stderr"; exit 1 }
          printf "%d commands, %d files, %d fragments\n", tests, files, parts }' "$1"
}

# What follows the first # on a line is for the reader; [TEXT](PATH) must be there.
check_links() {
  grep -o '](\([^)#]*\)' "$1" | sed 's/^](//' | grep -v '^https\{0,1\}:' | while read -r link; do
    [ -z "$link" ] || [ -e "$(dirname "$1")/$link" ] || echo "$link"
  done
}

cat >"$dir/parse.lua" <<'END'
for _, path in ipairs(require "spcore".args({}, { rest = "FILE..." }).rest) do
  local _, why = loadfile(path, "t")
  if why then error(why, 0) end
end
END

for document in README.md HACKING.md docs/backbones.md docs/by_hand.md docs/lua.md docs/stages.md docs/strategies.md docs/measurements.md docs/gpu.md docs/ranks.md docs/scale-out.md; do
  file=$src/$document
  if [ ! -f "$file" ]; then
    [ "$document" = docs/measurements.md ] || fail "$document is missing"
    continue
  fi
  work=$dir/$(basename "$document" .md)
  mkdir "$work" && cd "$work" || exit 99
  seen=$(split "$file") || { fail "$document"; continue; }
  for link in $(check_links "$file"); do fail "$document: the link $link leads nowhere"; done
  for part in .part-*.lua; do
    [ -f "$part" ] || continue
    "$real_spcore" run "$dir/parse.lua" "$work/$part" >log 2>&1 || { fail "$document"; cat log "$part"; }
  done
  if [ -f run.sh ]; then
    sh -eux ./run.sh >log 2>&1 || { fail "$document, in the commands after the last + line"; tail -n 30 log; }
  fi
  echo "$document: $seen"
done
[ -s "$dir/README/runs/first-1/weights.safetensors" ] || fail "README.md's script made no weights"
[ "$(wc -l <"$dir/README/runs/first-1/metrics.jsonl")" -eq 4 ] || fail "README.md's script did not run 4 steps"
grep -q '^same bits: 4 steps' "$dir/README/log" || fail "README.md: spcore diff did not find the same bits"

# HACKING.md's map of core/ names every file, and no other.
sed -n 's/^| \([a-z_0-9]*\/[a-z_0-9]*\.[ch][^|]*\) |.*/\1/p' "$src/HACKING.md" | tr -d ' ' | tr ',' '\n' | sort >"$dir/map"
(cd "$src/core" && ls ./*/*.[ch]) | sed 's#^\./##' | sort >"$dir/files"
diff "$dir/map" "$dir/files" || fail "HACKING.md: '<' is in its map of core/ only, '>' in core/ only"

# Every script that is shipped stands in the README or a guide.
for script in "$src"/scripts/*.lua "$src"/scripts/examples/*.lua; do
  grep -qF "${script##*/}" "$src/README.md" "$src"/docs/*.md || fail "${script##*/} is described nowhere"
done

# The commands of ./bootstrap are for a clean machine; here: that it has them.
"$src/bootstrap" --help >"$dir/help" || fail 'bootstrap --help'
for command in $(cat "$src/README.md" "$src/HACKING.md" "$src"/docs/*.md | grep -o '\./bootstrap [a-z][a-z]*' | sed 's/.* //' | sort -u); do
  grep -q "bootstrap $command" "$dir/help" || fail "bootstrap has no command $command"
done
exit $status
