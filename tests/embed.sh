#!/bin/sh
# embed.sh FILE... -- prints a C header with each file as a string: core/store/views/x.sql becomes SQL_VIEWS_X.
for f; do
    name=$(printf '%s' "$f" | sed 's|^core/store/||; s|\.sql$||' | tr 'a-z/' 'A-Z_')
    printf 'static const char SQL_%s[] __attribute__((unused)) =\n' "$name"
    sed 's/\\/\\\\/g; s/"/\\"/g; s/^/    "/; s/$/\\n"/' "$f"
    printf '    ;\n'
done
