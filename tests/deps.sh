#!/bin/sh
# deps.sh [PACKAGE...] -- install the Debian packages that are missing, and only those.
# Refuses to guess on a system without apt: it names the packages and stops.
set -eu
packages="gcc libc6-dev libopenblas-dev libsqlite3-dev libinih-dev libcmocka-dev libmd-dev sqlite3 $*"
optional="gnuplot-nox tmux"          # draws the files of `lab plot`; lets the tests look at terminals: all else works without them
have() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

if ! command -v apt-get >/dev/null 2>&1; then
    echo "make deps: no apt-get on this system; install what your system calls: $packages" >&2
    exit 1
fi
missing=
for p in $packages; do have "$p" || missing="$missing $p"; done
extra=
for p in $optional; do have "$p" || extra="$extra $p"; done
[ -n "$missing$extra" ] || { echo "make deps: nothing is missing"; exit 0; }
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "make deps: needs root or sudo to install:$missing$extra" >&2; [ -z "$missing" ]; exit; }
    as_root=sudo
fi
echo "make deps: installing$missing$extra"
$as_root apt-get update -qq || [ -z "$missing" ]
get() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
[ -z "$missing" ] || get $missing
[ -z "$extra" ] || get $extra || echo "make deps: could not install$extra; lab works without"
