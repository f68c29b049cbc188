-- One line a run and length: what a causal model reaches that continues the prompt alone, its own tokens before it.
-- On the first sequences of the same data as in results, which is teacher-forced.
CREATE VIEW free_running AS
SELECT r.encoder, r.task, r.seed,
       coalesce((SELECT max(label) FROM sweep_cell c WHERE c.run_id = r.run_id), '') AS label,
       e.length, e.n, e.n_exact, e.n_tok, e.n_tok_ok,
       1.0 * e.n_tok_ok / e.n_tok AS token_accuracy,
       1.0 * e.n_exact / e.n AS sequence_accuracy,
       r.train_length, r.variant, r.arm, r.task_key, r.run_key, e.data_sha256
FROM run r
JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
JOIN eval e ON e.attempt_id = a.attempt_id AND e.split = 'free'
WHERE e.step = (SELECT max(x.step) FROM eval x WHERE x.attempt_id = a.attempt_id AND x.split = 'free')
ORDER BY r.task, r.encoder, r.arm, r.seed, r.run_key, e.length;
