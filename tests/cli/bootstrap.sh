# SPDX-License-Identifier: MIT
# What bootstrap says and does before it builds: wrong words, a path that Autoconf refuses, packages that are missing.
# once: a shell script, and nothing that is built
set -u
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-bootstrap.XXXXXX") || exit 99
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
unset CI
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
exit $status
