-- By how much does each encoder beat each other one at equal seeds, and in how many of the pairs?
SELECT task, baseline, baseline_label, encoder, label, length, length > train_length AS past_training, count(*) AS pairs,
       round(avg(token_accuracy_gain), 4) AS gain, round(min(token_accuracy_gain), 4) AS gain_min,
       round(max(token_accuracy_gain), 4) AS gain_max, sum(token_accuracy_gain > 0) AS better, sum(token_accuracy_gain = 0) AS equal
FROM paired
GROUP BY task, baseline, baseline_arm, encoder, arm, length
ORDER BY task, baseline, baseline_arm, length, gain DESC, encoder, arm;
