# rlockd: `make help` lists what can be made.
#
# CC=gcc|clang   SANITIZE=1: address and undefined behaviour, in build/sanitize; SANITIZE=thread
# ONLY=word: only tests whose path has it   VERBOSE=1: what tests print, also when they pass
# JOBS=1: one test program after the other instead of three for each processor
# MINUTES=60 SEED=7: how long `faults` runs, and which run it is; JAVA=1: with Redisson's clients
# SECONDS=60 RUNS=10000000: the most that `fuzz` gives each target
# RESTARTS=1: how often `test-proxies` restarts the front ends behind each proxy
# CLIENTS="go python": which generated clients `clients` tries; folders of tests/clients
# SERVERS="redis-6.2 redis-8.0 valkey-8.1": what `test-versions` runs with, or paths
# CLIENT_TOOLS=DIR: where the generators of clients are kept, instead of build/clients/tools
# SEEDS=150 SEED=7: how many runs `sim` simulates, and with which seed they begin
# TOPOLOGY=cluster|sentinel: what `interop` and `faults` use instead of one Redis
# REDISSON="4.7.0": the versions of it that `interop` runs; `bench` takes the first

VERSION  := 0.1.0
# The newest, and one from before 3.44, when much of its locks was rewritten.
REDISSON := 4.7.0 3.43.0
PREFIX   := /usr/local
SERVERS  := redis-6.2 redis-8.0 valkey-8.1
CLIENTS_FAST := python typescript go
CLIENTS      := $(CLIENTS_FAST) generator-python generator-java

ifeq ($(origin CC),default)
CC := gcc
endif

# Debian packages. Only `run`, `test`, `interop`, `lint` and `valgrind` install what is missing.
COMPILER_PACKAGES := $(if $(findstring clang,$(CC)),clang libclang-rt-dev,gcc) libc6-dev
BUILD_PACKAGES    := $(COMPILER_PACKAGES) make pkg-config libmicrohttpd-dev libgnutls28-dev libhiredis-dev \
                     libjansson-dev uuid-dev uthash-dev libcurl4-openssl-dev
RUN_PACKAGES      := $(BUILD_PACKAGES) redis-server curl uuid-runtime
TEST_PACKAGES     := $(RUN_PACKAGES) libcmocka-dev jq openssl python3
LINT_PACKAGES     := $(BUILD_PACKAGES) clang-format cppcheck shellcheck python3 python3-yaml \
                     python3-jsonschema lua5.1 mandoc
VERSIONS_PACKAGES := mmdebstrap python3-pip
INTEROP_PACKAGES  := $(RUN_PACKAGES) default-jdk-headless maven
VALGRIND_PACKAGES := $(TEST_PACKAGES) valgrind
BENCH_PACKAGES    := $(BUILD_PACKAGES) redis-server python3 strace openssl
BENCH_PEERS       := webdis etcd-server default-jdk-headless maven
PROXY_PACKAGES    := $(RUN_PACKAGES) python3
DOCS_PACKAGES     := $(RUN_PACKAGES) jq python3
PROXIES           := nginx-light haproxy caddy
WEB_PACKAGES      := $(RUN_PACKAGES) python3 chromium
FAULT_PACKAGES    := $(RUN_PACKAGES) python3 $(if $(JAVA),default-jdk-headless maven)
FUZZ_PACKAGES     := $(filter-out gcc,$(BUILD_PACKAGES)) clang libclang-rt-dev
SIM_PACKAGES      := $(RUN_PACKAGES) liblua5.1-0-dev
OPENAPI_PACKAGES  := ca-certificates python3-venv
CLIENT_PACKAGES   := $(RUN_PACKAGES) $(OPENAPI_PACKAGES) \
                     $(if $(filter generator-%,$(CLIENTS)),default-jdk-headless maven)
BUDGET_PACKAGES   := $(BENCH_PACKAGES) valgrind

LIBRARIES      := libmicrohttpd gnutls hiredis jansson uuid
CLIENT_LIBRARIES := libcurl jansson
TEST_LIBRARIES := $(LIBRARIES) cmocka libcurl

comma := ,

GEN   := build/gen
BUILD := build$(if $(FUZZING),/fuzz,$(if $(COVERAGE),/coverage,$(if $(SANITIZE),/sanitize$(patsubst %,-%,$(filter thread,$(SANITIZE))))))

# ---- what is compiled, and how

# --git-dir: sources that lie inside another repository must not take that one's version.
DESCRIBED      := $(shell git --git-dir=.git describe --tags --always --dirty 2>/dev/null)
RLOCKD_VERSION := $(or $(DESCRIBED),$(VERSION))

CFLAGS   := -O2 -g
CPPFLAGS := -D_GNU_SOURCE -I. -I$(GEN) -DRLOCKD_VERSION='"$(RLOCKD_VERSION)"' \
            $(shell pkg-config --cflags $(LIBRARIES) $(CLIENT_LIBRARIES) 2>/dev/null)
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
LDLIBS   := $(shell pkg-config --libs $(LIBRARIES) 2>/dev/null) -lpthread
CLIENT_LDLIBS := $(shell pkg-config --libs $(CLIENT_LIBRARIES) 2>/dev/null)
TEST_LDLIBS := $(shell pkg-config --libs $(TEST_LIBRARIES) 2>/dev/null) -lpthread
ifdef SANITIZE
SANITIZERS := $(if $(filter thread,$(SANITIZE)),-O1 -fsanitize=thread,\
                  -fsanitize=address$(comma)undefined -fno-sanitize-recover=all) \
              -fno-omit-frame-pointer -DSANITIZED
endif
ifdef FUZZING
SANITIZERS := -O1 -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all \
              -fno-omit-frame-pointer -DSANITIZED
endif
# Without assertions, for a branch that ends the process is none that a run should take.
ifdef COVERAGE
SANITIZERS := -O0 --coverage -DNDEBUG -Wno-unused -Wno-unused-parameter
endif
# Hardening, as far as the compiler at hand has it: an overflow ends the process. Level 3 of the
# checked string functions needs gcc 12 or clang 9, optimisation, and glibc 2.34.
knows = $(shell printf '\043include <string.h>\nint main(void) { return 0; }\n' | \
    $(CC) $(CFLAGS) -Werror $1 -x c -o /dev/null - 2>/dev/null && echo '$1')
ifeq ($(SANITIZE)$(FUZZING)$(COVERAGE),)
FORTIFIED := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE
HARDENING := $(or $(call knows,$(FORTIFIED)=3),$(call knows,$(FORTIFIED)=2)) \
             $(call knows,-fstack-protector-strong) $(call knows,-fstack-clash-protection) \
             $(or $(call knows,-fcf-protection),$(call knows,-mbranch-protection=standard)) \
             $(call knows,-fPIE)
HARDENED_LINK := $(call knows,-pie) $(call knows,-Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now)
endif
COMPILE  := $(CC) -std=gnu11 $(WARNINGS) $(CFLAGS) $(HARDENING) $(SANITIZERS)
LINK     := $(COMPILE) $(HARDENED_LINK) $(LDFLAGS)

SOURCES      := $(wildcard server/*.c server/*/*.c storage/*/*.c handlers/*.c)
objects       = $(patsubst %.c,$(BUILD)/%.o,$1)
OBJECTS      := $(call objects,$(SOURCES))
CLIENT_SOURCES := $(wildcard client/*.c)
CLIENT_OBJECTS := $(call objects,$(CLIENT_SOURCES))
CLIENT_PAGES := $(addprefix $(BUILD)/share/,man/man1/rlock.1 \
                bash-completion/completions/rlock zsh/site-functions/_rlock \
                fish/vendor_completions.d/rlock.fish)
MAIN         := $(BUILD)/server/main.o
UNIT_TESTS   := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
SCRIPT_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/scripts/test_*.c))
TOPOLOGY_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/e2e/test_topology_*.c))
E2E_TESTS    := $(filter-out $(TOPOLOGY_TESTS),\
                $(patsubst %.c,$(BUILD)/%,$(wildcard tests/e2e/test_*.c)))
COMMAND_TEST := tests/command/test_command.py
UNIT_HELPERS := $(call objects,$(filter-out tests/unit/test_%,$(wildcard tests/unit/*.c)))
SCRIPT_HARNESS := $(call objects,$(filter-out tests/scripts/test_%,$(wildcard tests/scripts/*.c)))
E2E_HARNESS  := $(call objects,$(filter-out tests/e2e/test_%,$(wildcard tests/e2e/*.c)))
BENCH_LOAD   := $(call objects,$(wildcard tests/bench/load*.c))
BENCH_OBJECTS := $(BENCH_LOAD) $(BUILD)/tests/bench/bare.o
BENCH_PROGRAMS := $(BUILD)/tests/bench/load $(BUILD)/tests/bench/bare
CHECKER        := $(BUILD)/tests/checker/checker
CHECKER_TEST   := $(BUILD)/tests/checker/test_checker
CHECKER_RULES  := $(call objects,$(filter-out %/checker.c %/test_checker.c,\
                  $(wildcard tests/checker/*.c)))
FUZZ_TARGETS   := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
SIM            := $(BUILD)/tests/sim/sim
SIM_COMPARE    := $(BUILD)/tests/sim/compare
SIM_REDIS      := $(call objects,$(wildcard tests/sim/redis*.c) $(addprefix tests/sim/,\
                  bytes.c chance.c keyspace.c))
SIM_OBJECTS    := $(filter-out $(SIM_COMPARE).o,$(call objects,$(wildcard tests/sim/*.c)))
TEST_OBJECTS := $(UNIT_TESTS:%=%.o) $(SCRIPT_TESTS:%=%.o) $(E2E_TESTS:%=%.o) $(TOPOLOGY_TESTS:%=%.o) \
                $(UNIT_HELPERS) $(SCRIPT_HARNESS) $(E2E_HARNESS) $(BENCH_OBJECTS) \
                $(CHECKER_RULES) $(CHECKER).o $(CHECKER_TEST).o \
                $(SIM_OBJECTS) $(SIM_COMPARE).o $(FUZZ_TARGETS:%=%.o)
FORMATTED     = $(shell find server storage handlers client tests -name '*.[ch]')

.PHONY: all help run test test-command test-cluster test-masters test-sentinel test-topology test-redis-tls \
        test-versions test-proxies test-web test-docs test-programs interop valgrind lint format \
        docker-test install clients clients-fast lint-openapi schemathesis bench bench-programs budgets \
        faults mutants sim sim-mutants sim-compare sim-coverage \
        fuzz fuzz-programs clean always
.SECONDARY: $(TEST_OBJECTS)
.DELETE_ON_ERROR:

all: $(BUILD)/rlockd $(BUILD)/rlock $(CLIENT_PAGES) ## build the server, build/rlockd, and build/rlock

$(BUILD)/rlockd: $(MAIN) $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(LDLIBS)

$(BUILD)/rlock: $(CLIENT_OBJECTS)
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(CLIENT_LDLIBS)

# From the table of options.
$(BUILD)/share/man/man1/rlock.1: PRINTED := --print-man
$(BUILD)/share/bash-completion/completions/rlock: PRINTED := --print-completion bash
$(BUILD)/share/zsh/site-functions/_rlock: PRINTED := --print-completion zsh
$(BUILD)/share/fish/vendor_completions.d/rlock.fish: PRINTED := --print-completion fish
$(CLIENT_PAGES): $(BUILD)/rlock
	@mkdir -p $(@D)
	@$< $(PRINTED) > $@

$(BUILD)/librlockd.a: $(filter-out $(MAIN),$(OBJECTS))
	@echo "  AR    $@"
	@rm -f $@
	@ar rcs $@ $^

$(OBJECTS) $(CLIENT_OBJECTS) $(TEST_OBJECTS): $(BUILD)/%.o: %.c $(BUILD)/flags
	@echo "  CC    $<"
	@mkdir -p $(@D)
	@$(COMPILE) $(CPPFLAGS) -MMD -MP -c -o $@ $<

$(UNIT_TESTS): %: %.o $(UNIT_HELPERS) $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(TEST_LDLIBS)

$(SCRIPT_TESTS): %: %.o $(SCRIPT_HARNESS) $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(COMPILE) $(LDFLAGS) -o $@ $^ $(TEST_LDLIBS)

$(E2E_TESTS) $(TOPOLOGY_TESTS): %: %.o $(E2E_HARNESS)
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(TEST_LDLIBS)

$(BUILD)/tests/bench/load: $(BENCH_LOAD)
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(LDLIBS)

$(BUILD)/tests/bench/bare: $(BUILD)/tests/bench/bare.o
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(LDLIBS)

$(CHECKER) $(CHECKER_TEST): %: %.o $(CHECKER_RULES)
	@echo "  LINK  $@"
	@$(COMPILE) $(LDFLAGS) -o $@ $^ $(TEST_LDLIBS)

$(FUZZ_TARGETS): %: %.o $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(LINK) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

# The server of test-cluster. To Redis 7 a script that begins with this line may touch the slot of
# its KEYS only, in keys that it makes itself, too.
$(BUILD)/rlockd-slots: $(MAIN) $(BUILD)/slots/script.o $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(LDLIBS)

$(BUILD)/slots/script.o: storage/redis/script.c $(GEN)/slots/scripts.inc $(BUILD)/flags
	@echo "  CC    $@"
	@mkdir -p $(@D)
	@$(COMPILE) -I$(GEN)/slots $(CPPFLAGS) -c -o $@ $<


# The product's own hiredis calls, eventfds, mutexes, clock and random bytes come to
# tests/sim/wraps.c, messages between workers to tests/sim/threads.c; what
# tests/sim defines of the product is not taken from its archive. libhiredis.a: only what is linked
# in can be led elsewhere.
SIM_WRAPS := socket connect read write close fcntl getsockopt eventfd clock_gettime getrandom \
             pthread_mutex_lock pthread_mutex_unlock inbox_post
$(SIM): $(SIM_OBJECTS) $(CHECKER_RULES) $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(COMPILE) $(LDFLAGS) -o $@ $(SIM_WRAPS:%=-Wl$(comma)--wrap=%) $^ -llua5.1 -lm \
	    -Wl,-Bstatic -lhiredis -Wl,-Bdynamic $(filter-out -lhiredis,$(LDLIBS))

$(SIM_COMPARE): $(SIM_COMPARE).o $(SIM_REDIS)
	@echo "  LINK  $@"
	@$(COMPILE) $(LDFLAGS) -o $@ $^ -llua5.1 $(LDLIBS) -lm

-include $(OBJECTS:.o=.d) $(CLIENT_OBJECTS:.o=.d) $(TEST_OBJECTS:.o=.d)

# ---- generated: the Lua scripts and openapi.yaml as C text, and two stamps that change when
# the compiler, its flags or the version do

$(filter $(BUILD)/storage/%,$(OBJECTS)): | $(GEN)/scripts.inc $(GEN)/scripts_cluster.inc \
    $(GEN)/scripts_shard.inc $(GEN)/script_args.h
$(filter $(BUILD)/handlers/%,$(OBJECTS)): | $(GEN)/openapi.inc
$(call objects,$(shell grep -lw RLOCKD_VERSION $(SOURCES) $(CLIENT_SOURCES) $(wildcard tests/*/*.c) /dev/null)): $(BUILD)/version

# The directories themselves: a script that was removed makes the list stale, too.
SCRIPTS      := $(wildcard storage/scripts/*.lua)
SCRIPT_PARTS := $(SCRIPTS) $(wildcard storage/scripts/lib/*.lua) storage/scripts/embed.sh \
                storage/scripts/lexer.awk storage/scripts/link.awk storage/scripts \
                storage/scripts/lib

$(GEN)/scripts.inc: $(SCRIPT_PARTS)
	@mkdir -p $(@D)
	@sh storage/scripts/embed.sh rows $(SCRIPTS) > $@

$(GEN)/scripts_cluster.inc: $(SCRIPT_PARTS)
	@mkdir -p $(@D)
	@sh storage/scripts/embed.sh cluster-rows $(SCRIPTS) > $@

$(GEN)/scripts_shard.inc: $(SCRIPT_PARTS)
	@mkdir -p $(@D)
	@sh storage/scripts/embed.sh shard-rows $(SCRIPTS) > $@

$(GEN)/slots/scripts.inc: $(SCRIPT_PARTS)
	@mkdir -p $(@D)
	@SCRIPT_HEAD='#!lua' sh storage/scripts/embed.sh rows $(SCRIPTS) > $@

# Left alone where it would not change, for most of the storage includes it.
$(GEN)/script_args.h: $(SCRIPT_PARTS)
	@mkdir -p $(@D)
	@sh storage/scripts/embed.sh enums $(SCRIPTS) > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(GEN)/openapi.inc: openapi.yaml
	@mkdir -p $(@D)
	@sed -e 's/[\\"?]/\\&/g' -e 's/.*/"&\\n"/' $< > $@

$(BUILD)/flags: always
	@pkg-config --exists --print-errors $(LIBRARIES) $(CLIENT_LIBRARIES) || { \
	    echo 'On Debian `make run` installs what is missing of: $(BUILD_PACKAGES)' >&2; exit 1; }
	@$(call stamp,$(filter-out -DRLOCKD_VERSION=%,$(COMPILE) $(CPPFLAGS)))

$(BUILD)/version: always
	@$(call stamp,$(RLOCKD_VERSION))

stamp = mkdir -p $(@D); echo '$1' | cmp -s - $@ || echo '$1' > $@

# ---- what people type; a sub-make because pkg-config must be asked again after packages came

SUBMAKE = --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

run: ## install what is missing, build, start; ARGS="--listen :7400" goes to the server
	@tests/packages.sh $(RUN_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@exec $(BUILD)/rlockd $(ARGS)

test: ## install what is missing, build, run the unit, script and end-to-end tests
	@tests/packages.sh $(TEST_PACKAGES)
	@$(MAKE) $(SUBMAKE) test-programs
	@$(TEST_ENVIRONMENT) tests/run.sh \
	    $(call chosen,$(UNIT_TESTS) $(CHECKER_TEST) $(SCRIPT_TESTS) $(E2E_TESTS) \
	                   $(COMMAND_TEST))

test-command: ## every event that may befall rlock, at every step, to every shape of tree; ONLY=word
	@tests/packages.sh $(TEST_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@$(TEST_ENVIRONMENT) COMMAND_FULL=1 \
	    $(COMMAND_TEST) $(ONLY)

test-cluster: ## the end-to-end tests on a Redis Cluster of one server
	@tests/packages.sh $(TEST_PACKAGES)
	@$(MAKE) $(SUBMAKE) test-programs $(BUILD)/rlockd-slots
	@$(TEST_ENVIRONMENT) RLOCKD_BIN=$(abspath $(BUILD)/rlockd$(SLOTS)) E2E_REDIS_CLUSTER=1 \
	    $(if $(SLOTS),E2E_SCRIPT_SLOTS=1) \
	    tests/run.sh $(call chosen,$(E2E_TESTS))

test-topology: ## failovers, slots that move, replicas that lag: Sentinels and Clusters of real servers
	@tests/packages.sh $(TEST_PACKAGES)
	@$(MAKE) $(SUBMAKE) test-programs
	@$(TEST_ENVIRONMENT) $(if $(CHAOS_SECONDS),RLOCKD_TEST_TIMEOUT_S=$$(($(CHAOS_SECONDS) + 600))) \
	    tests/run.sh $(call chosen,$(TOPOLOGY_TESTS))

test-sentinel: ## the end-to-end tests behind a Sentinel
	@tests/packages.sh $(TEST_PACKAGES)
	@$(MAKE) $(SUBMAKE) test-programs
	@$(TEST_ENVIRONMENT) E2E_REDIS=sentinel tests/run.sh $(call chosen,$(E2E_TESTS))

test-redis-tls: ## the end-to-end tests, and those of failovers, with TLS to all Redis
	@tests/packages.sh $(TEST_PACKAGES)
	@$(MAKE) $(SUBMAKE) test-programs
	@$(TEST_ENVIRONMENT) E2E_REDIS=tls tests/run.sh \
	    $(call chosen,$(TOPOLOGY_TESTS) $(E2E_TESTS))

test-versions: ## the script and end-to-end tests with other servers; SERVERS="valkey-8.1 /path/redis-server"
	@tests/packages.sh $(TEST_PACKAGES) $(VERSIONS_PACKAGES)
	@$(MAKE) $(SUBMAKE) test-programs
	@for server in $(SERVERS); do \
	    path=$$(tests/servers.sh $$server build/servers) && \
	    $(TEST_ENVIRONMENT) PATH="$$path:$$PATH" \
	        tests/run.sh $(call chosen,$(SCRIPT_TESTS) $(E2E_TESTS)) || exit 1; \
	done

test-masters: ## the end-to-end tests on a Redis Cluster of three masters
	@tests/packages.sh $(TEST_PACKAGES)
	@$(MAKE) $(SUBMAKE) test-programs
	@$(TEST_ENVIRONMENT) E2E_REDIS=cluster3 tests/run.sh $(call chosen,$(E2E_TESTS))

valgrind: ## the end-to-end tests with the server under valgrind
	@tests/packages.sh $(VALGRIND_PACKAGES)
	@$(MAKE) $(SUBMAKE) test-programs
	@$(TEST_ENVIRONMENT) RLOCKD_TEST_TIMEOUT_S=1800 RLOCKD_WRAP='$(VALGRIND)' \
	    JOBS=$(or $(JOBS),1) tests/run.sh $(call chosen,$(E2E_TESTS))

interop: ## real Redisson clients and HTTP clients on the same locks; TOPOLOGY=cluster, sentinel
	@tests/packages.sh $(INTEROP_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@$(TEST_ENVIRONMENT) INTEROP_TOPOLOGY=$(TOPOLOGY) tests/interop/run.sh $(REDISSON)

lint: ## layering, banned calls, sizes, openapi.yaml and README against the code, format
	@tests/packages.sh $(LINT_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@tests/lint/lint.sh $(BUILD)/rlockd

clients: ## generate clients of openapi.yaml, compile them, try them; CLIENTS="go python"
	@tests/packages.sh $(CLIENT_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@tests/clients/run.sh $(BUILD)/rlockd $(CLIENTS)

clients-fast: ## those of them that need no Java
	@$(MAKE) --no-print-directory clients CLIENTS='$(CLIENTS_FAST)'

lint-openapi: ## the linters of Redocly and Stoplight, and openapi-spec-validator
	@tests/packages.sh $(OPENAPI_PACKAGES)
	@tests/clients/lint/run.sh

test-docs: ## the commands of README and guide as they are printed, and the scripts of examples
	@tests/packages.sh $(DOCS_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@tests/docs/run.sh $(BUILD)/rlockd

test-proxies: ## the recipes of examples/proxies before real front ends; RESTARTS=3
	@tests/packages.sh $(PROXY_PACKAGES)
	@for proxy in $(PROXIES); do \
	    tests/packages.sh $$proxy || echo "note: $$proxy cannot be installed"; done
	@$(MAKE) $(SUBMAKE) all
	@/usr/bin/python3 tests/proxies/run.py $(BUILD)/rlockd $(if $(RESTARTS),--restarts $(RESTARTS))

test-web: ## web pages in Chromium: those of other origins change and read nothing
	@tests/packages.sh $(WEB_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@/usr/bin/python3 tests/web/run.py $(BUILD)/rlockd

schemathesis: ## requests made up from openapi.yaml, answers against it; SEED=7 EXAMPLES=25
	@tests/packages.sh $(RUN_PACKAGES) $(OPENAPI_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@tests/clients/schemathesis/run.sh $(BUILD)/rlockd $(or $(SEED),1) $(EXAMPLES)

bench: ## measure; BENCH_SECONDS=2 a row, BENCH_ROUNDS=3, BENCH_PARTS=; writes tests/bench/results.md
	@tests/packages.sh $(BENCH_PACKAGES)
	@for peer in $(BENCH_PEERS); do \
	    tests/packages.sh $$peer || echo "note: $$peer cannot be installed"; done
	@$(MAKE) $(SUBMAKE) bench-programs
	@REDISSON='$(REDISSON)' /usr/bin/python3 tests/bench/run.py $(BUILD)

budgets: ## what an operation may cost that does not depend on the machine's mood; ONLY=word
	@tests/packages.sh $(BUDGET_PACKAGES)
	@$(MAKE) $(SUBMAKE) bench-programs
	@/usr/bin/python3 tests/bench/budgets.py $(BUILD) $(ONLY)

faults: ## kill, pause and cut off, and check what clients saw; MINUTES=3 SEED=1 JAVA=1 TOPOLOGY=single
	@tests/packages.sh $(FAULT_PACKAGES)
	@$(MAKE) $(SUBMAKE) all $(CHECKER)
	@/usr/bin/python3 tests/faults/run.py $(BUILD) $(if $(MINUTES),--minutes $(MINUTES)) \
	    $(if $(SEED),--seed $(SEED)) $(if $(TOPOLOGY),--topology $(TOPOLOGY)) \
	    $(if $(JAVA),--java) $(FAULTS_ARGS)

mutants: ## plant bugs one by one; the fault run must catch each; ONLY=word, ONLY=quick JOBS=2
	@tests/packages.sh $(FAULT_PACKAGES)
	@$(MAKE) $(SUBMAKE) all $(CHECKER)
	@/usr/bin/python3 tests/faults/mutants.py $(if $(ONLY),--only $(ONLY)) \
	    $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS))

fuzz: ## made-up input for what reads text from outside; SECONDS=10, RUNS=, ONLY=word
	@tests/packages.sh $(FUZZ_PACKAGES)
	@$(MAKE) $(SUBMAKE) CC=clang FUZZING=1 fuzz-programs
	@FUZZ_SECONDS='$(SECONDS)' RUNS='$(RUNS)' tests/fuzz/run.sh build/fuzz/tests/fuzz $(ONLY)

sim: ## front ends, Redis, network, faults on virtual time, from seeds; SEEDS=150 SEED=1
	@tests/packages.sh $(SIM_PACKAGES)
	@$(MAKE) $(SUBMAKE) $(SIM)
	@$(SIM) --seeds=$(or $(SEEDS),150) --seed=$(or $(SEED),1) --jobs=$(or $(JOBS),$(shell nproc)) \
	    $(SIM_ARGS)

sim-mutants: ## plant bugs one by one; the simulation must catch each; SEEDS=100 ONLY=word NOTE=1
	@tests/packages.sh $(SIM_PACKAGES) python3
	@$(MAKE) $(SUBMAKE) $(SIM)
	@/usr/bin/python3 tests/sim/mutants.py --seeds $(or $(SEEDS),100) \
	    --jobs $(or $(JOBS),$(shell nproc)) $(if $(ONLY),--only $(ONLY)) $(if $(NOTE),--note)

sim-coverage: ## which branches of the code that waits the simulation takes; SEEDS=100 SEED=1
	@tests/packages.sh $(SIM_PACKAGES) python3
	@$(MAKE) $(SUBMAKE) COVERAGE=1 build/coverage/tests/sim/sim
	@/usr/bin/python3 tests/sim/coverage.py build/coverage --seeds $(or $(SEEDS),100) \
	    --seed $(or $(SEED),1) --jobs $(or $(JOBS),$(shell nproc))

sim-compare: ## random commands to the simulated Redis and to a real one; SEED=7
	@tests/packages.sh $(SIM_PACKAGES)
	@$(MAKE) $(SUBMAKE) $(SIM_COMPARE)
	@$(SIM_COMPARE) redis-server $(or $(SEED),1)

docker-test: ## build the image, run it, take a lock in it
	@tests/docker/test_docker.sh

format: ## clang-format every source in place
	@clang-format -i $(FORMATTED)

install: all ## copy both programs to PREFIX/bin (/usr/local), man page and completions to PREFIX/share
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(BUILD)/rlockd $(BUILD)/rlock
	for page in $(CLIENT_PAGES:$(BUILD)/%=%); do \
	    install -D -m 644 $(BUILD)/$$page $(DESTDIR)$(PREFIX)/$$page || exit 1; done

clean: ## remove build/
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' Makefile

bench-programs: all $(BENCH_PROGRAMS)

fuzz-programs: $(FUZZ_TARGETS)

test-programs: all $(UNIT_TESTS) $(SCRIPT_TESTS) $(E2E_TESTS) $(TOPOLOGY_TESTS) $(CHECKER_TEST)

chosen = $(if $(ONLY),$(foreach test,$1,$(if $(findstring $(ONLY),$(test)),$(test))),$1)
# Redis 6.2 does not know the line.
SLOTS = $(shell redis-server --version | grep -q 'v=6' || echo -slots)
# Sanitized programs are slower: the deadlines of the end-to-end tests grow with them.
TEST_ENVIRONMENT := RLOCKD_BIN=$(abspath $(BUILD)/rlockd) UBSAN_OPTIONS=print_stacktrace=1 \
                    ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 $(if $(SANITIZE),E2E_PATIENCE=3)
VALGRIND := valgrind --quiet --error-exitcode=99 --leak-check=full \
            --errors-for-leak-kinds=definite,indirect --child-silent-after-fork=yes
