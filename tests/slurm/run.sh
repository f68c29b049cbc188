#!/bin/bash
# run.sh [TEST...] -- each test against a Slurm that is installed and started here (`campaign 200`: with arguments).
#
# Where Slurm is missing and cannot be installed, one line says so and the exit status is 0; LAB_TEST_SLURM=1 makes that 1,
# LAB_TEST_SLURM=0 skips without trying.
cd "$(dirname "$0")" || exit 1
skip() { echo "  SKIP   slurm: $1"; [ "${LAB_TEST_SLURM:-}" != 1 ]; exit; }
[ "${LAB_TEST_SLURM:-}" != 0 ] || skip "LAB_TEST_SLURM=0"
folder=$(mktemp -d /tmp/lab-slurm.XXXXXX) && log=$(mktemp) || exit 1
trap './down "$folder" 2>/dev/null; rm -rf "$folder" "$log"' EXIT
trap 'exit 1' HUP INT TERM
./up "$folder" >/dev/null 2>"$log"; code=$?
[ $code != 3 ] || skip "$(tail -n 1 "$log")"
[ $code = 0 ] || skip "it does not start here: $(grep error: "$log" | head -n 1)"
./down "$folder" 2>/dev/null

# Clusters find a job's processes by cgroup; the freezer of cgroup v1 is needed to do so here.
can_freeze=$([ "$(id -u)" = 0 ] && [ -d /sys/fs/cgroup/freezer ] && echo yes)
failed=0
for test; do
    read -r name arguments <<<"$test"
    kind=pgid
    case $arguments in cgroup) kind=cgroup arguments= ;; esac
    [ $kind = pgid ] || [ -n "$can_freeze" ] || { echo "  SKIP   slurm/$test: no freezer of cgroup v1 here"; continue; }
    began=$SECONDS
    if SLURM_LAB_PROCTRACK=$kind timeout "${LIMIT:-900}" bash "$name.sh" $arguments >"$log" 2>&1; then state=ok; else state=FAILED failed=1; fi
    printf '  %-6s slurm/%s: %s (%d s)\n' $state "$test" "$(grep -E '^[0-9]+ passed|^no Slurm' "$log" | tail -n 1)" $((SECONDS - began))
    grep ' runs over ' "$log"
    [ $state = ok ] || grep -v '^ok' "$log"
done
exit $failed
