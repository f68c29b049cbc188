-- How much does more training help?  Accuracy at each evaluated length halfway through and at the last evaluation.
WITH point AS MATERIALIZED (SELECT run_key, name, step, value, max(step) OVER (PARTITION BY run_key, name) AS last
                            FROM curves WHERE name GLOB 'token_accuracy@*'),
     half AS MATERIALIZED (SELECT run_key, name, max(step) AS step, value FROM point WHERE step <= last / 2 GROUP BY run_key, name),  -- value: at that step
     pair AS MATERIALIZED (SELECT run_key, CAST(substr(e.name, 16) AS INTEGER) AS length, h.step AS half_step, h.value AS half, e.step, e.value
              FROM point e JOIN half h USING(run_key, name) WHERE e.step = e.last)
SELECT r.task, r.encoder, max(r.label) AS label, p.length, p.length > max(t.train_length) AS past_training, count(*) AS seeds,
       max(p.half_step) AS step_halfway, round(avg(p.half), 4) AS accuracy_halfway, max(p.step) AS step_last,
       round(avg(p.value), 4) AS accuracy_last, round(avg(p.value - p.half), 4) AS gain, round(min(p.value - p.half), 4) AS gain_min,
       round(max(p.value - p.half), 4) AS gain_max
FROM runs r JOIN run t ON t.run_key = r.run_key JOIN pair p ON p.run_key = r.run_key
GROUP BY r.task, r.encoder, r.arm, p.length
ORDER BY r.task, r.encoder, r.arm, p.length;
