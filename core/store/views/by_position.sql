-- Final test accuracy at each output position (from 0), over seeds; pooled as in by_length.
CREATE VIEW by_position AS
SELECT r.encoder, r.task,
       coalesce((SELECT max(label) FROM sweep_cell c WHERE c.run_id = r.run_id), '') AS label,
       p.split, p.length, p.position, p.n, count(*) AS seeds,
       1.0 * sum(p.n_ok) / sum(p.n) AS token_accuracy_mean,
       min(1.0 * p.n_ok / p.n) AS token_accuracy_min, max(1.0 * p.n_ok / p.n) AS token_accuracy_max,
       r.variant, r.arm, e.data_sha256
FROM run r
CROSS JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
CROSS JOIN eval e ON e.attempt_id = a.attempt_id AND e.split = 'test'
CROSS JOIN eval_position p ON p.attempt_id = e.attempt_id AND p.split = e.split AND p.length = e.length AND p.step = e.step
WHERE e.step = a.last_step
GROUP BY r.task, r.encoder, r.arm, p.length, p.position, e.data_sha256
ORDER BY r.task, r.encoder, r.arm, p.length, p.position, e.data_sha256;
