-- Training curves of accepted attempts; evaluations during training appear as loss@LENGTH, token_accuracy@LENGTH
-- and sequence_accuracy@LENGTH.  value is NULL where it was not finite, and special says what it was.
-- An attempt that went on from a checkpoint holds only what came after; `before` is what it went on from, and so on
-- back, each up to the checkpoint that was used of it.
-- CROSS JOIN keeps the order of the tables, so that the rows come sorted and a dump of everything needs no sorting.
CREATE VIEW curves AS
WITH RECURSIVE before(run_id, attempt_id, upto) AS (
  SELECT a.run_id, p.attempt_id, a.from_step FROM attempt a JOIN attempt p ON p.attempt_uuid = a.parent_uuid
  WHERE a.status = 'done' AND a.parent_uuid IS NOT NULL
  UNION ALL
  SELECT c.run_id, p.attempt_id, min(c.upto, a.from_step)
  FROM before c JOIN attempt a ON a.attempt_id = c.attempt_id JOIN attempt p ON p.attempt_uuid = a.parent_uuid)
SELECT r.encoder, r.task, r.seed, m.name AS name, d.unit, m.step AS step, m.value, m.special, r.variant, r.arm, r.run_key
FROM run r
CROSS JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
CROSS JOIN metric m ON m.attempt_id = a.attempt_id
JOIN metric_def d ON d.name = m.name
UNION ALL
SELECT r.encoder, r.task, r.seed, m.name, d.unit, m.step, m.value, m.special, r.variant, r.arm, r.run_key
FROM before b
CROSS JOIN run r ON r.run_id = b.run_id
CROSS JOIN metric m ON m.attempt_id = b.attempt_id AND m.step <= b.upto
JOIN metric_def d ON d.name = m.name
UNION ALL
SELECT r.encoder, r.task, r.seed, d.name || '@' || e.length, d.unit, e.step,
       CASE d.name WHEN 'loss' THEN e.loss
                   WHEN 'token_accuracy' THEN 1.0 * e.n_tok_ok / e.n_tok
                   ELSE 1.0 * e.n_exact / e.n END,
       CASE d.name WHEN 'loss' THEN e.loss_special END,
       r.variant, r.arm, r.run_key
FROM run r
CROSS JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
CROSS JOIN eval e ON e.attempt_id = a.attempt_id AND e.split = 'valid'
JOIN metric_def d ON d.name IN ('loss', 'token_accuracy', 'sequence_accuracy')
UNION ALL
SELECT r.encoder, r.task, r.seed, d.name || '@' || e.length, d.unit, e.step,
       CASE d.name WHEN 'loss' THEN e.loss
                   WHEN 'token_accuracy' THEN 1.0 * e.n_tok_ok / e.n_tok
                   ELSE 1.0 * e.n_exact / e.n END,
       CASE d.name WHEN 'loss' THEN e.loss_special END,
       r.variant, r.arm, r.run_key
FROM before b
CROSS JOIN run r ON r.run_id = b.run_id
CROSS JOIN eval e ON e.attempt_id = b.attempt_id AND e.split = 'valid' AND e.step <= b.upto
JOIN metric_def d ON d.name IN ('loss', 'token_accuracy', 'sequence_accuracy')
ORDER BY task, encoder, arm, seed, run_key, name, step;
