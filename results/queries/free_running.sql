-- Does a causal model that reads its own tokens do as well as one that is given the right ones?  Whole sequences and tokens, over seeds.
SELECT f.task, f.encoder, f.label, f.length, count(*) AS seeds, min(f.n) AS n,
       round(avg(f.sequence_accuracy), 4) AS sequences_alone, round(avg(r.sequence_accuracy), 4) AS sequences_forced,
       round(avg(f.token_accuracy), 4) AS tokens_alone, round(avg(r.token_accuracy), 4) AS tokens_forced
FROM free_running f JOIN results r USING(run_key, length)
GROUP BY f.task, f.encoder, f.arm, f.length
ORDER BY f.task, f.encoder, f.arm, f.length;
