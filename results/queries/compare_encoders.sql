-- Which encoders still work past the training length?  Token and whole-sequence accuracy over seeds.
SELECT task, encoder, label, train_length, length, seeds, seeds_missing AS missing,
       round(token_accuracy_mean, 4) AS token_mean, round(token_accuracy_sd, 4) AS token_sd,
       round(token_accuracy_min, 4) AS token_min, round(token_accuracy_max, 4) AS token_max,
       round(sequence_accuracy_mean, 4) AS sequence_mean, round(sequence_accuracy_sd, 4) AS sequence_sd,
       round(sequence_accuracy_min, 4) AS sequence_min, round(sequence_accuracy_max, 4) AS sequence_max,
       round(chance, 4) AS chance, round(order_blind_ceiling, 4) AS order_blind_ceiling
FROM by_length
ORDER BY task, length, token_accuracy_mean DESC, encoder, arm;
