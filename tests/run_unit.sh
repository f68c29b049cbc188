#!/bin/sh
# run_unit.sh BINARY... -- each test program in turn; its output is shown when it fails.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 LC_ALL=C
log=$(mktemp); trap 'rm -f "$log"' EXIT
passed=0 failed=0
for t; do
    if "$t" >"$log" 2>&1; then
        n=$(grep -c '\[       OK \]' "$log"); passed=$((passed + n)); printf '  ok     %-44s %3d tests\n' "$t" "$n"
    else
        n=$(grep -c '\[       OK \]' "$log"); passed=$((passed + n)); failed=$((failed + 1)); printf '  FAILED %s\n' "$t"; cat "$log"
    fi
done
printf 'unit: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
