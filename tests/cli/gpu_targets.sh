# SPDX-License-Identifier: MIT
# Which GPUs configure builds for: build-aux/cuda_arch.sh beside an nvcc and an nvidia-smi that say what they are told
# to.
# once: a shell script, and nothing that is built
set -u
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-targets.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
status=0

cat >"$dir/nvcc" <<'END'
#!/bin/sh
case $1 in
  --list-gpu-arch) for cap in $known; do echo "compute_$cap"; done ;;
  -arch=native)
    [ -n "$seen" ] || echo "nvcc warning : Cannot find valid GPU for '-arch=native', default arch is used" >&2
    echo "#\$ ptxas -arch sm_${seen:-75} x.ptx" >&2
    ;;
  -arch=sm_90a) [ -z "${old-}" ] || exit 1 ;;
  *) exit 1 ;;
esac
END
cat >"$dir/nvidia-smi" <<'END'
#!/bin/sh
[ -n "$caps" ] || { echo 'No devices were found'; exit 6; }
for cap in $caps; do echo "$cap"; done
END
chmod +x "$dir/nvcc" "$dir/nvidia-smi"
PATH=$dir:$PATH
known="50 75 80 86 90 100 103 120 121" caps='' seen='' old=''
export known caps seen old

# gives WANTED TARGETS: machine code for the targets, PTX for pN
gives() {
  got=$(sh "${top_srcdir:?}/build-aux/cuda_arch.sh" "$dir/nvcc" "$1" 2>&1 | tr ' ' '\n' | sed -n 's/.*code=//p' |
    sed 's/sm_//; s/compute_/p/' | paste -s -d ' ' -)
  [ "$got" = "$2" ] && return
  echo "FAIL: $1, GPUs '$caps$seen', nvcc knows $known: $got, wanted $2"
  status=1
}

# refuses WANTED TEXT: one line with TEXT
refuses() {
  got=$(sh "$top_srcdir/build-aux/cuda_arch.sh" "$dir/nvcc" "$1" 2>&1) && { echo "FAIL: '$1' was taken: $got"; status=1; }
  case $got in
    "--with-cuda-arch=$1: "*"$2"*) [ "$(printf '%s\n' "$got" | wc -l)" -eq 1 ] && return ;;
  esac
  echo "FAIL: '$1': $got; wanted one line with: $2"
  status=1
}

gives auto '80 90a p90'
gives all '75 80 90a 100 120 p121'
gives 80,86 '80 86 p86'
gives 90a '90a p90a'
refuses native 'there is no GPU here'
refuses '' 'compute capabilities such as'
refuses sm_90 'compute capabilities such as'
caps='9.0 8.6 9.0'
gives auto '86 90a p90'
gives native '86 90a p90'
gives all '75 80 90a 100 120 p121'
caps='6.1'
gives auto '80 90a p90'
refuses native 'there is no GPU here'
caps='12.0' known='75 80 86 90'
gives auto '80 90a p90'
refuses native 'does not know all GPUs here: 120'
caps='' known='100 110 120'
gives auto '100 110 120 p120'
known='75 80 90' seen=90 # nvcc sees the GPUs, too
gives auto '90a p90'
old=yes # it does not know 9.0a
gives auto '90 p90'
old=
known='' seen=''
refuses auto 'names no target'
exit $status
