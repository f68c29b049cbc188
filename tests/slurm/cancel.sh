#!/bin/bash
# cancel.sh -- scancel in the middle: what was published is merged, nothing comes back by itself, and resume goes on from the checkpoints.
. "$(dirname "$0")/lib.sh"
experiment ${STEPS:-60000} 'none, sinusoidal' 0..1 >sweep.ini
printf '[limits]\ncheckpoint = 0.2\n' >>sweep.ini
reference
check "submitted" submit --tasks 4
check "it runs" until_true 30 has_checkpoint
matches "cancelled" "$(lab slurm cancel plan)" "* task* cancelled; what they published is merged, and \`lab slurm resume\` goes on"
check "no job stays, and none comes back" until_true 60 quiet
sleep 3
check "not even later" quiet
same "the merge ran behind it" "$(state_of $merge)" COMPLETED
ask_again
matches "Slurm's word" "$(field 0 slurm)" '"CANCELLED*"'
same "and ours" "$(field 0 state)" '"interrupted"'
check "not all is done" [ "$(published)" -lt 4 ]
check "resumed" resume
check "the merge job ends well" until_true 90 is $merge COMPLETED
same_as_one_machine
check "from checkpoints" [ "$(resumed)" -gt 0 ]
finish
