-- Where a number stopped being finite: the first step of each curve and evaluation, in any attempt.
-- avg() passes over NULL in silence, so look here before trusting a mean.
CREATE VIEW diverged AS
SELECT r.encoder, r.task, r.seed, x.name, min(x.step) AS first_step, x.special, count(*) AS points, a.status AS attempt_status,
       r.variant, r.arm, r.run_key
FROM (SELECT attempt_id, name, step, special FROM metric WHERE special IS NOT NULL
      UNION ALL
      SELECT attempt_id, 'loss@' || length, step, loss_special FROM eval WHERE loss_special IS NOT NULL) x
JOIN attempt a ON a.attempt_id = x.attempt_id
JOIN run r ON r.run_id = a.run_id
GROUP BY r.task, r.encoder, r.arm, r.seed, r.run_key, a.started_us, a.attempt_id, x.name
ORDER BY r.task, r.encoder, r.arm, r.seed, r.run_key, a.started_us, a.attempt_id, x.name;
