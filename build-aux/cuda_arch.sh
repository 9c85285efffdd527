#!/bin/sh
# SPDX-License-Identifier: MIT
# cuda_arch.sh NVCC auto|native|all|LIST - prints nvcc's options for the GPUs to build for, or on stderr why there are
# none. Machine code for each target, and PTX of the last, which newer GPUs translate.
#   auto    the GPUs of this machine; without one 80, 90
#   native  the GPUs of this machine
#   all     the first target of each generation from 7.5 on that nvcc knows, and PTX of its newest
#   LIST    compute capabilities such as 90 or 80,90
set -u
nvcc=$1 asked=$2 wanted=$2
die() { echo "--with-cuda-arch=$asked: $*" >&2; exit 1; }

known=$("$nvcc" --list-gpu-arch 2>/dev/null | sed -n 's/.*compute_\([0-9][0-9]*\)$/\1/p' | sort -n -u | awk '$1 >= 75')

# Prints the capabilities of this machine's GPUs. nvcc finds them too, but warns and goes on where it finds none.
there() {
  caps=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)\.\([0-9]\)$/\1\2/p')
  if [ -z "$caps" ] && plan=$("$nvcc" -arch=native --dryrun -c -x cu /dev/null 2>&1); then
    case $plan in
      *"Cannot find valid GPU"*) ;;
      *) caps=$(printf '%s\n' "$plan" | grep -o 'sm_[0-9]*' | sed 's/sm_//') ;;
    esac
  fi
  printf '%s\n' "$caps" | awk '$1 >= 75' | sort -n -u
}

# True where nvcc knows every one of the targets given.
knows() {
  for target; do
    printf '%s\n' "$known" | grep -qxF "$target" || return 1
  done
}

# Code for the first target of a generation runs on all of it.
first_of_each() { printf '%s\n' "$known" | awk '{ g = int($1 / 10) } g != last { print; last = g }'; }

ptx=
case $wanted in
  native)
    targets=$(there)
    [ -n "$targets" ] || die "there is no GPU here: give compute capabilities such as 90 or 80,90, or all"
    # shellcheck disable=SC2086
    knows $targets || die "$nvcc does not know all GPUs here:" $targets
    ;;
  auto)
    targets=$(there)
    # A toolkit older than a GPU translates PTX for it; one that is newer than 80 or 90 takes what it has.
    # shellcheck disable=SC2086
    if [ -z "$targets" ] || ! knows $targets; then targets="80 90"; fi
    # shellcheck disable=SC2086
    knows $targets || wanted=all
    ;;
  all) targets= ;;
  '' | *[!0-9,af]*) die "give all, native, or compute capabilities such as 90 or 80,90" ;;
  *) targets=$(printf '%s' "$wanted" | tr ',' ' ') ;;
esac
if [ "$wanted" = all ]; then
  targets=$(first_of_each)
  ptx=$(printf '%s\n' "$known" | tail -n 1)
fi

# What only 9.0 has is in code for 9.0a, which runs on all of 9.0; toolkits before 12.0 make none.
options=
for target in $targets; do
  last=$target own=$target
  [ "$target" != 90 ] || ! "$nvcc" -arch=sm_90a --dryrun -c -x cu /dev/null >/dev/null 2>&1 || own=90a
  options="$options -gencode arch=compute_$own,code=sm_$own"
done
[ -n "$options" ] || die "$nvcc --list-gpu-arch names no target from 75 on"
printf '%s\n' "${options# } -gencode arch=compute_${ptx:-$last},code=compute_${ptx:-$last}"
