-- How does the training loss fall?  Mean, lowest and highest over seeds at each logged step (nat/token).
WITH points AS (SELECT task, encoder, arm, step, count(*) AS seeds, avg(value) AS mean, min(value) AS low, max(value) AS high,
                       sum(special IS NOT NULL) AS not_finite
                FROM curves WHERE name = 'loss' GROUP BY task, encoder, arm, step),
     arms AS (SELECT arm, max(label) AS label FROM runs GROUP BY arm)
SELECT p.task, p.encoder, a.label, p.step, p.seeds, round(p.mean, 5) AS loss_mean, round(p.low, 5) AS loss_min,
       round(p.high, 5) AS loss_max, p.not_finite
FROM points p JOIN arms a ON a.arm = p.arm
ORDER BY p.task, p.encoder, p.arm, p.step;
