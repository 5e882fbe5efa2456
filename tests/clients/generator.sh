# shellcheck shell=bash
# generator.sh: to be sourced. openapi-generator, a jar from Maven Central.

generator_version=7.25.0

# openapi_generator LANGUAGE PROPERTIES: generates a client into $OUT/rlockd.
openapi_generator() {
    local name=openapi-generator-cli-$generator_version.jar
    if [ ! -f "$TOOLS/$name" ]; then
        # In a file of its own: Maven ends without a newline, in the midst of a line of the log.
        with_patience mvn --batch-mode \
            org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
            "-Dartifact=org.openapitools:openapi-generator-cli:$generator_version" \
            "-DoutputDirectory=$TOOLS" > "$OUT/maven.log" 2>&1 || {
            tail "$OUT/maven.log"
            return 1
        }
    fi
    java -jar "$TOOLS/$name" generate --input-spec "$SPEC" --generator-name "$1" \
        --output "$OUT/rlockd" --additional-properties "$2" > "$OUT/generator.log" || {
        tail "$OUT/generator.log"
        return 1
    }
}
