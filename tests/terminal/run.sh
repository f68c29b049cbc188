#!/bin/sh
# run.sh -- looks at `lab run` and `lab status --watch` on real terminals, of tmux: every width, resizing, Ctrl-C, no UTF-8, no
# cursor, no terminal.  Without tmux it says so and passes.
set -u
command -v tmux >/dev/null || { echo "terminal: SKIPPED: no tmux here (make deps installs it)"; exit 0; }
root=$(pwd) tmp=$(mktemp -d) || exit 1
socket=lab-$$
tm() { tmux -L "$socket" -f /dev/null "$@"; }
trap 'tm kill-server 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
failed=0 looked=0
unset NO_COLOR TMUX

# Four runs that end only when they are told to, and tell of themselves at once.
cat >"$tmp/long.ini" <<'INI'
[experiment]
name = long
[sweep]
encoder = none, rope
task = reverse
seed = 0..1
[train]
length = 4
batch = 8
steps = 999999
[eval]
every = 0
[model]
d_model = 16
heads = 2
layers = 1
d_ff = 32
INI

screen() { tm capture-pane -p -t "$1" | sed 's/ *$//' >"$tmp/screen"; }
# For conditions: how often a pattern stands on the screen; its widest line.
awk_functions='function count(p,  i, n) { for (i = 1; i <= NR; i++) n += line[i] ~ p; return n + 0 }
function widest(  i, n) { for (i = 1; i <= NR; i++) if (length(line[i]) > n) n = length(line[i]); return n + 0 }'
# shows SESSION WHAT CONDITION: the screen, looked at ten times a second for half a minute, comes to meet the condition.
shows() {
    looked=$((looked + 1)) tries=0
    while screen "$1"; ! awk "$awk_functions { line[NR] = \$0 } END { exit !($3) }" "$tmp/screen"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 300 ]; then
            echo "terminal: FAILED: $2"; sed 's/^/  |/; s/$/|/' "$tmp/screen"; failed=1; return
        fi
        sleep 0.1
    done
}
starts() {       # SESSION COLUMNS LOCALE COMMAND
    tm new-session -d -s "$1" -x "$2" -y 20 "cd '$tmp'; export LC_ALL=$3 PS1='ready> ' OPENBLAS_NUM_THREADS=1; exec sh"
    tm send-keys -t "$1" "clear; $4; echo ended \$?" Enter
}
lab=$root/lab
run="$lab run long.ini --db long.db --jobs 2"

worker='^reverse none' blocks='[▁▂▃▄▅▆▇█]+'
starts run 80 C.UTF-8 "$run"
tm pipe-pane -t run "cat >'$tmp/sent'"
shows run "80 columns: the sweep, two workers, a curve of blocks" \
    "count(\"^\\\\[\\\\.*\\\\] 0/4 runs  [0-9]+ steps/s  .* left\$\") == 1 && count(\"$worker seed [01] +[0-9]+/999999  [0-9.]+  $blocks .* left\$\") == 2"
starts watch 120 C.UTF-8 "$lab status --watch --db long.db"
shows watch "status --watch: the same workers, read from the database" \
    "count(\"^long: 4 runs: 2 running, 2 pending; .* left\$\") == 1 && count(\"$worker seed [01] .*$blocks +[0-9]+ steps/s .* left  heard of [0-9]+ s ago\$\") == 2"
for width in 40 200 80; do
    tm resize-window -t run -x $width; tm resize-window -t watch -x $width
    shows run "run at $width columns: one line for the sweep, one for each worker, nothing left of earlier ones" \
        "count(\"0/4 runs\") == 1 && count(\"$worker\") == 2 && count(\"/999999 .*$blocks\") == 2 && ($width < 200 || count(\"steps/s .* left\$\") == 3)"
    shows watch "status --watch at $width columns" \
        "count(\"^long: 4 runs\") == 1 && count(\"$worker\") == 2 && count(\"/999999 .*$blocks\") == 2 && ($width < 200 || count(\"heard of\") == 2)"
done
tm send-keys -t watch C-c
shows watch "status --watch ends by Ctrl-C, its last screen above the prompt" 'count("^long: 4 runs") == 1 && count("^ready>") == 1'
tm send-keys -t run C-c
shows run "Ctrl-C: 75, and no worker is left on the screen" \
    "count(\"^ended 75\$\") == 1 && count(\"stopping: workers finish\") == 1 && count(\"$worker.*$blocks\") == 0 && count(\"0/4 runs\") == 1"
looked=$((looked + 1))
if grep -q "$(printf '\033\\[[0-9;]*m')" "$tmp/sent"; then echo "terminal: FAILED: a colour, which nothing here calls for"; failed=1; fi

starts ascii 80 C "NO_COLOR=1 $run"
shows ascii "without UTF-8: a curve in ASCII" "count(\"$worker seed [01] +[0-9]+/999999  [0-9.]+  [_.:=+*#-]+ .* left\$\") == 2"
tm send-keys -t ascii C-c; shows ascii "and it ends" 'count("^ended 75$") == 1'

starts dumb 80 C.UTF-8 "TERM=dumb $run"
tm pipe-pane -t dumb "cat >'$tmp/plain'"
sleep 1; tm send-keys -t dumb C-c
shows dumb "TERM=dumb: plain lines" 'count("^lab: 0/4 runs") == 1 && count("^ended 75$") == 1'
looked=$((looked + 1))
if sed -n '/^lab: /p' "$tmp/plain" | grep -q "$(printf '\033')"; then echo "terminal: FAILED: TERM=dumb, but lab sends escapes"; failed=1; fi

if command -v script >/dev/null; then
    starts script 80 C.UTF-8 "script -q -c '$run' typescript"
    shows script "inside script" "count(\"$worker.*$blocks\") == 2"
    sleep 2; tm send-keys -t script C-c; shows script "script ends" 'count("^ended") == 1'
    starts replay 80 C.UTF-8 "cat typescript"
    shows replay "what script kept shows the end of it, once" \
        "count(\"0/4 runs\") == 1 && count(\"$worker.*$blocks\") == 0 && count(\"stopping: workers finish\") == 1"
    looked=$((looked + 1)) size=$(wc -c <"$tmp/typescript")
    [ "$size" -lt 20000 ] || { echo "terminal: FAILED: script kept $size bytes of a few seconds"; failed=1; }
fi
[ "$failed" = 0 ] && echo "terminal: $looked looks at tmux, all as they should be"
exit $failed
