#!/bin/sh
# run.sh [FOLDER] -- makes a small experiment, some of it failed, and looks at its report in headless Chromium: see check.mjs.
# FOLDER keeps pictures and the printed page.  Installs axe-core under build/browser; where that, the browser or Node cannot be
# had it says so and passes.
set -eu
root=$(pwd) keep=${1:-} axe=4.10.3
skip() { echo "browser: SKIPPED: $*"; exit 0; }
CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "no chromium here (Debian: chromium)"
command -v node >/dev/null || skip "no node here (Debian: nodejs)"
AXE_AT=$root/build/browser
export CHROMIUM AXE_AT OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
if [ ! -f "$AXE_AT/node_modules/axe-core/axe.min.js" ]; then
    command -v npm >/dev/null || skip "no npm here to get axe-core with"
    mkdir -p "$AXE_AT"
    npm install --silent --no-audit --no-fund --no-save --prefix "$AXE_AT" "axe-core@$axe" >/dev/null 2>&1 || skip "axe-core cannot be got with npm"
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
[ -z "$keep" ] || mkdir -p "$keep"
"$root/lab" run tests/browser/report.ini --db "$tmp/lab.db" --plugin build/normal/tests/plugins/bad_nan.so --quiet >/dev/null 2>&1 || [ $? = 1 ]
"$root/lab" report --db "$tmp/lab.db" -o "$tmp/report.html" >/dev/null
node tests/browser/check.mjs "$tmp/report.html" $keep
