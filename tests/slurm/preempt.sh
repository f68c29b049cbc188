#!/bin/bash
# preempt.sh [REQUEUE|CANCEL] -- a job of higher rank takes the nodes: tasks save, publish and are requeued (with CANCEL by themselves,
# within the grace time), and go on from their checkpoints when it has gone.
SLURM_LAB_EXTRA="PreemptType=preempt/partition_prio
PreemptMode=${1:-REQUEUE}
PartitionName=lab Nodes=ALL Default=YES PriorityTier=1 GraceTime=20
PartitionName=high Nodes=ALL PriorityTier=9"
. "$(dirname "$0")/lib.sh"
experiment ${STEPS:-60000} 'none, sinusoidal' 0 >sweep.ini
printf '[limits]\ncheckpoint = 0.3\n' >>sweep.ini
reference
check "submitted" submit --tasks 2
check "it runs" until_true 30 has_checkpoint
check "both" until_true 30 is ${array}_1 RUNNING
high=$(sbatch --parsable -p high -N2 --exclusive -o /dev/null --wrap 'sleep 2')
check "the other gets the nodes" until_true 90 is $high COMPLETED
hurry_all() { local e; for e in $(squeue -h -r -t PENDING -j $array -o %i); do hurry $e; done; is $merge COMPLETED; }
check "the merge job ends well" until_true 90 hurry_all
same_as_one_machine
check "from checkpoints" [ "$(resumed)" -gt 0 ]
check "requeued" [ "$(db=lab.db ask "SELECT max(slurm_restart) FROM attempt")" -gt 0 ]
finish
