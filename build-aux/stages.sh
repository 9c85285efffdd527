#!/bin/sh
# SPDX-License-Identifier: MIT
# plugins/stages.list -> plugins/stages.am, the rules that build and test each stage. Runs in the top folder: from
# configure.ac, so that the rules are there before automake reads them, and from make when the list has changed.
set -u
LC_ALL=C
export LC_ALL
list=plugins/stages.list out=plugins/stages.am
new=$out.$$ # of this process: make and aclocal may both be at it
stages=plugins/stages kits=plugins/kits modules=plugins/modules
n=0 known='' all_kits=' ' all_modules=' '

die() {
  echo "$list:$n: $*" >&2
  rm -f "$new"
  exit 1
}

# files FOLDER PATTERN...: those that are there, sorted.
files() {
  folder=$1
  shift
  for pattern; do
    set +f
    for file in "$folder"/$pattern; do [ -f "$file" ] && echo "$file"; done
    set -f
  done
}

# rule ASSIGNMENT WORDS...: a word a line.
rule() {
  echo "$1$(shift; for word; do printf ' \\\n  %s' "$word"; done)"
}

# without PATTERN WORDS...: the words that do not match, each once.
without() {
  pattern=$1 seen=' '
  shift
  for word; do
    case $word in $pattern) continue ;; esac
    case $seen in *" $word "*) continue ;; esac
    seen="$seen$word "
    echo "$word"
  done
}

# What a line says beside kits, into libs, cflags ...; 1: no such word.
take_word() {
  case $1 in
    if=?*) condition=${1#if=} ;;
    -l?*) libs="$libs $1" ;;
    lib:*) libs="$libs ${1#lib:}" ;;
    -?* | '$('*')') cflags="$cflags $1" ;;
    cpu:*.la) cpu_la="$cpu_la ${1#cpu:}" ;;
    cuda:'$('*')') cuda_libs="$cuda_libs ${1#cuda:}" ;;
    cuda:*.la) cuda_la="$cuda_la ${1#cuda:}" ;;
    emu:*.la) emu_la="$emu_la ${1#emu:}" ;;
    test:*.la) test_la="$test_la ${1#test:}" ;;
    test:?*/?*.c) test_c="$test_c $stages/${1#test:}" ;;
    cpu:?*/?*.c) other_cpu="$other_cpu $stages/${1#cpu:}" ;;
    ?*/?*.c) other="$other $stages/$1" ;;
    *) return 1 ;;
  esac
}

# A kit's words are kept and taken by each stage that names it. Its kernels and headers are listed once.
kit() {
  name=${1-}
  [ -n "$name" ] || die "kit: the name is missing"
  [ -d "$kits/$name" ] || die "kit '$name': there is no folder $kits/$name"
  shift
  eval "kit_$name=\"\$*\""
  all_kits="$all_kits$name "
  folders=$(find "$kits/$name" -type d | sort)
  echo
  echo "# ---- kit $name ----"
  # shellcheck disable=SC2046
  rule "EXTRA_DIST +=" $(for in_it in $folders; do files "$in_it" '*.h' '*.cuh' '*.inc' '*.list' README.md; done)
  # shellcheck disable=SC2086
  kernels $folders
  [ ! -d "$kits/$name/cpu" ] || kit_lists
}

# The sources of a kit that has folders, for its libraries: NAME_c is what all devices share, NAME_cpu_c and NAME_cuda_c what
# one has, NAME_cu kernels and NAME_emu_cu the emulator's.
kit_lists() {
  shared='' cpu='' cuda=''
  for in_it in $folders; do
    case $in_it/ in
      "$kits/$name/cpu/"*) cpu="$cpu $(files "$in_it" '*.c')" ;;
      "$kits/$name/cuda/"*) cuda="$cuda $(files "$in_it" '*.c')" ;;
      *) shared="$shared $(files "$in_it" '*.c')" ;;
    esac
  done
  # shellcheck disable=SC2086
  {
    rule "${name}_c =" $shared
    rule "${name}_cpu_c =" $cpu
    rule "${name}_cuda_c =" $cuda
    rule "${name}_cu =" $cu
    rule "${name}_emu_cu =" $(emu_objects $cu)
  }
}

# kernels FOLDER...: dependency files of nvcc's, and what the emulator's compiler makes of them.
kernels() {
  cu=$(for in_it; do files "$in_it" '*.cu'; done)
  [ -n "$cu" ] || return 0
  # shellcheck disable=SC2086
  rule "EXTRA_DIST +=" $cu
  echo "if HAVE_CUDA"
  # shellcheck disable=SC2086
  rule "cuda_sources +=" $cu
  echo "endif"
  echo "if HAVE_EMU_KERNELS"
  # shellcheck disable=SC2086
  rule "emu_cu +=" $(emu_objects $cu)
  echo "endif"
}

emu_objects() {
  for file; do
    file=${file#plugins/}
    echo "tests/emu/cu/${file%.cu}.lo"
  done
}

# A module's words are kept until all of its stages are known: module_rules.
module() {
  name=${1-}
  [ -n "$name" ] || die "module: the name is missing"
  [ -d "$modules/$name" ] || die "module '$name': there is no folder $modules/$name"
  shift
  take_words "module '$name'" "$modules/$name" "$@"
  eval "module_$name=\"\$*\" condition_of_$name=\$condition module_line_$name=$n"
  for list_of in stages cuda_stages c both cuda_c cu other; do eval "${list_of}_of_$name=''"; done
  all_modules="$all_modules$name "
}

# take_words WHAT DIR WORDS...: what they say, into libs, cflags ...; 'mine' is DIR and the folders of kits whose sources
# are compiled with it. A stage in a module leaves flags and libraries to the module's line.
# SC2086: lists of words, all through.
# shellcheck disable=SC2086
take_words() {
  what=$1 folder_of=$2 mine=$2
  shift 2
  libs='' cflags='' condition='' cpu_la='' cuda_la='' cuda_libs='' emu_la='' test_la='' test_c='' other='' other_cpu=''
  module=''
  for word; do
    case $all_kits in
      *" $word "*)
        la="$cpu_la$cuda_la"
        for kit_word in $(eval "echo \"\$kit_$word\""); do
          take_word "$kit_word" || die "kit '$word': what is '$kit_word'?"
        done
        [ "$la" != "$cpu_la$cuda_la" ] || mine="$mine $kits/$word"
        continue
        ;;
    esac
    case $what:$all_modules in
      stage*" $word "*)
        [ -z "$module" ] || die "$what: is it in $module.so or in $word.so?"
        module=$word
        ;;
      *) take_word "$word" || die "$what: '$word' is no kit or module of this list, file, flag or library" ;;
    esac
  done
  for file in $other $other_cpu $test_c; do [ -f "$file" ] || die "$what: there is no file $file"; done
  if [ -n "$module" ]; then
    # shellcheck disable=SC2015
    [ -z "$libs$cflags$condition$cpu_la$cuda_la$cuda_libs$emu_la$other_cpu" ] && [ "$mine" = "$folder_of" ] ||
      die "$what: kits, flags and libraries of a stage in $module.so are in the line \`module $module\`"
    eval "condition=\$condition_of_$module"
  fi
}

# The sources in 'mine', into c, both, cuda_c, cu.
# shellcheck disable=SC2086
take_sources() {
  c='' both='' cuda_c='' cu=''
  for folder in $mine; do
    base=${folder##*/}
    c="$c $(files "$folder" "$base.c" "${base}_*.c" '*.c')"
    both="$both $(files "$folder" "$base.c")"
    cuda_c="$cuda_c $(files "$folder" "${base}_cuda.c")"
    cu="$cu $(files "$folder" '*.cu')"
  done
}

# shellcheck disable=SC2086
stage() {
  name=$1 dir=$stages/$1
  case $name in [!a-z]* | *[!a-z0-9_]*) die "the name '$name' is not [a-z][a-z0-9_]*" ;; esac
  case " $known " in *" $name "*) die "stage '$name' is there twice" ;; esac
  known="$known $name"
  shift
  take_words "stage '$name'" "$dir" "$@"
  if [ -n "$module" ] && [ ! -d "$dir" ]; then # the module's own files have it
    eval "stages_of_$module=\"\$stages_of_$module $name\" cuda_stages_of_$module=\"\$cuda_stages_of_$module $name\""
    test_rules
    return
  fi
  [ -f "$dir/$name.c" ] || [ -n "$(files "$dir" '*.c')" ] || die "stage '$name': there is no file $dir/$name.c"
  take_sources
  echo
  echo "# ---- $name ----"
  rule "EXTRA_DIST +=" $(files "$dir" '*.h' '*.cuh' '*.inc')
  if [ -n "$module" ]; then
    for list_of in c both cuda_c cu other; do eval "${list_of}_of_$module=\"\$${list_of}_of_$module \$$list_of\""; done
    eval "stages_of_$module=\"\$stages_of_$module $name\""
    [ ! -f "$dir/${name}_cuda.c" ] || eval "cuda_stages_of_$module=\"\$cuda_stages_of_$module $name\""
  else
    [ -z "$condition" ] || echo "if $condition"
    cpu_rules
    [ -z "$condition" ] || echo "endif"
    [ ! -f "$dir/${name}_cuda.c" ] || cuda_rules
  fi
  kernels "$dir"
  test_rules
}

# links VARIABLE MODULE SUFFIX STAGE...: by STAGE.so the host finds the module.
links() {
  variable=$1 to=$2 suffix=$3
  shift 3
  # shellcheck disable=SC2046
  rule "$variable +=" $(for linked; do echo "$to:$linked$suffix"; done)
}

# shellcheck disable=SC2086
module_rules() {
  name=$1 dir=$modules/$1
  eval "n=\$module_line_$name"
  eval "take_words \"module '$name'\" \"$dir\" \$module_$name"
  take_sources
  for list_of in c both cuda_c cu other; do eval "$list_of=\"\$$list_of \$${list_of}_of_$name\""; done
  eval "in_it=\$stages_of_$name in_cuda=\$cuda_stages_of_$name"
  [ -n "$in_it" ] || die "module '$name': no stage is in it"
  [ -f "$dir/${name}_cuda.c" ] || in_cuda=''
  echo
  echo "# ---- module $name ----"
  rule "EXTRA_DIST +=" $(files "$dir" '*.h' '*.cuh')
  [ -z "$condition" ] || echo "if $condition"
  cpu_rules
  links plugin_links "$name" '' $in_it
  [ -z "$condition" ] || echo "endif"
  [ -n "$in_cuda" ] || return 0
  cuda_rules
  echo "if HAVE_CUDA"
  links plugin_links "${name}_cuda" _cuda $in_cuda
  echo "endif"
  echo "if HAVE_EMU_KERNELS"
  links emu_links "${name}_cuda" _cuda $in_cuda
  echo "endif"
  kernels "$dir"
}

# shellcheck disable=SC2086
cpu_rules() {
  echo "plugin_LTLIBRARIES += $name.la"
  rule "${name}_la_SOURCES =" $(without '*_cuda.c' $c) $other $other_cpu
  echo "${name}_la_CFLAGS = \$(plugin_cflags)$cflags"
  echo "${name}_la_LDFLAGS = \$(plugin_ldflags)"
  echo "${name}_la_LIBADD =$cpu_la$libs"
}

# shellcheck disable=SC2086
cuda_rules() {
  echo "if HAVE_CUDA"
  echo "plugin_LTLIBRARIES += ${name}_cuda.la"
  rule "${name}_cuda_la_SOURCES =" $both $cuda_c $other $cu
  echo "${name}_cuda_la_CPPFLAGS = \$(cuda_cppflags)"
  echo "${name}_cuda_la_CFLAGS = \$(plugin_cflags)"
  echo "${name}_cuda_la_LDFLAGS = \$(plugin_ldflags)"
  echo "${name}_cuda_la_LIBADD =${cuda_la:-$cuda_libs \$(CUDA_LIBS)}"
  echo "endif"
  echo "if HAVE_EMU_KERNELS"
  echo "check_LTLIBRARIES += tests/emu/${name}_cuda.la"
  rule "tests_emu_${name}_cuda_la_SOURCES =" $both $cuda_c $other
  echo "nodist_EXTRA_tests_emu_${name}_cuda_la_SOURCES = none.cpp"
  echo "tests_emu_${name}_cuda_la_CPPFLAGS = \$(emu_cppflags)"
  echo "tests_emu_${name}_cuda_la_CFLAGS = \$(emu_cflags)"
  echo "tests_emu_${name}_cuda_la_LDFLAGS = \$(emu_ldflags)"
  rule "tests_emu_${name}_cuda_la_LIBADD =" $(emu_objects $cu) $emu_la '$(emu_lib)'
  echo "endif"
}

# The test's flags, and what all tests are linked with, are in tests/tests.am.
# shellcheck disable=SC2086
test_rules() {
  test=tests/stages/check_$name
  [ -f "$test.c" ] || return 0
  [ -z "$condition" ] || echo "if $condition"
  echo "check_c += $test"
  [ -z "$condition" ] || echo "endif"
  [ -z "$test_c" ] || rule "tests_stages_check_${name}_SOURCES =" "$test.c" $test_c
  [ -z "$test_la" ] || echo "tests_stages_check_${name}_LDADD =$test_la \$(LDADD)"
}

set -f
[ -f "$list" ] || { echo "$0: there is no $list here" >&2; exit 1; }
exec 3>&1 >"$new" || exit 1
echo "# Made from $list by build-aux/stages.sh; change those."
while read -r first rest; do
  n=$((n + 1))
  # shellcheck disable=SC2086
  case $first in
    '' | '#'*) ;;
    kit) kit $rest ;;
    module) module $rest ;;
    *) stage "$first" $rest ;;
  esac
done <"$list"
for one in $all_modules; do module_rules "$one"; done
set +f
for folder in "$stages"/*; do
  name=${folder##*/}
  case " $known " in *" $name "*) continue ;; esac
  [ -z "$(files "$folder" '*.c')" ] || die "$folder holds a stage that has no line here"
done
exec >&3
if cmp -s "$new" "$out"; then rm -f "$new"; else mv -f "$new" "$out"; fi
