-- One line a run and split: the mean over the lengths past training that it was evaluated at, each length counting the same, as
-- papers score length generalisation.  split is test, or free: the model continuing alone.
CREATE VIEW past_training AS
SELECT r.encoder, r.task, r.seed,
       coalesce((SELECT max(label) FROM sweep_cell c WHERE c.run_id = r.run_id), '') AS label,
       e.split, r.train_length, count(*) AS lengths, min(e.length) AS shortest, max(e.length) AS longest,
       avg(1.0 * e.n_tok_ok / e.n_tok) AS token_accuracy,
       avg(1.0 * e.n_exact / e.n) AS sequence_accuracy,
       r.variant, r.arm, r.task_key, r.run_key
FROM run r
CROSS JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
CROSS JOIN eval e ON e.attempt_id = a.attempt_id AND e.split IN ('test', 'free') AND e.length > r.train_length
WHERE e.step = a.last_step
GROUP BY r.task, r.encoder, r.arm, r.seed, r.run_key, e.split
ORDER BY r.task, r.encoder, r.arm, r.seed, r.run_key, e.split;
