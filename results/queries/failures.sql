-- What went wrong, and where?  Runs that were tried and are not done.
SELECT encoder, task, seed, label, state, reason, last_step, exit_code, term_signal, attempts, host, ended_utc, substr(run_key, 1, 16) AS run
FROM failures;
