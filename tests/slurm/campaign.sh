#!/bin/bash
# campaign.sh [RUNS [STRIKES]] -- short runs over two nodes (200), while elements are cancelled and requeued, tasks killed and nodes lost
# at random (50 strikes).  Whatever ended is resumed.  In the end every run is done once, and all of it is what one machine gives.
MAX_ARRAY=64
. "$(dirname "$0")/lib.sh"
runs=${1:-200} strikes=${2:-50} tasks=16
experiment ${STEPS:-4000} 'none, sinusoidal' "0..$((runs / 2 - 1))" >sweep.ini
printf '[limits]\ncheckpoint = 0.3\n' >>sweep.ini
declare -A hits=([cancel]=0 [requeue]=0 [kill]=0 [node]=0)
lost= spent=0

reference
same "one machine" $? 0
check "submitted" submit --tasks $tasks --restarts 1000

running() { squeue -h -r -t RUNNING -o '%i %j' | awk '!/merge/ { print $1 }' | shuf -n 1; }
# strike: one blow; fails if there was nothing to hit
strike() {
    local kind=(cancel cancel requeue requeue requeue kill kill kill node) element pid
    kind=${kind[RANDOM % ${#kind[@]}]}
    element=$(running)
    [ -n "$element" ] || return
    case $kind in
    cancel)  scancel "$element" ;;
    requeue) scancel --signal=USR1 "$element" ;;
    kill)    pid=$(pgrep -f "^$BUILD/lab work $PWD/plan" | shuf -n 1); [ -n "$pid" ] && kill -9 "$pid" || return ;;
    node)    [ -z "$lost" ] || return
             lost=$(squeue -h -j "$element" -o %N); [ -n "$lost" ] || return
             lose_node "$lost" ;;
    esac 2>/dev/null
    hits[$kind]=$((hits[$kind] + 1)) spent=$((spent + 1))
}
# A node returns when what it ran has gone elsewhere.
mend() {
    local e
    for e in $(squeue -h -r -t PENDING -o '%i %j' | awk '!/merge/ { print $1 }'); do scontrol update JobId="$e" StartTime=now; done >/dev/null 2>&1
    [ -n "$lost" ] && [ $((RANDOM % 5)) = 0 ] && return_node "$lost" && lost=
}
resumes=0 ended=$((SECONDS + ${PATIENCE:-1500}))
until [ "$(published)" = $runs ] || [ $SECONDS -gt $ended ]; do
    [ $spent -ge $strikes ] || strike
    sleep "0.$((RANDOM % 10))"; sleep $((RANDOM % 2))
    mend
    if [ $((RANDOM % 4)) = 0 ]; then lab slurm resume plan >out 2>err || { cat err; failed=1; }; grep -q again out && resumes=$((resumes + 1)); fi
done
[ -z "$lost" ] || return_node "$lost"
check "no job is left" until_true 120 quiet
lab merge lab.db plan >out 2>err
same "merging all of it once more" $? 0
same_as_one_machine
rows() { echo "SELECT 'result ' || run_key || ' ' || length AS key, printf('%d %d %d %d %d %.17g %s', n, n_exact, n_tok, n_tok_ok, step, loss, data_sha256) AS value
               FROM $1.results UNION ALL SELECT 'curve ' || run_key || ' ' || name || ' ' || step, printf('%.17g %s', value, special) FROM $1.curves
               UNION ALL SELECT 'hash ' || run_key, result_sha256 FROM $1.runs WHERE state = 'done'"; }
differences=$(sqlite3 -readonly -separator ' ' lab.db "ATTACH 'whole/lab.db' AS whole;
    CREATE TEMP TABLE found AS $(rows main); CREATE TEMP TABLE wanted AS $(rows whole);
    SELECT (SELECT count(*) FROM wanted WHERE key NOT IN (SELECT key FROM found)), (SELECT count(*) - count(DISTINCT key) FROM found),
           (SELECT count(*) FROM (SELECT * FROM found EXCEPT SELECT * FROM wanted))")
same "lost, duplicated, differing" "$differences" "0 0 0"
same "a result was computed twice" "$(db=lab.db ask "SELECT count(*) FROM attempt WHERE status = 'superseded'")" 0
same "a sound database" "$(db=lab.db ask 'PRAGMA integrity_check; PRAGMA foreign_key_check')" ok
echo "        $runs runs over 2 nodes in $tasks tasks: ${hits[cancel]} scancels, ${hits[requeue]} requeues, ${hits[kill]} kills, ${hits[node]} nodes lost," \
     "$resumes resumes; $(db=lab.db ask 'SELECT count(*) FROM attempt') attempts, $(resumed) from a checkpoint; lost, duplicated, differing: $differences"
finish
