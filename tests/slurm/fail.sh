#!/bin/bash
# fail.sh -- a run that fails costs its task's exit status and nothing else; what Slurm says agrees with what was published.
. "$(dirname "$0")/lib.sh"
experiment 200 'none' 0..1 >sound.ini
experiment 200 'none, bad_crash' 0..1 >sweep.ini
reference sound.ini
check "submitted" submit --tasks 2 --plugin "$BUILD/tests/plugins/bad_crash.so"
check "it ends" until_true 90 quiet
same "a task with a run that failed says so" "$(state_of ${array}_0)" FAILED
same "what failed is published" "$(lab slurm status plan --json | sed -n '1s/.*"failed": \([0-9]*\).*/\1/p')" 2
same "and nobody disagrees" "$(lab slurm status plan --json | grep -c '"disagree": true')" 0
same "nothing to go on with" "$(lab slurm resume plan)" "nothing to submit: every run is done or has failed"
same "the others are as on one machine" "$(db=lab.db ask "SELECT result_sha256 FROM runs WHERE encoder = 'none' ORDER BY seed")" \
     "$(db=whole/lab.db ask "SELECT result_sha256 FROM runs WHERE encoder = 'none' ORDER BY seed")"
finish
