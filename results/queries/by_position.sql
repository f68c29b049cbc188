-- At which output positions are the answers right?  Token accuracy by position (from 0), over seeds.
SELECT task, encoder, label, length, position, seeds, round(token_accuracy_mean, 4) AS mean,
       round(token_accuracy_min, 4) AS min, round(token_accuracy_max, 4) AS max
FROM by_position
ORDER BY task, encoder, arm, length, position;
