#!/bin/sh
# run.sh SECONDS BINARY... -- each fuzz target in turn: for so long with libFuzzer, or, with 0, once over its corpus.
# Inputs that crash are kept in build/fuzz/crashes; new ones that reach new code in build/fuzz/found/TARGET.
seconds=$1; shift
export OPENBLAS_NUM_THREADS=1 LC_ALL=C
log=$(mktemp); trap 'rm -f "$log"' EXIT
failed=0 total=0
for t; do
    name=${t##*_}
    corpus=$PWD/tests/fuzz/corpus/$name
    if [ "$seconds" = 0 ]; then
        if "$t" "$corpus" >"$log" 2>&1; then printf '  ok     %-44s %s\n' "$t" "$(tail -n 1 "$log")"
        else failed=1; printf '  FAILED %s\n' "$t"; tail -n 50 "$log"; fi
        continue
    fi
    mkdir -p build/fuzz/found/"$name" build/fuzz/crashes
    "$PWD/$t" -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -close_fd_mask=3 -artifact_prefix="$PWD/build/fuzz/crashes/$name-" \
        "$PWD/build/fuzz/found/$name" "$corpus" >"$log" 2>&1 || { failed=1; printf '  FAILED %s\n' "$t"; tail -n 40 "$log"; }
    n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    total=$((total + ${n:-0}))
    printf '  %-8s %10s executions, %7s a second, coverage %s\n' "$name" "${n:-?}" "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")" \
        "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)"
done
[ "$seconds" = 0 ] || echo "fuzz: $total executions"
exit $failed
