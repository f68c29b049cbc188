#!/bin/bash
# node.sh -- a node is lost with all that runs on it: Slurm requeues its task, and another
# node goes on from the checkpoint on the shared disk.
. "$(dirname "$0")/lib.sh"
experiment ${STEPS:-60000} 'none, sinusoidal, learned, rope' 0 >sweep.ini
printf '[limits]\ncheckpoint = 0.7\n' >>sweep.ini
reference
check "submitted" submit --tasks 4
check "it runs" until_true 30 has_checkpoint
victim=$(squeue -h -r -w lab0 -t RUNNING -j $array -o %i | head -n 1)
check "lab0 has a task" [ -n "$victim" ]
has_published() { ls plan/shards/"${victim#*_}"of4_*.db >/dev/null 2>&1; }
check "which has published a checkpoint" until_true 30 has_published
lose_node lab0
silent() { ! pgrep -f "$PWD/plan --task ${victim#*_}/" >/dev/null; }
check "nothing of it runs on" until_true 2 silent           # a process that was killed takes a moment to be gone
check "Slurm requeues its task" until_true 30 is $victim PENDING
hurry_all() { local e; for e in $(squeue -h -r -t PENDING -j $array -o %i); do hurry $e; done; is $merge COMPLETED; }
check "the merge job ends well" until_true 90 hurry_all
same "on the other node" "$(squeue -h -r -t all -j "$victim" -o %N)" lab1
same_as_one_machine
check "from checkpoints" [ "$(resumed)" -gt 0 ]
finish
