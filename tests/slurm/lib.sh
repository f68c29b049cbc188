# lib.sh -- what the tests against a real Slurm share.  Sourced; each test has a Slurm of its own, on this machine, that is
# ended with it.  Settings for it (SLURM_LAB_..., see up) are to be made before.
. "$(dirname "$0")/../faults/lib.sh"
slurm=$(mktemp -d /tmp/lab-slurm.XXXXXX) || exit 1
explain() { squeue -h -r -t all -O 'JobArrayID:|,State:|,exit_code:|,Reason'; cat plan/slurm.jobs; ls -R plan/shards plan/checkpoints; tail -n 30 plan/logs/*; }
end() { [ $failed = 0 ] || explain; "$ROOT/tests/slurm/down" "$slurm" 2>/dev/null; rm -rf "$slurm"; leave; }
trap end EXIT

# A controller that is asked again within seconds, arrays of at most four, nodes that are given up at once.
export SLURM_LAB_CPUS=2 SLURM_LAB_KILLWAIT=${SLURM_LAB_KILLWAIT:-10} SLURM_LAB_INSTALL=${SLURM_LAB_INSTALL:-0}
export SLURM_LAB_EXTRA="MaxArraySize=${MAX_ARRAY:-4}
${SLURM_LAB_EXTRA:-}"
mkdir local && export TMPDIR=$tmp/local          # the disk of the nodes, which lost ones do not tidy up
up() { local lines; lines=$("$ROOT/tests/slurm/up" "$slurm" 2>up.err) && eval "$lines" || { cat up.err; echo "no Slurm"; exit 1; }; }
up

# until SECONDS COMMAND...: it is tried again and again, gently
until_true() {
    local end=$((SECONDS + $1)); shift
    until "$@"; do [ $SECONDS -lt $end ] || { echo "waited in vain: $*"; return 1; }; sleep 0.2; done
}
state_of() { squeue -h -r -t all -j "$1" -o %T 2>/dev/null; }
is() { [ "$(state_of "$1")" = "$2" ]; }
# No job is queued, running or ending.
quiet() { [ -z "$(squeue -h)" ]; }
# A requeued element waits two minutes; not here.  Slurm refuses within the first seconds.
hurry() {
    scontrol update JobId="$1" StartTime=now >/dev/null 2>&1
    case $(state_of "$1") in RUNNING|COMPLETING|COMPLETED) ;; *) return 1 ;; esac
}

# lose_node NODE: SIGKILL to its daemon, to its step daemons and to all that runs below them, at once; Slurm is told.
below() { local c; for c in $(cat /proc/"$1"/task/*/children 2>/dev/null); do below "$c"; echo "$c"; done; }
lose_node() {
    local daemon p victims=
    read -r daemon _ <"$slurm/pids/slurmd-$1"
    for p in /proc/[0-9]*; do
        [[ $(readlink "$p/exe") == */slurmstepd* && $(readlink "$p"/fd/*) == *"$slurm/log/slurmd-$1"* ]] && victims+=" ${p#/proc/} $(below "${p#/proc/}")"
    done 2>/dev/null
    kill -9 $daemon $victims
    scontrol update NodeName="$1" State=DOWN Reason=lost
}
# A node that comes back has no memory of its jobs.  Slurm may still tell it to end what it ran then: not before that runs elsewhere.
return_node() { rm -rf "${slurm:?}/spool/$1"; up; scontrol update NodeName="$1" State=RESUME 2>/dev/null; return 0; }

# submit [OPTIONS]: sweep.ini into plan/ and lab.db; $array and $merge are its jobs (of several arrays the last)
submit() {
    lab slurm submit sweep.ini -o plan --db lab.db --cpus 1 "$@" >out 2>err || { cat out err; return 1; }
    jobs_of out
}
resume() { lab slurm resume plan >out 2>err || { cat out err; return 1; }; jobs_of out; }
jobs_of() {
    array=$(sed -n 's/^job \([0-9]*\): array.*/\1/p' "$1" | tail -n 1)
    merge=$(sed -n 's/^job \([0-9]*\): merges.*/\1/p' "$1")
}
# What a database says of results, without times and hosts, in an order of its own; and the bits of the weights.
told() { sqlite3 -readonly "$1" "SELECT * FROM results; SELECT * FROM curves; SELECT run_key, result_sha256 FROM runs WHERE state = 'done'" | sort; }
weights() { (cd "$1/weights" && sha256sum -- *.safetensors); }
# The same sweep on this machine alone.
reference() { lab run "${1:-sweep.ini}" --db whole/lab.db --jobs 2 >out 2>err; }
same_as_one_machine() {
    same "results and curves are those of one machine" "$(told lab.db | sha256sum)" "$(told whole/lab.db | sha256sum)"
    same "and so are the weights" "$(weights plan)" "$(weights whole)"
    same "each run was accepted once" "$(db=lab.db ask "SELECT count(*) - count(DISTINCT run_id) FROM attempt WHERE status = 'done'")" 0
}
resumed() { db=lab.db ask "SELECT count(*) FROM attempt WHERE from_step > 0"; }
published() { lab slurm status plan --json | sed -n '1s/.*"done": \([0-9]*\).*/\1/p'; }
field() { lab slurm status plan --json | sed -n "s/.*{\"task\": $1, .*\"$2\": \(\"[^\"]*\"\|[^,}]*\).*/\1/p"; }
# The next `lab slurm status` asks Slurm again.
ask_again() { rm -f plan/slurm.seen; }
has_checkpoint() { [ -n "$(ls plan/checkpoints 2>/dev/null)" ]; }
