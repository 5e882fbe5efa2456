#!/bin/sh
# image.sh DIR PROGRAM...: makes in DIR the file system of a container: the programs, the libraries
# that they load, certificate authorities, and for scanners and lawyers what Debian tells of the
# packages that these files come from. For Debian; the Dockerfile uses it.
set -eu

root=$1
shift

# copy FILE: to the same path, not as a link; and its package's papers.
copy() {
    mkdir -p "$root$(dirname "$1")"
    cp --dereference --preserve=mode "$1" "$root$1"
    # Libraries may have come to the package's database without /usr.
    real=$(realpath "$1")
    package=$(dpkg-query -S "$real" "${real#/usr}" 2> /dev/null | sed -n '1s/:.*//p')
    [ -n "$package" ] || return 0
    mkdir -p "$root/var/lib/dpkg/status.d" "$root/usr/share/doc/$package"
    dpkg-query -s "$package" > "$root/var/lib/dpkg/status.d/$package"
    cp --dereference "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package"
}

for program in "$@"; do
    copy "$program"
    # "libc.so.6 => /lib/…/libc.so.6 (0x…)", and the loader without an arrow.
    for library in $(ldd "$program" | grep -o '/[^ ]*'); do
        [ -e "$root$library" ] || copy "$library"
    done
done
copy /etc/ssl/certs/ca-certificates.crt
mkdir -p "$root/etc"
echo 'rlockd:x:7400:7400:rlockd:/data:/nonexistent' > "$root/etc/passwd"
echo 'rlockd:x:7400:' > "$root/etc/group"
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
