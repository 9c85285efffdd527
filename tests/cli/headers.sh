# SPDX-License-Identifier: MIT
# Every public header compiles alone, with every warning, as C99, C11 and C++17.
# once: of the build it takes the compiler only
set -u
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-headers.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
include=${top_srcdir:?}/include
warn='-pedantic -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wundef -Werror'
cxx=${CXX:-g++}
command -v "$cxx" >/dev/null || { echo "note: no C++ compiler ($cxx), C only"; cxx=; }
bad=0 n=0
for header in $(cd "$include" && find spcore -name '*.h' | sort); do
  n=$((n + 1))
  printf '#include <%s>\n#include <%s>\nextern int sp_none;\nint sp_none;\n' "$header" "$header" >"$dir/t.c"
  cp "$dir/t.c" "$dir/t.cc"
  for std in c99 c11; do
    # shellcheck disable=SC2086
    ${CC:-cc} -std=$std $warn -I"$include" -c -o "$dir/t.o" "$dir/t.c" || { echo "FAIL: $header as $std"; bad=1; }
  done
  if [ -n "$cxx" ]; then
    # shellcheck disable=SC2086
    $cxx -std=c++17 $warn -I"$include" -c -o "$dir/t.o" "$dir/t.cc" ||
      { echo "FAIL: $header as C++17"; bad=1; }
  fi
done
[ "$n" -ge 5 ] || { echo "FAIL: only $n headers found under $include"; exit 1; }
echo "$n headers"
exit $bad
