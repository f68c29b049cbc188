-- Runs that cannot be: done without positions and without a mask, but above the order-blind ceiling by more than sampling explains
-- (0.02 and three standard errors, of the tokens that were scored and of the ceiling).  The order of tokens got in somewhere else.
CREATE VIEW leaks AS
SELECT r.encoder, r.task, r.seed,
       coalesce((SELECT max(label) FROM sweep_cell s WHERE s.run_id = r.run_id), '') AS label,
       e.length, 1.0 * e.n_tok_ok / e.n_tok AS token_accuracy, c.value AS order_blind_ceiling,
       0.02 + 3 * sqrt(c.value * (1 - c.value) / e.n_tok + c.error * c.error) AS margin,
       r.variant, r.arm, r.task_key, r.run_key
FROM run r
JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
JOIN eval e ON e.attempt_id = a.attempt_id AND e.split = 'test' AND e.step = a.last_step
JOIN ceiling c ON c.task_key = r.task_key AND c.length = e.length AND c.kind = 'order_blind'
WHERE r.encoder = 'none' AND r.causal IS NOT 1
  AND 1.0 * e.n_tok_ok / e.n_tok > c.value + 0.02 + 3 * sqrt(c.value * (1 - c.value) / e.n_tok + c.error * c.error)
ORDER BY r.task, r.encoder, r.arm, r.seed, r.run_key, e.length;
