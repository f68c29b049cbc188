#!/bin/sh
# make_man.sh LAB -- prints the manual page, made of what `lab --help` and `lab COMMAND --help` say.
set -eu
lab=$1
escape() { sed 's/\\/\\\\/g; s/-/\\-/g; s/^\([.'\'']\)/\\\&\1/'; }
version=$("$lab" --version)
printf '.TH LAB 1 "" "%s" ""\n.SH NAME\nlab \\- compare positional encodings of Transformers past the training length\n' "$version"
printf '.SH SYNOPSIS\n.B lab\n.I COMMAND\n[ARGUMENTS] [OPTIONS]\n.SH DESCRIPTION\n'
printf 'Trains small Transformers on the CPU, each with another positional encoding, on equal data and from equal weights,\n'
printf 'and tells which still works past the training length.\nEncoders and tasks are plugins, experiments are text files, results are rows of one SQLite file.\n.SH COMMANDS\n'
# Some commands have parts, each with options of its own.
"$lab" --help | awk '/^  [a-z]/ && $1 != "lab" { print $1 }' | while read -r name; do
    echo "$name"
    "$lab" "$name" --help | awk -v name="$name" '/^  [a-z]+  / { print name, $1 }'
done | while read -r command; do
    "$lab" $command --help | awk -v q="'" '
        /^usage: /  { sub(/^usage: /, ""); print ".SS " $0; next }
        /^example:/ { print ".PP\nExample:\n.nf"; example = 1; next }
        /^  -/      { match($0, /  +[^ ]+( [^ ]+)*  +/); left = substr($0, 3, RLENGTH - 2); sub(/ +$/, "", left)
                      print ".TP\n.B " left; print substr($0, RSTART + RLENGTH); next }
        NF          { sub(/^  /, ""); print }
        END         { if (example) print ".fi" }' | escape | sed 's/^\\&\(\.\(SS\|PP\|nf\|fi\|TP\|B\) *\)/\1/'
done
cat <<'END'
.SH EXIT STATUS
0 all done, 1 some runs or checks failed or a ceiling could not be had, 2 the command or the file is wrong and nothing was started,
3 the database, 4 two results of one run differ (lab merge), 75 interrupted: the same command goes on, 130 a second interrupt.
.SH FILES
.TP
.I results/lab.db
the database, unless \-\-db names another
.SH ENVIRONMENT
.TP
.B LAB_PLUGIN_PATH
folders and files to look for plugins in, a colon apart
.TP
.B LAB_SIMD
generic, avx2 or avx512: the kernels to compute with (default: the best that the processor has)
.TP
.B LAB_GEMM
openblas: every matrix product by OpenBLAS, none by lab itself
.TP
.B TMPDIR
where, unless SLURM_TMPDIR is set, a task of a plan works, and where results wait when neither the database nor its folder can be written (default: /tmp)
END
