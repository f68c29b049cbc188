#!/bin/bash
# disk.sh -- a full disk ends the sweep with exit 3 or fails the run that met it; what was committed stays; read-only is refused.
. "$(dirname "$0")/lib.sh"
experiment 100 'none, sinusoidal' 0..1 >short.ini
experiment 20000 'none, sinusoidal' 0..3 >long.ini

# A small disk needs root, or a user namespace in which one is root.
if [ "${IN_NAMESPACE:-}" = "" ] && ! { mkdir probe && mount -t tmpfs -o size=64k none probe 2>/dev/null && umount probe; }; then
    cd "$ROOT" && rm -rf "$tmp"
    IN_NAMESPACE=1 exec unshare -rm bash "$ROOT/tests/faults/disk.sh"
fi
mkdir disk && mount -t tmpfs -o size=16m none disk
check "a small disk" mountpoint -q disk
trap 'cd /; umount -l "$tmp/disk" 2>/dev/null; leave' EXIT
db=disk/lab.db
export TMPDIR=$tmp/own; mkdir own
fill() { cat /dev/zero >disk/filler 2>/dev/null; }

lab run short.ini --db $db >out 2>err
same "room enough" $? 0
before=$(answer)
fill
lab run long.ini --db $db >out 2>err
same "a full disk at the start" $? 3
matches "is told" "$(cat err)" "*lab run: disk/lab.db: the disk is full*"
rm disk/filler
same "what was done is still there" "$(answer)" "$before"

lab run long.ini --db $db --jobs 2 >out 2>err & lab=$!
wait_for 20 eval '[ "$(ask "SELECT count(*) FROM attempt WHERE status = '"'running'"'" 2>/dev/null)" = 2 ]'
fill
wait $lab; code=$?
check "a disk that fills up meanwhile: exit 3, or 1 for runs that met it" [ $code = 3 -o $code = 1 ]
rm disk/filler
sound "a disk that was full"
lab retry long.ini --db $db >out 2>err; lab run long.ini --db $db >out 2>err
same "with room again it finishes" "$? $(ask "SELECT count(*) FROM runs WHERE state = 'done'")" "0 12"

mkdir closed && chmod 555 closed
lab run short.ini --db closed/lab.db >out 2>err
same "a read-only folder" $? 3
matches "is told" "$(cat err)" "lab run: closed/lab.db: *read-only*"
same "and stays empty" "$(ls -A closed)" ""
cp $db copy.db && chmod 444 copy.db && sum=$(sha256sum copy.db)
lab run short.ini --db copy.db >out 2>err
same "a read-only database" $? 3
same "keeps every byte" "$(sha256sum copy.db)" "$sum"
finish
