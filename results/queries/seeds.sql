-- How much do the seeds differ?  Token accuracy with the seeds side by side.
SELECT task, encoder, label, length, length > train_length AS past_training,
       round(seed_0, 3) AS seed_0, round(seed_1, 3) AS seed_1, round(seed_2, 3) AS seed_2, round(seed_3, 3) AS seed_3,
       round(seed_4, 3) AS seed_4, round(seed_5, 3) AS seed_5, round(seed_6, 3) AS seed_6, round(seed_7, 3) AS seed_7,
       round(seed_8, 3) AS seed_8, round(seed_9, 3) AS seed_9, more_seeds
FROM by_seed
ORDER BY task, length, encoder, arm;
