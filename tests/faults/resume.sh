#!/bin/bash
# resume.sh -- a run that was stopped or killed goes on from its checkpoint, to the same bits; damage is told and the checkpoint
# before is used; two programs on one database share the work.
. "$(dirname "$0")/lib.sh"
experiment 80000 'none, learned' 0 >long.ini
printf '[limits]\ncheckpoint = 0.1\n' >>long.ini

db=whole/lab.db; lab run long.ini --db $db >out 2>err
same "an undisturbed run" $? 0
undisturbed=$(answer)
weights() { (cd "$1/weights" && sha256sum ./*); }
saved() { [ "$(ls "$(dirname $db)"/checkpoints/*."${1:-b}" 2>/dev/null | wc -l)" -ge "${2:-2}" ]; }
start() { lab run long.ini --db $db --jobs 2 >out 2>err & lab=$!; }
# ends_alike TEXT: the next run finishes it, to the same bits
ends_alike() {
    lab run long.ini --db $db >out 2>err
    same "$1: the next run finishes" $? 0
    same "$1: the same rows and hashes" "$(answer)" "$undisturbed"
    same "$1: the same weights" "$(weights "$(dirname $db)")" "$(weights whole)"
    sound "$1"
    same "$1: no checkpoint is left" "$(ls "$(dirname $db)/checkpoints")" ""
}

for signal in TERM KILL; do
    db=$signal/lab.db; start
    check "$signal: checkpoints are written" wait_for 20 saved
    sleep 0.2
    kill -$signal $lab; { wait $lab; } 2>/dev/null
    ends_alike $signal
    check "$signal: went on from a checkpoint" [ "$(ask "SELECT count(*) FROM attempt WHERE status = 'done' AND from_step > 0 AND parent_uuid IS NOT NULL")" -ge 1 ]
done

# What was told after the checkpoint is told again by the next attempt, never twice by the same.
db=damaged/lab.db; start
wait_for 20 saved; sleep 0.2
kill -TERM $lab; wait $lab
for key in $(cd damaged/checkpoints && ls *.a | sed 's/\.a$//'); do
    a=damaged/checkpoints/$key.a b=damaged/checkpoints/$key.b newest=$a
    [ "$(sed -n 's/^step //p;7q' $b)" -gt "$(sed -n 's/^step //p;7q' $a)" ] && newest=$b
    printf 'X' | dd of=$newest bs=1 seek=1000 conv=notrunc 2>/dev/null
done
ends_alike "a damaged checkpoint"
check "a damaged checkpoint: is told" grep -q "lab: reverse none seed 0: .*checkpoint is damaged: its checksum does not fit" err
same "a damaged checkpoint: stands in the reason" "$(ask "SELECT count(*) FROM attempt WHERE status = 'done' AND reason LIKE '%checkpoint is damaged%'")" 2
same "a damaged checkpoint: the one before was used" "$(ask "SELECT count(*) FROM attempt WHERE status = 'done' AND from_step > 0")" 2

db=both/lab.db; start
wait_for 20 saved; sleep 0.2
kill -TERM $lab; wait $lab
for file in both/checkpoints/*; do truncate -s 700 $file; done
ends_alike "no sound checkpoint"
same "no sound checkpoint: started anew" "$(ask "SELECT sum(from_step) FROM attempt")" 0

# Two at once: neither does what the other does, and both know the whole answer in the end.
db=two/lab.db; mkdir two
lab run long.ini --db $db --jobs 1 >out1 2>err1 & one=$!
wait_for 20 curve_begun
lab run long.ini --db $db --jobs 1 >out2 2>err2 & two=$!
wait $one; code=$?
wait $two
same "two at once: both end well" "$code $?" "0 0"
same "two at once: nothing is done twice" "$(ask 'SELECT count(*) FROM attempt')" 2
same "two at once: by two processes" "$(ask 'SELECT count(DISTINCT pid) FROM attempt')" 2
same "two at once: the same rows" "$(answer)" "$undisturbed"
same "two at once: the same answer" "$(sed '/^database/,$d' out1)" "$(sed '/^database/,$d' out2)"

# Two databases in one folder, at the same runs at the same time: neither writes, reads or removes what is the other's.
db=pair/a.db; start; one=$lab
db=pair/b.db; start
check "a folder with two databases: each has its checkpoints" wait_for 20 saved b 4
sleep 0.2
kill -9 $one $lab; { wait $one $lab; } 2>/dev/null
for db in pair/a.db pair/b.db; do
    lab run long.ini --db $db >out 2>err
    same "a folder with two databases: $db finishes" "$? $(answer)" "0 $undisturbed"
    same "a folder with two databases: $db went on from its own" "$(ask "SELECT count(*) FROM attempt WHERE status = 'done' AND from_step > 0")" 2
done
same "a folder with two databases: no checkpoint is left" "$(ls pair/checkpoints)" ""

# Killed, and its runs taken over by the one that waits.
db=over/lab.db; mkdir over
lab run long.ini --db $db --jobs 2 >out1 2>err1 & one=$!
wait_for 20 saved
lab run long.ini --db $db --jobs 2 >out2 2>err & two=$!
check "the second waits" wait_for 10 grep -q 'in the hands of another process: waiting' err
kill -9 $one; { wait $one; } 2>/dev/null
wait $two
same "what a killed one leaves is taken over" $? 0
same "to the same rows" "$(answer)" "$undisturbed"
finish
