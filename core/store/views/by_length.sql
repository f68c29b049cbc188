-- Final test accuracy over seeds: one line an arm and length, pooled within one data set.
-- Sample standard deviations come from the counts, so that equal seeds give exactly 0; one seed gives NULL.
-- From the tables rather than from results: SQLite carries a condition on task or encoder through one GROUP BY, not through two views.
CREATE VIEW by_length AS
SELECT r.encoder, r.task,
       coalesce((SELECT max(label) FROM sweep_cell c WHERE c.run_id = r.run_id), '') AS label,
       r.train_length, e.split, e.length, e.n, count(*) AS seeds,
       (SELECT count(*) FROM run s WHERE s.task = r.task AND s.encoder = r.encoder AND s.arm = r.arm) - count(*) AS seeds_missing,
       1.0 * sum(e.n_tok_ok) / sum(e.n_tok) AS token_accuracy_mean,
       sqrt(1.0 * (count(*) * sum(e.n_tok_ok * e.n_tok_ok) - sum(e.n_tok_ok) * sum(e.n_tok_ok)) / (count(*) * (count(*) - 1))) / e.n_tok AS token_accuracy_sd,
       min(1.0 * e.n_tok_ok / e.n_tok) AS token_accuracy_min, max(1.0 * e.n_tok_ok / e.n_tok) AS token_accuracy_max,
       1.0 * sum(e.n_exact) / sum(e.n) AS sequence_accuracy_mean,
       sqrt(1.0 * (count(*) * sum(e.n_exact * e.n_exact) - sum(e.n_exact) * sum(e.n_exact)) / (count(*) * (count(*) - 1))) / e.n AS sequence_accuracy_sd,
       min(1.0 * e.n_exact / e.n) AS sequence_accuracy_min, max(1.0 * e.n_exact / e.n) AS sequence_accuracy_max,
       avg(e.loss) AS loss_mean, sum(e.loss_special IS NOT NULL) AS loss_nonfinite,
       r.chance,
       (SELECT value FROM ceiling c WHERE c.task_key = r.task_key AND c.length = e.length AND c.kind = 'majority') AS majority,
       (SELECT value FROM ceiling c WHERE c.task_key = r.task_key AND c.length = e.length AND c.kind = 'order_blind') AS order_blind_ceiling,
       r.variant, r.arm, r.task_key, e.data_sha256
FROM run r
CROSS JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
CROSS JOIN eval e ON e.attempt_id = a.attempt_id AND e.split = 'test'
WHERE e.step = a.last_step
GROUP BY r.task, r.encoder, r.arm, e.length, e.data_sha256
ORDER BY r.task, r.encoder, r.arm, e.length, e.data_sha256;
