-- lab results database, schema 1.  SQLite 3.37 or later (STRICT).
-- Tables hold what was measured, each thing once; the views (views/*.sql) are what people and scripts read.
-- No JSON functions here: SQLite 3.40 refuses them in the schema of a database that is not trusted.
-- Times are UTC microseconds since the epoch, durations monotonic nanoseconds, losses nat/token.
PRAGMA application_id = 0x4C414231;      -- 'LAB1'
PRAGMA user_version = 1;

CREATE TABLE meta(                       -- db_uuid, created_us, lab_version
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE sweep(                      -- an experiment file as it was read
  sweep_id   INTEGER PRIMARY KEY,
  ini_sha256 TEXT NOT NULL UNIQUE CHECK(length(ini_sha256) = 64),   -- of the bytes and the overrides
  name       TEXT NOT NULL,
  question   TEXT NOT NULL,
  ini_path   TEXT NOT NULL,
  ini_text   TEXT NOT NULL,              -- the exact bytes
  created_us INTEGER NOT NULL) STRICT;

CREATE TABLE run(                        -- what is trained: identity only, never status
  run_id     INTEGER PRIMARY KEY,        -- local to this file
  run_key    TEXT NOT NULL UNIQUE CHECK(length(run_key) = 64 AND run_key NOT GLOB '*[^0-9a-f]*'),
  encoder    TEXT NOT NULL,
  task       TEXT NOT NULL,
  seed       INTEGER NOT NULL,
  variant    TEXT NOT NULL,              -- hash of everything but encoder, task and seed: pairs runs
  arm        TEXT NOT NULL,              -- hash of everything but the seed: runs that may be pooled
  task_key   TEXT NOT NULL,              -- hash of the task, its version and options
  parameters INTEGER NOT NULL CHECK(parameters >= 0),               -- trained scalars
  chance     REAL CHECK(chance BETWEEN 0 AND 1),                    -- token accuracy of guessing; NULL: not known
  train_length INTEGER,                  -- the longest in training; NULL: not known
  causal     INTEGER CHECK(causal IN (0, 1)),                       -- NULL: not known
  selection  TEXT NOT NULL DEFAULT 'last' CHECK(selection IN ('last', 'best_valid', 'best_longer')),   -- what chose the weights that are tested
  config     TEXT NOT NULL) STRICT;      -- canonical JSON
CREATE UNIQUE INDEX run_order ON run(task, encoder, arm, seed, run_key);   -- the order in which views list runs
CREATE INDEX run_variant ON run(variant, task, seed);                      -- finds the partners of a run

CREATE TABLE sweep_cell(                 -- the plan: which runs an experiment asks for, in order
  sweep_id INTEGER NOT NULL REFERENCES sweep ON DELETE CASCADE,
  ordinal  INTEGER NOT NULL,
  run_id   INTEGER NOT NULL REFERENCES run,
  label    TEXT NOT NULL,                -- values of the axes other than encoder, task, seed
  PRIMARY KEY(sweep_id, ordinal), UNIQUE(sweep_id, run_id)) STRICT, WITHOUT ROWID;
CREATE INDEX sweep_cell_run ON sweep_cell(run_id, label);

CREATE TABLE env(                        -- provenance, each kind once: versions, compiler, CPU, plugins
  env_id     INTEGER PRIMARY KEY,
  env_sha256 TEXT NOT NULL UNIQUE,
  json       TEXT NOT NULL) STRICT;

CREATE TABLE attempt(                    -- one try at a run
  attempt_id    INTEGER PRIMARY KEY,
  attempt_uuid  TEXT NOT NULL UNIQUE,
  run_id        INTEGER NOT NULL REFERENCES run,
  env_id        INTEGER NOT NULL REFERENCES env,
  status        TEXT NOT NULL CHECK(status IN ('running', 'done', 'failed', 'interrupted', 'timeout', 'lost', 'superseded')),
  reason        TEXT,                    -- why it is not done, or what else is to be known
  started_us    INTEGER NOT NULL,
  beat_us       INTEGER NOT NULL,        -- when it was last heard of
  left_s        REAL,                    -- while it runs: seconds from beat_us on that its supervisor expects to need for its whole sweep
  ended_us      INTEGER,
  active_ns     INTEGER,
  parent_uuid   TEXT,                    -- attempt whose checkpoint it went on from
  from_step     INTEGER NOT NULL DEFAULT 0,                           -- step of that checkpoint; it tells only what comes after
  saved_step    INTEGER,                 -- of its last checkpoint of which everything told before is here
  told          INTEGER NOT NULL DEFAULT 0,                            -- records that were entered while it ran: what was kept elsewhere joins on to them
  last_step     INTEGER,                 -- reached; of a done attempt the last of training, where its final evaluations stand
  selected_step INTEGER,                 -- whose weights were kept and tested; NULL: the last
  result_sha256 TEXT,                    -- of all that was measured: equal for equal runs
  host TEXT NOT NULL, boot_id TEXT NOT NULL, pid INTEGER NOT NULL,
  pid_start     INTEGER NOT NULL,        -- clock ticks after boot: a process id alone is used again
  lock_at       INTEGER NOT NULL,        -- byte of the file DATABASE-lock that the process holds as long as it lives; 0: none
  slurm_job TEXT, slurm_array TEXT, slurm_task INTEGER, slurm_restart INTEGER,
  exit_code     INTEGER,
  term_signal   INTEGER,
  CHECK((status = 'running') = (ended_us IS NULL)),
  CHECK(ended_us >= started_us)) STRICT;
CREATE UNIQUE INDEX attempt_one_running ON attempt(run_id) WHERE status = 'running';
CREATE UNIQUE INDEX attempt_one_done    ON attempt(run_id) WHERE status = 'done';
CREATE INDEX attempt_run ON attempt(run_id, started_us);
CREATE INDEX attempt_continued ON attempt(run_id) WHERE parent_uuid IS NOT NULL;

CREATE TABLE metric_def(                 -- no number is stored without a unit and a direction
  name   TEXT PRIMARY KEY,
  unit   TEXT NOT NULL,
  better TEXT NOT NULL CHECK(better IN ('lower', 'higher', 'neither')),
  doc    TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO metric_def VALUES
  ('loss',              'nat/token', 'lower',   'cross-entropy over scored positions; in training the mean over the steps since the last point'),
  ('token_accuracy',    '1',         'higher',  'share of scored tokens that are right'),
  ('sequence_accuracy', '1',         'higher',  'share of sequences in which every scored token is right'),
  ('grad_norm',         '1',         'neither', 'Euclidean norm of the whole gradient before clipping'),
  ('lr',                '1',         'neither', 'learning rate of the step');

CREATE TABLE metric(                     -- curves of training
  attempt_id INTEGER NOT NULL REFERENCES attempt ON DELETE CASCADE,
  name       TEXT NOT NULL REFERENCES metric_def,
  step       INTEGER NOT NULL,
  value      REAL,                       -- finite, or NULL and the reason in special
  special    TEXT CHECK(special IN ('nan', 'inf', '-inf')),
  PRIMARY KEY(attempt_id, name, step),
  CHECK((value IS NULL) = (special IS NOT NULL)),
  CHECK(abs(value) <= 1.7976931348623157e308)) STRICT, WITHOUT ROWID;
CREATE INDEX metric_special ON metric(attempt_id, name, step) WHERE special IS NOT NULL;

CREATE TABLE eval(                       -- exact counts; the views compute the rates
  attempt_id   INTEGER NOT NULL REFERENCES attempt ON DELETE CASCADE,
  split        TEXT NOT NULL CHECK(split IN ('valid', 'longer', 'test', 'free')),   -- valid, longer: during training, at lengths up to
                                         -- the longest trained and past it; test: at the end; free: there, the model continuing alone
  length       INTEGER NOT NULL CHECK(length > 0),
  step         INTEGER NOT NULL,
  n            INTEGER NOT NULL CHECK(n > 0),                         -- sequences
  n_exact      INTEGER NOT NULL CHECK(n_exact BETWEEN 0 AND n),       -- of these, right as a whole
  n_tok        INTEGER NOT NULL CHECK(n_tok > 0),                     -- scored tokens
  n_tok_ok     INTEGER NOT NULL CHECK(n_tok_ok BETWEEN 0 AND n_tok),
  loss         REAL,
  loss_special TEXT CHECK(loss_special IN ('nan', 'inf', '-inf')),
  seed         INTEGER NOT NULL,         -- eval.seed, of the evaluation data
  data_sha256  TEXT NOT NULL,            -- of the evaluation data: the same, or no comparison
  PRIMARY KEY(attempt_id, split, length, step),
  CHECK((loss IS NULL) = (loss_special IS NOT NULL)),
  CHECK(abs(loss) <= 1.7976931348623157e308)) STRICT, WITHOUT ROWID;
CREATE INDEX eval_special ON eval(attempt_id, split, length, step) WHERE loss_special IS NOT NULL;

CREATE TABLE eval_position(              -- the same by output position
  attempt_id INTEGER NOT NULL REFERENCES attempt ON DELETE CASCADE,
  split      TEXT NOT NULL CHECK(split IN ('valid', 'test')),
  length     INTEGER NOT NULL CHECK(length > 0),
  step       INTEGER NOT NULL,
  position   INTEGER NOT NULL CHECK(position >= 0),                   -- from 0
  n          INTEGER NOT NULL CHECK(n > 0),                           -- scored tokens there
  n_ok       INTEGER NOT NULL CHECK(n_ok BETWEEN 0 AND n),
  PRIMARY KEY(attempt_id, split, length, step, position)) STRICT, WITHOUT ROWID;

CREATE TABLE eval_slice(                 -- the same by slice: what the task groups its examples by
  attempt_id INTEGER NOT NULL REFERENCES attempt ON DELETE CASCADE,
  split      TEXT NOT NULL CHECK(split IN ('valid', 'test', 'free')),
  length     INTEGER NOT NULL CHECK(length > 0),
  step       INTEGER NOT NULL,
  slice      INTEGER NOT NULL CHECK(slice >= 0),
  n          INTEGER NOT NULL CHECK(n > 0),                           -- sequences
  n_exact    INTEGER NOT NULL CHECK(n_exact BETWEEN 0 AND n),
  n_tok      INTEGER NOT NULL CHECK(n_tok > 0),
  n_tok_ok   INTEGER NOT NULL CHECK(n_tok_ok BETWEEN 0 AND n_tok),
  PRIMARY KEY(attempt_id, split, length, step, slice)) STRICT, WITHOUT ROWID;

CREATE TRIGGER eval_replaced AFTER DELETE ON eval BEGIN              -- what was measured on other data goes with it
  DELETE FROM eval_position WHERE attempt_id = old.attempt_id AND split = old.split AND length = old.length AND step = old.step;
  DELETE FROM eval_slice WHERE attempt_id = old.attempt_id AND split = old.split AND length = old.length AND step = old.step;
END;

CREATE TABLE untrained(                  -- rows of an encoder's parameter that no gradient ever reached
  attempt_id INTEGER NOT NULL REFERENCES attempt ON DELETE CASCADE,
  parameter  TEXT NOT NULL,
  first_row  INTEGER NOT NULL CHECK(first_row >= 0),
  rows       INTEGER NOT NULL CHECK(rows > 0),                        -- in this range
  of_rows    INTEGER NOT NULL CHECK(of_rows >= first_row + rows),     -- of the whole parameter
  PRIMARY KEY(attempt_id, parameter, first_row)) STRICT, WITHOUT ROWID;

CREATE TABLE ceiling(                    -- the token accuracy that is possible without looking
  task_key TEXT NOT NULL,
  task     TEXT NOT NULL,
  length   INTEGER NOT NULL CHECK(length > 0),
  kind     TEXT NOT NULL CHECK(kind IN ('order_blind', 'majority')),  -- best without positions; best without reading the input
  value    REAL NOT NULL,
  error    REAL NOT NULL,                -- standard error of value
  samples  INTEGER NOT NULL CHECK(samples > 0),                       -- multisets or examples drawn
  PRIMARY KEY(task_key, length, kind)) STRICT, WITHOUT ROWID;

CREATE TABLE artifact(                   -- files that an attempt wrote
  attempt_id INTEGER NOT NULL REFERENCES attempt ON DELETE CASCADE,
  path   TEXT NOT NULL,
  kind   TEXT NOT NULL,
  bytes  INTEGER NOT NULL CHECK(bytes >= 0),
  sha256 TEXT NOT NULL,
  PRIMARY KEY(attempt_id, path)) STRICT, WITHOUT ROWID;

CREATE TABLE merge_log(                  -- other databases whose attempts were taken over
  shard_uuid TEXT NOT NULL, shard_sha256 TEXT NOT NULL, path TEXT NOT NULL, merged_us INTEGER NOT NULL,
  attempts_added INTEGER NOT NULL, conflicts INTEGER NOT NULL,
  PRIMARY KEY(shard_uuid, shard_sha256)) STRICT, WITHOUT ROWID;
