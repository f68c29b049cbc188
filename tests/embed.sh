#!/bin/sh
# embed.sh FILE... -- prints a C header with each file as a string: core/store/views/x.sql becomes SQL_VIEWS_X,
# core/answer/x.css becomes CSS_X.
for f; do
    name=$(printf '%s_%s' "${f##*.}" "$f" | sed 's|core/[a-z]*/||; s|\.[a-z]*$||' | tr 'a-z/' 'A-Z_')
    printf 'static const char %s[] __attribute__((unused)) =\n' "$name"
    sed 's/\\/\\\\/g; s/"/\\"/g; s/^/    "/; s/$/\\n"/' "$f"
    printf '    ;\n'
done
