#!/bin/sh
# deb.sh [VERSION]: builds the Debian packages of the sources at hand into build/deb, with another
# version than that of debian/changelog for tests. `make deb` installs what it needs.
set -eu
cd "$(dirname "$0")/.."

source=build/deb/source
rm -rf build/deb
mkdir -p "$source"
git ls-files -z | xargs -0 cp --parents --no-dereference --preserve=mode -t "$source"
if [ $# -gt 0 ]; then
    sed -i "1s/([^)]*)/($1)/" "$source/debian/changelog"
fi
cd "$source"
dpkg-buildpackage --build=binary --no-sign
cd ..
rm -rf source
ls ./*.deb
