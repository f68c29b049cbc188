#!/bin/bash
# node.sh -- a node is lost with all that runs on it: Slurm requeues its task, which goes on from the checkpoint on the shared disk.
. "$(dirname "$0")/lib.sh"
experiment ${STEPS:-20000} 'none, sinusoidal, learned, rope' 0 >sweep.ini
printf '[limits]\ncheckpoint = 0.2\n' >>sweep.ini
reference
check "submitted" submit --tasks 4
check "it runs" until_true 30 has_checkpoint
sleep 0.5
victim=$(squeue -h -r -w lab0 -t RUNNING -j $array -o %i | head -n 1)
check "lab0 has a task" [ -n "$victim" ]
# SIGKILL to the daemon and to everything below it and below its step daemons.
below() { local c; for c in $(cat /proc/$1/task/*/children 2>/dev/null); do below $c; echo $c; done; }
read -r daemon _ <"$slurm/pids/slurmd-lab0"
kill -9 $daemon
for p in /proc/[0-9]*; do
    [[ $(readlink $p/exe) == */slurmstepd ]] && ls -l $p/fd 2>/dev/null | grep -q "$slurm/log/slurmd-lab0" && kill -9 $(below ${p#/proc/}) ${p#/proc/}
done 2>/dev/null
scontrol update NodeName=lab0 State=DOWN Reason=lost
check "Slurm requeues its task" until_true 30 is $victim PENDING
up
scontrol update NodeName=lab0 State=RESUME 2>/dev/null
hurry_all() { local e; for e in $(squeue -h -r -t PENDING -j $array -o %i); do hurry $e; done; is $merge COMPLETED; }
check "the merge job ends well" until_true 120 hurry_all
same_as_one_machine
check "from checkpoints" [ "$(resumed)" -gt 0 ]
finish
