#!/bin/bash
# array.sh -- a sweep as job arrays on two nodes, larger than one array may be; then the merge.  The result is that of one machine.
. "$(dirname "$0")/lib.sh"
experiment 300 'none, sinusoidal, learned' 0..1 >sweep.ini
reference
same "one machine" $? 0
began=$(date +%s%N)
check "submitted" submit --tasks 6
check "in under two seconds" [ $(($(date +%s%N) - began)) -lt 2000000000 ]
same "as two arrays, for one may have four elements" "$(cut -d' ' -f1,3- plan/slurm.jobs)" "array 0 0-3
array 4 0-1
merge"
check "nothing of lab stays here" [ -z "$(jobs -p)" ]
check "the merge job ends well" until_true 90 is $merge COMPLETED
same_as_one_machine
same "both nodes worked" "$(squeue -h -t all -o %N | sort -u | paste -sd' ' -)" "lab0 lab1"
same "each element has a log" "$(ls plan/logs | grep -c '^[0-9]*_[0-3].out$')" 6
matches "status" "$(lab slurm status plan)" "faults: 6 runs in 6 tasks, plan plan
published: 6 done, 0 failed, 0 missing*
Slurm:     6 tasks done (squeue*
merge:     job $merge, done"
lab slurm submit sweep.ini -o plan --db lab.db --cpus 1 --tasks 6 >out 2>err
same "it is not submitted twice" $? 2
matches "and it is said why" "$(cat err)" "*was submitted before; \`lab slurm resume\` submits what is missing of it"
same "nothing to go on with" "$(lab slurm resume plan)" "nothing to submit: every run is done or has failed"
same "nothing to cancel" "$(lab slurm cancel plan)" "nothing to cancel: no task is queued or running"
finish
