#!/bin/bash
# storage.sh [CASE...] -- a database that cannot be written for a while, or any more: training goes on, and what it finds is entered then, or by
# the next command.  Each case ends with the rows of an undisturbed sweep, in a sound database.
. "$(dirname "$0")/lib.sh"
inject=$BUILD/tests/faults/inject.so
cases=" $* "
wants() { is_like "$cases" "* $1 *" || [ "$cases" = "  " -a "$1" != locked ]; }
locked=                              # its minute is spent beside the other cases
[ "$cases" != "  " ] || { bash "$ROOT/tests/faults/storage.sh" locked >locked.out 2>&1 & locked=$!; }
export TMPDIR=$tmp/own; mkdir own
experiment 60000 'none, learned' 0..1 | sed 's/^every.*/every = 4000/' >long.ini
printf '[limits]\ncheckpoint = 0.2\n' >>long.ini

db=whole/lab.db; lab run long.ini --db $db >out 2>err
same "an undisturbed run" $? 0
rows() { answer | sha256sum; }
undisturbed=$(rows)

two_train() { [ "$(ask "SELECT count(DISTINCT attempt_id) FROM metric JOIN attempt USING(attempt_id) WHERE status = 'running'" 2>/dev/null)" = 2 ]; }
waits() { [ "$(ls "$1" 2>/dev/null | grep -c attempt)" -ge "${2:-1}" ]; }
# start NAME [VARIABLE=VALUE ...]: a sweep, with that environment
start() { db=$1/lab.db; mkdir -p "$1"; shift; env "$@" lab run long.ini --db $db --jobs 2 >out 2>err & lab=$!; wait_for 30 two_train; }
broken() { start "$1" LD_PRELOAD=$inject "LAB_FAULT=$2 $tmp/fault" ${3:+LAB_FAULT_ERRNO=$3} LAB_FAULT_PATH=lab.db; }
# ends_alike TEXT: the next command finishes what is missing
ends_alike() {
    lab run long.ini --db $db >out 2>err
    same "$1: the next run finishes" $? 0
    same "$1: the same rows and hashes" "$(rows)" "$undisturbed"
    lab fsck --db $db >out 2>err
    same "$1: a sound database" $? 0
    same "$1: nothing waits any more" "$(ls own "$(dirname $db)/spill" 2>/dev/null | grep -v '^own:$\|^$')" ""
}

# For a while: nothing is lost, nothing is asked of the user.
while read -r name kind errno message; do
    wants $name || continue
    broken $name $kind $errno
    touch fault; sleep 2; rm fault
    wait $lab
    same "$name for two seconds: it finishes by itself" $? 0
    matches "$name for two seconds: both are told" "$(cat err)" "*$message*training goes on*can be written again*"
    same "$name for two seconds: nothing is done twice" "$(ask 'SELECT count(*) FROM attempt')" 4
    ends_alike "$name for two seconds"
done <<END
full write 28 the disk is full
ioerror write 5 the disk cannot be read or written
sync sync 5 the disk cannot be read or written
END

# For good: the runs at work end, and wait beside the database; nothing else is begun.
if wants forever; then
    broken forever write 28
    touch fault
    wait $lab
    same "full for good: exit status" $? 3
    matches "full for good: what to do" "$(cat err)" "*lab run: forever/lab.db: the disk is full*2 runs that ended meanwhile wait in forever/spill: the next*"
    same "full for good: two wait" "$(ls forever/spill | grep -c attempt)" 2
    rm fault
    lab fsck --db $db >out 2>&1
    matches "full for good: fsck tells" "$(cat out)" "*wait*"
    ends_alike "full for good"
    same "full for good: they were trained once" "$(ask "SELECT count(*) FROM attempt WHERE status = 'done' AND from_step = 0")" 4
fi

# The folder cannot be written either: the user's own takes it.
if wants readonly; then
    mkdir readonly; echo in the way >readonly/spill
    broken readonly write 30
    touch fault
    wait $lab
    same "read-only: exit status" $? 3
    matches "read-only: where it waits" "$(cat err)" "*wait* in $TMPDIR/lab-spill-$(id -u): the next*"
    rm fault readonly/spill
    ends_alike "read-only"
fi

# Killed while the database could not be written: the checkpoints that ran ahead of it are of use.
if wants killed; then
    broken killed write 28
    touch fault
    check "killed: a checkpoint's records are kept" wait_for 20 waits killed/spill 2
    kill -9 $lab; { wait $lab; } 2>/dev/null
    rm fault
    ends_alike "killed"
    check "killed: went on from a checkpoint" [ "$(ask "SELECT count(*) FROM attempt WHERE status = 'done' AND from_step > 0")" -ge 1 ]
fi

# Stopped meanwhile.
if wants stopped; then
    broken stopped write 28
    touch fault; sleep 0.5
    began=$SECONDS
    kill -TERM $lab; wait $lab
    check "stopped: soon" [ $((SECONDS - began)) -le 8 ]
    rm fault
    ends_alike "stopped"
fi

# A lock: of a writer for a minute, long after the last run has ended; readers never matter.
if wants locked; then
    start locked
    (printf '.timeout 9000\nBEGIN IMMEDIATE;\n'; sleep 60; printf 'COMMIT;\n') | sqlite3 $db &
    (printf '.timeout 9000\nBEGIN; SELECT count(*) FROM run;\n'; sleep 62; printf 'COMMIT;\n') | sqlite3 $db >/dev/null &
    wait $lab
    same "locked for a minute: it finishes" $? 0
    matches "locked for a minute: it is told" "$(cat err)" "*another program keeps it locked*"
    wait
    ends_alike "locked"
fi

# Deleted.
if wants deleted; then
    start deleted
    rm $db*
    wait $lab
    same "deleted: exit status" $? 3
    matches "deleted: what became of it" "$(cat err)" "*deleted/lab.db: was deleted while lab was running; what it held was put back: deleted/lab.db*"
    ends_alike "deleted"
    same "deleted: nothing is trained again" "$(ask "SELECT count(*) FROM attempt WHERE status = 'done' AND from_step = 0")" 4
fi

# Replaced by another.
if wants replaced; then
    start replaced
    cp whole/lab.db other.db; mv other.db $db; sum=$(sha256sum <$db)
    wait $lab
    same "replaced: exit status" $? 3
    matches "replaced: what became of it" "$(cat err)" "*was replaced by another file while lab was running; what it held was saved as replaced/lab.db.rescued*"
    same "replaced: the other keeps every byte" "$(sha256sum <$db)" "$sum"
    db=replaced/lab.db.rescued
    ends_alike "replaced"
fi

# Damaged while running, then a copy of the day before is put back: what the copy does not know is trained again.
if wants damaged; then
    start damaged
    sqlite3 $db "VACUUM INTO 'copy.db'"
    head -c 300000 /dev/urandom | tee $db >$db-wal
    wait $lab
    same "damaged: exit status" $? 3
    matches "damaged: is told" "$(cat err)" "*lab run: damaged/lab.db: *wait* in damaged/spill*"
    lab run long.ini --db $db >out 2>err
    same "damaged: is no database any more" $? 3
    rm $db*; mv copy.db $db
    lab run long.ini --db $db >out 2>err
    same "damaged: the next run finishes" $? 0
    matches "damaged: what does not fit the copy is told" "$(cat err)" "*damaged/spill/*goes on from what this database does not have: is it an older copy?*"
    rm -r damaged/spill
    ends_alike "damaged"
fi

# Not ours to write.
if wants network; then
    while read -r type; do
        rm -rf net; mkdir net
        echo "1 1 $(stat -c %Hd:%Ld net) / / rw - $type server rw" >mounts
        LAB_MOUNTINFO=$tmp/mounts LD_PRELOAD=$inject lab run long.ini --db net/lab.db >out 2>err
        same "on $type: exit status" $? 3
        matches "on $type: is told" "$(cat err)" "lab run: net/lab.db: lies on a network file system ($type), where databases get damaged; choose a local one with --db*"
        same "on $type: nothing is made there" "$(ls net)" ""
    done <<END
    nfs4
    cifs
    lustre
    fuse.sshfs
END
fi

if [ "$locked" ]; then
    wait $locked; code=$?
    same "locked for a minute: $(tail -n 1 locked.out)" $code 0
    cat locked.out
fi
finish
