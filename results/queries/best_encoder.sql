-- Which encoder is best beyond the training length, and is its lead over each of the others significant?
-- Means over all lengths past training and over seeds.  p: share of sign choices of the pairs (at most 12 of them) whose
-- sum is at least the one seen, two-sided and not adjusted for the number of comparisons; `lab compare` adjusts.
WITH run_score AS (SELECT task, variant, train_length, encoder, arm, max(label) AS label, seed, avg(token_accuracy) AS score
                   FROM results WHERE length > train_length GROUP BY task, variant, arm, seed),
     arm_score AS (SELECT task, variant, encoder, arm, max(label) AS label, avg(score) AS score,
                          row_number() OVER (PARTITION BY task, variant ORDER BY avg(score) DESC, encoder, arm) AS place
                   FROM run_score GROUP BY task, variant, arm),
     best AS (SELECT * FROM arm_score WHERE place = 1),
     pair AS (SELECT b.task, b.variant, y.arm, x.score - y.score AS lead,
                     row_number() OVER (PARTITION BY b.task, b.variant, y.arm ORDER BY x.seed) AS k
              FROM best b
              JOIN run_score x ON x.task = b.task AND x.variant = b.variant AND x.arm = b.arm
              JOIN run_score y ON y.task = b.task AND y.variant = b.variant AND y.arm <> b.arm AND y.seed = x.seed),
     total AS (SELECT task, variant, arm, count(*) AS pairs, sum(lead) AS lead FROM pair GROUP BY task, variant, arm),
     flip AS (SELECT task, variant, arm, 0 AS k, 0.0 AS sum FROM total WHERE pairs <= 12
              UNION ALL
              SELECT f.task, f.variant, f.arm, p.k, f.sum + sign.s * p.lead
              FROM flip f JOIN pair p ON p.task = f.task AND p.variant = f.variant AND p.arm = f.arm AND p.k = f.k + 1
              JOIN (SELECT 1 AS s UNION ALL SELECT -1) sign),
     test AS (SELECT f.task, f.variant, f.arm, avg(abs(f.sum) >= abs(t.lead) - 1e-12) AS p
              FROM flip f JOIN total t ON t.task = f.task AND t.variant = f.variant AND t.arm = f.arm AND t.pairs = f.k
              GROUP BY f.task, f.variant, f.arm)
SELECT b.task, b.encoder AS best, b.label AS best_label, round(b.score, 4) AS best_score, o.encoder, o.label,
       round(o.score, 4) AS score, round(t.lead / t.pairs, 4) AS lead, t.pairs, round(s.p, 4) AS p,
       round(pow(2, 1 - t.pairs), 5) AS smallest_p
FROM best b
JOIN arm_score o ON o.task = b.task AND o.variant = b.variant AND o.arm <> b.arm
LEFT JOIN total t ON t.task = o.task AND t.variant = o.variant AND t.arm = o.arm
LEFT JOIN test s ON s.task = o.task AND s.variant = o.variant AND s.arm = o.arm
ORDER BY b.task, b.variant, o.place;
