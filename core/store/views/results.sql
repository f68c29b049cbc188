-- One line a run and evaluation length: final test evaluations of accepted attempts alone.
-- Nothing in it depends on when, where or beside what a run was computed.
-- CROSS JOIN keeps the order of the tables, so that the rows come sorted and the first ones at once.
CREATE VIEW results AS
SELECT r.encoder, r.task, r.seed,
       coalesce((SELECT max(label) FROM sweep_cell c WHERE c.run_id = r.run_id), '') AS label,
       e.split, e.length, e.n, e.n_exact, e.n_tok, e.n_tok_ok,
       1.0 * e.n_tok_ok / e.n_tok AS token_accuracy,
       1.0 * e.n_exact / e.n AS sequence_accuracy,
       e.loss, e.loss_special, coalesce(a.selected_step, a.last_step) AS step, r.selection,
       r.train_length, r.parameters, r.chance, r.variant, r.arm, r.task_key, r.run_key, e.data_sha256
FROM run r
CROSS JOIN attempt a ON a.run_id = r.run_id AND a.status = 'done'
CROSS JOIN eval e ON e.attempt_id = a.attempt_id AND e.split = 'test'
WHERE e.step = a.last_step
ORDER BY r.task, r.encoder, r.arm, r.seed, r.run_key, e.length;
