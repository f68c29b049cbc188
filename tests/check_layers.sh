#!/bin/sh
# check_layers.sh LAYER... -- a folder of core/ includes only itself and the folders before it in the list;
# answer and run do not include each other; each library is included by its one owner.
bad=0
owner() { # header pattern, allowed file pattern
    found=$(grep -lE "#include <$1>" -r core --include='*.[ch]' | grep -vE "$2")
    [ -z "$found" ] || { echo "layers: <$1> belongs to $2, but is included by: $found"; bad=1; }
}
allowed=
for layer; do
    allowed="$allowed $layer"
    for other; do
        case " $allowed " in *" $other "*) ok=1 ;; *) ok=0 ;; esac
        [ "$layer$other" = answerrun ] && ok=0
        [ $ok = 1 ] || ! grep -nE "#include \"$other/" core/"$layer"/*.[ch] 2>/dev/null || { echo "layers: $layer may not include $other"; bad=1; }
    done
done
owner 'cblas\.h' '^core/nn/gemm\.c$'
owner 'sqlite3\.h' '^core/store/'
owner 'ini\.h' '^core/exp/conf\.c$'
owner 'dlfcn\.h' '^core/host/plugin\.c$'
[ $bad = 0 ] && echo "layers: each folder includes only those above it"
exit $bad
