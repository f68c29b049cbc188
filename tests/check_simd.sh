#!/bin/sh
# check_simd.sh -- every plugin through `lab check`, in float and in double, on each set of instructions that this processor
# has: what failed, the largest error of a gradient, and the plugin that took longest.  make check-plugins-simd builds both.
set -u
tmp=$(mktemp) || exit 1
trap 'rm -f "$tmp"' EXIT
bad=0
for flavour in normal double; do
    for isa in generic avx2 avx512f; do
        [ $isa = generic ] || grep -qw $isa /proc/cpuinfo || continue
        LAB_SIMD=${isa%f} build/$flavour/lab check build/$flavour/plugins/*/*.so >"$tmp" || bad=1
        awk -v what="$flavour, LAB_SIMD=${isa%f}" '
            /FAILED/ { print file; failing = 1 }
            failing { print; if (/likely/) failing = 0 }
            /: plugin / { file = $1; sub(/:$/, "", file); sub(/.*\//, "", file) }
            /ok +gradients.*error at most/ && $NF + 0 > worst { worst = $NF + 0; where = file " " $2 }
            / passed, / { plugins++; passed += $1; failed += $3; for (i = 1; i < NF; i++) if ($i == "in" && $(i + 1) > slow) { slow = $(i + 1) + 0; slowest = file } }
            END { printf "%s: %d plugins, %d tests passed, %d failed; largest gradient error %g (%s); longest %.1f s (%s)\n",
                         what, plugins, passed, failed, worst, where, slow, slowest }' "$tmp"
    done
done
exit $bad
