#!/bin/sh
# merge.sh [SHARDS [RUNS [FOLDER]]] -- how long does `lab merge` take for SHARDS (1000) databases of RUNS (100) runs each?
#
# From the top of the source tree, after `make`.  Each run holds what a run of experiments/extrapolate.ini holds: 200 points of
# the loss, 45 evaluations, 92 rows by position.  The shards take two gigabytes and as much again merged; a FOLDER that is named
# is kept, and its shards used again.  Wants a quiet machine: what counts is below 60 s.
set -eu
shards=${1:-1000} runs=${2:-100}
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
folder=${3:-$tmp/shards}
lab=$(pwd)/lab

# The rows of a run are the real ones; only its model is small.
make_template() {
    "$lab" run experiments/extrapolate.ini --set sweep.encoder=learned --set sweep.task=reverse --set sweep.seed=0 --set train.batch=1 \
        --set model.d_model=8 --set model.d_ff=8 --set eval.every_sequences=2 --set eval.sequences=2 --db "$tmp/one.db" --quiet >/dev/null
    sqlite3 "$tmp/one.db" "VACUUM INTO '$tmp/template.db'"
    for table in $(sqlite3 "$tmp/template.db" "SELECT t.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c ON c.name = 'attempt_id' WHERE t.type = 'table' AND t.name <> 'attempt'"); do
        columns=$(sqlite3 "$tmp/template.db" "SELECT group_concat('t.' || name) FROM pragma_table_info('$table') WHERE name <> 'attempt_id'")
        echo "INSERT INTO $table SELECT i.n, $columns FROM i CROSS JOIN $table t WHERE t.attempt_id = 1;"
    done >"$tmp/rows.sql"
    columns() { sqlite3 "$tmp/template.db" "SELECT group_concat(CASE name $2 ELSE 't.' || name END) FROM pragma_table_info('$1')"; }
    cat >"$tmp/grow.sql" <<SQL
CREATE TEMP TABLE i AS WITH RECURSIVE i(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM i WHERE n < $runs) SELECT n FROM i;
INSERT INTO run SELECT $(columns run "WHEN 'run_id' THEN 'i.n' WHEN 'seed' THEN 'i.n - 1' WHEN 'run_key' THEN 'lower(hex(randomblob(32)))'") FROM i CROSS JOIN run t WHERE t.run_id = 1;
INSERT INTO attempt SELECT $(columns attempt "WHEN 'attempt_id' THEN 'i.n' WHEN 'run_id' THEN 'i.n' WHEN 'attempt_uuid' THEN 'lower(hex(randomblob(16)))'") FROM i CROSS JOIN attempt t WHERE t.attempt_id = 1;
INSERT INTO sweep_cell SELECT $(columns sweep_cell "WHEN 'ordinal' THEN 'i.n - 1' WHEN 'run_id' THEN 'i.n'") FROM i CROSS JOIN sweep_cell t WHERE t.run_id = 1;
SQL
    sqlite3 "$tmp/template.db" "BEGIN; $(cat "$tmp/grow.sql" "$tmp/rows.sql") COMMIT"
}

if [ ! -d "$folder" ]; then
    mkdir -p "$folder"
    make_template
    for k in $(seq 0 $((shards - 1))); do
        cp "$tmp/template.db" "$folder/$k.db"
        echo ".open $folder/$k.db"
        echo "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN; UPDATE meta SET value = lower(hex(randomblob(16))) WHERE key = 'db_uuid';"
        echo "UPDATE run SET run_key = lower(hex(randomblob(32))), seed = -seed - $k * $runs;"
        echo "UPDATE attempt SET attempt_uuid = lower(hex(randomblob(16))); UPDATE sweep_cell SET ordinal = ordinal + $k * $runs; COMMIT;"
    done >"$tmp/shards.sql"
    sqlite3 "$tmp/one.db" <"$tmp/shards.sql" >/dev/null
fi
echo "$(ls "$folder" | wc -l) shards, $(du -sm "$folder" | cut -f1) MB"
merge() { /usr/bin/env time -f "$1: %e s (%U user, %S system, %M kB)" "$lab" merge "$tmp/out.db" "$folder"/*.db; }
merge "merged"
merge "again "
sqlite3 "$tmp/out.db" "SELECT (SELECT count(*) FROM run) || ' runs, ' || ((SELECT count(*) FROM metric) + (SELECT count(*) FROM eval) + (SELECT count(*) FROM eval_position)) || ' rows measured'"; du -m "$tmp/out.db"
