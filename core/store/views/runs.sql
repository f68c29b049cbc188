-- One line a run: its state, and the accepted attempt if there is one, else the last.
-- The last loss of an attempt that went on from a checkpoint may stand with the one it went on from.
CREATE VIEW runs AS
SELECT r.encoder, r.task, r.seed,
       coalesce((SELECT max(label) FROM sweep_cell c WHERE c.run_id = r.run_id), '') AS label,
       coalesce(a.status, 'pending') AS state, a.reason,
       (SELECT count(*) FROM attempt t WHERE t.run_id = r.run_id) AS attempts,
       a.last_step AS steps, r.selection, a.selected_step,
       CASE WHEN a.parent_uuid IS NULL
            THEN (SELECT m.value FROM metric m WHERE m.attempt_id = a.attempt_id AND m.name = 'loss' AND m.step <= a.last_step ORDER BY m.step DESC LIMIT 1)
            ELSE (SELECT m.value FROM attempt t CROSS JOIN metric m ON m.attempt_id = t.attempt_id AND m.name = 'loss' AND m.step <= a.last_step
                  WHERE t.run_id = r.run_id ORDER BY m.step DESC, t.attempt_id DESC LIMIT 1) END AS train_loss,
       round(a.active_ns / 1e9, 3) AS active_s,
       round(a.active_ns / 1e6 / nullif(a.last_step - a.from_step, 0), 3) AS step_ms,
       strftime('%Y-%m-%dT%H:%M:%SZ', a.started_us / 1000000, 'unixepoch') AS started_utc,
       strftime('%Y-%m-%dT%H:%M:%SZ', a.ended_us / 1000000, 'unixepoch') AS ended_utc,
       r.parameters, a.host, a.exit_code, a.term_signal, a.result_sha256,
       r.variant, r.arm, r.task_key, r.run_key, r.config
FROM run r
LEFT JOIN attempt a ON a.attempt_id = coalesce((SELECT t.attempt_id FROM attempt t WHERE t.run_id = r.run_id AND t.status = 'done'),
                                               (SELECT t.attempt_id FROM attempt t WHERE t.run_id = r.run_id
                                                ORDER BY t.started_us DESC, t.attempt_id DESC LIMIT 1))
ORDER BY r.task, r.encoder, r.arm, r.seed, r.run_key;
