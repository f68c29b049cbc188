-- Which runs know more than a model without positions could?  Accuracy against the order-blind ceiling and chance.
-- An encoder `none` that is above the ceiling (a bidirectional one) means that order leaks into the data or the model.
SELECT task, encoder, label, length, length > train_length AS past_training, seeds, round(chance, 4) AS chance,
       round(order_blind_ceiling, 4) AS ceiling, round(token_accuracy_mean, 4) AS mean, round(token_accuracy_max, 4) AS max,
       CASE WHEN order_blind_ceiling IS NULL THEN 'no ceiling known'
            WHEN token_accuracy_min > order_blind_ceiling + 0.02 THEN 'above'
            WHEN token_accuracy_max < order_blind_ceiling - 0.02 THEN 'below'
            ELSE 'at it' END AS place
FROM by_length
ORDER BY task, encoder, arm, length;
