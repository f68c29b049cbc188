-- With what were the results made, and was it the same for all?  One line a kind of environment.
SELECT count(*) AS runs, substr(v.json ->> '$.commit', 1, 12) AS lab_commit, v.json ->> '$.dirty' AS changed,
       v.json ->> '$.compiler' AS compiler, v.json ->> '$.cpu' AS cpu, v.json ->> '$.blas' AS blas, v.json ->> '$.simd' AS simd,
       v.json ->> '$.real' AS real, group_concat(DISTINCT r.encoder) AS encoders, group_concat(DISTINCT r.task) AS tasks
FROM attempt a JOIN env v USING(env_id) JOIN run r USING(run_id)
WHERE a.status = 'done'
GROUP BY lab_commit, changed, compiler, cpu, blas, simd, real
ORDER BY runs DESC, lab_commit, compiler, cpu;
