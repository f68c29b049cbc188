-- Which encoder is best beyond the training length, and is its lead over each of the others significant?
-- Means over all lengths past training and over seeds.  p: share of sign choices of the pairs (at most 12 of them) whose
-- sum is at least the one seen, two-sided and not adjusted for the number of comparisons; `lab compare` adjusts.
WITH run_score AS MATERIALIZED (SELECT task, variant, train_length, encoder, arm, max(label) AS label, seed, avg(token_accuracy) AS score
                   FROM results WHERE length > train_length GROUP BY task, variant, arm, seed),
     arm_score AS (SELECT task, variant, encoder, arm, max(label) AS label, avg(score) AS score,
                          row_number() OVER (PARTITION BY task, variant ORDER BY avg(score) DESC, encoder, arm) AS place
                   FROM run_score GROUP BY task, variant, arm),
     best AS (SELECT * FROM arm_score WHERE place = 1),
     pair AS MATERIALIZED (
       SELECT y.task, y.variant, y.arm, dense_rank() OVER (ORDER BY y.task, y.variant, y.arm) AS test, x.score - y.score AS lead,
              row_number() OVER (PARTITION BY y.task, y.variant, y.arm ORDER BY x.seed) AS k
       FROM best b
       JOIN run_score x ON x.task = b.task AND x.variant = b.variant AND x.arm = b.arm
       JOIN run_score y ON y.task = b.task AND y.variant = b.variant AND y.arm <> b.arm AND y.seed = x.seed),
     total AS MATERIALIZED (SELECT test, task, variant, arm, count(*) AS pairs, sum(lead) AS lead FROM pair GROUP BY test),
     sign(s) AS (VALUES(1), (-1)),
     flip AS (SELECT test, 1 AS k, lead AS sum FROM pair WHERE k = 1 AND test IN (SELECT test FROM total WHERE pairs <= 12)
              UNION ALL                                              -- the first sign stays: the other half is its mirror image
              SELECT f.test, p.k, f.sum + sign.s * p.lead FROM flip f JOIN pair p ON p.test = f.test AND p.k = f.k + 1 JOIN sign),
     test AS (SELECT f.test, avg(abs(f.sum) >= abs(t.lead) - 1e-12) AS p
              FROM flip f JOIN total t ON t.test = f.test AND t.pairs = f.k GROUP BY f.test)
SELECT b.task, b.encoder AS best, b.label AS best_label, round(b.score, 4) AS best_score, o.encoder, o.label,
       round(o.score, 4) AS score, round(t.lead / t.pairs, 4) AS lead, t.pairs, round(s.p, 4) AS p,
       round(pow(2, 1 - t.pairs), 5) AS smallest_p
FROM best b
JOIN arm_score o ON o.task = b.task AND o.variant = b.variant AND o.arm <> b.arm
LEFT JOIN total t ON t.task = o.task AND t.variant = o.variant AND t.arm = o.arm
LEFT JOIN test s ON s.test = t.test
ORDER BY b.task, b.variant, o.place;
