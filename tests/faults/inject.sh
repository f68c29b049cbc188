#!/bin/bash
# inject.sh [STEP [EVERY]] -- the n-th memory request, write, fsync, rename, open, read or mapping of a command fails, for every n.
#
# Each time the command must end by itself with one of its exit codes and a message, or with 0 and its whole answer.  What writes
# is then run again without a fault: it must finish, to the same rows, in a sound database.  SQLite's own requests are many and
# of one kind: of those every STEP-th (97) is tried, beginning at a place drawn by chance; of the others every n (or EVERY-th),
# alone and with all that follow it.
. "$(dirname "$0")/lib.sh"
step=${1:-97} each=${2:-1}
inject=$BUILD/tests/faults/inject.so
# Lengths whose ceilings take no time.
experiment 4 'none, learned' 0 | sed 's/^batch.*/batch = 2\nlog_every = 2/; s/^every.*/every = 2\nevery_sequences = 4/; s/^sequences.*/sequences = 8/
    s/= 16$/= 8/; s/= 32$/= 8/; s/^length .*/length = 2/; s/^lengths.*/lengths = 1, 2/' >small.ini

db=whole.db; lab run small.ini --db whole.db --jobs 1 -q >whole.out 2>err
same "an undisturbed run" $? 0
undisturbed=$(answer)

# strike KIND N COMMAND...: once with the fault; fails, with a line that says why, if it does not end as it should
strike() {
    local kind=$1 n=$2 code; shift 2
    rm -f fired
    LD_PRELOAD=$inject LAB_FAULT="$kind $n" LAB_FAULT_FIRED=$PWD/fired timeout -k 1 120 lab "$@" >out 2>err
    code=$?
    [ -e fired ] || return 2
    case $code in
    0) cmp -s out wanted || { echo "$kind $n: ended well, but its answer differs"; diff out wanted; cat err; return 1; } ;;
    1|2|3|75) grep -q '^lab' err || grep -q ': NOT sound$' out || { echo "$kind $n: exit $code without a message"; cat err; return 1; }
       [ "$(grep -c '^lab [a-z]*: ' err)" -le 2 ] || { echo "$kind $n: more than one message"; cat err; return 1; } ;;
    *) echo "$kind $n: exit $code"; head -n 5 err; return 1 ;;
    esac
}
# mended: what a fault left behind is finished by the same command, to the same rows
mended() {
    lab run small.ini --db one.db --jobs 1 -q >out 2>err || lab retry small.ini --db one.db --jobs 1 -q >out 2>err || { echo "$1: not finished"; cat err; return 1; }
    db=one.db
    [ "$(answer)" = "$undisturbed" ] || { echo "$1: other rows"; return 1; }
    lab fsck --db one.db >out 2>err || { echo "$1: not sound"; cat out; return 1; }
}
# share KIND FIRST STEP [SUFFIX] -- COMMAND...: one of the processes that share the n among them
share() {
    local kind=$1 n=$2 step=$3 suffix=$4 writes=0 code; shift 5
    case $1 in run|retry|merge) writes=1 ;; esac
    while :; do
        [ $writes = 0 ] || { rm -rf one.db* weights checkpoints logs spill; [ ! -e ../start.db ] || cp ../start.db one.db; }
        strike "$kind" "$n$suffix" "$@"; code=$?
        [ $code = 2 ] && break
        [ $code = 0 ] && { [ $writes = 0 ] || mended "$kind $n$suffix"; } || echo x >>bad
        echo x >>tried
        n=$((n + step))
    done
}
# every KIND STEP SUFFIX COMMAND...: by more processes than there are cores, since what has lost its database waits and tries again
PROCESSES=8
every() {
    local kind=$1 step=$2 suffix=$3 from=1 i; shift 3
    [ "$step" = 1 ] || from=$((RANDOM % step + 1))
    for ((i = 0; i < PROCESSES; i++)); do
        rm -rf part$i; mkdir part$i; cp -r small.ini whole.db weights wanted part$i
        (cd part$i; share "$kind" $((from + i * step)) $((PROCESSES * step)) "$suffix" -- "$@" >said 2>&1) &
    done
    wait
    same "$* with $kind N${suffix:+ and after} failing, $(cat part?/tried 2>/dev/null | wc -l) times" "$(cat part?/bad 2>/dev/null | wc -l)" 0
    ! ls part?/bad >/dev/null 2>&1 || { cat part?/said | sort | uniq -c | sort -rn | head -n 40; }
}

for command in 'results small.ini --db whole.db' 'plan small.ini --db whole.db' 'status --db whole.db' 'fsck --db whole.db'; do
    lab $command >wanted 2>err
    every malloc $each '' $command
    every sqlmalloc $step '' $command
    for kind in write sync open read map; do every $kind $each '' $command; done
done
cp whole.out wanted; sed -i 's/whole\.db/one.db/' wanted
for kind in write sync rename open read map malloc; do
    for suffix in '' +; do every $kind $each "$suffix" run small.ini --db one.db --jobs 1 -q; done
done
every sqlmalloc $((step * 3)) '' run small.ini --db one.db --jobs 1 -q

sqlite3 whole.db "VACUUM INTO 'start.db'"
sqlite3 start.db "UPDATE attempt SET status = 'failed', result_sha256 = NULL WHERE run_id = (SELECT run_id FROM run WHERE encoder = 'learned')"
for kind in write sync open malloc; do every $kind $((each * 2)) '' retry small.ini --db one.db --jobs 1 -q; done

rm start.db; lab merge two.db whole.db >wanted 2>err
sed -i 's/two\.db/one.db/' wanted
for kind in write sync rename open read map malloc; do every $kind $each '' merge one.db whole.db; done
every sqlmalloc $((step * 3)) '' merge one.db whole.db
finish
