-- Runs that were tried, are not done and are not running: what stopped the last attempt.
CREATE VIEW failures AS
SELECT encoder, task, seed, label, state, reason, steps AS last_step, exit_code, term_signal, attempts, host, ended_utc,
       variant, arm, run_key
FROM runs WHERE state NOT IN ('pending', 'running', 'done', 'superseded')
ORDER BY task, encoder, arm, seed, run_key;
