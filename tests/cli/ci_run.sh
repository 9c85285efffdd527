# SPDX-License-Identifier: MIT
# What .ci/run prints of a stage: sums of its tests, seconds by stage, the slowest tests, one line of sums at the end.
# The stage is `check` with a bootstrap that runs two tests.
# once: a shell script, and nothing that is built
set -u
command -v bash >/dev/null || { echo 'skipped: no bash'; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-ci.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
unset SP_SECONDS SP_SKIP_ONCE SPCORE_CONFIGURE
status=0
mkdir -p "$dir/.ci" "$dir/tests" "$dir/build-py"
cp "${top_srcdir:?}/.ci/run" "$dir/.ci/"
cat >"$dir/tests/busy.sh" <<'END'
i=0
while [ $i -lt 400000 ]; do i=$((i + 1)); done
END
printf '# once: it is\nexit 3\n' >"$dir/tests/quick.sh"
cat >"$dir/bootstrap" <<END
#!/bin/sh
echo "\$* \$SPCORE_CONFIGURE" >asked
for t in quick busy; do sh "$top_srcdir/tests/kit/run.sh" sh tests/\$t.sh; done
printf '# TOTAL: 4\n# PASS:  2\n# SKIP:  1\n# FAIL:  1\n# ERROR: 0\n'
exit "\${code-0}"
END
chmod +x "$dir/bootstrap"

# says PATTERN [FILE]: a line that the pattern matches, all of it
says() { grep -qxE -- "$1" "${2-$dir/out}" || { echo "FAIL: no line: $1"; status=1; }; }

code=1 bash "$dir/.ci/run" check >"$dir/out" 2>&1
[ $? -eq 1 ] || { echo 'FAIL: a stage failed, and not .ci/run'; status=1; }
says 'check --with-cuda-arch=90 ' "$dir/asked"
says 'stage +clock +processors +of these in tests'
says 'check +[0-9]+ +[0-9]+ +[0-9]+'
says 'all +[0-9]+ +[0-9]+ +[0-9]+'
says 'check +[0-9.]+ +[0-9.]+  tests/quick.sh'
[ "$(grep -A 2 'slowest tests' "$dir/out" | tail -n 1 | sed 's/.* //')" = tests/busy.sh ] ||
  { echo 'FAIL: the slowest test is not the first'; status=1; }
[ "$(tail -n 1 "$dir/out")" = '2 passed, 1 failed, 1 skipped' ] || { echo 'FAIL: the last line'; status=1; }

# what is marked `once:` is skipped where it is asked for
SP_SKIP_ONCE=1 sh "$top_srcdir/tests/kit/run.sh" sh "$dir/tests/quick.sh" >"$dir/skip"
[ $? -eq 77 ] || { echo 'FAIL: not skipped'; status=1; }
says 'skipped: SP_SKIP_ONCE is set: it is' "$dir/skip"
bash "$dir/.ci/run" nonsense >"$dir/out" 2>&1
[ $? -eq 2 ] || { echo 'FAIL: a stage that is not there'; status=1; }
[ $status -eq 0 ] || cat "$dir/out"
exit $status
