-- How much does more training help?  Accuracy at each evaluated length halfway through and at the last evaluation.
WITH point AS (SELECT task, encoder, arm, seed, run_key, name, step, value, max(step) OVER (PARTITION BY run_key, name) AS last
               FROM curves WHERE name GLOB 'token_accuracy@*'),
     half AS (SELECT run_key, name, max(step) AS step FROM point WHERE step <= last / 2 GROUP BY run_key, name)
SELECT e.task, e.encoder, max(r.label) AS label, CAST(substr(e.name, 16) AS INTEGER) AS length,
       CAST(substr(e.name, 16) AS INTEGER) > max(t.train_length) AS past_training, count(*) AS seeds,
       max(h.step) AS step_halfway, round(avg(m.value), 4) AS accuracy_halfway, max(e.step) AS step_last,
       round(avg(e.value), 4) AS accuracy_last, round(avg(e.value - m.value), 4) AS gain, round(min(e.value - m.value), 4) AS gain_min,
       round(max(e.value - m.value), 4) AS gain_max
FROM point e
JOIN half h ON h.run_key = e.run_key AND h.name = e.name
JOIN point m ON m.run_key = e.run_key AND m.name = e.name AND m.step = h.step
JOIN run t ON t.run_key = e.run_key
JOIN runs r ON r.run_key = e.run_key
WHERE e.step = e.last
GROUP BY e.task, e.encoder, e.arm, e.name
ORDER BY e.task, e.encoder, e.arm, length;
