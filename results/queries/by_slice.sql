-- Which examples of a length are hard?  Accuracy for each slice of the test data (pairs of mqar, digits of the shorter number), over seeds.
SELECT task, encoder, label, length, slice, n, seeds, round(token_accuracy_mean, 4) AS tokens,
       round(sequence_accuracy_mean, 4) AS sequences
FROM by_slice WHERE split = 'test'
ORDER BY task, encoder, arm, length, slice;
