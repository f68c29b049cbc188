#!/bin/sh
# time_left.sh [FILE.ini [TRIES]] -- runs a sweep of unequal runs and holds what `lab status` said was left against what was.
#
# Right is: after the first tenth, the middle one of all errors is at most 20 % of what was really left.  Other work on the
# machine comes and goes, and no forecast knows of it: so what was left is taken as processor time, and what was said as the
# processor time that goes by in so long at the rate of late.  On a machine of its own both are seconds of the clock.
# The last second, where a per cent means nothing, is left out.
set -u
root=$(pwd) file=${1:-tests/terminal/unequal.ini} tries=${2:-3} tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
now() { date +%s.%N; }
# Ticks of the processor: of the supervisor, of its workers that have ended, of those that run.
processor_time() {
    children=$(cat /proc/"$1"/task/"$1"/children 2>/dev/null) || return 1
    { sed 's/.*) //' /proc/"$1"/stat; for child in $children; do sed 's/.*) //; s/^/worker /' /proc/"$child"/stat; done; } 2>/dev/null |
        awk '$1 == "worker" { ticks += $13 + $14; next } { ticks += $12 + $13 + $14 + $15 } END { print ticks }'
}
try() {
    rm -rf "$tmp"/lab.db* "$tmp/said"
    "$root/lab" run "$file" --db "$tmp/lab.db" --jobs "${JOBS:-1}" --quiet >/dev/null 2>"$tmp/log" &
    while ticks=$(processor_time $!); do
        left=$("$root/lab" status --db "$tmp/lab.db" --json 2>/dev/null | sed -n 's/.*"left_s": \([0-9.e+-]*\),.*/\1/p')
        echo "$(now) $ticks ${left:-none}" >>"$tmp/said"
        sleep 0.2
    done
    wait $! || { cat "$tmp/log"; return 1; }
    awk -v hertz="$(getconf CLK_TCK)" '
        { clock[NR] = $1 - first; if (NR == 1) { first = $1; clock[1] = 0 } cpu[NR] = $2 / hertz; said[NR] = $3 }
        END {
            while (++i < NR) {
                for (j = j + 0 ? j : 1; clock[j] < clock[i] / 2; ) j++
                real = cpu[NR] - cpu[i]
                if (said[i] == "none" || clock[i] < clock[NR] / 10 || clock[NR] - clock[i] < 1 || clock[i] == clock[j]) continue
                told = said[i] * (cpu[i] - cpu[j]) / (clock[i] - clock[j])
                error[n++] = told > real ? (told - real) / real : (real - told) / real
            }
            for (i = 1; i < n; i++) for (j = i; j > 0 && error[j - 1] > error[j]; j--) { t = error[j]; error[j] = error[j - 1]; error[j - 1] = t }
            if (n < 5) { print "time left: told only " n + 0 " times"; exit 1 }
            printf "time left: off by %.0f %% in the middle of %d times, 9 of 10 by less than %.0f %%; %.0f s, %.0f s of processors\n",
                   100 * error[int(n / 2)], n, 100 * error[int(n * 0.9)], clock[NR], cpu[NR]
            exit error[int(n / 2)] > 0.2
        }' "$tmp/said"
}
while ! try; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { echo "time left: FAILED: not within 20 %"; exit 1; }
done
