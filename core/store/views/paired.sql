-- Two arms at equal task, settings, seed, length and evaluation data: equal seeds had equal data and equal initial
-- weights, so their difference is the encoder's.  Each pair stands here twice, once each way round.
CREATE VIEW paired AS
SELECT x.task, x.encoder AS baseline, a.label AS baseline_label, y.encoder, b.label, x.seed, b.train_length, b.length,
       a.token_accuracy AS baseline_token_accuracy, b.token_accuracy,
       b.token_accuracy - a.token_accuracy AS token_accuracy_gain,
       b.sequence_accuracy - a.sequence_accuracy AS sequence_accuracy_gain,
       b.loss - a.loss AS loss_rise,
       x.variant, x.arm AS baseline_arm, y.arm, x.run_key AS baseline_run_key, y.run_key, b.data_sha256
FROM run x
JOIN run y ON y.variant = x.variant AND y.task = x.task AND y.seed = x.seed AND y.arm <> x.arm
JOIN results a ON a.run_key = x.run_key
JOIN results b ON b.run_key = y.run_key AND b.length = a.length AND b.data_sha256 = a.data_sha256
ORDER BY x.task, x.encoder, x.arm, y.encoder, y.arm, x.seed, b.length;
