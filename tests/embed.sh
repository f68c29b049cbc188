#!/bin/sh
# embed.sh FILE... -- prints a C header with each file as a string: core/store/views/x.sql becomes SQL_VIEWS_X,
# core/answer/x.css CSS_X, core/cli/skeleton_task.c.in SKELETON_TASK_C.
for f; do
    case $f in *.sql) prefix=SQL_ ;; *.css) prefix=CSS_ ;; *) prefix= ;; esac
    name=$prefix$(printf '%s' "$f" | sed 's|^core/[a-z]*/||; s|\.sql$||; s|\.css$||; s|\.in$||' | tr 'a-z/.' 'A-Z__')
    printf 'static const char %s[] __attribute__((unused)) =\n' "$name"
    sed 's/\\/\\\\/g; s/"/\\"/g; s/^/    "/; s/$/\\n"/' "$f"
    printf '    ;\n'
done
