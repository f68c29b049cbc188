#compdef lab
# Completion of lab's commands, options and names for zsh.  It asks lab itself, so it knows whatever this lab knows.
_lab()
{
    local lab=${words[1]} command=${words[2]} part=
    [[ $command == slurm ]] && (( CURRENT > 3 )) && part=${words[3]}
    local -a lines
    if (( CURRENT == 2 )); then
        lines=(${(f)"$($lab --help 2>/dev/null | awk '/^  [a-z]/ && $1 != "lab" { name = $1; sub(/^  [a-z]+ +/, ""); print name ":" $0 }')"})
        _describe command lines
    elif [[ ${words[CURRENT]} == -* ]]; then
        lines=(${(f)"$($lab $command ${=part} --help 2>/dev/null | awk '/^  -/ { text = $0; sub(/^  -.*[^ ]   */, "", text)
            for (i = 1; i <= 2; i++) if ($i ~ /^-/) { sub(/,$/, "", $i); print $i ":" text } }')"})
        _describe option lines
    else
        case $command in
        info|inspect|check|sample) lines=(${(f)"$($lab list 2>/dev/null | awk '/^(encoder|task) /, /^$/ { if (!/^(encoder|task|-+) / && NF) print $1 }')"}) ;;
        query) lines=(${(f)"$($lab query 2>/dev/null | awk '/^@/ { print $1 }')"}) ;;
        slurm) (( CURRENT == 3 )) && lines=(${(f)"$($lab slurm --help 2>/dev/null | awk '/^  [a-z]+  / { print $1 }')"}) ;;
        new) (( CURRENT == 3 )) && lines=(encoder task) ;;
        esac
        (( $#lines )) && compadd -a lines
        _files
    fi
}
_lab "$@"
