#!/bin/sh
# scale.sh [RUNS [DATABASE]] -- a plan of 10,000 runs and a made-up database of RUNS (100,000) with 100 points of a curve each:
# how long do the commands, the views and the saved queries take?  results/bench.md says what is above a second, and why.
#
# From the top of the source tree, after `make`.  The database takes a minute or two and about a gigabyte; a DATABASE that
# is named is kept, and used again when it is there.  EXPLAIN=1 prints how SQLite finds the rows.
set -eu
runs=${1:-100000}
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
db=${2:-$tmp/scale.db}

cat >"$tmp/plan.ini" <<INI
[experiment]
name = plan
[sweep]
encoder = none, sinusoidal, learned, t5, rope
task = reverse, shift
train.warmup = 0..9
seed = 0..99
[eval]
lengths = 8, 16
INI

make_database() {                    # 10 encoders, 10 tasks, 10 seeds; the rest are values of one more axis
    printf '[experiment]\nname = seedling\n[sweep]\nencoder = none\ntask = reverse\nseed = 0\n[train]\nsteps = 1\n[eval]\nlengths = 8\nsequences = 1\nevery = 0\n' >"$tmp/seedling.ini"
    ./lab run "$tmp/seedling.ini" --db "$db" >/dev/null 2>&1
    sqlite3 "$db" >/dev/null <<SQL
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; PRAGMA cache_size = -400000;
BEGIN;
CREATE TEMP TABLE model AS SELECT config, env_id, host, boot_id FROM run JOIN attempt USING(run_id) LIMIT 1;
DELETE FROM sweep_cell; DELETE FROM sweep; DELETE FROM metric; DELETE FROM eval; DELETE FROM eval_position; DELETE FROM untrained;
DELETE FROM artifact; DELETE FROM attempt; DELETE FROM run;
CREATE TEMP TABLE n(i INTEGER PRIMARY KEY);
INSERT INTO n WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < $runs - 1) SELECT i FROM c;
CREATE TEMP TABLE made AS SELECT i, i % 10 AS seed, 'encoder' || (i / 10 % 10) AS encoder, 'task' || (i / 100 % 10) AS task, i / 1000 AS cell FROM n;
INSERT INTO run(run_id, run_key, encoder, task, seed, variant, arm, task_key, parameters, chance, train_length, causal, config)
    SELECT i, printf('%08x%056x', i * 2654435761 % 4294967296, i), encoder, task, seed, printf('variant%05d%s', cell, task),
    printf('arm%05d%s%s', cell, task, encoder), 'key' || task, 100000 + i % 7, 0.1, 8, 0, config FROM made, model;
INSERT INTO sweep SELECT DISTINCT i / 10000, printf('%064x', i / 10000), 'sweep' || (i / 10000), '', 'made.ini', '', i / 10000 FROM n;
INSERT INTO sweep_cell SELECT i / 10000, i % 10000, i, 'train.lr=' || cell FROM made;
INSERT INTO attempt(attempt_id, attempt_uuid, run_id, env_id, status, reason, started_us, beat_us, ended_us, active_ns, last_step, result_sha256,
    host, boot_id, pid, pid_start, lock_at, exit_code)
    SELECT i, 'uuid' || i, i, env_id, CASE WHEN i % 97 THEN 'done' ELSE 'failed' END, CASE WHEN i % 97 THEN NULL ELSE 'loss is nan' END,
    i * 1000000, i * 1000000, i * 1000000 + 1000000, 1000000000, 1000, 'x', host, boot_id, 1, 1, 0, 0 FROM n, model;
INSERT INTO metric SELECT n.i, 'loss', 10 * k.i, CASE WHEN n.i % 9973 = 0 AND k.i > 90 THEN NULL ELSE 2.3 / k.i END,
    CASE WHEN n.i % 9973 = 0 AND k.i > 90 THEN 'nan' END FROM n, n k WHERE k.i BETWEEN 1 AND 100;
CREATE TEMP TABLE length AS SELECT 8 AS length UNION ALL VALUES (12), (16), (24), (32);
CREATE TEMP TABLE evaluation AS SELECT 'test' AS split, 1000 AS step, 1000 AS n UNION ALL VALUES ('valid', 500, 500), ('valid', 1000, 500);
INSERT INTO eval(attempt_id, split, length, step, n, n_exact, n_tok, n_tok_ok, loss, seed, data_sha256)
    SELECT i, iif(split = 'valid' AND length > 8, 'longer', split), length, step, n, i % 1000 * n / 1000 * step / 1000, n * length,
    i % 1000 * n / 1000 * length * step / 1000, 1.5, 0, 'data' || length FROM made, length, evaluation;
INSERT INTO eval_position SELECT n.i, 'test', 8, 1000, k.i - 1, 1000, n.i % 1000 FROM n, n k WHERE k.i BETWEEN 1 AND 8;
INSERT INTO ceiling(task_key, task, length, kind, value, error, samples)
    SELECT DISTINCT task_key, task, length, 'order_blind', 0.3, 0.001, 1000 FROM (SELECT task_key, task FROM run GROUP BY task_key), length;
COMMIT;
SQL
}

timed() {                            # WHAT COMMAND...: the clock on the wall, and the processor's, which others do not slow down as much
    what=$1; shift
    bash -c 'TIMEFORMAT="%R %U %S"; time "$@" >"$0" 2>&1' "$tmp/out" "$@" 2>"$tmp/time" || { cat "$tmp/out"; exit 1; }
    awk -v lines="$(wc -l <"$tmp/out")" -v what="$what" '{ printf "%8.2f s  %6.2f s of processor  %8d lines  %s\n", $1, $2 + $3, lines, what }' "$tmp/time"
}
ask() {                              # WHAT SQL
    timed "$1" ./lab query "$2" --db "$db" --csv
    [ -z "${EXPLAIN:-}" ] || sqlite3 -readonly "$db" "EXPLAIN QUERY PLAN $2" | sed 's/^/                                   /'
}

[ -s "$db" ] || make_database
echo "$(sqlite3 -readonly "$db" 'SELECT count(*) FROM run') runs, $(sqlite3 -readonly "$db" 'SELECT count(*) FROM metric') points"
key=$(sqlite3 -readonly "$db" 'SELECT run_key FROM run WHERE run_id = 4711 % (SELECT count(*) FROM run)')
timed 'lab plan, 10,000 new runs'              ./lab plan "$tmp/plan.ini" --db "$db"
timed 'lab status'                             ./lab status --db "$db"
timed 'lab results, a sweep of 10,000 runs'    ./lab results --db "$db"
timed 'lab compare, a sweep of 10,000 runs'    ./lab compare --db "$db" --baseline encoder0
ask 'runs: how many in each state'             'SELECT state, count(*) FROM runs GROUP BY state'
ask 'runs: one'                                "SELECT * FROM runs WHERE run_key = '$key'"
ask 'runs: of one encoder and task'            "SELECT encoder, seed, label, state, train_loss FROM runs WHERE task = 'task3' AND encoder = 'encoder4'"
ask 'runs: the first 20'                       'SELECT * FROM runs LIMIT 20'
ask 'results: of one encoder and task'         "SELECT * FROM results WHERE task = 'task3' AND encoder = 'encoder4'"
ask 'results: of one run'                      "SELECT * FROM results WHERE run_key = '$key'"
ask 'results: of one task, a label'            "SELECT encoder, seed, length, token_accuracy FROM results WHERE task = 'task3' AND label = 'train.lr=7'"
ask 'results: the first 20'                    'SELECT * FROM results LIMIT 20'
ask 'by_length: of one task'                   "SELECT * FROM by_length WHERE task = 'task3' AND encoder = 'encoder4'"
ask 'by_position: of one encoder and task'     "SELECT * FROM by_position WHERE task = 'task3' AND encoder = 'encoder4'"
ask 'curves: of one run'                       "SELECT step, value FROM curves WHERE run_key = '$key' AND name = 'loss'"
ask 'curves: of one encoder and task'          "SELECT seed, step, value FROM curves WHERE task = 'task3' AND encoder = 'encoder4' AND name = 'loss'"
ask 'curves: the first 20'                     'SELECT * FROM curves LIMIT 20'
ask 'failures'                                 'SELECT * FROM failures'
ask 'diverged'                                 'SELECT * FROM diverged'
for query in $(ls results/queries | sed 's/\.sql$//'); do
    timed "lab query @$query" ./lab query "@$query" --db "$db" --csv
done
for view in answer results by_length by_seed by_position runs failures diverged paired curves; do
    timed "lab export --view $view" ./lab export --view $view --db "$db"
done
timed 'lab fsck'                               ./lab fsck --db "$db"
