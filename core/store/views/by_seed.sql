-- Final test accuracy with the seeds side by side: one line an arm and length; seeds from 10 on are counted in more_seeds.
CREATE VIEW by_seed AS
SELECT encoder, task, label, train_length, length,
       max(token_accuracy) FILTER(WHERE seed = 0) AS seed_0, max(token_accuracy) FILTER(WHERE seed = 1) AS seed_1,
       max(token_accuracy) FILTER(WHERE seed = 2) AS seed_2, max(token_accuracy) FILTER(WHERE seed = 3) AS seed_3,
       max(token_accuracy) FILTER(WHERE seed = 4) AS seed_4, max(token_accuracy) FILTER(WHERE seed = 5) AS seed_5,
       max(token_accuracy) FILTER(WHERE seed = 6) AS seed_6, max(token_accuracy) FILTER(WHERE seed = 7) AS seed_7,
       max(token_accuracy) FILTER(WHERE seed = 8) AS seed_8, max(token_accuracy) FILTER(WHERE seed = 9) AS seed_9,
       sum(seed NOT BETWEEN 0 AND 9) AS more_seeds,
       variant, arm, data_sha256
FROM results
GROUP BY task, encoder, arm, length, data_sha256
ORDER BY task, encoder, arm, length, data_sha256;
