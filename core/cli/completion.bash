# Completion of lab's commands, options and names for bash.  It asks lab itself, so it knows whatever this lab knows.
_lab()
{
    local lab=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words= part=
    [ "$command" = slurm ] && [ "$COMP_CWORD" -gt 2 ] && part=${COMP_WORDS[2]}
    if [ "$COMP_CWORD" = 1 ]; then
        words=$("$lab" --help 2>/dev/null | awk '/^  [a-z]/ && $1 != "lab" { print $1 }')
    elif [[ $word = -* ]]; then
        words=$("$lab" "$command" $part --help 2>/dev/null | awk '/^  -/ { sub(/^-.,/, "", $1); print $1 != "" ? $1 : $2 }')
    else
        case $command in
        info|inspect|check|sample) words=$("$lab" list 2>/dev/null | awk '/^(encoder|task) /, /^$/ { if (!/^(encoder|task|-+) / && NF) print $1 }') ;;
        query) words=$("$lab" query 2>/dev/null | awk '/^@/ { print $1 }') ;;
        slurm) [ "$COMP_CWORD" = 2 ] && words=$("$lab" slurm --help 2>/dev/null | awk '/^  [a-z]+  / { print $1 }') ;;
        new) [ "$COMP_CWORD" = 2 ] && words='encoder task' ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _lab lab
