#!/bin/bash
# silent.sh -- a controller that is not there, and munge that is not: one line each, in Slurm's own words, and nothing is lost.
. "$(dirname "$0")/lib.sh"
experiment 100 'none' 0..1 >sweep.ini
check "submitted" submit --tasks 2
check "it ends" until_true 90 is $merge COMPLETED
stop() { local pid; read -r pid _ <"$slurm/pids/$1"; kill $pid; until_true 10 is_gone $pid; }
stop slurmctld
ask_again
began=$SECONDS
matches "status says that Slurm is silent, and shows ours" "$(lab slurm status plan)" "*published: 2 done, 0 failed, 0 missing*
Slurm:     Slurm does not answer: *Unable to contact slurm controller*"
check "in time" [ $((SECONDS - began)) -lt 30 ]
lab slurm submit sweep.ini -o other --db lab.db >out 2>err
same "submit" $? 2
matches "says so" "$(cat err)" "lab slurm submit: Slurm does not tell its limits: *Unable to contact slurm controller*"
check "on one line" [ "$(wc -l <err)" = 1 ]
check "and leaves nothing" [ ! -e other ]
up
stop munged
lab slurm submit sweep.ini -o other --db lab.db >out 2>err
same "without munge" $? 2
matches "munge is named" "$(cat err)" "*[Mm]unge*"
check "on one line" [ "$(wc -l <err)" = 1 ]
up
finish
