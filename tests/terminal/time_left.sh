#!/bin/sh
# time_left.sh [FILE.ini [TRIES]] -- runs a sweep of unequal runs and holds against the clock what `lab status` said was left.
#
# Right is: after the first tenth, the middle one of all errors is at most 20 % of what was really left.  The last second, where
# a per cent means nothing, is left out.  Other work on the machine comes and goes, so the best of TRIES (3) counts.
set -u
root=$(pwd) file=${1:-tests/terminal/unequal.ini} tries=${2:-3} tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
now() { date +%s.%N; }
try() {
    rm -rf "$tmp/lab.db"* "$tmp/said"
    begin=$(now)
    "$root/lab" run "$file" --db "$tmp/lab.db" --quiet >/dev/null 2>"$tmp/log" &
    while kill -0 $! 2>/dev/null; do
        left=$("$root/lab" status --db "$tmp/lab.db" --json 2>/dev/null | sed -n 's/.*"left_s": \([0-9.e+-]*\),.*/\1/p')
        [ -n "$left" ] && echo "$(now) $left" >>"$tmp/said"
        sleep 0.2
    done
    wait $! || { cat "$tmp/log"; return 1; }
    awk -v begin="$begin" -v end="$(now)" '
        { real = end - $1; if ($1 - begin < (end - begin) / 10 || real < 1) next
          error[n++] = $2 > real ? ($2 - real) / real : (real - $2) / real }
        END { for (i = 1; i < n; i++) for (j = i; j > 0 && error[j - 1] > error[j]; j--) { t = error[j]; error[j] = error[j - 1]; error[j - 1] = t }
              if (n < 5) { print "said only " n + 0 " times"; exit 1 }
              printf "time left: off by %.0f %% in the middle of %d times, 9 of 10 by less than %.0f %%, in a sweep of %.0f s\n",
                     100 * error[int(n / 2)], n, 100 * error[int(n * 0.9)], end - begin
              exit error[int(n / 2)] > 0.2 }' "$tmp/said"
}
while ! try; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { echo "time left: FAILED: not within 20 %"; exit 1; }
done
