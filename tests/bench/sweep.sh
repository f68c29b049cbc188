#!/bin/sh
# sweep.sh -- experiments/extrapolate.ini on two cores: lab against two one-thread PyTorch processes, one worker against two,
# and what a run costs beside its training.  From the top of the source tree, after `make`; takes several minutes.
#
# PyTorch's 30 runs are estimated: RUNS (default 1) of each process's 15 are timed side by side, imports apart.
# QUICK=1 trains 200 steps instead of 2000, on both sides.
set -eu
PYTHON=${PYTHON:-/usr/bin/python3} runs=${RUNS:-1} steps=2000
[ -z "${QUICK:-}" ] || steps=200
peer=$(dirname "$0")/peer_torch.py
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT

now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.3f\n", b - a }'; }
lab_s() {                            # seconds of a fresh sweep: JOBS and overrides
    jobs=$1; shift
    rm -rf "$tmp/db"; mkdir "$tmp/db"; t=$(now)
    ./lab run experiments/extrapolate.ini --db "$tmp/db/lab.db" --jobs "$jobs" "$@" >/dev/null 2>&1
    since "$t"
}
torch_s() {                          # seconds of two processes side by side, RUNS runs each
    t=$(now)
    for p in 1 2; do OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$PYTHON" "$peer" sweep "$1" "$steps" & done
    wait
    since "$t"
}

two=$(lab_s 2 --set train.steps=$steps)
imports=$(torch_s 0)
torch=$(torch_s "$runs" | awk -v i="$imports" -v n="$runs" '{ printf "%.1f", i + 15 * ($1 - i) / n }')
awk -v l="$two" -v t="$torch" -v n=$steps 'BEGIN { printf "30 runs of %d steps: lab %.1f s, PyTorch %.1f s (estimated), %.2f times\n", n, l, t, t / l }'

one=$(lab_s 1 --set train.steps=200) two=$(lab_s 2 --set train.steps=200)
awk -v a="$one" -v b="$two" 'BEGIN { printf "30 runs of 200 steps: one worker %.1f s, two %.1f s, %.2f times\n", a, b, a / b }'

lab_s 1 --set train.steps=1 --set eval.every=0 --set eval.sequences=1 --set eval.lengths=8 --set sweep.seed=0..9 |
    awk '{ printf "100 runs of one step, one worker: %.1f ms a run\n", 1000 * $1 / 100 }'
