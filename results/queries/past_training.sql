-- How good is each encoder past the training length, over all evaluated lengths?
-- Mean over these lengths, then over seeds; best: of the seeds.  alone: a causal model that continues the prompt itself.
SELECT task, encoder, label, train_length, min(shortest) || '-' || max(longest) AS lengths,
       iif(split = 'free', 'alone', 'forced') AS reads, count(*) AS seeds,
       round(avg(token_accuracy), 3) AS token_mean, round(max(token_accuracy), 3) AS token_best,
       round(avg(sequence_accuracy), 3) AS sequence_mean, round(max(sequence_accuracy), 3) AS sequence_best
FROM past_training
GROUP BY task, encoder, label, train_length, split
ORDER BY task, train_length, split DESC, token_mean DESC;
