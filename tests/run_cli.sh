#!/bin/sh
# run_cli.sh FILE.test... -- runs commands as a user would and compares what they print, and their exit codes.
# As many files at once as there are cores.
#
# A blank line ends a case.  Each case starts in an empty folder, with lab on PATH, LC_ALL=C, the source tree
# in $ROOT and the build in $BUILD.  A case is made of these lines:
#   # what it shows; ending in "(not under sanitizers)", the case is left out where $SANITIZED is set
#   > NAME          the lines "| TEXT" below it become the file NAME
#   $ COMMAND       a line of sh
#   ...             what it prints, stdout and stderr together, up to the next "$" or "=":
#                   "..." stands for any text in a line, and alone on a line for any lines; "~" is an empty line
#   = CODE          its exit code; 0 when there is no such line.  Needed before another ">" or "#".
# To add a test, write three lines: a command, what it prints, its code.
set -u
ROOT=$(pwd) BUILD=${BUILD:-$ROOT/build/normal} PATH=${BUILD:-$ROOT/build/normal}:$PATH
cores=$(nproc)                       # which obeys the next line
export ROOT BUILD PATH LC_ALL=C OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
unset LAB_PLUGIN_PATH NO_COLOR MAKEFLAGS MFLAGS MAKELEVEL      # a make that runs this is none of a case's business
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

if [ $# -gt 1 ]; then                # every file by itself, and the sum
    printf '%s\n' "$@" | xargs -P "$cores" -I '{}' sh -c 'sh "$0" "$1" >"$2/$(basename "$1")" 2>&1; true' "$0" '{}' "$tmp"
    cat "$tmp"/* | grep -v '^cli: '
    cat "$tmp"/* | awk '/^cli: / { passed += $2; failed += $4; files++ }
        END { printf "cli: %d passed, %d failed\n", passed, failed; exit failed > 0 || files != '$#' }'
    exit
fi

awk -v tmp="$tmp" '
function quoted(text) { return "\"" text "\"" }

function start_case() {
    started = 1; broken = 0; commands = 0; left_out = 0; file = ""
    system("rm -rf " quoted(dir) " && mkdir " quoted(dir))
}
function end_case() {
    end_command()
    if (started && broken) failed++
    else if (started && commands) passed++           # comments alone are no case
    started = 0
}
function start_command(command) {
    end_command()
    if (file != "") close(file)
    commands++; running = 1; shown = command; place = FILENAME ":" FNR; n_expected = 0; code = 0; file = ""
    printf "%s\n", command >(tmp "/command"); close(tmp "/command")
    system("cd " quoted(dir) " && timeout 60 sh " quoted(tmp "/command") " >" quoted(tmp "/found") \
           " 2>&1 </dev/null; echo $? >" quoted(tmp "/code"))
}
function end_command(   i, n_found, found_code) {
    if (!running) return
    running = 0
    while ((getline found[n_found + 1] <(tmp "/found")) > 0) n_found++
    close(tmp "/found")
    getline found_code <(tmp "/code"); close(tmp "/code")
    if (found_code + 0 == code && lines_match(1, 1, n_found + 0)) return
    printf "%s: FAILED: %s\n", place, shown
    if (found_code + 0 != code) printf "exit code %s, expected %s\n", found_code, code
    broken = 1
    printf "" >(tmp "/expected")
    for (i = 1; i <= n_expected; i++) print expected[i] == "~" ? "" : expected[i] >(tmp "/expected")
    close(tmp "/expected")
    system("cd " quoted(tmp) " && diff -u -L expected -L found expected found")
}
function lines_match(i, j, n_found) {        # expected[i..] against found[j..]
    for (; i <= n_expected && expected[i] != "..."; i++) {
        if (j > n_found || !line_matches(expected[i] == "~" ? "" : expected[i], found[j])) return 0
        j++
    }
    if (i > n_expected) return j > n_found
    for (; j <= n_found + 1; j++) if (lines_match(i + 1, j, n_found)) return 1
    return 0
}
function line_matches(pattern, text,   at, piece) {
    at = index(pattern, "...")
    if (!at) return pattern == text
    if (substr(text, 1, at - 1) != substr(pattern, 1, at - 1)) return 0
    text = substr(text, at); pattern = substr(pattern, at + 3)
    while ((at = index(pattern, "...")) > 0) {
        piece = substr(pattern, 1, at - 1)
        if (!index(text, piece)) return 0
        text = substr(text, index(text, piece) + length(piece)); pattern = substr(pattern, at + 3)
    }
    return length(text) >= length(pattern) && substr(text, length(text) - length(pattern) + 1) == pattern
}

BEGIN    { dir = tmp "/case" }
FNR == 1 { end_case() }
$0 == "" { end_case(); next }
         { if (!started) start_case() }
left_out { next }
/^\$ /   { start_command(substr($0, 3)); next }
running && /^= [0-9]+$/ { code = substr($0, 3) + 0; end_command(); next }
running  { expected[++n_expected] = $0; next }
/^#/     { if (ENVIRON["SANITIZED"] && /\(not under sanitizers\)$/) left_out = 1; next }
/^> /    { if (file != "") close(file); file = dir "/" substr($0, 3); printf "" >file; next }
file != "" && /^\|/ { print substr($0, 3) >file; next }
         { printf "%s:%d: FAILED: not understood: %s\n", FILENAME, FNR, $0; broken = 1 }
END      { end_case(); printf "cli: %d passed, %d failed\n", passed, failed; exit failed > 0 }
' "$@"
