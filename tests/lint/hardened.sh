#!/bin/sh
# usage: hardened.sh BINARY - is the default build hardened as the Makefile means to?
binary=$1
failed=0

want() { # want WHAT PATTERN: in what readelf says
    readelf --wide --file-header --program-headers --dynamic --symbols "$binary" |
        grep -q -- "$2" || { echo "$binary: no $1"; failed=1; }
}

want 'position-independent code (-fPIE -pie)' 'Type: *DYN'
want 'read-only relocations (-z relro)' GNU_RELRO
want 'binding at the start (-z now)' 'BIND_NOW\|Flags:.* NOW'
want 'stack protector (-fstack-protector-strong)' __stack_chk_fail
want 'checked string functions (-D_FORTIFY_SOURCE)' '__[a-z]*_chk\b'
case $(uname -m) in
    x86_64) landing=endbr64 ;;
    aarch64) landing='bti\|paciasp' ;;
    *) exit $failed ;;
esac
# In a file, since grep -q would end objdump in the midst of it.
code=$(mktemp)
objdump --disassemble=main "$binary" > "$code"
grep -q -- "$landing" "$code" || {
    echo "$binary: no landing pads (-fcf-protection)"
    failed=1
}
rm -f "$code"
exit $failed
