-- past_training for each slice of the data (what the task groups its examples by): the mean over the lengths at which it occurs.
CREATE VIEW past_training_by_slice AS
SELECT r.encoder, r.task, r.seed,
       coalesce((SELECT max(label) FROM sweep_cell c WHERE c.run_id = r.run_id), '') AS label,
       p.split, r.train_length, p.slice, count(*) AS lengths, min(p.length) AS shortest, max(p.length) AS longest,
       avg(1.0 * p.n_tok_ok / p.n_tok) AS token_accuracy,
       avg(1.0 * p.n_exact / p.n) AS sequence_accuracy,
       r.variant, r.arm, r.task_key, r.run_key
FROM run r
CROSS JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
CROSS JOIN eval_slice p ON p.attempt_id = a.attempt_id AND p.split IN ('test', 'free') AND p.length > r.train_length
WHERE p.step = a.last_step
GROUP BY r.task, r.encoder, r.arm, r.seed, r.run_key, p.split, p.slice
ORDER BY r.task, r.encoder, r.arm, r.seed, r.run_key, p.split, p.slice;
