-- How fast did each run learn?  First step at which 99 % of the tokens were right at the training length; empty: never.
-- As fine as [eval] every allows.
SELECT r.task, r.encoder, r.label, r.seed, r.state, t.train_length AS length,
       (SELECT min(c.step) FROM curves c WHERE c.run_key = r.run_key AND c.name = 'token_accuracy@' || t.train_length AND c.value >= 0.99) AS step_99,
       (SELECT round(max(c.value), 4) FROM curves c WHERE c.run_key = r.run_key AND c.name = 'token_accuracy@' || t.train_length) AS best,
       r.steps
FROM runs r JOIN run t ON t.run_key = r.run_key
ORDER BY r.task, step_99 IS NULL, step_99, r.encoder, r.arm, r.seed;
