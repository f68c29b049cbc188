#!/bin/sh
# peers.sh [SECONDS [ROUNDS]] -- lab and PyTorch take turns at the same training step, on one core; prints medians and their ratio.
#
# From the top of the source tree, after `make`.  PYTHON names a Python with PyTorch (Debian: python3-torch), CORE the core.
# The last two columns are PyTorch as a user starts it: its own choice of threads, on every core.
set -eu
seconds=${1:-3} rounds=${2:-5} PYTHON=${PYTHON:-/usr/bin/python3} CORE=${CORE:-0}
peer=$(dirname "$0")/peer_torch.py
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT

step_ms() {                          # MODEL: of lab, with sinusoidal's positions as the peer has them
    case $1 in
    seed) set -- 64 4 256 2 64 8;;
    dm)   set -- 64 8 256 5 128 40;;
    wide) set -- 256 8 1024 4 32 64;;
    esac
    printf '[sweep]\nencoder = sinusoidal\ntask = reverse\nseed = 0\n[model]\nd_model = %s\nheads = %s\nd_ff = %s\nlayers = %s\n[train]\nbatch = %s\nlength = %s\n' "$@" >"$tmp/model.ini"
    taskset -c "$CORE" ./lab bench "$tmp/model.ini" --seconds "$seconds" --json | sed -n 's/.*"step_ms": \([0-9.e+-]*\).*/\1/p'
}
one_thread() { OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 taskset -c "$CORE" "$PYTHON" "$peer" bench "$1" "$seconds"; }
as_started() { env -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS "$PYTHON" "$peer" bench "$1" "$seconds"; }

for model in ${MODELS:-seed dm wide}; do
    for round in $(seq "$rounds"); do
        echo "$model $(step_ms $model) $(one_thread $model) $(as_started $model)"
    done
done >"$tmp/all"

printf '%-6s %10s %14s %10s %14s %10s\n' model 'lab ms' 'PyTorch ms' 'times' 'its default' 'times'
for model in ${MODELS:-seed dm wide}; do
    median() { awk -v m="$model" "\$1 == m { print $1 }" "$tmp/all" | sort -g | awk '{ x[NR] = $1 } END { print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'; }
    printf '%-6s %10.3f %14.3f %10.2f %14.3f %10.2f\n' "$model" "$(median '$2')" "$(median '$3')" "$(median '$3 / $2')" "$(median '$4')" "$(median '$4 / $2')"
done
