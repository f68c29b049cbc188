#!/bin/bash
# campaign.sh [KILLS] -- SIGKILL to the supervisor, to a worker or to both at random moments, KILLS times (200 unless said otherwise).
#
# Each round runs one sweep through its kills until it is done, then compares: every row of results and curves, every result's hash
# and every weight must be those of an undisturbed sweep.  Rounds go on, each in a new database, until all kills are spent.
. "$(dirname "$0")/lib.sh"
kills=${1:-${KILLS:-200}}
experiment "${STEPS:-20000}" 'none, sinusoidal, learned' 0..1 >sweep.ini
printf '[limits]\ncheckpoint = 0.1\n' >>sweep.ini

# rows SCHEMA: key and value of everything that a view shows of runs that are done, without times, hosts and attempts
rows() {
    echo "SELECT 'result ' || run_key || ' ' || length AS key,
                 printf('%d %d %d %d %d %.17g %s', n, n_exact, n_tok, n_tok_ok, step, loss, data_sha256) AS value FROM $1.results
          UNION ALL SELECT 'curve ' || run_key || ' ' || name || ' ' || step, printf('%.17g %s', value, special) FROM $1.curves
          UNION ALL SELECT 'hash ' || run_key, result_sha256 FROM $1.runs WHERE state = 'done'"
}
# differences DATABASE: "lost duplicated differing"
differences() {
    sqlite3 -readonly -separator ' ' "$1" "ATTACH 'whole/lab.db' AS whole;
        CREATE TEMP TABLE found AS $(rows main); CREATE TEMP TABLE wanted AS $(rows whole);
        SELECT (SELECT count(*) FROM wanted WHERE key NOT IN (SELECT key FROM found)),
               (SELECT count(*) - count(DISTINCT key) FROM found),
               (SELECT count(*) FROM (SELECT * FROM found EXCEPT SELECT * FROM wanted))"
}
weights() { (cd "$1/weights" && sha256sum ./*); }

declare -A hits=([supervisor]=0 [worker]=0 [both]=0)
spent=0
# strike SUPERVISOR: one kill; fails if there was nothing to be killed
strike() {
    local target=(supervisor worker both) victims worker
    target=${target[RANDOM % 3]}
    worker=$(workers "$1" | shuf -n 1)
    case $target in supervisor) victims=$1 ;; worker) victims=$worker ;; both) victims="$1 $worker" ;; esac
    [ -n "$victims" ] && kill -9 $victims 2>/dev/null || return
    hits[$target]=$((hits[$target] + 1)) spent=$((spent + 1))
}
# run_through run|retry: one lab under fire; its exit status
run_through() {
    lab $1 sweep.ini --db "$db" --jobs 2 >out 2>err & local lab=$!
    {
        while [ $spent -lt $kills ] && kill -0 $lab; do
            sleep "0.$((RANDOM % 7))$((RANDOM % 10))"
            strike $lab
        done
        wait $lab
    } 2>/dev/null                                  # the shell reports each kill
}

lab run sweep.ini --db whole/lab.db --jobs 2 >out 2>err
same "an undisturbed sweep" $? 0
rounds=0 lost=0 duplicated=0 differing=0 odd=0
while [ $spent -lt $kills ] && [ "$odd" = 0 ]; do
    rounds=$((rounds + 1)) db=$rounds/lab.db
    command=run code=
    until [ "$command $code" = 'run 0' ] || [ "$odd" != 0 ]; do
        command=run; [ "$code" != 1 ] || command=retry          # a killed worker's run has failed: it wants to be asked for
        before=$spent
        run_through $command; code=$?
        case $code in 0|1|137) ;; *) odd=$code ;; esac
        [ "$command $code $before" != "retry 1 $spent" ] || odd="$(cat err)"      # it failed, and nobody had killed it
    done
    read -r l du di <<<"$(differences "$db")"
    lost=$((lost + l)) duplicated=$((duplicated + du)) differing=$((differing + di))
    check "round $rounds: the same weights" [ "$(weights $rounds)" = "$(weights whole)" ]
    same "round $rounds: nothing is left of checkpoints" "$(ls $rounds/checkpoints)" ""
    sound "round $rounds"
done
same "nothing fails but by a kill: exit statuses are 0, 1 and 137" "$odd" 0
resumed=0
for db in [0-9]*/lab.db; do resumed=$((resumed + $(ask 'SELECT count(*) FROM attempt WHERE from_step > 0'))); done
check "some runs went on from a checkpoint" [ $resumed -gt 0 -o $kills -lt 5 ]
same "rows compared" "$(sqlite3 -readonly whole/lab.db "SELECT count(*) > 1000 FROM ($(rows main))")" 1
echo "        $spent kills (supervisor ${hits[supervisor]}, worker ${hits[worker]}, both ${hits[both]}), $rounds sweeps," \
     "$resumed attempts went on from a checkpoint: $lost lost, $duplicated duplicated, $differing differing"
same "lost, duplicated, differing" "$lost $duplicated $differing" "0 0 0"
finish
