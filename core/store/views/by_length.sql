-- Final test accuracy over seeds: one line an arm and length, pooled within one data set.
-- Sample standard deviations come from the counts, so that equal seeds give exactly 0; one seed gives NULL.
CREATE VIEW by_length AS
SELECT encoder, task, label, train_length, split, length, n, count(*) AS seeds,
       (SELECT count(*) FROM run r WHERE r.task = e.task AND r.encoder = e.encoder AND r.arm = e.arm) - count(*) AS seeds_missing,
       1.0 * sum(n_tok_ok) / sum(n_tok) AS token_accuracy_mean,
       sqrt(1.0 * (count(*) * sum(n_tok_ok * n_tok_ok) - sum(n_tok_ok) * sum(n_tok_ok)) / (count(*) * (count(*) - 1))) / n_tok AS token_accuracy_sd,
       min(token_accuracy) AS token_accuracy_min, max(token_accuracy) AS token_accuracy_max,
       1.0 * sum(n_exact) / sum(n) AS sequence_accuracy_mean,
       sqrt(1.0 * (count(*) * sum(n_exact * n_exact) - sum(n_exact) * sum(n_exact)) / (count(*) * (count(*) - 1))) / n AS sequence_accuracy_sd,
       min(sequence_accuracy) AS sequence_accuracy_min, max(sequence_accuracy) AS sequence_accuracy_max,
       avg(loss) AS loss_mean, sum(loss_special IS NOT NULL) AS loss_nonfinite,
       chance,
       (SELECT value FROM ceiling c WHERE c.task_key = e.task_key AND c.length = e.length) AS order_blind_ceiling,
       variant, arm, task_key, data_sha256
FROM results e
GROUP BY task, encoder, arm, length, data_sha256
ORDER BY task, encoder, arm, length, data_sha256;
