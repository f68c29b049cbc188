#!/bin/sh
# build_info.sh CC CFLAGS -- prints a C header with what a build is made of, for the provenance of results.
commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)
dirty=0
[ "$commit" = unknown ] || [ -z "$(git status --porcelain -- core plugins Makefile 2>/dev/null)" ] || dirty=1       # new files are built, too
printf '#define BUILD_COMMIT "%s"\n#define BUILD_DIRTY %s\n' "$commit" "$dirty"
printf '#define BUILD_COMPILER "%s"\n' "$($1 --version 2>/dev/null | head -n 1 | sed 's/[\\"]//g')"
printf '#define BUILD_FLAGS "%s"\n' "$(printf '%s' "$2" | sed 's/[\\"]//g')"
