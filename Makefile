# rlockd: `make help` lists what can be made. All tests but `test`, and the variables that they
# read, are in tests/tests.mk.
#
# CC=gcc|clang   SANITIZE=1: address and undefined behaviour, in build/sanitize; SANITIZE=thread
# ONLY="word word": only tests whose path has one of these; EXCEPT="word word": none of these
# VERBOSE=1: what tests print, also when they pass   JOBS=1: programs at a time, not 3 a processor

VERSION := 0.2.0
PREFIX  := /usr/local

CC := $(if $(filter default,$(origin CC)),gcc,$(CC))

# Debian packages. Only `run`, `lint` and the tests install what is missing.
BUILD_PACKAGES := $(if $(findstring clang,$(CC)),clang libclang-rt-dev,gcc) libc6-dev make \
                  pkg-config libmicrohttpd-dev libgnutls28-dev libhiredis-dev libjansson-dev \
                  uuid-dev uthash-dev libevent-dev libssl-dev
RUN_PACKAGES   := $(BUILD_PACKAGES) redis-server curl uuid-runtime
TEST_PACKAGES  := $(RUN_PACKAGES) libcmocka-dev libcurl4-openssl-dev jq openssl python3
LINT_PACKAGES  := $(BUILD_PACKAGES) clang-format cppcheck shellcheck python3 python3-yaml \
                  python3-jsonschema lua5.1 mandoc zsh fish

LIBRARIES := libmicrohttpd gnutls hiredis jansson uuid
CLIENT_LIBRARIES := libevent_core libevent_extra libevent_openssl openssl jansson
comma := ,

GEN   := build/gen
BUILD := build$(if $(FUZZING),/fuzz,$(if $(COVERAGE),/coverage,$(if $(SANITIZE),/sanitize$(patsubst %,-%,$(filter thread,$(SANITIZE))))))

# ---- what is compiled, and how

# From a checkout with its commit, unless that has the tag. --git-dir: sources that lie inside
# another repository must not take that one's version.
COMMIT := $(shell git --git-dir=.git describe --always --dirty --match v$(VERSION) 2>/dev/null)
RLOCKD_VERSION := $(VERSION)$(addprefix +,$(filter-out v$(VERSION),$(COMMIT)))

CFLAGS   := -O2 -g
CPPFLAGS := -D_GNU_SOURCE -I. -I$(GEN) -DRLOCKD_VERSION='"$(RLOCKD_VERSION)"' \
            $(shell pkg-config --cflags $(LIBRARIES) $(CLIENT_LIBRARIES) 2>/dev/null)
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
LDLIBS   := $(shell pkg-config --libs $(LIBRARIES) 2>/dev/null) -lpthread
ifdef FUZZING
CHECKS := -O1 -fsanitize=address,undefined,fuzzer-no-link
else ifeq ($(SANITIZE),thread)
CHECKS := -O1 -fsanitize=thread
else ifdef SANITIZE
CHECKS := -O0 -fsanitize=address,undefined # -O0: builds in a fifth of the time of -O2
endif
SANITIZERS := $(if $(CHECKS),$(CHECKS) -fno-sanitize-recover=all -fno-omit-frame-pointer -DSANITIZED)
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
COMPILE  := $(CC) -std=gnu11 $(WARNINGS) $(CFLAGS) $(call knows,-ffile-prefix-map=$(CURDIR)=.) \
            $(HARDENING) $(SANITIZERS)
LINK     := $(COMPILE) $(HARDENED_LINK) $(LDFLAGS)

SOURCES  := $(sort $(wildcard server/*.c server/*/*.c storage/*/*.c handlers/*.c))
objects   = $(patsubst %.c,$(BUILD)/%.o,$1)
OBJECTS  := $(call objects,$(SOURCES))
MAIN     := $(BUILD)/server/main.o
CLIENT_SOURCES := $(sort $(wildcard client/*.c client/*/*.c)) server/base/notify.c
CLIENT_OBJECTS := $(call objects,$(CLIENT_SOURCES))
CLIENT_PAGES   := $(addprefix $(BUILD)/share/,man/man1/rlock.1 bash-completion/completions/rlock \
                  zsh/site-functions/_rlock fish/vendor_completions.d/rlock.fish)
SERVER_PAGE    := $(BUILD)/share/man/man8/rlockd.8
FORMATTED = $(shell find server storage handlers client tests -name '*.[ch]')

.PHONY: all help run test lint format install clean always
.DELETE_ON_ERROR:

all: $(BUILD)/rlockd $(BUILD)/rlock $(CLIENT_PAGES) $(SERVER_PAGE) ## build the server, build/rlockd, and build/rlock

$(BUILD)/rlockd: $(MAIN) $(BUILD)/librlockd.a
$(BUILD)/rlock: $(CLIENT_OBJECTS)
$(BUILD)/rlock: LDLIBS := $(shell pkg-config --libs $(CLIENT_LIBRARIES) 2>/dev/null)
$(BUILD)/rlockd $(BUILD)/rlock:
	@echo "  LINK  $@"
	@$(LINK) -o $@ $^ $(LDLIBS)

# From the tables of options and of settings.
$(BUILD)/share/man/man1/rlock.1: PRINTED := --print-man
$(BUILD)/share/bash-completion/completions/rlock: PRINTED := --print-completion bash
$(BUILD)/share/zsh/site-functions/_rlock: PRINTED := --print-completion zsh
$(BUILD)/share/fish/vendor_completions.d/rlock.fish: PRINTED := --print-completion fish
$(SERVER_PAGE): PRINTED := --print-man
$(CLIENT_PAGES): $(BUILD)/rlock
$(SERVER_PAGE): $(BUILD)/rlockd
$(CLIENT_PAGES) $(SERVER_PAGE):
	@mkdir -p $(@D)
	@$< $(PRINTED) > $@

$(BUILD)/librlockd.a: $(filter-out $(MAIN),$(OBJECTS))
	@echo "  AR    $@"
	@rm -f $@
	@ar rcs $@ $^

define compile
@echo "  CC    $<"
@mkdir -p $(@D)
@$(COMPILE) $(CPPFLAGS) -MMD -MP -c -o $@ $<
endef

$(sort $(OBJECTS) $(CLIENT_OBJECTS)): $(BUILD)/%.o: %.c $(BUILD)/flags
	$(compile)

-include $(OBJECTS:.o=.d) $(CLIENT_OBJECTS:.o=.d)

# ---- generated: C text of scripts, openapi.yaml and page; stamps of the flags and the version

# The directories themselves, too: a file that was removed counts. Some scripts are in quorum/ alone.
SCRIPT_DIRS  := $(addprefix storage/scripts,/ /lib/ /quorum/ /quorum/lib/)
SCRIPT_PARTS := $(wildcard $(SCRIPT_DIRS:=*.lua) storage/scripts/*.awk) storage/scripts/embed.sh $(SCRIPT_DIRS)
SCRIPTS      := $(addprefix storage/scripts/,$(sort $(notdir $(wildcard $(addprefix \
                storage/scripts/,*.lua quorum/*.lua)))))
SCRIPT_ROWS  := $(addprefix $(GEN)/scripts,.inc _cluster.inc _shard.inc _quorum.inc)

$(filter $(BUILD)/storage/%,$(OBJECTS)): | $(SCRIPT_ROWS) $(GEN)/script_args.h
$(filter $(BUILD)/handlers/%,$(OBJECTS)): | $(GEN)/openapi.inc $(GEN)/page.inc
$(call objects,$(shell grep -lw RLOCKD_VERSION $(SOURCES) $(CLIENT_SOURCES) /dev/null)): $(BUILD)/version

$(GEN)/scripts.inc: ROWS := rows
$(GEN)/scripts_cluster.inc: ROWS := cluster-rows
$(GEN)/scripts_shard.inc: ROWS := shard-rows
$(GEN)/scripts_quorum.inc: ROWS := quorum-rows
$(SCRIPT_ROWS): $(SCRIPT_PARTS)
	@mkdir -p $(@D)
	@sh storage/scripts/embed.sh $(ROWS) $(SCRIPTS) > $@

# Left alone where it would not change, for most of the storage includes it.
$(GEN)/script_args.h: $(SCRIPT_PARTS)
	@mkdir -p $(@D)
	@sh storage/scripts/embed.sh enums $(SCRIPTS) > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(GEN)/openapi.inc: openapi.yaml
	@mkdir -p $(@D)
	@sed -e 's/[\\"?]/\\&/g' -e 's/.*/"&\\n"/' $< > $@

$(GEN)/page.inc: $(wildcard web/*) web
	@mkdir -p $(@D)
	@sh web/embed.sh $(sort $(filter-out %.sh,$(wildcard web/*))) > $@

$(BUILD)/flags: always
	@pkg-config --exists --print-errors $(LIBRARIES) $(CLIENT_LIBRARIES) || { \
	    echo 'On Debian `make run` installs what is missing of: $(BUILD_PACKAGES)' >&2; exit 1; }
	@$(call stamp,$(filter-out -DRLOCKD_VERSION=% -ffile-prefix-map=%,$(COMPILE) $(CPPFLAGS)))

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
	    $(call chosen,$(UNIT_TESTS) $(CHECKER_TEST) $(SCRIPT_TESTS) $(E2E_TESTS) $(COMMAND_TEST))

lint: ## layering, banned calls, sizes, openapi.yaml and documents against the code, format
	@tests/packages.sh $(LINT_PACKAGES)
	@$(MAKE) $(SUBMAKE) all
	@tests/lint/lint.sh $(BUILD)/rlockd

format: ## clang-format every source in place
	@clang-format -i $(FORMATTED)

install: all ## copy both programs to PREFIX/bin (/usr/local), man pages and completions to PREFIX/share
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(BUILD)/rlockd $(BUILD)/rlock
	for page in $(patsubst $(BUILD)/%,%,$(CLIENT_PAGES) $(SERVER_PAGE)); do \
	    install -D -m 644 $(BUILD)/$$page $(DESTDIR)$(PREFIX)/$$page || exit 1; done

clean: ## remove build/
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(filter-out %.d,$(MAKEFILE_LIST))

# The server is also built where there is neither, as for its image.
include $(wildcard deploy/deploy.mk tests/tests.mk)
