#!/bin/sh
# help.sh LAB MAN -- every command that `lab --help` names says how it is used, with an example that could be typed; the
# manual page and the completions of bash and zsh know every command and every option.
set -u
lab=$1 man=$2 failed=0 commands=0 options=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
wrong() { echo "help: FAILED: $*"; failed=1; }
has() { printf '%s\n' "$2" | grep -qxF -- "$1"; }
sed 's/\\-/-/g; s/\\&//g' "$man" >"$tmp/man"

complete_bash() { bash -c '. core/cli/completion.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lab; printf "%s\n" "${COMPREPLY[@]}"' - "$lab" "$@"; }
# What zsh would show, without a terminal: its functions that show it are replaced by ones that print.
complete_zsh() {
    zsh -fc 'words=("$@"); CURRENT=$#; _files() { : }
_describe() { local -a shown; shown=(${(P)2}); print -rl -- ${shown%%:*} }
compadd() { print -rl -- ${(P)2} }
_load() { source core/cli/completion.zsh }; _load' - "$lab" "$@"
}
shells=
for shell in bash zsh; do
    if command -v $shell >/dev/null; then shells="$shells $shell"; else echo "help: SKIPPED: completion of $shell: it is not here"; fi
done

names=$("$lab" --help | awk '/^  [a-z]/ && $1 != "lab" { print $1 }')
for shell in $shells; do
    offered=$(complete_$shell "")
    [ "$offered" = "$names" ] || wrong "$shell offers other commands than lab has: $(echo $offered)"
done
for command in $names; do
    commands=$((commands + 1))
    help=$("$lab" "$command" --help) || wrong "lab $command --help ends with $?"
    printf '%s\n' "$help" | grep -q "^usage: lab $command " || wrong "lab $command --help names no usage"
    printf '%s\n' "$help" | awk 'length > 100 { exit 1 }' || wrong "lab $command --help has a line of more than 100 columns"
    grep -q "^\.SS lab $command " "$tmp/man" || wrong "the manual page has no section on $command"
    long=$(printf '%s\n' "$help" | sed -n 's/^  \(-., \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p')
    short=$(printf '%s\n' "$help" | sed -n 's/^  \(-.\), .*/\1/p')
    example=$(printf '%s\n' "$help" | sed -n '/^example:/,$ s/^  //p')
    case $example in "lab $command" | "lab $command "*) ;; *) wrong "lab $command --help has no example of it: '$example'" ;; esac
    case $command in slurm) long=$("$lab" $(echo "$example" | cut -d' ' -f2,3) --help | sed -n 's/^  \(-., \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p') ;; esac
    for word in $example; do
        case $word in -*) has "${word%%=*}" "$long
$short" || wrong "the example of $command uses $word, which it does not have" ;; esac
    done
    [ "$command" = slurm ] && continue                                   # its parts have the options: see below
    for shell in $shells; do eval "offered_$shell=\$(complete_$shell $command -)"; done
    for option in $long; do
        options=$((options + 1))
        grep -q "^\.B .*$option" "$tmp/man" || wrong "the manual page lacks $option of $command"
        for shell in $shells; do
            eval "offered=\$offered_$shell"
            has "$option" "$offered" || wrong "the completion of $shell lacks $option of $command"
        done
    done
done
# the parts of a command
for part in $("$lab" slurm --help | awk '/^  [a-z]+  / { print $1 }'); do
    grep -q "^\.SS lab slurm $part " "$tmp/man" || wrong "the manual page has no section on slurm $part"
    for shell in $shells; do
        has "$part" "$(complete_$shell slurm "")" || wrong "the completion of $shell does not know slurm $part"
        eval "offered_$shell=\$(complete_$shell slurm $part -)"
    done
    for option in $("$lab" slurm "$part" --help | sed -n 's/^  \(-., \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p'); do
        options=$((options + 1))
        for shell in $shells; do
            eval "offered=\$offered_$shell"
            has "$option" "$offered" || wrong "the completion of $shell lacks $option of slurm $part"
        done
    done
done
for shell in $shells; do
    has rope "$(complete_$shell info "")" || wrong "the completion of $shell does not know rope after info"
    has @compare_encoders "$(complete_$shell query @)" || wrong "the completion of $shell does not know the saved queries"
    has task "$(complete_$shell new "")" || wrong "the completion of $shell does not know what is new"
done
if command -v man >/dev/null; then
    LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$man" 2>&1 >/dev/null | grep . && wrong "the manual page is not understood"
fi
[ "$failed" = 0 ] && echo "help: $commands commands and $options options, each with its help, its example, manual page and completion:$shells"
exit $failed
