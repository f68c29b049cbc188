#!/bin/bash
# requeue.sh -- the warning before a time limit (USR1): the task saves, publishes, requeues itself and goes on from its checkpoint.
. "$(dirname "$0")/lib.sh"
experiment ${STEPS:-100000} 'none, sinusoidal' 0 >sweep.ini
printf '[limits]\ncheckpoint = 0.2\n' >>sweep.ini
reference
check "submitted" submit --tasks 2 -- --signal=USR1@60
check "it runs" until_true 30 has_checkpoint
check "both" until_true 30 is ${array}_1 RUNNING
sleep 0.5
scancel --signal=USR1 ${array}_1
check "it is requeued, alone" until_true 30 is ${array}_1 PENDING
same "as the log says" "$(grep -c 'stopping: workers finish their step' plan/logs/${array}_1.out)" 1
check "and starts again" until_true 60 hurry ${array}_1
check "the merge waits for it and ends well" until_true 90 is $merge COMPLETED
same_as_one_machine
same "from its checkpoint, once" "$(resumed)" 1
same "and the log was appended to" "$(grep -c . plan/logs/${array}_1.out | grep -c '^[2-9]')" 1
finish
