#!/bin/bash
# interrupt.sh -- SIGINT and SIGTERM stop cleanly and are continued; a second one stops at once; nohup is respected.
. "$(dirname "$0")/lib.sh"
experiment 20000 'none, sinusoidal' 0..1 >long.ini
experiment 100 'none, bad_hang' 0 >hang.ini
plugin=$BUILD/tests/plugins/bad_hang.so

db=whole.db; lab run long.ini --db whole.db >out 2>err
same "an undisturbed run" $? 0
undisturbed=$(answer)

for signal in TERM INT HUP USR1 USR2; do
    db=$signal.db; lab run long.ini --db $db --jobs 2 >out 2>err & lab=$!
    wait_for 20 curve_begun
    pids=$(workers $lab) began=$SECONDS
    kill -$signal -- -$lab                         # as a terminal does: to the whole group
    wait $lab
    same "SIG$signal: exit status" $? 75
    check "SIG$signal: at once" [ $((SECONDS - began)) -le 3 ]
    check "SIG$signal: no worker is left" is_gone $pids
    check "SIG$signal: the database says so" [ "$(ask "SELECT count(*) FROM runs WHERE state = 'interrupted' AND reason = 'SIG$signal'")" -ge 1 ]
    same "SIG$signal: nothing failed" "$(ask "SELECT count(*) FROM runs WHERE state IN ('failed', 'running')")" 0
    lab run long.ini --db $db >out 2>err
    same "SIG$signal: the next run continues" $? 0
    same "SIG$signal: to the same rows" "$(answer)" "$undisturbed"
    sound "SIG$signal"
done

# bad_hang never returns from its hook: it cannot finish its step.
db=hang.db; lab run hang.ini --plugin "$plugin" --db hang.db --jobs 1 >out 2>err & lab=$!
wait_for 20 eval '[ "$(ask "SELECT count(*) FROM runs WHERE encoder = '"'bad_hang'"' AND state = '"'running'"'" 2>/dev/null)" = 1 ]'
sleep 1
began=$SECONDS
kill -INT $lab; sleep 0.5; kill -INT $lab
wait $lab
same "a second interrupt: exit status" $? 130
check "a second interrupt: at once" [ $((SECONDS - began)) -le 2 ]
sound "a second interrupt"
same "a second interrupt: what was done stays" "$(ask "SELECT group_concat(encoder || ' ' || state, ', ') FROM runs")" "bad_hang interrupted, none done"

lab run hang.ini --plugin "$plugin" --db hang.db >out 2>err & lab=$!
wait_for 10 has_worker $lab
sleep 1
began=$SECONDS
kill -TERM $lab
wait $lab
same "a worker that hangs: exit status" $? 75
check "a worker that hangs: is killed after 10 s" [ $((SECONDS - began)) -ge 9 -a $((SECONDS - began)) -le 13 ]
same "a worker that hangs: interrupted" "$(ask "SELECT state FROM runs WHERE encoder = 'bad_hang'")" interrupted

db=nohup.db
(trap '' HUP; exec lab run long.ini --db nohup.db --jobs 2) >out 2>err & lab=$!
wait_for 20 curve_begun
kill -HUP $lab
wait $lab
same "under nohup a hang-up changes nothing" $? 0

# A scheduler's early warning, twice, is not an order to drop everything.
db=warned.db; lab run long.ini --db $db --jobs 2 >out 2>err & lab=$!
wait_for 20 curve_begun
kill -USR1 $lab; kill -USR1 $lab
wait $lab
same "a warning that comes twice" $? 75

# Ctrl-Z reaches the supervisor alone: its workers, in groups of their own, must sleep and wake with it.
state() { for pid; do sed -n 's/^State:.\(.\).*/\1/p' "/proc/$pid/status" 2>/dev/null; done | sort -u | tr -d '\n'; }
is_state() { local want=$1; shift; [ "$(state "$@")" = "$want" ]; }
awake() { case $(state "$@") in *T*) return 1 ;; esac; }
db=paused.db; lab run long.ini --db $db --jobs 2 --set limits.time=30 >out 2>err & lab=$!
wait_for 20 curve_begun
pids=$(workers $lab)
kill -TSTP $lab
check "stopped: the supervisor and its workers sleep" wait_for 5 is_state T $lab $pids
before=$(ask 'SELECT count(*) FROM metric'); sleep 1.5
same "stopped: nothing is done" "$(ask 'SELECT count(*) FROM metric')" "$before"
kill -CONT $lab
check "continued: all are awake" wait_for 5 awake $lab $pids
wait $lab
same "continued: it finishes" $? 0
same "continued: with the same rows" "$(answer)" "$undisturbed"

db=pipe.db; lab run long.ini --db pipe.db 2>&1 | true
check "a reader that goes away stops nothing" [ "$(ask "SELECT count(*) FROM runs WHERE state = 'done'")" = 4 ]
finish
