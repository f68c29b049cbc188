-- Where does the time go?  Seconds a run and milliseconds a step, by task and encoder.
SELECT task, encoder, label, parameters, count(*) AS runs, round(sum(active_s), 1) AS total_s, round(avg(active_s), 2) AS mean_s,
       round(min(active_s), 2) AS min_s, round(max(active_s), 2) AS max_s, round(avg(step_ms), 3) AS step_ms
FROM runs
WHERE state = 'done'
GROUP BY task, encoder, runs.arm
ORDER BY total_s DESC, task, encoder;
