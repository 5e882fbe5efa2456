#!/usr/bin/env bash
# openapi-generator, a client in Java with the JDK's HTTP client and Jackson.
set -eu
cd "$(dirname "$0")"
# shellcheck source=tests/clients/tools.sh
. ../tools.sh
# shellcheck source=tests/clients/generator.sh
. ../generator.sh

packages=invokerPackage=rlockd,apiPackage=rlockd.api,modelPackage=rlockd.model
openapi_generator java "library=native,hideGenerationTimestamp=true,$packages"
echo ok generate
cp Smoke.java "$OUT/rlockd/src/main/java"
cd "$OUT/rlockd"
mvn --batch-mode --no-transfer-progress -Dmaven.test.skip=true compile \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath \
    -Dmdep.outputFile=classpath > "$OUT/maven.log" 2>&1 || {
    tail "$OUT/maven.log"
    exit 1
}
echo ok compile
java -cp "target/classes:$(cat classpath)" Smoke
