#!/bin/sh
# check_exports.sh PLUGIN.so... -- a plugin exports lab_plugin_entry, nothing else, and needs only libc and libm.
bad=0
for so; do
    names=$(nm -D --defined-only "$so" | awk '{print $3}')
    [ "$names" = lab_plugin_entry ] || { echo "$so: exports: $names"; bad=1; }
    needed=$(readelf -d "$so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^lib(m|c|mvec)\.so' )
    [ -z "$needed" ] || { echo "$so: needs $needed"; bad=1; }
done
[ $bad = 0 ] && echo "exports: $# plugins export one symbol each"
exit $bad
