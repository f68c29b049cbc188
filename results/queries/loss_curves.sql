-- How does the training loss fall?  Mean, lowest and highest over seeds at each logged step (nat/token).
-- Arms by number, and points straight from the table: a sweep of 10,000 runs has a million of them.  A piece is an attempt, or one
-- whose checkpoint it went on from, up to that checkpoint: as in the view curves.
WITH RECURSIVE arm AS MATERIALIZED (
       SELECT r.task, r.encoder, r.arm, coalesce(max(c.label), '') AS label, row_number() OVER (ORDER BY r.task, r.encoder, r.arm) AS number
       FROM run r LEFT JOIN sweep_cell c ON c.run_id = r.run_id GROUP BY r.task, r.encoder, r.arm),
     piece(number, attempt_id, upto) AS (
       SELECT arm.number, a.attempt_id, 9e18
       FROM run r CROSS JOIN arm ON arm.arm = r.arm CROSS JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
       UNION ALL
       SELECT p.number, before.attempt_id, min(p.upto, next.from_step)
       FROM piece p JOIN attempt next ON next.attempt_id = p.attempt_id JOIN attempt before ON before.attempt_uuid = next.parent_uuid),
     point AS MATERIALIZED (
       SELECT p.number, m.step, count(*) AS seeds, avg(m.value) AS mean, min(m.value) AS low, max(m.value) AS high, count(*) - count(m.value) AS not_finite
       FROM piece p CROSS JOIN metric m ON m.attempt_id = p.attempt_id AND m.name = 'loss' AND m.step <= p.upto
       GROUP BY p.number, m.step)
SELECT a.task, a.encoder, a.label, p.step, p.seeds, round(p.mean, 5) AS loss_mean, round(p.low, 5) AS loss_min,
       round(p.high, 5) AS loss_max, p.not_finite
FROM arm a CROSS JOIN point p ON p.number = a.number
ORDER BY a.number, p.step;
