-- Which learned positions or T5 buckets did training never reach?  Ranges of rows that no gradient ever touched.
SELECT r.task, r.encoder, r.seed, u.parameter, u.first_row, u.first_row + u.rows - 1 AS last_row, u.rows, u.of_rows,
       round(100.0 * u.rows / u.of_rows, 1) AS percent
FROM untrained u
JOIN attempt a ON a.attempt_id = u.attempt_id AND a.status = 'done'
JOIN run r ON r.run_id = a.run_id
ORDER BY r.task, r.encoder, r.arm, r.seed, u.parameter, u.first_row;
