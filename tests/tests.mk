# The part of the Makefile for tests: their programs, the packages of each target, the targets.
# `make help` lists them.
#
# MINUTES=60 SEED=7: how long `faults` runs, and which run it is; JAVA=1: with Redisson's clients
# SECONDS=60 RUNS=10000000: the most that `fuzz` gives each target
# RESTARTS=1: how often `test-proxies` restarts the front ends behind each proxy
# CLIENTS="go python": which generated clients `clients` tries; folders of tests/clients
# RELEASE=bookworm: the Debian of `test-debian` and `test-packages`; DEBIAN_CACHE=DIR: where its packages are kept
# SERVERS="redis-6.2 redis-8.0 valkey-8.1": what `test-versions` runs with, or paths
# CLIENT_TOOLS=DIR: where the generators of clients are kept, instead of build/clients/tools
# SEEDS=150 SEED=7: how many runs `sim` simulates, and with which seed they begin
# TOPOLOGY=cluster|sentinel: what `interop` and `faults` use instead of one Redis; `faults` also
#     quorum|quorum-5
# CLIENT="rlock python go node": which clients `conformance` checks; mutants: broken ones, or a path
# BASE=1846ec2: the commit whose rlockd `test-upgrade` runs beside this one
# REDISSON="4.7.0": the versions of it that `interop` runs; `bench` takes the first

RELEASE  := trixie
# The last commit before who holds what since when: docs/upgrading.md names it.
BASE     := 1846ec2
# The newest, and one from before 3.44, when much of its locks was rewritten.
REDISSON := 4.7.0 3.43.0
SERVERS  := redis-6.2 redis-8.0 valkey-8.1
CLIENTS_FAST := python typescript go
CLIENTS      := $(CLIENTS_FAST) generator-python generator-java generator-php

CONFORMANCE := $(or $(CLIENT),rlock python go node mutants)
CONFORMANCE_PACKAGES = $(RUN_PACKAGES) python3 $(if $(filter python,$(CONFORMANCE)),mypy flake8) \
                       $(if $(filter go node,$(CONFORMANCE)),$(OPENAPI_PACKAGES))
VERSIONS_PACKAGES := mmdebstrap python3-pip
UPGRADE_PACKAGES  := $(RUN_PACKAGES) git python3
INTEROP_PACKAGES  := $(RUN_PACKAGES) default-jdk-headless maven
VALGRIND_PACKAGES := $(TEST_PACKAGES) valgrind
BENCH_PACKAGES    := $(BUILD_PACKAGES) redis-server python3 strace openssl
BENCH_PEERS       := webdis etcd-server default-jdk-headless maven
PROXY_PACKAGES    := $(RUN_PACKAGES) python3
DOCS_PACKAGES     := $(RUN_PACKAGES) jq openssl python3
EXAMPLE_PACKAGES  := $(RUN_PACKAGES) python3 python3-psycopg2 postgresql php-cli php-curl \
                     default-jdk-headless maven
NEIGHBOUR_PACKAGES := $(RUN_PACKAGES) python3 git git-lfs nginx-light
PROXIES           := nginx-light haproxy caddy
ALARM_PACKAGES    := $(RUN_PACKAGES) python3 prometheus prometheus-alertmanager \
                     default-jdk-headless maven
WEB_PACKAGES      := $(RUN_PACKAGES) python3 chromium
PAGE_PACKAGES     := $(WEB_PACKAGES) default-jdk-headless maven
FAULT_PACKAGES    := $(RUN_PACKAGES) python3 $(if $(JAVA),default-jdk-headless maven)
FUZZ_PACKAGES     := $(filter-out gcc,$(BUILD_PACKAGES)) clang libclang-rt-dev
SIM_PACKAGES      := $(RUN_PACKAGES) liblua5.1-0-dev
UNIT_PACKAGES     := $(RUN_PACKAGES) python3 systemd strace procps
DEPLOY_PACKAGES   := ca-certificates python3-venv python3-yaml haproxy prometheus
OPENAPI_PACKAGES  := ca-certificates python3-venv
PHP_PACKAGES      := php-cli php-curl php-mbstring php-guzzlehttp-guzzle
CLIENT_PACKAGES   := $(RUN_PACKAGES) $(OPENAPI_PACKAGES) \
                     $(if $(filter generator-%,$(CLIENTS)),default-jdk-headless maven) \
                     $(if $(filter %-php,$(CLIENTS)),$(PHP_PACKAGES))
BUDGET_PACKAGES   := $(BENCH_PACKAGES) valgrind

TEST_LIBRARIES := $(LIBRARIES) cmocka libcurl
TEST_LDLIBS    := $(shell pkg-config --libs $(TEST_LIBRARIES) 2>/dev/null) -lpthread

UNIT_TESTS     := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
SCRIPT_TESTS   := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/scripts/test_*.c))
TOPOLOGY_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/e2e/test_topology_*.c))
E2E_TESTS      := $(filter-out $(TOPOLOGY_TESTS),\
                  $(patsubst %.c,$(BUILD)/%,$(wildcard tests/e2e/test_*.c)))
COMMAND_TEST   := tests/command/test_command.py
PRELOADED      := $(BUILD)/tests/command/suspend.so $(BUILD)/tests/command/faults.so
SKEW           := $(BUILD)/tests/lib/skew.so
UNIT_HELPERS   := $(call objects,$(filter-out tests/unit/test_%,$(wildcard tests/unit/*.c)))
SCRIPT_HARNESS := $(call objects,$(filter-out tests/scripts/test_%,$(wildcard tests/scripts/*.c)))
E2E_HARNESS    := $(call objects,$(filter-out tests/e2e/test_%,$(wildcard tests/e2e/*.c)))
BENCH_LOAD     := $(call objects,$(wildcard tests/bench/load*.c))
BENCH_OBJECTS  := $(BENCH_LOAD) $(BUILD)/tests/bench/bare.o $(BUILD)/tests/lib/relay.o
BENCH_PROGRAMS := $(addprefix $(BUILD)/tests/,bench/load bench/bare lib/relay)
CHECKER        := $(BUILD)/tests/checker/checker
CHECKER_TEST   := $(BUILD)/tests/checker/test_checker
CHECKER_RULES  := $(call objects,$(filter-out %/checker.c %/test_checker.c,\
                  $(wildcard tests/checker/*.c)))
LIVE           := $(BUILD)/tests/faults/live
LIVE_OBJECTS   := $(call objects,$(wildcard tests/faults/live*.c) $(addprefix tests/sim/,\
                  ask.c bytes.c calls.c chance.c clients.c $(addprefix clients_,counter.c crowd.c \
                  hoard.c ring.c session.c throng.c)))
FUZZ_TARGETS   := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
SIM            := $(BUILD)/tests/sim/sim
SIM_COMPARE    := $(BUILD)/tests/sim/compare
SIM_REDIS      := $(call objects,$(wildcard tests/sim/redis*.c) $(addprefix tests/sim/,\
                  bytes.c chance.c keyspace.c))
SIM_OBJECTS    := $(filter-out $(SIM_COMPARE).o,$(call objects,$(wildcard tests/sim/*.c)))
TEST_OBJECTS   := $(sort $(UNIT_TESTS:%=%.o) $(SCRIPT_TESTS:%=%.o) $(E2E_TESTS:%=%.o) $(TOPOLOGY_TESTS:%=%.o) \
                  $(UNIT_HELPERS) $(SCRIPT_HARNESS) $(E2E_HARNESS) $(BENCH_OBJECTS) \
                  $(CHECKER_RULES) $(CHECKER).o $(CHECKER_TEST).o \
                  $(SIM_OBJECTS) $(SIM_COMPARE).o $(LIVE_OBJECTS) $(FUZZ_TARGETS:%=%.o))

.PHONY: build-tests test-programs test-command conformance examples test-neighbours test-cluster test-masters \
        test-sentinel test-topology test-redis-tls test-versions test-upgrade test-proxies \
        test-debian test-packages test-unit-file test-reproducible lint-deploy test-web test-alarms test-page test-docs interop valgrind docker-test clients \
        clients-fast lint-openapi schemathesis bench bench-page bench-programs budgets faults mutants \
        mutation \
        model sim sim-mutants sim-same sim-compare sim-coverage fuzz fuzz-programs
.SECONDARY: $(TEST_OBJECTS)

# ONLY="word word": those with one of these words in their path; EXCEPT="word word": without these.
has_any = $(strip $(foreach word,$2,$(findstring $(word),$1)))
chosen  = $(foreach test,$1,$(if $(if $(ONLY),$(call has_any,$(test),$(ONLY)),all),\
          $(if $(call has_any,$(test),$(EXCEPT)),,$(test))))

test-programs: all $(PRELOADED) $(SKEW) $(call chosen,$(UNIT_TESTS) $(SCRIPT_TESTS) $(E2E_TESTS) $(TOPOLOGY_TESTS) \
               $(CHECKER_TEST))

bench-programs: all $(BENCH_PROGRAMS) $(BUILD)/rlockd-untimed

fuzz-programs: $(FUZZ_TARGETS)

$(TEST_OBJECTS): $(BUILD)/%.o: %.c $(BUILD)/flags
	$(compile)

# The cases that the model of the quorum prints, as C texts.
$(addprefix $(BUILD)/tests/,unit/test_quorum_votes.o scripts/test_quorum_cases.o): $(GEN)/quorum_cases.inc
$(GEN)/quorum_cases.inc: $(wildcard tests/model/quorum/*.py)
	@mkdir -p $(@D)
	@python3 tests/model/quorum/cases.py $@.lines
	@sed -e 's/.*/"&",/' $@.lines > $@

$(BUILD)/tests/unit/test_guard_message: $(BUILD)/client/guard_message.o
$(UNIT_TESTS): %: %.o $(UNIT_HELPERS) $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(TEST_LDLIBS)

$(SCRIPT_TESTS): %: %.o $(SCRIPT_HARNESS) $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(COMPILE) $(LDFLAGS) -o $@ $^ $(TEST_LDLIBS)

$(E2E_TESTS) $(TOPOLOGY_TESTS): %: %.o $(E2E_HARNESS)
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(TEST_LDLIBS)

$(PRELOADED) $(SKEW): $(BUILD)/%.so: %.c $(BUILD)/flags
	@echo "  CC    $<"
	@mkdir -p $(@D)
	@$(CC) -std=gnu11 $(WARNINGS) $(CPPFLAGS) $(CFLAGS) -fPIC -shared -o $@ $<

$(BUILD)/tests/bench/load: $(BENCH_LOAD)
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(LDLIBS)

$(BUILD)/tests/bench/bare $(BUILD)/tests/lib/relay: %: %.o
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(LDLIBS)

# The clients of the simulation, before real front ends.
$(LIVE): $(LIVE_OBJECTS) $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(COMPILE) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(CHECKER) $(CHECKER_TEST): %: %.o $(CHECKER_RULES)
	@echo "  LINK  $@"
	@$(COMPILE) $(LDFLAGS) -o $@ $^ $(TEST_LDLIBS)

$(BUILD)/tests/fuzz/fuzz_command: $(call objects,$(addprefix client/,values.c say.c \
                                   verbs/lease_file.c))
$(FUZZ_TARGETS): %: %.o $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(LINK) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

# The server whose instructions are counted: only the number of its requests ends a turn.
$(BUILD)/rlockd-untimed: $(MAIN) $(BUILD)/untimed/budget.o $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(LDLIBS)

$(BUILD)/untimed/budget.o: server/http/budget.c $(BUILD)/flags
	@echo "  CC    $@"
	@mkdir -p $(@D)
	@$(COMPILE) -DTURN_NS=CLOCK_NS_PER_S $(CPPFLAGS) -c -o $@ $<

# The server of test-cluster. To Redis 7 a script that begins with this line may touch the slot of
# its KEYS only, in keys that it makes itself, too.
$(BUILD)/rlockd-slots: $(MAIN) $(BUILD)/slots/script.o $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(LDLIBS)

$(BUILD)/slots/script.o: storage/redis/script.c $(GEN)/slots/scripts.inc $(BUILD)/flags
	@echo "  CC    $@"
	@mkdir -p $(@D)
	@$(COMPILE) -I$(GEN)/slots $(CPPFLAGS) -c -o $@ $<

$(GEN)/slots/scripts.inc: $(SCRIPT_PARTS)
	@mkdir -p $(@D)
	@SCRIPT_HEAD='#!lua' sh storage/scripts/embed.sh rows $(SCRIPTS) > $@

# The product's own hiredis calls, eventfds, mutexes, clock and random bytes come to
# tests/sim/wraps.c, messages between workers to tests/sim/threads.c; what
# tests/sim defines of the product is not taken from its archive. libhiredis.a: only what is linked
# in can be led elsewhere.
SIM_WRAPS := socket connect read write close fcntl getsockopt setsockopt poll eventfd clock_gettime getrandom \
             pthread_mutex_lock pthread_mutex_unlock inbox_post
$(SIM): $(SIM_OBJECTS) $(CHECKER_RULES) $(BUILD)/librlockd.a
	@echo "  LINK  $@"
	@$(COMPILE) $(LDFLAGS) -o $@ $(SIM_WRAPS:%=-Wl$(comma)--wrap=%) $^ -llua5.1 -lm \
	    -Wl,-Bstatic -lhiredis -Wl,-Bdynamic $(filter-out -lhiredis,$(LDLIBS))

$(SIM_COMPARE): $(SIM_COMPARE).o $(SIM_REDIS)
	@echo "  LINK  $@"
	@$(COMPILE) $(LDFLAGS) -o $@ $^ -llua5.1 $(LDLIBS) -lm

$(call objects,$(shell grep -lw RLOCKD_VERSION $(wildcard tests/*/*.c) /dev/null)): $(BUILD)/version

-include $(TEST_OBJECTS:.o=.d)

# Redis 6.2 does not know the line.
SLOTS = $(shell redis-server --version | grep -q 'v=6' || echo -slots)
# Sanitized programs are slower: the deadlines of the end-to-end tests grow with them.
TEST_ENVIRONMENT := RLOCKD_BIN=$(abspath $(BUILD)/rlockd) UBSAN_OPTIONS=print_stacktrace=1 \
                    ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 $(if $(SANITIZE),E2E_PATIENCE=3)
VALGRIND := valgrind --quiet --error-exitcode=99 --leak-check=full \
            --errors-for-leak-kinds=definite,indirect --child-silent-after-fork=yes

# ---- what people type

build-tests: ## all programs of the tests, the simulation and the fault runs, without running any
	@tests/packages.sh $(sort $(TEST_PACKAGES) $(SIM_PACKAGES) $(FAULT_PACKAGES))
	@$(MAKE) $(SUBMAKE) test-programs $(SIM) $(SIM_COMPARE) $(CHECKER) $(LIVE) ONLY= EXCEPT=

test-command: ## every event that may befall rlock, at every step, to every shape of tree; ONLY=word
	@tests/packages.sh $(TEST_PACKAGES)
	@$(MAKE) $(SUBMAKE) all $(PRELOADED)
	@$(TEST_ENVIRONMENT) COMMAND_FULL=1 $(COMMAND_TEST) $(ONLY)

conformance: ## rules that each client has to keep, under faults; CLIENT=python ONLY="forced busy"
	@tests/packages.sh $(CONFORMANCE_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@$(TEST_ENVIRONMENT) ONLY="$(ONLY)" tests/conformance/run.sh $(CONFORMANCE)

examples: ## the programs of examples/, also where things go wrong for them; ONLY="word word"
	@tests/packages.sh $(EXAMPLE_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@$(TEST_ENVIRONMENT) /usr/bin/python3 tests/examples/run.py $(BUILD) $(ONLY)

test-neighbours: ## clients of other lock protocols: the real Terraform and git-lfs, and by hand; ONLY="word word"
	@tests/packages.sh $(NEIGHBOUR_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@$(TEST_ENVIRONMENT) python3 tests/neighbours/run.py $(ONLY)

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

test-debian: ## README's first steps and `test` on a fresh Debian in a chroot, as root; RELEASE=trixie
	@tests/debian/run.sh $(RELEASE)

test-packages: ## the Debian packages in fresh systems: built, installed, upgraded, purged; RELEASE=trixie
	@tests/packages/run.sh $(RELEASE)

test-unit-file: ## the unit of systemd, by systemd-analyze, and its system calls, by strace
	@tests/packages.sh $(UNIT_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@$(TEST_ENVIRONMENT) /usr/bin/python3 tests/packages/test_unit.py $(BUILD)/rlockd

test-reproducible: ## two builds of what is committed, in two folders: the same bytes
	@tests/packages.sh $(BUILD_PACKAGES) git python3
	@tests/packages/reproducible.sh

lint-deploy: ## deploy/ and the Dockerfile, by the schemas of Compose, Kubernetes, CycloneDX and others
	@tests/packages.sh $(DEPLOY_PACKAGES)
	@$(MAKE) $(SUBMAKE) sbom
	@tests/deploy/run.sh build

test-masters: ## the end-to-end tests on a Redis Cluster of three masters
	@tests/packages.sh $(TEST_PACKAGES)
	@$(MAKE) $(SUBMAKE) test-programs
	@$(TEST_ENVIRONMENT) E2E_REDIS=cluster3 tests/run.sh $(call chosen,$(E2E_TESTS))

valgrind: ## the end-to-end tests with the server under valgrind
	@tests/packages.sh $(VALGRIND_PACKAGES)
	@$(MAKE) $(SUBMAKE) test-programs
	@$(TEST_ENVIRONMENT) RLOCKD_TEST_TIMEOUT_S=1800 RLOCKD_WRAP='$(VALGRIND)' \
	    JOBS=$(or $(JOBS),1) tests/run.sh $(call chosen,$(E2E_TESTS))

test-upgrade: ## this version and an older one on one Redis, restarted in both orders; BASE=1846ec2
	@tests/packages.sh $(UPGRADE_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@$(TEST_ENVIRONMENT) /usr/bin/python3 tests/upgrade/run.py $(BUILD)/rlockd \
	    "$$(tests/upgrade/build.sh $(BASE))"

interop: ## real Redisson clients and HTTP clients on the same locks; TOPOLOGY=cluster, sentinel
	@tests/packages.sh $(INTEROP_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@$(TEST_ENVIRONMENT) INTEROP_TOPOLOGY=$(TOPOLOGY) ONLY=$(ONLY) \
	    tests/interop/run.sh $(REDISSON)

clients: ## generate clients of openapi.yaml, compile them, try them; CLIENTS="go python"
	@tests/packages.sh $(CLIENT_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@tests/clients/run.sh $(BUILD)/rlockd $(CLIENTS)

clients-fast: ## those of them that need no Java
	@$(MAKE) --no-print-directory clients CLIENTS='$(CLIENTS_FAST)'

lint-openapi: ## the linters of Redocly and Stoplight, and openapi-spec-validator
	@tests/packages.sh $(OPENAPI_PACKAGES)
	@tests/clients/lint/run.sh

test-docs: ## the commands of README and guide as they are printed, deploy.sh and worker.sh
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

test-alarms: ## alarms in made-up series, then they and the dashboard with real servers
	@tests/packages.sh $(ALARM_PACKAGES)
	@promtool check rules deploy/prometheus/rules.yaml
	@promtool test rules tests/alarms/rules_test.yaml
	@$(MAKE) $(SUBMAKE) all
	@$(TEST_ENVIRONMENT) /usr/bin/python3 tests/alarms/run.py $(BUILD)/rlockd

test-page: ## the page at / in Chromium, with axe-core; PICTURE=docs/page.png makes its picture
	@tests/packages.sh $(PAGE_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@$(TEST_ENVIRONMENT) tests/page/run.sh run.py $(BUILD)/rlockd $(PICTURE)

bench-page: ## what 20 open pages cost a server with 10,000 locks and 1,000 waiters; SECONDS=6
	@tests/packages.sh $(PAGE_PACKAGES) $(BENCH_PACKAGES)
	@$(MAKE) $(SUBMAKE) bench-programs
	@tests/page/run.sh load.py $(BUILD) $(SECONDS)

schemathesis: ## requests made up from openapi.yaml, answers against it; SEED=7 EXAMPLES=25
	@tests/packages.sh $(RUN_PACKAGES) $(OPENAPI_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@tests/clients/schemathesis/run.sh $(BUILD)/rlockd $(or $(SEED),1) $(EXAMPLES)

bench: ## measure; BENCH_SECONDS=2 a row, BENCH_ROUNDS=3, BENCH_PARTS=, BENCH_BASE=COMMIT; writes tests/bench/results.md
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
	@$(MAKE) $(SUBMAKE) all $(CHECKER) $(LIVE)
	@/usr/bin/python3 tests/faults/run.py $(BUILD) $(if $(MINUTES),--minutes $(MINUTES)) \
	    $(if $(SEED),--seed $(SEED)) $(if $(TOPOLOGY),--topology $(TOPOLOGY)) \
	    $(if $(JAVA),--java) $(FAULTS_ARGS)

mutants: ## plant bugs that show at once; the fault run must catch each; ONLY=word JOBS=2
	@tests/packages.sh $(FAULT_PACKAGES)
	@$(MAKE) $(SUBMAKE) all $(CHECKER) $(LIVE)
	@/usr/bin/python3 tests/faults/mutants.py $(if $(ONLY),--only $(ONLY)) \
	    $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS))

mutation: ## plant simple bugs by rule; tells which the quick suites miss; COUNT=20 SEED=1 JOBS=2 ONLY=word SECONDS=60
	@tests/packages.sh $(TEST_PACKAGES) $(SIM_PACKAGES)
	@$(MAKE) $(SUBMAKE) test-programs $(SIM)
	@/usr/bin/python3 tests/mutation/run.py --count $(or $(COUNT),20) --seed $(or $(SEED),1) \
	    --jobs $(or $(JOBS),$(shell nproc)) $(if $(ONLY),--only $(ONLY)) \
	    $(if $(SECONDS),--seconds $(SECONDS))

fuzz: ## made-up input for what reads text from outside; SECONDS=10, RUNS=, ONLY=word
	@tests/packages.sh $(FUZZ_PACKAGES)
	@$(MAKE) $(SUBMAKE) CC=clang FUZZING=1 fuzz-programs
	@FUZZ_SECONDS='$(SECONDS)' RUNS='$(RUNS)' tests/fuzz/run.sh build/fuzz/tests/fuzz $(ONLY)

model: ## every interleaving of small models of the protocols; three minutes; LONG=1 ONLY=word
	@tests/packages.sh python3
	@mkdir -p $(BUILD)/model
	@$(if $(ONLY),,python3 tests/model/deadlock.py)
	@$(if $(ONLY),,python3 tests/model/sessions.py)
	@python3 tests/model/quorum --cases $(BUILD)/model/quorum.cases $(if $(LONG),--long) \
	    $(if $(ONLY),--only '$(ONLY)')

sim: ## front ends, Redis, network, faults on virtual time, from seeds; SEEDS=150 SEED=1
	@tests/packages.sh $(SIM_PACKAGES)
	@$(MAKE) $(SUBMAKE) $(SIM)
	@$(SIM) --seeds=$(or $(SEEDS),150) --seed=$(or $(SEED),1) --jobs=$(or $(JOBS),$(shell nproc)) \
	    $(SIM_ARGS)

sim-mutants: ## plant bugs one by one; the simulation or a test must catch each; SEEDS=100 ONLY=word PART=0/3 NOTE=1
	@tests/packages.sh $(SIM_PACKAGES) $(TEST_PACKAGES)
	@$(MAKE) $(SUBMAKE) $(SIM) $(UNIT_TESTS) $(SCRIPT_TESTS)
	@/usr/bin/python3 tests/sim/mutants.py --seeds $(or $(SEEDS),100) \
	    --jobs $(or $(JOBS),$(shell nproc)) $(if $(ONLY),--only $(ONLY)) $(if $(PART),--part $(PART)) \
	    $(if $(NOTE),--note)

sim-coverage: ## which branches of the code that waits the simulation takes; SEEDS=100 SEED=1
	@tests/packages.sh $(SIM_PACKAGES) python3
	@$(MAKE) $(SUBMAKE) COVERAGE=1 build/coverage/tests/sim/sim
	@/usr/bin/python3 tests/sim/coverage.py build/coverage --seeds $(or $(SEEDS),100) \
	    --seed $(or $(SEED),1) --jobs $(or $(JOBS),$(shell nproc))

sim-same: ## whether each history is that of another commit, to the byte; WITH=COMMIT SEEDS=150
	@tests/packages.sh $(SIM_PACKAGES) git
	@$(MAKE) $(SUBMAKE) $(SIM)
	@tests/sim/same.sh $(SIM) "$(WITH)" $(or $(SEEDS),150) $(or $(SEED),1) \
	    $(or $(JOBS),$(shell nproc))

sim-compare: ## random commands to the simulated Redis and to a real one; SEED=7
	@tests/packages.sh $(SIM_PACKAGES)
	@$(MAKE) $(SUBMAKE) $(SIM_COMPARE)
	@$(SIM_COMPARE) redis-server $(or $(SEED),1)

docker-test: ## build the image, run it, take a lock in it
	@tests/docker/test_docker.sh
