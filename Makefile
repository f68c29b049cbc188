# lab -- build, test, install.  `make help` lists the goals.
#
# Build output goes to build/<flavour>/: normal (float), double (gradient checks),
# asan (float under AddressSanitizer and UBSan), tsan (under ThreadSanitizer).  ./lab is the normal program.
# Local settings (CC, CFLAGS, PREFIX ...) may stand in config.mak.  V=1 shows commands.

-include config.mak

PREFIX      ?= /usr/local
bindir      ?= $(PREFIX)/bin
libdir      ?= $(PREFIX)/lib
datadir     ?= $(PREFIX)/share
includedir  ?= $(PREFIX)/include
mandir      ?= $(datadir)/man
completions ?= $(datadir)/bash-completion/completions
zshfunctions ?= $(datadir)/zsh/site-functions
INSTALL     ?= install
CFLAGS      ?= -O2 -g
FLAVOUR     ?= normal
Q           := $(if $(V),,@)
say          = $(if $(V),,@printf '  %-6s %s\n' $(1) $(2))

.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
# On all cores, unless -j says otherwise.
MAKEFLAGS   := $(MAKEFLAGS) --no-builtin-rules $(if $(filter-out 0,$(MAKELEVEL))$(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- flags: ours, apart from the user's ----
B           := build/$(FLAVOUR)
WARN        := -Wall -Wextra $(if $(WERROR),-Werror)
OUR_CFLAGS  := -std=gnu11 $(WARN) -fno-math-errno -fvisibility=hidden -Icore -I$(B)/gen -D_GNU_SOURCE \
               -DLAB_PLUGIN_DIR='"$(libdir)/lab/plugins"' -DLAB_DATA_DIR='"$(datadir)/lab"'
OUR_LDFLAGS := -Wl,-z,now -Wl,-z,relro
LIBS        := -lopenblas -lsqlite3 -linih -lmd -lmvec -lm -ldl
PLUGIN_DEFS := -Wl,-z,defs
ifeq ($(FLAVOUR),double)
OUR_CFLAGS  += -DLAB_REAL_DOUBLE
endif
ifeq ($(FLAVOUR),asan)
OUR_CFLAGS  += -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
OUR_LDFLAGS += -fsanitize=address,undefined
PLUGIN_DEFS :=
endif
ifeq ($(FLAVOUR),tsan)
OUR_CFLAGS  += -fsanitize=thread -fno-omit-frame-pointer
OUR_LDFLAGS += -fsanitize=thread
PLUGIN_DEFS :=
endif
ifeq ($(FLAVOUR),fuzz)
OUR_CFLAGS  += -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
OUR_LDFLAGS += -fsanitize=address,undefined
PLUGIN_DEFS :=
endif
ARCH        := $(shell uname -m)
ifeq ($(ARCH),x86_64)
ISAS        := generic avx2 avx512
else
ISAS        := generic
LIBS        := $(filter-out -lmvec,$(LIBS))
endif
ISA_generic :=
ISA_avx2    := -mavx2 -mfma -mbmi -mbmi2
ISA_avx512  := -mavx512f -mavx512vl -mavx512dq -mavx512bw -mfma -mbmi -mbmi2 -mprefer-vector-width=512

# ---- what there is to build ----
LAYERS      := abi base nn host exp store run answer cli
KERNELS     := kern kern_attn kern_relu
CORE_SRC    := $(filter-out $(KERNELS:%=core/nn/%.c),$(wildcard core/*/*.c))
CORE_OBJ    := $(CORE_SRC:%.c=$(B)/%.o) $(foreach isa,$(ISAS),$(KERNELS:%=$(B)/core/nn/%.$(isa).o))
LIB_OBJ     := $(filter-out $(B)/core/cli/main.o,$(CORE_OBJ))
PLUGIN_SRC  := $(wildcard plugins/*/*.c)
PLUGINS     := $(PLUGIN_SRC:%.c=$(B)/%.so)
BAD_SRC     := $(wildcard tests/plugins/*.c)
BAD_PLUGINS := $(BAD_SRC:%.c=$(B)/%.so)
INJECT      := $(B)/tests/faults/inject.so
OLD_SRC     := $(wildcard tests/abi/*/*.c)
OLD_PLUGINS := $(OLD_SRC:%.c=$(B)/%.so)
UNIT_SRC    := $(wildcard tests/unit/test_*.c)
UNIT_BIN    := $(UNIT_SRC:%.c=$(B)/%)
NUMERIC     := $(addprefix build/normal/tests/unit/test_,golden gradients facts)
FUZZ_SRC    := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN    := $(FUZZ_SRC:%.c=$(B)/%)
REPLAY_BIN  := $(FUZZ_SRC:tests/fuzz/fuzz_%.c=$(B)/tests/fuzz/replay_%)
SQL_SRC     := $(wildcard core/store/*.sql core/store/views/*.sql core/store/migrations/*.sql)
CSS_SRC     := $(wildcard core/answer/*.css)
SKELETONS   := $(wildcard core/cli/skeleton_*.in)

.PHONY: all deps test check build unit cli-test check-plugins check-layers check-headers check-exports clean help install uninstall dist
.PHONY: check-plugins-simd flavour-tests install-test bench test-speed FORCE terminal-test help-test test-browser test-slurm
.PHONY: slow-test fuzz fuzz-run fuzz-replay deps-fuzz test-faults test-faults-short

all: lab

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST) | sort

## make             the program ./lab and its plugins
## make deps        install the packages that are missing (apt; root or sudo)
deps:
	$(Q)sh tests/deps.sh

# A change of flags rebuilds everything: the stamp is rewritten only when it differs.
STAMP := $(CC) $(CFLAGS) $(OUR_CFLAGS) $(LDFLAGS) $(OUR_LDFLAGS) $(LIBS)
$(B)/flags: FORCE
	$(Q)mkdir -p $(B); printf '%s\n' '$(subst ','\'',$(STAMP))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(STAMP))' > $@
FORCE:

$(B)/gen/sql.h: $(SQL_SRC) tests/embed.sh
	$(Q)mkdir -p $(@D); sh tests/embed.sh $(SQL_SRC) > $@
$(B)/gen/css.h: $(CSS_SRC) tests/embed.sh
	$(Q)mkdir -p $(@D); sh tests/embed.sh $(CSS_SRC) > $@

$(B)/gen/skeleton.h: $(SKELETONS) tests/embed.sh
	$(Q)mkdir -p $(@D); sh tests/embed.sh $(SKELETONS) > $@

# Wall time and commit belong to provenance, so they are read at run time or here, never typed.
$(B)/gen/build.h: FORCE
	$(Q)mkdir -p $(@D); sh tests/build_info.sh '$(CC)' '$(subst ','\'',$(CFLAGS) $(filter-out -D% -I%,$(OUR_CFLAGS)))' > $@.new; \
	 cmp -s $@.new $@ 2>/dev/null && rm $@.new || mv $@.new $@

GEN := $(B)/gen/sql.h $(B)/gen/css.h $(B)/gen/skeleton.h $(B)/gen/build.h

# Goals of one command line keep their order under -j: whatever is built needs the packages first.
ifneq ($(filter deps,$(MAKECMDGOALS)),)
$(B)/flags $(GEN): | deps
endif

define KERNEL_RULE
$(B)/core/nn/$(1).%.o: core/nn/$(1).c $(B)/flags
	$$(call say,CC,$$@)
	$$(Q)mkdir -p $$(@D); $$(CC) $$(CFLAGS) -O3 $$(OUR_CFLAGS) $$(ISA_$$*) -DKERN_ISA=$$* -MMD -MP -c -o $$@ $$<
endef
$(foreach kernel,$(KERNELS),$(eval $(call KERNEL_RULE,$(kernel))))

$(B)/core/%.o: core/%.c $(B)/flags | $(GEN)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) $(OUR_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/liblab.a: $(LIB_OBJ)
	$(Q)rm -f $@; $(AR) rcs $@ $^

$(B)/lab: $(B)/core/cli/main.o $(B)/liblab.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(OUR_LDFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# A plugin sees core/abi alone and may need nothing but libm.
$(B)/plugins/%.so: plugins/%.c $(B)/flags
	$(call say,SO,$@)
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) -O3 $(filter-out -Icore,$(OUR_CFLAGS)) -Icore/abi -fPIC -MMD -MP -MF $(@:.so=.d) -shared \
	 $(OUR_LDFLAGS) $(PLUGIN_DEFS) $(LDFLAGS) -o $@ $< -lm
$(B)/tests/plugins/%.so: tests/plugins/%.c $(B)/flags
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) $(filter-out -Icore,$(OUR_CFLAGS)) -Icore/abi -fPIC -MMD -MP -MF $(@:.so=.d) -shared -o $@ $< -lm $(FIXTURE_LIBS)
# Makes system calls of a lab process fail; see there.
$(INJECT): tests/faults/inject.c $(B)/flags
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) $(OUR_CFLAGS) -fPIC -shared -o $@ $< -ldl
# Plugins of earlier ABIs, each with the headers of its time.
$(B)/tests/abi/%.so: tests/abi/%.c $(B)/flags
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) $(filter-out -Icore,$(OUR_CFLAGS)) -I$(<D) -fPIC -MMD -MP -MF $(@:.so=.d) -shared -o $@ $< -lm
$(B)/tests/plugins/bad_library.so: FIXTURE_LIBS := -Wl,--no-as-needed -lmd

lab: $(B)/lab $(PLUGINS)
	$(Q)if [ $(FLAVOUR) = normal ]; then ln -sf $(B)/lab lab; fi

# ---- tests ----
$(B)/tests/%: tests/%.c $(B)/liblab.a
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) $(TEST_INCLUDE) $(OUR_CFLAGS) -Itests -DTEST_BUILD='"$(B)"' -MMD -MP -MF $@.d -o $@ $< $(B)/liblab.a \
	 $(OUR_LDFLAGS) $(LDFLAGS) -lcmocka $(LIBS)

# What a later minor would be: each struct of the headers with one more field, for a host that is tested with today's plugins.
$(B)/abi_next/abi/%.h: core/abi/%.h tests/abi_next.sed
	$(Q)mkdir -p $(@D); sed -f tests/abi_next.sed $< > $@
$(B)/tests/unit/test_abi_next: $(B)/abi_next/abi/lab_plugin.h $(B)/abi_next/abi/lab_task.h
$(B)/tests/unit/test_abi_next: private TEST_INCLUDE := -I$(B)/abi_next

# A target of the fuzzer: driven by libFuzzer, or by the files that its corpus keeps.
$(B)/tests/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(B)/liblab.a
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) $(OUR_CFLAGS) -Itests -DTEST_BUILD='"$(CURDIR)/$(B)"' -MMD -MP -MF $@.d -fsanitize=fuzzer -o $@ $< \
	 $(B)/liblab.a $(OUR_LDFLAGS) $(LDFLAGS) $(LIBS)
$(B)/tests/fuzz/replay_%: tests/fuzz/fuzz_%.c tests/fuzz/replay.c $(B)/liblab.a
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) $(OUR_CFLAGS) -Itests -DTEST_BUILD='"$(CURDIR)/$(B)"' -o $@ $< tests/fuzz/replay.c \
	 $(B)/liblab.a $(OUR_LDFLAGS) $(LDFLAGS) $(LIBS)

build: lab $(BAD_PLUGINS) $(OLD_PLUGINS) $(UNIT_BIN)

unit: build
	$(Q)sh tests/run_unit.sh $(UNIT_BIN)

cli-test: lab $(BAD_PLUGINS) $(OLD_PLUGINS)
	$(Q)sh tests/run_cli.sh $(wildcard tests/cli/*.test)

help-test: lab $(B)/lab.1
	$(Q)sh tests/help.sh $(B)/lab $(B)/lab.1

# Live lines and the time left, on terminals of tmux.
terminal-test: lab
	$(Q)sh tests/terminal/run.sh
	$(Q)sh tests/terminal/time_left.sh

fuzz-replay: lab $(REPLAY_BIN)
	$(Q)sh tests/fuzz/run.sh 0 $(REPLAY_BIN)

## make fuzz        feed the readers of files and pipes made-up bytes, FUZZ_SECONDS each (60); needs clang: make deps-fuzz
FUZZ_SECONDS ?= 60
fuzz:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=fuzz CC=clang fuzz-run
fuzz-run: lab $(FUZZ_BIN)
	$(Q)sh tests/fuzz/run.sh $(FUZZ_SECONDS) $(FUZZ_BIN)
deps-fuzz:
	$(Q)sh tests/deps.sh clang libclang-rt-14-dev

check-layers:
	$(Q)sh tests/check_layers.sh $(LAYERS)
check-headers: $(GEN)
	$(Q)for h in core/*/*.h; do $(CC) $(OUR_CFLAGS) -Werror -fsyntax-only -x c $$h || exit 1; done; echo "headers: each compiles alone"
check-exports: lab
	$(Q)sh tests/check_exports.sh $(PLUGINS)

check-plugins: lab
	$(Q)$(B)/lab check --only-failed $(PLUGINS)

## make check-plugins-simd  the same on every set of instructions of this processor, in float and in double
check-plugins-simd: lab
	$(Q)$(MAKE) --no-print-directory FLAVOUR=double lab
	$(Q)sh tests/check_simd.sh

## make test        every fast test, in float and in double (also: make check)
check: test
test: check-layers check-headers check-exports check-plugins unit cli-test fuzz-replay install-test flavour-tests help-test terminal-test test-faults-short
flavour-tests: unit cli-test
	$(Q)$(MAKE) --no-print-directory FLAVOUR=double unit check-plugins
	$(Q)for isa in generic avx2; do [ $$isa = generic ] || grep -qw $$isa /proc/cpuinfo || continue; \
	 echo "numerics with LAB_SIMD=$$isa"; LAB_SIMD=$$isa sh tests/run_unit.sh $(NUMERIC) $(NUMERIC:build/normal/%=build/double/%) || exit 1; done

# After the other tests: they would only wait for each other.
test-faults-short: lab $(INJECT) | flavour-tests
	$(Q)bash tests/faults/run.sh 'campaign 10' 'inject 4999 37' 'storage forever deleted network'

## make test-browser the report in headless Chromium: overflow, console, requests, axe-core, print; LOOK=FOLDER keeps pictures
test-browser: lab $(BAD_PLUGINS)
	$(Q)sh tests/browser/run.sh $(LOOK)

## make test-faults kill, interrupt, fill the disk, break every system call, load bad plugins, 200 kills over sweeps; within ten minutes
test-faults: lab $(BAD_PLUGINS) $(INJECT) fuzz-replay
	$(Q)bash tests/faults/run.sh kill interrupt resume plugin disk storage inject 'campaign 200'
	$(Q)sh tests/run_cli.sh tests/cli/hostile.test

## make test-slurm  sweeps on a Slurm of two virtual nodes, which is installed (root) and started for it; about four minutes
test-slurm: lab $(BAD_PLUGINS)
	$(Q)bash tests/slurm/run.sh array cancel 'cancel cgroup' requeue 'preempt CANCEL' node fail silent

# Valgrind knows no AVX-512, and the numerics take it hours; the processes of `lab check` end without freeing, which it counts as leaks.
VALGRIND       := valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --trace-children=no
VALGRIND_SKIPS := gradients golden facts encoders field_tasks step resume quiet sched ceiling eval counts field tasks lengths bench check
## make test-sanitizers  the tests under ASan and UBSan, ThreadSanitizer, valgrind
test-sanitizers: test-asan test-tsan test-valgrind
test-asan:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=asan build
	$(Q)ASAN_OPTIONS=handle_segv=0:handle_abort=0 sh tests/run_unit.sh $(UNIT_SRC:%.c=build/asan/%)
	$(Q)ASAN_OPTIONS=handle_segv=0:handle_abort=0 SANITIZED=1 BUILD=$(CURDIR)/build/asan sh tests/run_cli.sh $(wildcard tests/cli/*.test)
# ThreadSanitizer itself is what these find: a library that a plugin needs, one more export, an allocator.
TSAN_SKIPS := check plugin quiet
test-tsan:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=tsan build
	$(Q)sh tests/run_unit.sh $(filter-out $(TSAN_SKIPS:%=build/tsan/tests/unit/test_%),$(UNIT_SRC:%.c=build/tsan/%))
test-valgrind: build
	$(Q)UNDER='$(VALGRIND)' LAB_SIMD=avx2 sh tests/run_unit.sh $(filter-out $(VALGRIND_SKIPS:%=$(B)/tests/unit/test_%),$(UNIT_BIN))

## make bench       time a training step of three models against its matrix products
bench: lab
	$(Q)./lab bench

## make test-speed  time and memory of long sequences and of a worker; minutes, and wants a quiet machine
test-speed: lab $(B)/tests/bench/test_speed
	$(Q)OPENBLAS_NUM_THREADS=1 $(B)/tests/bench/test_speed

# ---- installing ----
VERSION     := $(shell sed -n 's/.*LAB_VERSION "\(.*\)"/\1/p' core/exp/env.h)
ABI         := $(shell sed -n 's/^\#define LAB_ABI_MAJOR \([0-9]*\)u.*/\1/p' core/abi/lab_plugin.h).$(shell \
                       sed -n 's/^\#define LAB_ABI_MINOR \([0-9]*\)u.*/\1/p' core/abi/lab_plugin.h)
D           := $(DESTDIR)
QUERIES     := $(wildcard results/queries/*.sql)
EXPERIMENTS := $(wildcard experiments/*.ini experiments/papers/*.ini)
# Every installed file, once: install puts it there, uninstall takes it away.
INSTALLED    = $(bindir)/lab $(PLUGINS:$(B)/plugins/%=$(libdir)/lab/plugins/%) $(includedir)/lab/lab_plugin.h $(includedir)/lab/lab_task.h \
               $(libdir)/pkgconfig/lab-plugin.pc $(mandir)/man1/lab.1 $(completions)/lab $(zshfunctions)/_lab \
               $(QUERIES:results/%=$(datadir)/lab/%) $(EXPERIMENTS:%=$(datadir)/lab/%)

$(B)/lab.1: $(B)/lab tests/make_man.sh
	$(call say,MAN,$@)
	$(Q)sh tests/make_man.sh $(B)/lab > $@

$(B)/lab-plugin.pc: core/abi/lab-plugin.pc.in FORCE
	$(Q)mkdir -p $(@D); sed -e 's|@PREFIX@|$(PREFIX)|; s|@INCLUDEDIR@|$(includedir)/lab|; s|@PLUGINDIR@|$(libdir)/lab/plugins|' \
	 -e 's|@ABI@|$(ABI)|; s|@VERSION@|$(VERSION)|' $< > $@

## make install     to PREFIX (/usr/local), under DESTDIR when that is set; make uninstall takes the same files away
install: lab $(B)/lab.1 $(B)/lab-plugin.pc
	$(Q)$(INSTALL) -d $(addprefix $(D),$(sort $(dir $(INSTALLED))))
	$(Q)$(INSTALL) -m 755 $(B)/lab $(D)$(bindir)/lab
	$(Q)for p in $(PLUGINS:$(B)/plugins/%=%); do $(INSTALL) -m 755 $(B)/plugins/$$p $(D)$(libdir)/lab/plugins/$$p || exit 1; done
	$(Q)$(INSTALL) -m 644 core/abi/lab_plugin.h core/abi/lab_task.h $(D)$(includedir)/lab
	$(Q)$(INSTALL) -m 644 $(B)/lab-plugin.pc $(D)$(libdir)/pkgconfig
	$(Q)$(INSTALL) -m 644 $(B)/lab.1 $(D)$(mandir)/man1
	$(Q)$(INSTALL) -m 644 core/cli/completion.bash $(D)$(completions)/lab
	$(Q)$(INSTALL) -m 644 core/cli/completion.zsh $(D)$(zshfunctions)/_lab
	$(Q)$(INSTALL) -m 644 $(QUERIES) $(D)$(datadir)/lab/queries
	$(Q)for e in $(EXPERIMENTS); do $(INSTALL) -m 644 $$e $(D)$(datadir)/lab/$$e || exit 1; done

uninstall:
	$(Q)rm -f $(addprefix $(D),$(INSTALLED))
	$(Q)for d in $(addprefix $(D),$(datadir)/lab/queries $(datadir)/lab/experiments/papers $(datadir)/lab/experiments $(datadir)/lab $(libdir)/lab/plugins/encoders \
	 $(libdir)/lab/plugins/tasks $(libdir)/lab/plugins $(libdir)/lab $(includedir)/lab); do rmdir $$d 2>/dev/null || true; done

install-test: lab $(B)/lab.1
	$(Q)MAKE='$(MAKE)' CC='$(CC)' PREFIX='$(PREFIX)' sh tests/install.sh

## make dist        lab-VERSION.tar.gz, the source as of the last commit
dist:
	$(Q)git archive --prefix=lab-$(VERSION)/ -o lab-$(VERSION).tar.gz HEAD && echo lab-$(VERSION).tar.gz

## make slow-test   the oracle of every task, 10000 examples at each length up to 64 and at 500; check-plugins-simd; about 7 minutes
slow-test: build check-plugins-simd
	$(Q)LAB_TEST_EXAMPLES=10000 $(B)/tests/unit/test_field_tasks

## make clean       remove what was built
clean:
	rm -rf build lab

-include $(wildcard $(B)/core/*/*.d $(B)/plugins/*/*.d $(B)/tests/*/*.d)
