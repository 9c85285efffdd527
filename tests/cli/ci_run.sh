# SPDX-License-Identifier: MIT
# What .ci/run prints of a stage: sums of its tests, seconds by stage, the slowest tests, one line of sums at the end; which
# tests a stage has by .ci/tests; that kernels which have passed are not compiled again. The stage `check` has a bootstrap that
# runs two tests, the others a configure whose Makefile writes down what is asked of it, and an nvcc that only says its name.
# once: a shell script, and nothing that is built
set -u
command -v bash >/dev/null || { echo 'skipped: no bash'; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-ci.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
unset SP_SECONDS SP_SKIP_ONCE SPCORE_CONFIGURE MAKEFLAGS MFLAGS MAKELEVEL # of the make that runs this test
status=0
mkdir -p "$dir/.ci" "$dir/tests" "$dir/build-py/torchmetrics"
cp "${top_srcdir:?}/.ci/run" "$dir/.ci/"
cat >"$dir/tests/busy.sh" <<'END'
i=0
while [ $i -lt 400000 ]; do i=$((i + 1)); done
END
printf '# once: it is\nexit 3\n' >"$dir/tests/quick.sh"
cat >"$dir/bootstrap" <<END
#!/bin/sh
echo "\$* \$SPCORE_CONFIGURE" >asked
echo "\$MAKEFLAGS" >flags
[ -z "\${dies-}" ] || kill -9 \$PPID
for t in quick busy; do sh "$top_srcdir/tests/kit/run.sh" sh tests/\$t.sh; done
printf '# TOTAL: 4\n# PASS:  2\n# SKIP:  1\n# FAIL:  1\n# ERROR: 0\n'
exit "\${code-0}"
END
chmod +x "$dir/bootstrap"

# says PATTERN [FILE]: a line that the pattern matches, all of it
says() { grep -qxE -- "$1" "${2-$dir/out}" || { echo "FAIL: no line: $1"; status=1; }; }

code=1 bash "$dir/.ci/run" check >"$dir/out" 2>&1
[ $? -eq 1 ] || { echo 'FAIL: a stage failed, and not .ci/run'; status=1; }
says 'check --with-cuda-arch=90a? (NVCCFLAGS=--Ofast-compile=max )?' "$dir/asked"
says '.*--jobserver.*' "$dir/flags" # the stages share the jobs of one make
says 'stage +clock +processors +of these in tests'
says 'check +[0-9]+ +[0-9]+ +[0-9]+'
says 'all +[0-9]+ +[0-9]+ +[0-9]+'
says 'check +[0-9.]+ +[0-9.]+  tests/quick.sh'
[ "$(grep -A 2 'slowest tests' "$dir/out" | tail -n 1 | sed 's/.* //')" = tests/busy.sh ] ||
  { echo 'FAIL: the slowest test is not the first'; status=1; }
[ "$(tail -n 1 "$dir/out")" = '2 passed, 1 failed, 1 skipped' ] || { echo 'FAIL: the last line'; status=1; }

# a test that hangs
printf 'sleep 100\n' >"$dir/tests/hangs.sh"
SP_LIMIT=1 sh "$top_srcdir/tests/kit/run.sh" sh "$dir/tests/hangs.sh" >"$dir/hangs"
[ $? -eq 124 ] || { echo 'FAIL: a test that hangs is not ended'; status=1; }
says 'FAIL: no end within 1 s, of these processes .*' "$dir/hangs"
says '.*hangs\.sh' "$dir/hangs"
# A test that ends at once leaves no clock, which would keep the pipes of its make open: 11 of 100 did on busy processors.
limit=$((70000 + $$ % 10000)) i=0 busy=
for _ in 1 2 3 4; do
  timeout 20 sh -c 'while :; do :; done' &
  busy="$busy $!"
done
while [ $i -lt 100 ]; do
  SP_LIMIT=$limit sh "$top_srcdir/tests/kit/run.sh" true "$dir/tests/hangs.sh" || status=1
  i=$((i + 1))
done
# shellcheck disable=SC2086
kill $busy
if ps -eo args | grep -qx "sleep $limit"; then
  echo 'FAIL: a clock runs on after its test'
  status=1
fi

# all stages, where no tests but these are built
command -v git >/dev/null || { echo 'skipped: no git'; exit 77; }
mkdir -p "$dir/plugins" "$dir/include/spcore" "$dir/build-aux/m4" "$dir/bin"
touch "$dir/build-aux/cuda.am" "$dir/build-aux/cuda_arch.sh" "$dir/build-aux/m4/sp_cuda.m4" "$dir/plugins/other.h"
printf '#include "a.cuh"\n' >"$dir/plugins/a.cu"
printf '#include <spcore/a.h>\n' >"$dir/plugins/a.cuh"
touch "$dir/include/spcore/a.h"
cat >"$dir/bin/nvcc" <<'END'
#!/bin/sh
case $1 in
  --version) echo 'Cuda compilation tools, release 12.9, V12.9.1' ;;
  --list-gpu-arch) printf 'compute_%d\n' 50 75 80 120 ;;
  --help) echo --Ofast-compile ;;
esac
END
cat >"$dir/configure" <<'END'
#!/bin/sh
pwd >>"$(dirname "$0")/configured"
cat >Makefile <<'M'
TESTS = tests/core/check_abi tests/core/check_graph tests/comm/local.sh tests/lua/wires.lua tests/parity/nn.py
check_PROGRAMS = tests/core/check_abi tests/core/check_graph tests/comm/ranks tests/bench/bench_core
check:
	@echo $(TESTS) / $(check_PROGRAMS) >asked-check
distcheck: check
	@tar -cJf spcore-1.tar.xz -T /dev/null
kernels all:
	@echo $@ >asked-target
M
END
chmod +x "$dir/bin/nvcc" "$dir/configure"
cat >"$dir/.ci/tests" <<'END'
# a comment
asan tests/*/*
asan !tests/parity/*
asan !tests/bench/*
tsan tests/core/*
tsan !tests/core/check_abi
tsan tests/comm/*
dist tests/lua/wires.lua
least tests/*/*.sh
END
# run_all: as CI runs it, with the compiler of kernels that is here in $dir/bin
run_all() {
  rm -f "$dir/configured"
  PATH=$dir/bin:$PATH bash "$dir/.ci/run" >"$dir/out" 2>&1
}
run_all
says 'tests/core/check_abi tests/core/check_graph tests/comm/local.sh tests/lua/wires.lua / tests/core/check_abi tests/core/check_graph tests/comm/ranks' \
  "$dir/build-asan/asked-check"
if [ -f "$dir/build-tsan/asked-check" ]; then # this machine runs programs of ThreadSanitizer
  says 'tests/core/check_graph tests/comm/local.sh / tests/core/check_graph tests/comm/ranks' "$dir/build-tsan/asked-check"
fi
says 'tests/lua/wires.lua /' "$dir/build-dist/asked-check"
says 'tests/comm/local.sh /' "$dir/build-dist/least/asked-check"
says "ci: all: kernels, or how they are compiled, have changed .*" && says '.*/build-all/90' "$dir/configured" && says 'ci: all: passed, .*'
says kernels "$dir/build-all/fast/asked-target" && says all "$dir/build-all/90/asked-target"
[ -e /dev/nvidia0 ] || says 'check --with-cuda-arch=90a NVCCFLAGS=--Ofast-compile=max ' "$dir/asked"
run_all
says 'ci: all: left out, .*'
[ -e /dev/nvidia0 ] || says 'check --with-cuda-arch=none ' "$dir/asked"
! grep -q build-all "$dir/configured" 2>/dev/null || { echo 'FAIL: kernels that have passed are compiled'; status=1; }
echo '/* */' >>"$dir/plugins/other.h"
run_all
says 'ci: all: left out, .*'
echo '/* */' >>"$dir/include/spcore/a.h" # that a kernel includes, by way of another file
run_all
says 'ci: all: kernels, or how they are compiled, have changed .*'
SP_CI_ALL=no run_all
sed -i s/12.9/13.0/ "$dir/bin/nvcc"
SP_CI_ALL=no run_all
says 'ci: SP_CI_ALL=no: .*'
dies=yes && export dies # check is killed before the others may begin
run_all && { echo 'FAIL: a stage was killed, and .ci/run passes'; status=1; }
says 'ci: tsan: .*, [0-9]+ s'
unset dies

# what the list of this tree names is there
sed -nE 's/^[a-z]+ !?//p' "$top_srcdir/.ci/tests" | sort -u | while read -r name; do
  # shellcheck disable=SC2086
  ls -d "$top_srcdir"/$name* >/dev/null 2>&1 || grep -q "$name" "$top_srcdir"/tests/*/*.am || echo "FAIL: .ci/tests names $name"
done >"$dir/out"
[ ! -s "$dir/out" ] || { cat "$dir/out"; status=1; }

# what is marked `once:` is skipped where it is asked for
SP_SKIP_ONCE=1 sh "$top_srcdir/tests/kit/run.sh" sh "$dir/tests/quick.sh" >"$dir/skip"
[ $? -eq 77 ] || { echo 'FAIL: not skipped'; status=1; }
says 'skipped: SP_SKIP_ONCE is set: it is' "$dir/skip"
bash "$dir/.ci/run" nonsense >"$dir/out" 2>&1
[ $? -eq 2 ] || { echo 'FAIL: a stage that is not there'; status=1; }
[ $status -eq 0 ] || cat "$dir/out"
exit $status
