#!/bin/sh
# run_unit.sh BINARY... -- the test programs, as many at once as there are cores; what one prints is shown when it fails.
# UNDER="valgrind ..." runs each of them under that.  Signals that the caller ignores, as a shell does for what it runs in the
# background, are heard again: tests send them.
cores=$(nproc)                       # which obeys the next line
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 LC_ALL=C
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
printf '%s\n' "$@" | xargs -P "$cores" -I '{}' sh -c '
    log=$(mktemp -p "$0") start=$(date +%s)
    if env --default-signal=HUP,INT,QUIT ${UNDER:-} "$1" >"$log" 2>&1; then word="ok    "; else word=FAILED; touch "$0/failed"; fi
    printf "  %s %-44s %3d tests %3d s\n" "$word" "$1" "$(grep -c "\[       OK \]" "$log")" $(($(date +%s) - start))
    [ "$word" != FAILED ] || cat "$log"' "$tmp" '{}'
passed=$(cat "$tmp"/tmp.* | grep -c '\[       OK \]')
printf 'unit: %d passed%s\n' "$passed" "$([ ! -e "$tmp/failed" ] || echo ", some failed")"
[ ! -e "$tmp/failed" ]
