#!/bin/bash
# plugin.sh -- whatever a plugin does to its worker, it costs its own runs: their reason is kept and the others go on.
. "$(dirname "$0")/lib.sh"
ulimit -c unlimited

# fails NAME REASON [FILE]: FILE holds more sections of the experiment
fails() {
    db=$1.db
    { experiment 60 "$1, none" 0..1; [ -z "${3:-}" ] || cat "$3"; } >"$1.ini"
    lab run "$1.ini" --plugin "$BUILD/tests/plugins/$1.so" --db "$db" >out 2>err
    same "$1: some runs failed" $? 1
    same "$1: the others are done" "$(ask "SELECT group_concat(state) FROM runs WHERE encoder = 'none'")" "done,done"
    matches "$1: the reason" "$(ask "SELECT DISTINCT reason FROM runs WHERE encoder = '$1'")" "$2"
    check "$1: is told" grep -q "FAILED: reverse $1 seed 0: " err
    check "$1: stands in the answer" grep -q "$1" out
    sound "$1"
    same "$1: gives no results" "$(ask "SELECT count(*) FROM results WHERE encoder = '$1'")" 0
}
fails bad_crash 'killed by signal 11 (Segmentation fault)'
fails bad_nan 'loss is nan at step 20'
fails bad_exit 'exited with status 0 without a result'
same "no core file is left" "$(find . -name 'core*')" ""
printf '[limits]\nmemory = 400\n' >limits
fails bad_memory 'killed by signal * (*); out of memory? it held * MB, limits.memory is 400 MB' limits
printf '[limits]\ntime = 2\n' >limits
fails bad_hang 'took longer than limits.time = 2 s, and did not stop when asked to' limits
same "bad_hang: its state" "$(ask "SELECT DISTINCT state FROM runs WHERE encoder = 'bad_hang'")" timeout

# a failure is told when it happens, not when the sweep ends
db=told.db; experiment 1000000 'bad_nan, none' 0 >told.ini
lab run told.ini --plugin "$BUILD/tests/plugins/bad_nan.so" --db told.db --jobs 2 >out 2>err & lab=$!
wait_for 20 grep -q "FAILED: reverse bad_nan seed 0: loss is nan" err
check "a failure is told while the others still train" kill -0 $lab
kill -TERM $lab; wait $lab
same "and they can go on" $? 75
sound told

experiment 60 'bad_chatty, none' 0 >chatty.ini
db=chatty.db; lab run chatty.ini --plugin "$BUILD/tests/plugins/bad_chatty.so" --db chatty.db --jobs 2 >out 2>err
same "a talkative plugin may work" $? 0
check "its log is cut" [ "$(du -k logs | cut -f 1)" -le 1100 ]
same "only it has a log" "$(ls logs | wc -l)" 1
check "nothing of it reaches the screen" [ "$(cat out err | wc -c)" -lt 10000 ]
finish
