#!/bin/bash
# kill.sh -- SIGKILL of a worker costs its run alone; SIGKILL of the supervisor, at any moment, costs nothing that was done.
. "$(dirname "$0")/lib.sh"
experiment 20000 'none, sinusoidal' 0..1 >long.ini
experiment 200 'none, sinusoidal' 0..1 >short.ini

lab run long.ini --jobs 1 >out 2>err & lab=$!
check "a worker trains" wait_for 20 curve_begun
kill -9 $(workers $lab)
wait $lab
same "one killed worker: some runs failed" $? 1
same "its run alone" "$(ask "SELECT sum(state = 'failed') || ' ' || sum(state = 'done') FROM runs")" "1 3"
matches "with its reason" "$(ask "SELECT reason FROM runs WHERE state = 'failed'")" 'killed by signal 9 (Killed)*'
lab run long.ini >out 2>err
same "a failed run is not tried again by itself" "$? $(ask "SELECT sum(attempts) FROM runs")" "1 4"
lab retry long.ini >out 2>err
same "but when asked to" "$? $(ask "SELECT sum(state = 'done') FROM runs")" "0 4"
sound "one killed worker"
rm fsck.out
same "nothing but results is left" "$(echo *)" "err long.ini out results short.ini"

db=one.db; lab run short.ini --db one.db --jobs 1 >out 2>err
same "an undisturbed run" $? 0
undisturbed=$(answer)

db=killed.db; lab run long.ini --db killed.db --jobs 2 >out 2>err & lab=$!
check "workers start" wait_for 10 has_worker $lab
pids=$(workers $lab)
kill -9 $lab
{ wait $lab; } 2>/dev/null
check "workers do not outlive their supervisor" wait_for 2 is_gone $pids

for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    lab run short.ini --db again.db --jobs 2 >out 2>err & lab=$!
    sleep 0.$((RANDOM % 5))$((RANDOM % 10))
    kill -9 $lab 2>/dev/null
    { wait $lab; } 2>/dev/null
done
db=again.db; lab run short.ini --db again.db --jobs 2 >out 2>err
same "after twelve kills it finishes" $? 0
same "with the same rows" "$(answer)" "$undisturbed"
sound "after twelve kills"
finish
