#!/bin/bash
# run.sh TEST... -- each fault test in turn (`campaign 10`: with arguments); what was checked is shown when one fails.
# Signals that a caller ignores, as a shell does for what it runs in the background, are heard again here.
cd "$(dirname "$0")" || exit 1
log=$(mktemp); trap 'rm -f "$log"' EXIT
failed=0
for test; do
    read -r name arguments <<<"$test"
    began=$SECONDS
    if env --default-signal=HUP,INT,QUIT bash "$name.sh" $arguments >"$log" 2>&1; then state=ok; else state=FAILED failed=1; fi
    printf '  %-6s faults/%s: %s (%d s)\n' $state "$test" "$(tail -n 1 "$log")" $((SECONDS - began))
    grep ' kills (' "$log"
    [ $state = ok ] || grep -v '^ok' "$log"
done
exit $failed
