-- How did each run end?  Encoder, seed, steps, final training loss (nat/token), accuracy at the training length.
SELECT s.task, s.encoder, s.label, s.seed, s.state, s.steps, round(s.train_loss, 5) AS final_loss, e.length,
       round(e.token_accuracy, 4) AS token_accuracy, round(e.sequence_accuracy, 4) AS sequence_accuracy
FROM runs s
LEFT JOIN results e ON e.run_key = s.run_key AND e.length = e.train_length
ORDER BY s.task, s.encoder, s.arm, s.seed;
