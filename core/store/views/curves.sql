-- Training curves of accepted attempts; evaluations during training appear as loss@LENGTH, token_accuracy@LENGTH
-- and sequence_accuracy@LENGTH.  value is NULL where it was not finite, and special says what it was.
-- CROSS JOIN keeps the order of the tables, so that the rows come sorted and a dump of everything needs no sorting.
CREATE VIEW curves AS
SELECT r.encoder, r.task, r.seed, m.name AS name, d.unit, m.step AS step, m.value, m.special, r.variant, r.arm, r.run_key
FROM run r
CROSS JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
CROSS JOIN metric m ON m.attempt_id = a.attempt_id
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
ORDER BY task, encoder, arm, seed, run_key, name, step;
