#!/bin/sh
# install.sh -- installs into an empty folder, and shows that what lies there is enough to write, build, check and train a
# plugin; then takes it away again.  Run from the top of the source, by `make install-test`.
set -eu
PREFIX=${PREFIX:-/usr/local} root=$(pwd) stage=$(mktemp -d) work=$(mktemp -d)
trap 'rm -rf "$stage" "$work"' EXIT
trap 'exit 1' HUP INT TERM
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 LC_ALL=C
unset LAB_PLUGIN_PATH LAB LAB_INCLUDE
fail() { echo "install: FAILED: $*" >&2; exit 1; }
must() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }
says() { grep -q -- "$1" "$work/log" || { cat "$work/log" >&2; fail "expected '$1'"; }; }

must "${MAKE:-make}" --no-print-directory install DESTDIR="$stage"
prefix=$stage$PREFIX
PATH=$prefix/bin:$PATH
cp tests/cli/tiny.ini "$work"
cd "$work"
must lab list;                               says "$PREFIX/lib/lab/plugins/encoders/rope.so"
must lab check rope shift;                   says "0 failed"
for kind in encoder task; do
    must lab new $kind my_$kind --outside
    must make -C my_$kind check;             says " 0 failed"
    grep -q "^LAB_INCLUDE ?= $prefix/include/lab$" my_$kind/Makefile || fail "my_$kind/Makefile does not name $prefix/include/lab"
done
must lab run tiny.ini --plugin my_encoder/my_encoder.so --plugin my_task/my_task.so --set sweep.encoder=none,my_encoder --set sweep.task=my_task
says "my_encoder"
must lab query @compare_encoders
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$stage"
    must ${CC:-cc} -shared -fPIC -fvisibility=hidden $(pkg-config --cflags lab-plugin) -o again.so my_encoder/my_encoder.c -lm
    must lab check again.so
    [ "$(pkg-config --variable=abi lab-plugin)" = 1.1 ] || fail "lab-plugin.pc: abi is $(pkg-config --variable=abi lab-plugin)"
    PKG_CONFIG_SYSROOT_DIR= pkg-config --variable=plugindir lab-plugin | grep -qx "$PREFIX/lib/lab/plugins" || fail "lab-plugin.pc: plugindir"
fi
for word in 'lab run' 'lab check' '\\-\\-only\\-failed' 'EXIT STATUS'; do
    grep -q "$word" "$prefix/share/man/man1/lab.1" || fail "the manual page lacks $word"
done
if command -v bash >/dev/null; then
    complete() { bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lab; echo "${COMPREPLY[*]}"' - "$prefix/share/bash-completion/completions/lab" lab "$@"; }
    [ "$(complete che)" = check ] || fail "completion of che: $(complete che)"
    [ "$(complete check --onl)" = --only-failed ] || fail "completion of --onl: $(complete check --onl)"
    [ "$(complete run --job)" = --jobs ] || fail "completion of --job: $(complete run --job)"
    [ "$(complete info rop)" = rope ] || fail "completion of rop: $(complete info rop)"
    [ "$(complete new ta)" = task ] || fail "completion of ta: $(complete new ta)"
fi
cd "$root"
must "${MAKE:-make}" --no-print-directory uninstall DESTDIR="$stage"
left=$(find "$stage" -type f) && [ -z "$left" ] || fail "uninstall leaves $left"
left=$(find "$stage" -name 'lab*') && [ -z "$left" ] || fail "uninstall leaves $left"
echo "install: the installed files are enough for a plugin, and all go away again"
