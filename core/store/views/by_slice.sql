-- Final accuracy for each slice of the test data (what the task groups its examples by), over seeds; split is test or free.
CREATE VIEW by_slice AS
SELECT r.encoder, r.task,
       coalesce((SELECT max(label) FROM sweep_cell c WHERE c.run_id = r.run_id), '') AS label,
       p.split, p.length, p.slice, p.n, count(*) AS seeds,
       1.0 * sum(p.n_tok_ok) / sum(p.n_tok) AS token_accuracy_mean,
       1.0 * sum(p.n_exact) / sum(p.n) AS sequence_accuracy_mean,
       min(1.0 * p.n_exact / p.n) AS sequence_accuracy_min, max(1.0 * p.n_exact / p.n) AS sequence_accuracy_max,
       r.variant, r.arm, e.data_sha256
FROM run r
JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
JOIN eval e ON e.attempt_id = a.attempt_id AND e.split IN ('test', 'free')
JOIN eval_slice p ON p.attempt_id = e.attempt_id AND p.split = e.split AND p.length = e.length AND p.step = e.step
WHERE e.step = (SELECT max(x.step) FROM eval x WHERE x.attempt_id = a.attempt_id AND x.split = e.split)
GROUP BY r.task, r.encoder, r.arm, p.split, p.length, p.slice, e.data_sha256
ORDER BY r.task, r.encoder, r.arm, p.split, p.length, p.slice, e.data_sha256;
