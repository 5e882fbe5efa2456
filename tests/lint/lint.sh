#!/usr/bin/env bash
# lint.sh BINARY: every check that needs no running server. All of them run, each complaint is
# one line, the last line is `lint: clean` or says what failed. BINARY is asked for its --help.
set -u

binary=$1
python=/usr/bin/python3 # the one that the Debian packages are for
failed=()
mapfile -t c_files < <(find server storage handlers client tests -name '*.[ch]' | sort)
mapfile -t shell_files < <(find deploy storage tests examples -name '*.sh' | sort)

# check NAME COMMAND...: runs the command, remembers that it failed.
check() {
    local name=$1
    shift
    "$@" || failed+=("$name")
}

format() {
    local file status=0
    for file in "${c_files[@]}"; do
        if ! clang-format --dry-run -Werror "$file" > /dev/null 2>&1; then
            echo "$file: not formatted (make format)"
            status=1
        fi
    done
    return $status
}

# Every complaint but those about manuals that are not installed here.
manuals() {
    ! mandoc -T lint -W style "$@" 2>&1 |
        grep -v -e 'referenced manual not found' -e 'outdated mandoc.db'
}

# SHARE: each shell reads its file, and fish, which can be asked, completes by it.
completions() {
    local fish=$1/fish/vendor_completions.d/rlock.fish

    bash -n "$1/bash-completion/completions/rlock" &&
        zsh -n "$1/zsh/site-functions/_rlock" &&
        fish -c "source $fish; complete -C 'rlock run --at-l'" | grep -q '^--at-least' &&
        fish -c "source $fish; complete -C 'rlock run --kind w'" | grep -q '^write' &&
        fish -c "source $fish; complete -C 'rlock latch '" | grep -q '^count-down' &&
        fish -c "source $fish; complete -C 'rlock run -w 5 x una'" | grep -q '^uname' && return
    echo "$1: completions are not as they should be"
    return 1
}

check sources  "$python" tests/lint/sources.py
check scripts  "$python" tests/lint/scripts.py
check openapi  "$python" tests/lint/openapi.py
check drift    "$python" tests/lint/drift.py "$binary"
check mutants  "$python" tests/faults/mutants.py --lint
check format   format
check hardened tests/lint/hardened.sh "$binary"
check hardened tests/lint/hardened.sh "$(dirname "$binary")/rlock"
# varFuncNullUB: POSIX' NULL is a pointer. uninitvar: cppcheck does not see the system headers,
# where the loops of utlist.h are; the compilers and valgrind watch that. Only newer ones know
# the rest: normalCheckLevelMaxBranches is a note that not every path was looked at, and the
# OutOfMemory checks do not know cmocka's asserts; a test may end for want of memory.
check man      manuals "$(dirname "$binary")"/share/man/*/*
check shells   completions "$(dirname "$binary")/share"
check cppcheck cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability \
    --suppress=varFuncNullUB --suppress=uninitvar --suppress=normalCheckLevelMaxBranches \
    '--suppress=nullPointerOutOfMemory:tests/*' \
    '--suppress=nullPointerArithmeticOutOfMemory:tests/*' \
    --inline-suppr --std=c11 -I. -Ibuild/gen -D_GNU_SOURCE '-DRLOCKD_VERSION=""' -j "$(nproc)" \
    --template='{file}:{line}: {id}: {message}' server storage handlers client tests
check shell    shellcheck --format=gcc "${shell_files[@]}" .ci/run

if [ ${#failed[@]} -gt 0 ]; then
    echo "lint: failed: ${failed[*]}"
    exit 1
fi
echo "lint: clean"
