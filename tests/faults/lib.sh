# lib.sh -- what the fault tests share.  Sourced; each test then runs in a folder of its own that goes away at the end.
#
# These tests break the real program from outside: signals, crashing plugins, full disks.
# They use bash, because a job that is to receive SIGINT needs a shell with job control.
set -u -m
ROOT=${ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
BUILD=${BUILD:-$ROOT/build/normal}
PATH=$BUILD:$PATH
export LC_ALL=C
unset LAB_PLUGIN_PATH
tmp=$(mktemp -d) && cd "$tmp" || exit 1
passed=0 failed=0
leave() { cd /; jobs -p | while read -r group; do kill -9 -- "-$group" 2>/dev/null; done; rm -rf "$tmp"; }
trap leave EXIT
trap 'exit 1' HUP INT TERM

# check TEXT COMMAND...: the command succeeds
check() {
    local text=$1; shift
    if "$@"; then passed=$((passed + 1)); echo "ok      $text"
    else failed=$((failed + 1)); echo "FAILED  $text: $*"; [ ! -s err ] || sed 's/^/        | /' err; fi
}
# same TEXT FOUND EXPECTED
same() { check "$1" [ "$2" = "$3" ]; }
# matches TEXT FOUND PATTERN: a shell pattern
is_like() { case $1 in $2) return 0 ;; *) return 1 ;; esac; }
matches() { check "$1" is_like "$2" "$3"; }
finish() { echo "$passed passed, $failed failed"; [ "$failed" = 0 ]; exit; }

# experiment STEPS ENCODERS SEEDS > FILE
experiment() {
    cat <<END
[experiment]
name = faults
question = What does a fault cost?
[sweep]
encoder = $2
task = reverse
seed = $3
[train]
length = 4
steps = $1
batch = 8
[eval]
lengths = 4, 6
sequences = 50
every = 50
[model]
d_model = 16
heads = 2
layers = 1
d_ff = 32
END
}
ask() { sqlite3 -readonly "${db:-results/lab.db}" "$1"; }
# wait_for SECONDS COMMAND...: until it succeeds
wait_for() {
    local tries=$(($1 * 50)); shift
    while [ $tries -gt 0 ]; do "$@" && return 0; sleep 0.02; tries=$((tries - 1)); done
    return 1
}
workers() { tr " " "\n" 2>/dev/null <"/proc/$1/task/$1/children" | sed "/^$/d"; }
has_worker() { [ -n "$(workers "$1")" ]; }
is_gone() { for pid; do [ ! -e "/proc/$pid" ] || grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null || return 1; done; }
curve_begun() { [ "$(ask "SELECT count(*) > 0 FROM metric" 2>/dev/null)" = 1 ]; }
# sound TEXT: lab itself finds nothing wrong with the database
sound() { lab fsck --db "${db:-results/lab.db}" >fsck.out 2>&1 || { cat fsck.out; failed=$((failed + 1)); echo "FAILED  $1: fsck"; return; }; passed=$((passed + 1)); }
# Everything that a view shows of finished runs, without times and hosts.
answer() { ask "SELECT * FROM results; SELECT * FROM curves; SELECT encoder, task, seed, result_sha256 FROM runs WHERE state = 'done'"; }
