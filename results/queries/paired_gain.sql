-- By how much does each encoder beat each other one at equal seeds, and in how many of the pairs?
-- The pairs of the view paired, found here by numbers for the arms: a sweep of 10,000 runs has half a million of them.
WITH point AS MATERIALIZED (
       SELECT task, variant, dense_rank() OVER (ORDER BY task, encoder, arm) AS arm, encoder, label, seed, length, train_length, data_sha256, token_accuracy
       FROM results),
     arm AS MATERIALIZED (SELECT arm, max(task) AS task, max(encoder) AS encoder, max(label) AS label, max(train_length) AS train_length
                          FROM point GROUP BY arm),
     gain AS MATERIALIZED (
       SELECT x.arm AS baseline, y.arm AS arm, x.length, count(*) AS pairs, avg(y.token_accuracy - x.token_accuracy) AS mean,
              min(y.token_accuracy - x.token_accuracy) AS low, max(y.token_accuracy - x.token_accuracy) AS high,
              sum(y.token_accuracy > x.token_accuracy) AS better, sum(y.token_accuracy = x.token_accuracy) AS equal
       FROM point x JOIN point y ON y.variant = x.variant AND y.task = x.task AND y.seed = x.seed AND y.length = x.length
                                AND y.data_sha256 = x.data_sha256 AND y.arm <> x.arm
       GROUP BY x.arm, y.arm, x.length)
SELECT b.task, b.encoder AS baseline, b.label AS baseline_label, a.encoder, a.label, g.length, g.length > a.train_length AS past_training,
       g.pairs, round(g.mean, 4) AS gain, round(g.low, 4) AS gain_min, round(g.high, 4) AS gain_max, g.better, g.equal
FROM gain g JOIN arm b ON b.arm = g.baseline JOIN arm a ON a.arm = g.arm
ORDER BY g.baseline, g.length, g.mean DESC, g.arm;
