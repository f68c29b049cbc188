# lab -- build, test, install.  `make help` lists the goals.
#
# Build output goes to build/<flavour>/: normal (float), double (gradient checks),
# asan (float under AddressSanitizer and UBSan).  ./lab is the normal program.
# Local settings (CC, CFLAGS, PREFIX ...) may stand in config.mak.  V=1 shows commands.

-include config.mak

PREFIX      ?= /usr/local
bindir      ?= $(PREFIX)/bin
libdir      ?= $(PREFIX)/lib
datadir     ?= $(PREFIX)/share
includedir  ?= $(PREFIX)/include
CFLAGS      ?= -O2 -g
FLAVOUR     ?= normal
Q           := $(if $(V),,@)
say          = $(if $(V),,@printf '  %-6s %s\n' $(1) $(2))

.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS   += --no-builtin-rules

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
ARCH        := $(shell uname -m)
ifeq ($(ARCH),x86_64)
ISAS        := generic avx2 avx512
else
ISAS        := generic
LIBS        := $(filter-out -lmvec,$(LIBS))
endif
ISA_generic :=
ISA_avx2    := -mavx2 -mfma
ISA_avx512  := -mavx512f -mavx512vl -mavx512dq -mavx512bw -mfma -mprefer-vector-width=512

# ---- what there is to build ----
LAYERS      := abi base nn host exp store run answer cli
CORE_SRC    := $(filter-out core/nn/kern.c,$(wildcard core/*/*.c))
CORE_OBJ    := $(CORE_SRC:%.c=$(B)/%.o) $(ISAS:%=$(B)/core/nn/kern.%.o)
LIB_OBJ     := $(filter-out $(B)/core/cli/main.o,$(CORE_OBJ))
PLUGIN_SRC  := $(wildcard plugins/*/*.c)
PLUGINS     := $(PLUGIN_SRC:%.c=$(B)/%.so)
BAD_SRC     := $(wildcard tests/plugins/*.c)
BAD_PLUGINS := $(BAD_SRC:%.c=$(B)/%.so)
UNIT_SRC    := $(wildcard tests/unit/test_*.c)
UNIT_BIN    := $(UNIT_SRC:%.c=$(B)/%)
SQL_SRC     := $(wildcard core/store/*.sql core/store/views/*.sql)
CSS_SRC     := $(wildcard core/answer/*.css)

.PHONY: all deps test check build unit cli-test check-layers check-headers check-exports clean help install uninstall dist
.PHONY: flavour-tests FORCE

all: lab

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST) | sort

## make             the program ./lab and its plugins
## make deps        install the packages that are missing (apt; root or sudo)
deps:
	$(Q)sh tests/deps.sh

# Goals of one command line keep their order under -j: whatever is built needs the packages first.
ifneq ($(filter deps,$(MAKECMDGOALS)),)
$(B)/flags: | deps
endif

# A change of flags rebuilds everything: the stamp is rewritten only when it differs.
STAMP := $(CC) $(CFLAGS) $(OUR_CFLAGS) $(LDFLAGS) $(OUR_LDFLAGS) $(LIBS)
$(B)/flags: FORCE
	$(Q)mkdir -p $(B); printf '%s\n' '$(subst ','\'',$(STAMP))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(STAMP))' > $@
FORCE:

$(B)/gen/sql.h: $(SQL_SRC) tests/embed.sh
	$(Q)mkdir -p $(@D); sh tests/embed.sh $(SQL_SRC) > $@
$(B)/gen/css.h: $(CSS_SRC) tests/embed.sh
	$(Q)mkdir -p $(@D); sh tests/embed.sh $(CSS_SRC) > $@

# Wall time and commit belong to provenance, so they are read at run time or here, never typed.
$(B)/gen/build.h: FORCE
	$(Q)mkdir -p $(@D); sh tests/build_info.sh '$(CC)' '$(subst ','\'',$(CFLAGS) $(filter-out -D% -I%,$(OUR_CFLAGS)))' > $@.new; \
	 cmp -s $@.new $@ 2>/dev/null && rm $@.new || mv $@.new $@

GEN := $(B)/gen/sql.h $(B)/gen/css.h $(B)/gen/build.h

$(B)/core/nn/kern.%.o: core/nn/kern.c $(B)/flags
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) -O3 $(OUR_CFLAGS) $(ISA_$*) -DKERN_ISA=$* -MMD -MP -c -o $@ $<

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
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) $(filter-out -Icore,$(OUR_CFLAGS)) -Icore/abi -fPIC -MMD -MP -MF $(@:.so=.d) -shared -o $@ $< -lm

lab: $(B)/lab $(PLUGINS)
	$(Q)if [ $(FLAVOUR) = normal ]; then ln -sf $(B)/lab lab; fi

# ---- tests ----
$(B)/tests/unit/%: tests/unit/%.c $(B)/liblab.a
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) $(OUR_CFLAGS) -Itests -DTEST_BUILD='"$(B)"' -MMD -MP -MF $@.d -o $@ $< $(B)/liblab.a \
	 $(OUR_LDFLAGS) $(LDFLAGS) -lcmocka $(LIBS)

build: lab $(BAD_PLUGINS) $(UNIT_BIN)

unit: build
	$(Q)sh tests/run_unit.sh $(UNIT_BIN)

cli-test: lab $(BAD_PLUGINS)
	$(Q)sh tests/run_cli.sh $(wildcard tests/cli/*.test)

check-layers:
	$(Q)sh tests/check_layers.sh $(LAYERS)
check-headers: $(GEN)
	$(Q)for h in core/*/*.h; do $(CC) $(OUR_CFLAGS) -Werror -fsyntax-only -x c $$h || exit 1; done; echo "headers: each compiles alone"
check-exports: lab
	$(Q)sh tests/check_exports.sh $(PLUGINS)

## make test        every fast test, in float and in double (also: make check)
check: test
test: check-layers check-headers check-exports unit cli-test flavour-tests
flavour-tests: unit cli-test
	$(Q)$(MAKE) --no-print-directory FLAVOUR=double unit

## make clean       remove what was built
clean:
	rm -rf build lab

-include $(wildcard $(B)/core/*/*.d $(B)/plugins/*/*.d $(B)/tests/*/*.d)
