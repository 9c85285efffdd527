# SPDX-License-Identifier: MIT
# Every option that the program prints in its help stands in the man page, command by command, and the other way round;
# so do the commands themselves, the options that all scripts share, and those of scripts with checkpoints. And the tables of
# options in the guides are as the rows of today make them.
# once: words in the program and on a page
set -u
page=${top_builddir:?}/docs/spcore.1
spcore=${top_builddir:?}/spcore
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-man.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
status=0

# same WHAT: the lines of $dir/program and $dir/page are the same; --help is everybody's and stands in one place.
same() {
  for side in program page; do
    grep -v '^--help$' "$dir/$side" | LC_ALL=C sort -u >"$dir/$side.sorted"
  done
  if [ ! -s "$dir/program.sorted" ] && [ "$2" = some ]; then
    echo "FAIL: $1: the program's help names none"
    status=1
  elif diff "$dir/program.sorted" "$dir/page.sorted" >"$dir/diff"; then
    echo "ok: $1: $(wc -l <"$dir/page.sorted")"
  else
    echo "FAIL: $1: '<' is in the program's help only, '>' in docs/spcore.1.in only"
    cat "$dir/diff"
    status=1
  fi
}

# section TITLE: that part of the page, up to the next heading. Headings of commands (.SS) go by their first word.
section() {
  awk -v title="$1" '
    /^\.S[HS] / { name = $0; sub(/^\.S[HS] "?/, "", name); sub(/"$/, "", name)
                  if (/^\.SS/) sub(/ .*/, "", name)
                  inside = name == title }
    inside { print }' "$page"
}

# Options that begin an item: \-\-name right behind .TP and a font macro, -- only.
page_options() {
  awk 'item && /^\.(B|BI|BR|RB|IR) / { n = split($0, words, /[ ",]+/)
         for (i = 2; i <= n; i++) if (words[i] ~ /^\\-\\-[a-z]/) print words[i] }
       { item = $0 == ".TP" }' | sed 's/\\//g'
}

# Options that begin a line of help.
help_options() { sed -n 's/^ \{1,2\}\(--[a-z][a-z-]*\).*/\1/p'; }

"$spcore" --help >"$dir/help" || { echo "FAIL: spcore --help"; exit 1; }
sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' "$dir/help" >"$dir/program"
sed -n '/^\.SH COMMANDS/,/^\.SH "OPTIONS OF/s/^\.SS "\{0,1\}\([a-z]*\).*/\1/p' "$page" >"$dir/page"
same commands some
cp "$dir/program" "$dir/commands"

help_options <"$dir/help" >"$dir/program"
section OPTIONS | page_options >"$dir/page"
same 'options of spcore' some

while read -r command; do
  "$spcore" "$command" --help >"$dir/help" || { echo "FAIL: spcore $command --help"; status=1; }
  help_options <"$dir/help" >"$dir/program"
  section "$command" | page_options >"$dir/page"
  same "options of spcore $command" any
done <"$dir/commands"

printf 'local sp = require "spcore"\nsp.args({}, { doc = "none" })\n' >"$dir/empty.lua"
"$spcore" run "$dir/empty.lua" --help >"$dir/help" || { echo "FAIL: spcore run empty.lua --help"; status=1; }
help_options <"$dir/help" >"$dir/program"
section 'OPTIONS OF EVERY SCRIPT' | page_options >"$dir/page"
same 'options of every script' some

cp "$dir/program" "$dir/common"
printf 'local sp = require "spcore"\nsp.args({}, { checkpoints = true })\n' >"$dir/resumes.lua"
"$spcore" run "$dir/resumes.lua" --help >"$dir/help" || { echo "FAIL: spcore run resumes.lua --help"; status=1; }
help_options <"$dir/help" | grep -vxF -f "$dir/common" >"$dir/program"
section 'OPTIONS OF SCRIPTS WITH CHECKPOINTS' | page_options >"$dir/page"
same 'options of scripts with checkpoints' some

for guide in lua strategies; do
  made=$top_srcdir/docs/$guide.md
  "$spcore" run "$top_srcdir/build-aux/options.lua" guide "$made" | diff "$made" - ||
    { echo "FAIL: docs/$guide.md: the tables of options are not as their rows: make guides"; status=1; }
done
"$spcore" run "$top_srcdir/build-aux/options.lua" man "$top_srcdir/docs/spcore.1.in" | diff "$page" - ||
  { echo "FAIL: make did not make $page anew"; status=1; }
"$spcore" run "$top_srcdir/build-aux/options.lua" meta | diff "$top_builddir/scripts/meta/options.lua" - ||
  { echo "FAIL: make did not make scripts/meta/options.lua anew"; status=1; }

# A placeholder says what is wanted: FILE, DIR, RUN, N, VALUE=CLASS; TEXT says nothing.
for script in "$top_srcdir"/scripts/*.lua "$dir/resumes.lua"; do
  "$spcore" run "$script" --help-all 2>/dev/null || "$spcore" run "$script" --help
done >"$dir/helps"
while read -r command _; do "$spcore" "$command" --help; done <"$dir/commands" >>"$dir/helps" 2>/dev/null
[ "$(grep -c '^  --' "$dir/helps")" -gt 300 ] || { echo "FAIL: the helps of all scripts have too few options"; status=1; }
if grep -E '^ +--[a-z-]+ (TEXT|STRING)\b' "$dir/helps" >"$dir/wordless"; then
  sort -u "$dir/wordless"
  echo "FAIL: options above have no word for their value: give them value = \"WORD\""
  status=1
fi
exit $status
