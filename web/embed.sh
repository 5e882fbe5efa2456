# embed.sh FILE...: prints the files of the page as rows of a C table: name, media type, entity
# tag, and the text with its length.
set -eu

for file in "$@"; do
    case $file in
        *.html) type='text/html; charset=utf-8' ;;
        *.css) type='text/css; charset=utf-8' ;;
        *.js) type='text/javascript; charset=utf-8' ;;
        *.svg) type='image/svg+xml' ;;
        *) echo "$file: of no known media type" >&2 && exit 1 ;;
    esac
    tag=$(sha256sum "$file" | cut -c 1-16)
    printf '{"%s", "%s", "\\"%s\\"", %s,\n' "${file##*/}" "$type" "$tag" "$(wc -c < "$file")"
    sed -e 's/[\\"?]/\\&/g' -e 's/.*/"&\\n"/' "$file"
    echo '},'
done
