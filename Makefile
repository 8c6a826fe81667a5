# rnp - make demo: the main job on this machine; make check: the tests; make help: all targets. See README.md.

VERSION := 0.1.0
BUILD   ?= build
PREFIX  ?= /usr/local
comma   := ,
CC      := gcc
OPT     ?= -O2 -g
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
           -Wwrite-strings -Wvla -Werror=implicit-function-declaration
OPENMP  ?= -fopenmp
CFLAGS  += -std=gnu11 $(OPT) $(WARN) -ffp-contract=off -fno-math-errno $(or $(OPENMP),-Wno-unknown-pragmas)
CPPFLAGS += -I. -D_GNU_SOURCE -DRNP_VERSION='"$(VERSION)"'
# kernels/dev/gomp.c stands for libgomp, for oneDNN's threads, too
TEAM    := $(if $(OPENMP),$(addprefix -Wl$(comma)--export-dynamic-symbol=,GOMP_* omp_*))
LDFLAGS += $(TEAM) -Wl,--as-needed
# Heavy libraries (libcurl, OpenSSL, NVML ...) are opened with dlopen on first use, so
# that every program starts in milliseconds.
LDLIBS  := -ljansson -lsodium -lsqlite3 -lyaml -lm -ldl -lpthread
MAKEFLAGS += --no-builtin-rules
# make V=1 shows whole commands
Q := $(if $(V),,@)
# Neither starts a process where there is nothing to do: six hundred times that is seconds.
say = $(if $(V),,$(info $()  $(1)  $@))
folder = $(if $(wildcard $(@D)/.),,@mkdir -p $(@D))

PROGRAMS := rnp-register rnp-bench rnp-price rnp-train rnp-serve rnp-reward
BINS     := $(PROGRAMS:%=$(BUILD)/bin/%)
# what runs in containers is no part of a program
GATE_C   := cmd/rnp-register/agent/gate.c
TREE     := $(filter-out $(GATE_C),$(shell find cmd common kernels tests/unit tests/bench/predict -type f 2>/dev/null))
files_in = $(sort $(filter $(1)/%$(2),$(TREE)))
COMMON   := $(filter-out common/comm/plugins/%,$(call files_in,common,.c))
KERNELS  := $(call files_in,kernels,.c)
CUDA_C   := $(call files_in,kernels,.cu)
UNITS    := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(call files_in,tests/unit,.c))
FUZZERS  := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
BENCHES  := $(patsubst tests/bench/%.c,$(BUILD)/benches/%,$(wildcard tests/bench/*.c))
SOAKS    := $(patsubst tests/soak/%.c,$(BUILD)/benches/%,$(wildcard tests/soak/*.c))
REPLAYS  := $(FUZZERS:%=$(BUILD)/replay/%)
NVCC     ?= $(shell command -v nvcc 2>/dev/null || ls /usr/local/cuda/bin/nvcc 2>/dev/null)

# Under sanitizers one fast version of the language model's kernels is watched, AVX2's. The others
# are the same text with wider vectors, and come from a build without sanitizers, PLAIN.
ALIKE  := $(addprefix kernels/lm/cpu/,avx512.c avx512bf16.c integer_vnni.c integer_amx.c amx.c)
OTHERS := $(if $(PLAIN),$(ALIKE))
object = $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(OTHERS),$(1))) \
	$(patsubst %.c,$(PLAIN)/obj/%.o,$(filter $(OTHERS),$(1)))
# What takes longest to compile is begun first, so that no core waits for it at the end.
LONG  := $(call object,$(filter $(addprefix kernels/lm/cpu/,avx512.c integer_vnni.c avx2.c avx512bf16.c) \
	kernels/crypto/ed25519_ifma.c kernels/crypto/comb_ifma.c,$(KERNELS)))
LIB   := $(BUILD)/librnp.a
# one of CUDA 12, where NVCC is of another
NVCC12   ?= $(filter-out $(realpath $(NVCC)),$(lastword $(wildcard /usr/local/cuda-12*/bin/nvcc)))
# kcheck holds the kernels against their references; it has the CUDA ones too, compiled for the
# emulation of tests/kernels/cuda_emu.h
KCHECK := $(filter-out %/cuda_race.c,$(wildcard tests/kernels/*.c))
EMU    := $(patsubst %.cu,$(or $(EMU_FROM),$(BUILD))/emu/%.o,$(filter-out kernels/backend/cuda_probe.cu,$(CUDA_C)))

# The plug-in for GPUs is built for those of this machine, and not where no driver shows one. CUDA=1,
# as `make check` and `make release` have it, builds it for all architectures, CUDA= not,
# CUDA_ARCH=sm_90 for these. What was built for all stays so, and is kept up to date.
GPUS    := $(or $(wildcard /dev/nvidia[0-9]*),$(filter GPU,$(if $(NVCC),$(shell nvidia-smi -L 2>/dev/null))))
PLUGIN  := $(BUILD)/lib/librnp_cuda.so
BUILT   := $(if $(wildcard $(PLUGIN)),$(filter-out /%,$(firstword $(file <$(BUILD)/nvflags))))
CUDA    := $(or $(CUDA_ARCH),$(BUILT),$(if $(GPUS),native))
CUDA_ARCH ?= $(or $(filter native sm_%,$(CUDA)),all-major)
PLUGINS := $(if $(and $(NVCC),$(CUDA)),$(PLUGIN) $(if $(NVCC12),$(BUILD)/lib/librnp_cuda12.so))
SAID    := $(if $(CUDA),$(if $(filter native,$(CUDA_ARCH)),for the GPUs of this machine (CUDA=1: for all)), \
	not built$(if $(GPUS),,$(comma) no GPU here) (CUDA=1: for all GPUs))

# Plug-ins for messages between machines, built where their headers are: MPI=1 and NCCL=1 insist,
# MPI= and NCCL= do without.
MPICC    ?= $(shell command -v mpicc 2>/dev/null)
MPI      ?= $(if $(MPICC),1)
CUDA_HOME ?= /usr/local/cuda
NCCL_H   ?= $(wildcard /usr/include/nccl.h $(CUDA_HOME)/include/nccl.h)
NCCL     ?= $(if $(NCCL_H),1)
MESSENGERS := $(if $(MPI),$(BUILD)/lib/librnp_mpi.so) $(if $(NCCL),$(BUILD)/lib/librnp_nccl.so)

.PHONY: FORCE all check demo bench soak fuzz asan tsan install uninstall release deb dist format lint clean bootstrap units replays kcheck help
.SECONDARY:

all: $(LONG) $(BINS) $(PLUGINS) $(MESSENGERS)
	$(if $(and $(NVCC),$(strip $(SAID))),@echo '  CUDA  $(strip $(SAID))')

# --- compile -----------------------------------------------------------------------------

# What an object was made of is said for both of its names: who gives BUILD in full, as tests do, makes the same object.
DEPENDS = -MMD -MP $(foreach name,$(sort $(patsubst $(CURDIR)/%,%,$@) $(abspath $@)),-MT $(name))

# A change of compiler or flags rebuilds everything; a change of headers what includes them.
FLAGS := $(CC) $(CPPFLAGS) $(CFLAGS)
$(BUILD)/flags: FORCE
	@mkdir -p $(BUILD)
	@echo '$(subst ','\'',$(FLAGS))' | cmp -s - $@ || echo '$(subst ','\'',$(FLAGS))' > $@
FORCE:

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	$(folder)
	$(call say,CC  )
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(DEPENDS) -c -o $@ $<

# To tell debuggers where the variables of unrolled loops are at each instruction takes gcc a third
# of its time. The code is the same without.
$(BUILD)/obj/kernels/%.o: CFLAGS += -fno-var-tracking

# gcc 12's sanitizer aligns the frames that it moves to the heap to 32 bytes, AVX-512 wants 64 (gcc's bug 110027)
$(foreach in,kernels tests/kernels tests/unit/kernels,$(BUILD)/obj/$(in)/%.o): CFLAGS += $(KERNEL_OPT)

# What the programs hold as text, by the name of its arrays: scripts/embed writes them as C. Beside them stand the
# examples of the man pages, which --help shows.
EMBEDDED := schema api serve train units agent
EMBED_schema := $(call files_in,common/json/schema,.json)
EMBED_api    := cmd/rnp-register/registry/openapi.json
EMBED_serve  := cmd/rnp-serve/server/openapi.json cmd/rnp-serve/server/page.html
EMBED_agent  := cmd/rnp-register/agent/start.sh
EMBED_train  := cmd/rnp-train/coordinator/openapi.json
EMBED_units  := $(addprefix scripts/systemd/rnp-,heartbeat.service node.service node.timer work.service price.service price.timer)
PAGES := $(sort $(wildcard man/*.1))

# The tables by which lines of JSON are read fast: NAME=KIND,KIND... (scripts/shapes)
SHAPES := record=rnp.uptime,rnp.verdict,rnp.receipt,rnp.node usage=rnp.usage offer=rnp.offer
$(BUILD)/gen/shapes.c: $(EMBED_schema) scripts/shapes
	@mkdir -p $(@D)
	$(Q)scripts/shapes common/json/schema $(SHAPES) > $@.part && mv $@.part $@

$(BUILD)/gen/examples.c: $(PAGES) scripts/examples
	$(folder)
	$(Q)scripts/examples $(PAGES) > $@.part && mv $@.part $@

.SECONDEXPANSION:
$(EMBEDDED:%=$(BUILD)/gen/%.c): $(BUILD)/gen/%.c: $$(EMBED_$$*) scripts/embed
	$(folder)
	$(Q)scripts/embed $* $(EMBED_$*) > $@.part && mv $@.part $@

# What a container of a lease waits in, a kilobyte: linked with nothing, not even sanitizers; as bytes for the agent.
GATE := $(BUILD)/gate
$(GATE): $(GATE_C) $(BUILD)/flags
	$(folder)
	$(Q)$(CC) -I. -std=gnu11 -Os $(WARN) -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables -nostdlib -static -no-pie \
		-fno-pie -Wl,--build-id=none,-z,noexecstack,-z,noseparate-code -s -o $@ $<

$(BUILD)/gen/gate.c: $(GATE)
	$(folder)
	$(Q){ printf '#include "cmd/rnp-register/agent/gate.h"\nconst unsigned char gate_program[] = {'; \
		od -An -v -tu1 $< | sed 's/[0-9][0-9]*/&,/g'; printf '};\nconst size_t gate_bytes = sizeof gate_program;\n'; } > $@.part && mv $@.part $@

$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c $(BUILD)/flags
	$(folder)
	$(call say,CC  )
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(DEPENDS) -c -o $@ $<

$(LIB): $(call object,$(COMMON) $(KERNELS)) $(patsubst %,$(BUILD)/obj/gen/%.o,$(EMBEDDED) examples shapes gate)
	$(call say,AR  )
	$(Q)rm -f $@ && ar qcs $@ $^

$(BINS): $(BUILD)/bin/%: $$(call object,$$(call files_in,cmd/$$*,.c)) $(LIB)
	$(folder)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# A unit test may use the pure parts of a program: all its sources but main.c, by
# `/* uses: cmd/rnp-price */` in its text.
$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $$(call object,$$(call uses,tests/unit/$$*.c)) $(LIB)
	$(folder)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/benches/%: $(BUILD)/obj/tests/soak/%.o $$(call object,$$(call uses,tests/soak/$$*.c)) $(LIB)
	$(folder)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/benches/%: $(BUILD)/obj/tests/bench/%.o $$(call object,$$(call uses,tests/bench/$$*.c)) $(LIB)
	$(folder)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/emu/%.o: %.cu $(BUILD)/flags
	$(folder)
	$(call say,EMU )
	$(Q)$(CC) -x c++ -std=gnu++17 $(OPT) -Wall -ffp-contract=off -fno-exceptions -fno-rtti $(CPPFLAGS) \
		-fPIC -DCUDA_EMU -Drnp_cuda_open=rnp_emu_open $(DEPENDS) -c -o $@ $<

# The same with every access to memory watched: tests/kernels/cuda_race.c, in place of the sanitizer's runtime.
RACE := $(patsubst %.cu,$(BUILD)/race/%.o,$(filter-out kernels/backend/cuda_probe.cu,$(CUDA_C)))
$(BUILD)/race/%.o: %.cu $(BUILD)/flags
	$(folder)
	$(call say,RACE)
	$(Q)$(CC) -x c++ -std=gnu++17 -O1 -g1 -Wall -ffp-contract=off -fno-exceptions -fno-rtti $(CPPFLAGS) \
		-fsanitize=thread --param=tsan-instrument-func-entry-exit=0 \
		-DCUDA_EMU -Drnp_cuda_open=rnp_emu_open $(DEPENDS) -c -o $@ $<

$(BUILD)/kcheck-race: $(call object,$(KCHECK) tests/kernels/cuda_race.c) $(RACE) $(LIB)
	$(folder)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/kcheck: $(call object,$(KCHECK)) $(EMU) $(LIB)
	$(folder)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# The few functions of the host's side that a plug-in shares with the programs: it sees nothing of theirs.
PLUGIN_C := $(BUILD)/pic/kernels/grad/quant.o
$(BUILD)/pic/%.o: %.c $(BUILD)/flags
	$(folder)
	$(call say,CC  )
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC $(DEPENDS) -c -o $@ $<

# The same as a plug-in, for tests of what stands above it: RNP_CUDA_PLUGIN=build/emu/librnp_cuda.so
EMU_PLUGIN := $(BUILD)/emu/librnp_cuda.so
$(BUILD)/emu/tests/kernels/%.o: tests/kernels/%.c $(BUILD)/flags
	$(folder)
	$(call say,EMU )
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC $(DEPENDS) -c -o $@ $<

$(EMU_PLUGIN): $(EMU) $(BUILD)/emu/tests/kernels/cuda_emu.o $(BUILD)/emu/tests/kernels/cuda_emu_graph.o $(BUILD)/emu/tests/kernels/cuda_emu_memory.o $(BUILD)/emu/tests/kernels/cuda_emu_wgmma.o $(PLUGIN_C)
	$(call say,LINK)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,--defsym=rnp_cuda_open=rnp_emu_open -Wl,-z,defs -o $@ $^ -lm

USES := $(shell grep -rHo --include='*.c' 'uses: \(cmd\|tests/bench\)/[a-z-]*' \
	tests/unit tests/bench tests/soak tests/fuzz 2>/dev/null | tr ' ' +)
uses = $(filter-out %/main.c,$(foreach d,$(patsubst $(1):uses:+%,%,$(filter $(1):%,$(USES))),$(call files_in,$(d),.c)))

-include $(shell find $(BUILD)/obj $(BUILD)/emu $(BUILD)/race $(BUILD)/pic -name '*.d' 2>/dev/null)

# --- CUDA --------------------------------------------------------------------------------

# all-major: all major architectures, and PTX for those to come.
# LINEINFO=1 for profilers: it doubles the plug-in. Compressed for size (nvcc 12.8 on) it has a quarter
# of the bytes, compressed as earlier ones can less than half; a kernel is decompressed when it is first
# loaded.
COMPRESS = $(eval COMPRESS := $(shell $(NVCC) --help 2>/dev/null | grep -q compress-mode && \
	echo --compress-mode=size || echo -Xfatbin=-compress-all))$(COMPRESS)
NVCCFLAGS ?= -O3 $(if $(LINEINFO),-lineinfo) $(COMPRESS) -std=c++17 -Xcompiler -fPIC,-Wall -I. --cudart static

# nvcc's front end runs once for each virtual architecture, and takes longer than ptxas. From compute_80 it makes for
# sm_90 what it makes from compute_90, to the byte, and from compute_100 for all later ones: these two do for all of them,
# where a kernel does not ask for __CUDA_ARCH__ 900 itself (tests/kernels/sass.bats holds the list against the kernels).
CUDA_OWN_90 := kernels/lm/cuda/attend_tensor_back.cu
major = $(shell $(NVCC) --list-gpu-code | sort -t_ -nk2 | awk -F_ -v own=$(1) 'NR > 1 && $$2 % 10 { next } \
	{ from = $$2 < 80 || $$2 == own ? $$2 : $$2 < 100 ? 80 : 100; print "-gencode arch=compute_" from ",code=sm_" $$2 } \
	END { print "-gencode arch=compute_" from ",code=compute_" from }')
ifeq ($(CUDA_ARCH),all-major)
CUDA_CODE    = $(eval CUDA_CODE := $(call major,0))$(CUDA_CODE)
CUDA_CODE_90 = $(eval CUDA_CODE_90 := $(call major,90))$(CUDA_CODE_90)
else
CUDA_CODE    := -arch=$(CUDA_ARCH)
CUDA_CODE_90 := $(CUDA_CODE)
endif
# What uses kernels/dev/cuda/wgmma.cuh is for sm_90a alone; what holds no kernel need not be there for each.
cuda_code = $(if $(filter %_sm90a.cu,$(1)),-gencode arch=compute_90a$(comma)code=sm_90a,$(if \
	$(filter $(CUDA_OWN_90),$(1)),$(CUDA_CODE_90),$(if $(shell grep -l __global__ $(1)),$(CUDA_CODE),-arch=sm_80)))

# As $(BUILD)/flags: other flags or architectures make other objects.
$(BUILD)/nvflags: FORCE
	@mkdir -p $(BUILD)
	@echo '$(CUDA_ARCH) $(NVCC) $(NVCCFLAGS) $(CUDA_CODE_90)' >$@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# nvcc names the object after a temporary file with its process id; without that name the same source
# makes the same bytes. What ptxas says of each kernel's registers and spills stays beside the object,
# for scripts/sass --built.
$(BUILD)/obj/%.cu.o: %.cu $(BUILD)/nvflags
	$(folder)
	$(call say,NVCC)
	$(Q)$(NVCC) $(NVCCFLAGS) -Xptxas -v $(call cuda_code,$<) -MMD -MF $(@:.o=.d) -c -o $@ $< 2>$(@:.o=.ptxas) || \
		{ grep -v '^ptxas info\|bytes stack frame' $(@:.o=.ptxas) >&2; exit 1; }
	@grep -v '^ptxas info\|bytes stack frame' $(@:.o=.ptxas) >&2 || true
	$(Q)objcopy --wildcard --strip-symbol='tmpxft_*' $@

$(BUILD)/lib/librnp_cuda.so: $(CUDA_C:%.cu=$(BUILD)/obj/%.cu.o) $(PLUGIN_C)
	$(folder)
	$(call say,NVCC)
	$(Q)$(NVCC) $(NVCCFLAGS) -shared -Xlinker -z,defs -o $@ $^

# A plug-in beside it for drivers that are too old for CUDA 13 (525 to 575), built where a toolkit of
# CUDA 12 is found besides; which of them fits is seen when one is opened (kernels/dev/plugin.c).
$(BUILD)/lib/librnp_cuda12.so: FORCE
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/cuda12 NVCC=$(NVCC12) NVCC12= $(BUILD)/cuda12/lib/librnp_cuda.so
	$(folder)
	@cmp -s $(BUILD)/cuda12/lib/librnp_cuda.so $@ || cp $(BUILD)/cuda12/lib/librnp_cuda.so $@

# --- plug-ins for messages ----------------------------------------------------------------

PLUGIN_FLAGS = $(CPPFLAGS) -std=gnu11 $(OPT) $(WARN) -ffp-contract=off -fPIC -shared $(DEPENDS) -MF $(BUILD)/obj/$(@F).d

$(BUILD)/lib/librnp_mpi.so: common/comm/plugins/mpi.c $(BUILD)/flags
	@mkdir -p $(@D) $(BUILD)/obj
	$(call say,MPI )
	$(Q)$(or $(MPICC),mpicc) $(PLUGIN_FLAGS) -o $@ $<

$(BUILD)/lib/librnp_nccl.so: common/comm/plugins/nccl.c $(BUILD)/flags
	@mkdir -p $(@D) $(BUILD)/obj
	$(call say,NCCL)
	$(Q)$(CC) $(PLUGIN_FLAGS) -isystem $(CUDA_HOME)/include -o $@ $< -L$(CUDA_HOME)/lib64 -lnccl -l:libcudart_static.a -ldl -lrt -lpthread

# --- the two commands, and what developers use ---------------------------------------------

bootstrap:
	scripts/bootstrap

# rnp-train whose workers may be hostile: tests/net/evil.c stands before what packs a delta and what describes it
EVIL := $(BUILD)/evil/rnp-train
$(EVIL): $(call object,$(call files_in,cmd/rnp-train,.c) tests/net/evil.c) $(LIB)
	$(folder)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -Wl,--wrap=container_write_filled,--wrap=delta_write -o $@ $^ $(LDLIBS)

# what a node's agent does for a lease, by hand: tests/attacks/lease.c
LEASE := $(BUILD)/evil/lease
$(LEASE): $(call object,$(filter-out %/main.c,$(call files_in,cmd/rnp-register,.c)) tests/attacks/lease.c) $(LIB)
	$(folder)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# what somebody in a container of a lease tries; it runs there without our libraries
INSIDE := $(BUILD)/evil/inside
$(BUILD)/obj/tests/attacks/inside.o: override OPT := -O1
$(INSIDE): $(BUILD)/obj/tests/attacks/inside.o
	$(folder)
	$(call say,LINK)
	$(Q)$(CC) -static $(filter-out -fsanitize=%,$(LDFLAGS)) -o $@ $^

# how long kernels should take on a GPU that need not be here
PREDICT := $(BUILD)/benches/predict
$(PREDICT): $(call object,$(call files_in,tests/bench/predict,.c)) $(LIB)
	$(folder)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

units: $(UNITS) $(EVIL) $(LEASE) $(INSIDE) $(PREDICT)

kcheck: $(BUILD)/kcheck $(EMU_PLUGIN)

replays: $(REPLAYS)

# all cores, unless make was told how many
JOBS = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

check:
	scripts/bootstrap
	+scripts/check --cost build $(MAKE) $(JOBS) $(if $(shell scripts/check --known sass),,CUDA=1) $(if $(shell scripts/check --known emulation),EMU_KNOWN=1) all units kcheck asan $(BUILD)/benches/gpu
	scripts/check

demo:
	scripts/bootstrap demo
	$(MAKE) $(JOBS) all
	scripts/demo-market
	scripts/demo

bench: all $(BENCHES)
	scripts/bench

# What is long by nature: hours of load, faults and fuzzing. scripts/soak NAME... runs some of it.
soak:
	scripts/bootstrap
	$(MAKE) $(JOBS) all units kcheck $(BENCHES) $(SOAKS)
	scripts/soak

# What the sanitizers watch: one thread, and no plug-ins: they do not know CUDA's runtime or MPI.
WATCHED  = BUILD=build/$@ NVCC= MPI= NCCL= OPENMP=
SANITIZE = address,undefined
STOPPING = -fno-sanitize-recover=undefined

# In kernels -fsanitize=address sees what null and object-size would, which take gcc a quarter longer; registers are
# given out for a whole function at once, in half the time where integer products are unrolled; and long functions call
# what looks at an access, which halves the longest files. EMU_KNOWN=1: what the emulation runs is not watched.
asan: $(call object,$(ALIKE)) $(if $(EMU_KNOWN),$(EMU))
	$(MAKE) $(WATCHED) PLAIN=$(BUILD) $(if $(EMU_KNOWN),EMU_FROM=$(BUILD)) KERNEL_OPT='-fira-region=one --param=asan-use-after-return=0 --param=asan-instrumentation-with-call-threshold=100 -fno-sanitize=null,object-size' LDFLAGS='-fsanitize=$(SANITIZE)' \
		OPT='-O1 -g1 -fsanitize=$(SANITIZE) $(STOPPING) -fno-omit-frame-pointer' \
		all units replays kcheck

tsan:
	$(MAKE) $(WATCHED) LDFLAGS='-fsanitize=thread' OPT='-O1 -g1 -fsanitize=thread' all units

# clang has libFuzzer; scripts/fuzz runs them.
fuzz:
	$(MAKE) $(WATCHED) CC=clang LDFLAGS='-fsanitize=$(SANITIZE)' \
		OPT='-O1 -g -fsanitize=fuzzer-no-link,$(SANITIZE) $(STOPPING)' \
		$(FUZZERS:%=build/fuzz/bin/%)

fuzz_objects = $(BUILD)/obj/tests/fuzz/fuzz_$(1).o $(call object,$(call uses,tests/fuzz/fuzz_$(1).c)) $(LIB)

$(BUILD)/bin/fuzz_%: $$(call fuzz_objects,$$*)
	$(folder)
	$(call say,LINK)
	$(Q)$(CC) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LDLIBS)

# The same targets with a main() that gives them their corpus once: for any compiler.
$(BUILD)/replay/fuzz_%: $(BUILD)/obj/tests/fuzz/replay.o $$(call fuzz_objects,$$*)
	$(folder)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

install: all
	scripts/install '$(DESTDIR)$(PREFIX)' '$(BUILD)' '$(PREFIX)'

uninstall:
	scripts/install --remove '$(DESTDIR)$(PREFIX)' '$(BUILD)'

# Packages are made from a build of their own, whose bytes do not depend on where and when it is made.
RELEASE_OPT = -O2 -g -ffile-prefix-map=$(CURDIR)=.
release:
	$(MAKE) $(JOBS) BUILD=build/release CUDA=1 OPT='$(RELEASE_OPT)' all

deb: release
	scripts/package build/release build/packages '$(VERSION)'

# The source of the last commit, the same bytes each time.
dist:
	@mkdir -p build/packages
	git archive --format=tar --prefix=rnp-$(VERSION)/ HEAD | xz -T1 >build/packages/rnp-$(VERSION).tar.xz.part
	mv build/packages/rnp-$(VERSION).tar.xz.part build/packages/rnp-$(VERSION).tar.xz

sources = $(shell find cmd common kernels tests -name '*.$(1)')

format:
	clang-format -i $(call sources,c) $(call sources,h) $(call sources,cu)

lint:
	scripts/lint

clean:
	rm -rf $(BUILD)

# --- help ------------------------------------------------------------------------------------

define HELP
make                 everything into $(BUILD)/bin; MPI and NCCL parts where their tools are found, CUDA for the
                     GPUs of this machine, where there are any
make demo            the main job: a node's whole life on this machine
make check           all tests: lint, units, sanitizers, kernels, programs (about 25 minutes on two cores)
make soak            tests that are long by nature (hours)
make bench           the figures of this machine as rnp.bench records
make units kcheck    unit tests, and kernels against their references
make asan tsan       builds under sanitizers, below build/asan and build/tsan
make fuzz            libFuzzer targets; scripts/fuzz runs them
make format lint     clang-format; what reviewers should not have to look for
make install         into $(DESTDIR)$(PREFIX); PREFIX= and DESTDIR= as usual
make uninstall       takes the same away again
make deb dist        Debian packages and a tarball of the source, into build/packages
make clean           removes $(BUILD)

V=1 shows whole commands. CUDA=1 builds for all GPUs, as make check, release and deb do, CUDA= or NVCC= without
CUDA, CUDA_ARCH=sm_90 for some; MPI= without MPI, NCCL= without NCCL. scripts/check FILE.bats runs one file of tests.
endef
export HELP
help:
	@echo "$$HELP"
