-- How fast did each run learn?  First step at which 99 % of the tokens were right at the training length; empty: never.
-- As fine as [eval] every allows.
WITH point AS MATERIALIZED (SELECT run_key, name, step, value FROM curves WHERE name GLOB 'token_accuracy@*'),
     learned AS (SELECT p.run_key, min(p.step) FILTER(WHERE p.value >= 0.99) AS step_99, max(p.value) AS best
                 FROM point p JOIN run t ON t.run_key = p.run_key AND p.name = 'token_accuracy@' || t.train_length GROUP BY p.run_key)
SELECT r.task, r.encoder, r.label, r.seed, r.state, t.train_length AS length, l.step_99, round(l.best, 4) AS best, r.steps
FROM runs r JOIN run t ON t.run_key = r.run_key LEFT JOIN learned l ON l.run_key = r.run_key
ORDER BY r.task, step_99 IS NULL, step_99, r.encoder, r.arm, r.seed;
