-- How far does each encoder get?  Longest length with half of the tokens right: of each arm the lowest, median and highest seed.
WITH reach AS (SELECT task, encoder, arm, max(label) AS label, seed, max(train_length) AS train_length,
                      coalesce(max(length) FILTER(WHERE token_accuracy >= 0.5), 0) AS l50, max(length) AS longest
               FROM results GROUP BY task, encoder, arm, seed),
     placed AS (SELECT *, row_number() OVER (PARTITION BY task, encoder, arm ORDER BY l50) AS place,
                       count(*) OVER (PARTITION BY task, encoder, arm) AS seeds
                FROM reach)
SELECT task, encoder, max(label) AS label, max(train_length) AS train_length, max(seeds) AS seeds, min(l50) AS l50_min,
       avg(l50) FILTER(WHERE place IN ((seeds + 1) / 2, (seeds + 2) / 2)) AS l50_median, max(l50) AS l50_max, max(longest) AS longest_asked
FROM placed
GROUP BY task, encoder, arm
ORDER BY task, l50_median DESC, encoder, arm;
