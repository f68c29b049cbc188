-- Training curves of accepted attempts; evaluations during training appear as loss@LENGTH, token_accuracy@LENGTH
-- and sequence_accuracy@LENGTH.  value is NULL where it was not finite, and special says what it was.
-- An attempt that went on from a checkpoint holds only what came after: `earlier` is what it went on from, and so on
-- back, each up to the checkpoint that was used of it.
-- CROSS JOIN keeps the order of the tables, so that the rows come sorted and a dump of everything needs no sorting.
CREATE VIEW curves AS
WITH RECURSIVE earlier(run_id, attempt_id, upto) AS (
  SELECT next.run_id, before.attempt_id, next.from_step
  FROM attempt next INDEXED BY attempt_continued JOIN attempt before ON before.attempt_uuid = next.parent_uuid
  WHERE next.parent_uuid IS NOT NULL AND next.status = 'done'
  UNION ALL
  SELECT e.run_id, before.attempt_id, min(e.upto, next.from_step)
  FROM earlier e JOIN attempt next ON next.attempt_id = e.attempt_id JOIN attempt before ON before.attempt_uuid = next.parent_uuid),
evaluation(attempt_id, step, name, unit, value, special) AS NOT MATERIALIZED (
  SELECT e.attempt_id, e.step, d.name || '@' || e.length, d.unit,
         CASE d.name WHEN 'loss' THEN e.loss
                     WHEN 'token_accuracy' THEN 1.0 * e.n_tok_ok / e.n_tok
                     ELSE 1.0 * e.n_exact / e.n END,
         CASE d.name WHEN 'loss' THEN e.loss_special END
  FROM eval e JOIN metric_def d ON d.name IN ('loss', 'token_accuracy', 'sequence_accuracy')
  WHERE e.split IN ('valid', 'longer'))
SELECT r.encoder, r.task, r.seed, m.name AS name, d.unit, m.step AS step, m.value, m.special, r.variant, r.arm, r.run_key
FROM run r
CROSS JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
CROSS JOIN metric m ON m.attempt_id = a.attempt_id
JOIN metric_def d ON d.name = m.name
UNION ALL
SELECT r.encoder, r.task, r.seed, e.name, e.unit, e.step, e.value, e.special, r.variant, r.arm, r.run_key
FROM run r
CROSS JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
CROSS JOIN evaluation e ON e.attempt_id = a.attempt_id
UNION ALL
SELECT r.encoder, r.task, r.seed, m.name, d.unit, m.step, m.value, m.special, r.variant, r.arm, r.run_key
FROM earlier b
CROSS JOIN run r ON r.run_id = b.run_id
CROSS JOIN metric m ON m.attempt_id = b.attempt_id AND m.step <= b.upto
JOIN metric_def d ON d.name = m.name
UNION ALL
SELECT r.encoder, r.task, r.seed, e.name, e.unit, e.step, e.value, e.special, r.variant, r.arm, r.run_key
FROM earlier b
CROSS JOIN run r ON r.run_id = b.run_id
CROSS JOIN evaluation e ON e.attempt_id = b.attempt_id AND e.step <= b.upto
ORDER BY task, encoder, arm, seed, run_key, name, step;
