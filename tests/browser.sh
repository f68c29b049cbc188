#!/bin/sh
# browser.sh REPORT.html -- opens a report in headless Chromium and says "ok", or what is wrong with it.
# Looked at 360 and 1280 pixels wide, with everything unfolded: nothing may be wider than the page, but for what scrolls by
# itself; ids are unique; nothing is requested; the console stays empty.  Without Chromium it says "ok" and why.
set -u
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || { echo "ok (no chromium here)"; exit 0; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
# The page forbids scripts, so the copy that is measured has that line taken out, and ours put in.
sed '/Content-Security-Policy/d; s|</body>||; s|</html>||' "$1" >"$tmp/page.html"
cat >>"$tmp/page.html" <<'EOF'
<script>
onload = () => {
    const wrong = [], ids = [...document.querySelectorAll('[id]')].map(e => e.id);
    if (new Set(ids).size !== ids.length) wrong.push('an id stands twice');
    for (const e of document.querySelectorAll('[aria-labelledby]'))
        for (const id of e.getAttribute('aria-labelledby').split(' ')) if (!document.getElementById(id)) wrong.push('no element has the id ' + id);
    document.querySelectorAll('details').forEach(d => d.open = true);
    for (const width of [360, 1280]) {
        document.body.style.width = width + 'px';
        for (const e of document.querySelectorAll('body *'))
            if (!e.closest('.scroll > *') && e.getBoundingClientRect().right > width + 1) wrong.push(width + ': too wide: <' + e.tagName + '> ' + e.textContent.slice(0, 40).replace(/\s+/g, ' '));
    }
    const requests = performance.getEntriesByType('resource').map(e => e.name);
    if (requests.length) wrong.push('requested: ' + requests);
    document.title = 'MEASURED ' + (wrong.length ? wrong.slice(0, 5).join('; ') : 'ok');
};
</script></body></html>
EOF
run() {
    timeout 50 "$browser" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-dev-shm-usage \
        --user-data-dir="$tmp/profile" --enable-logging=stderr --v=0 --window-size=1400,1000 --dump-dom "file://$1" 2>"$tmp/log"
}
case $1 in /*) page=$1 ;; *) page=$PWD/$1 ;; esac
run "$page" >/dev/null || { echo "the browser failed"; exit 1; }
if grep -q 'CONSOLE' "$tmp/log"; then grep 'CONSOLE' "$tmp/log"; exit 1; fi
run "$tmp/page.html" | sed -n 's|.*<title>MEASURED \(.*\)</title>.*|\1|p' >"$tmp/answer"
cat "$tmp/answer"
[ "$(cat "$tmp/answer")" = ok ]
