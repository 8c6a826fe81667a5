#!/usr/bin/env bats
# What installs for the tests, runs and reads them: a test is ended whatever it does, and why is said.
load ../helper

setup() { cd "$BATS_TEST_TMPDIR" || exit; }

@test "check: a test's exit code is passed on, and nothing is said" {
	run "$ROOT/scripts/bounded" 60 sh -c 'exit 3'
	assert_equal "$status" 3
	assert_equal "$output" ''
}

@test "check: what is not over in time is named and killed, with all that it started" {
	run "$ROOT/scripts/bounded" 5 bash -c 'setsid sleep 987 & echo $! >pid; wait'
	assert_equal "$status" 124
	[[ $output == *'# left: after 5 s: '*'sleep 987'* ]]
	process_is_gone "$(cat pid)" # where nobody collects orphans, it stays a zombie
}

@test "check: a file whose tests pass has failed when it leaves a server behind" {
	echo '@''test "passes" { sleep 986 3>&- & }' >leaves.bats
	# what runs this test must not see that as its own
	RNP_BOUNDED='' run "$ROOT/scripts/check" "$BATS_TEST_TMPDIR/leaves.bats"
	assert_equal "$status" 1
	[[ $output == *'ok 1 passes'*'# left: ten seconds after the end: '*'sleep 986'*'1 passed, 1 failed, 0 skipped' ]]
}

@test "check: what fails beside others and passes alone is named and no failure; what fails alone, too, is one, and so are many" {
	local i
	# fails the first time only; its name has what a regular expression reads otherwise
	printf '@''test "unsteady (a+b): it'"\\'"'s [1]" { mkdir "%s/seen-a" 2>/dev/null && return 1; true; }\n@''test "steady" { :; }\n' "$PWD" >a.bats
	run "$ROOT/scripts/check" "$PWD/a.bats"
	assert_success
	assert_line --regexp '^not ok 1 unsteady'
	assert_line --regexp '^# unsteady: failed beside others, passed alone: unsteady .a\+b'
	[[ $output == *'2 passed, 0 failed, 0 skipped' ]]
	printf '@''test "broken" { false; }\n' >b.bats
	rmdir seen-a
	run "$ROOT/scripts/check" "$PWD/a.bats" "$PWD/b.bats"
	assert_equal "$status" 1
	assert_line '# fails alone, too: broken'
	[[ $output == *'1 passed, 2 failed, 0 skipped' ]]
	for i in 1 2 3 4; do printf '@''test "unsteady %s" { mkdir "%s/seen-$BATS_TEST_NUMBER" 2>/dev/null && return 1; true; }\n' "$i" "$PWD"; done >c.bats
	run "$ROOT/scripts/check" "$PWD/c.bats"
	assert_equal "$status" 1
	refute_output --partial '# unsteady'
	[[ $output == *'0 passed, 4 failed, 0 skipped' ]]
}

@test "make: a header that changes makes its objects anew, by whatever name their folder was given" {
	local header=common/base/clock.h object=obj/common/base/clock.o
	cd "$ROOT"
	for first in "$RNP_BUILD" "${RNP_BUILD#"$PWD/"}"; do
		rm -rf "$RNP_BUILD/names"
		make -s NVCC= BUILD="$first/names" "$first/names/$object"
		for second in "$RNP_BUILD" "${RNP_BUILD#"$PWD/"}"; do
			run -0 make NVCC= BUILD="$second/names" "$second/names/$object"
			refute_output --partial "CC "
			run -0 make NVCC= BUILD="$second/names" -W "$header" "$second/names/$object"
			assert_output --partial "CC "
		done
	done
	rm -rf "$RNP_BUILD/names"
}

@test "lint: a check that cannot fail is a complaint" {
	printf '@''test "x" {\n\t! grep -q a b\n\trun ! wait "$x"\n\t! grep -q a b || false\n\trun ! grep -q a b\n\t! grep -q a b\n}\n' >x.bats
	run "$ROOT/scripts/lint" "$PWD/x.bats"
	assert_line "$PWD/x.bats:2: a test does not fail here: run !"
	assert_line "$PWD/x.bats:3: waits for the child of another shell"
	assert_line 'lint: 2 complaints'
}

@test "bootstrap: the demo gets what building needs, the tests more; what apt-get does not know, or a machine without it, is told" {
	local program
	mkdir scripts bin
	cp "$ROOT/scripts/bootstrap" scripts/
	for program in bash env dirname grep fold cat mkdir timeout uname; do ln -s "$(command -v "$program")" bin/; done
	run_split env PATH="$PWD/bin" scripts/bootstrap demo
	assert_success
	[[ $stderr == 'bootstrap: no apt-get here'*gcc*libsodium-dev* && $stderr != *bats* ]]
	# one that has jq, and one whose Debian has no such package of clang
	printf '#!/bin/sh\n[ "$4" = jq ] || exit 1\necho "install ok installed"\n' >bin/dpkg-query
	printf '#!/bin/sh\necho "$*" >>installs\n' >bin/apt-get
	printf '#!/bin/sh\ncase $2 in libclang-rt*) exit 1; esac\n' >bin/apt-cache
	printf '#!/bin/sh\nexec "$@"\n' >bin/sudo
	printf '#!/bin/sh\nexit 1\n' >bin/npm
	chmod +x bin/{dpkg-query,apt-get,apt-cache,sudo,npm}
	run_split env PATH="$PWD/bin" scripts/bootstrap demo
	assert_success
	run -0 cat installs
	assert_line --regexp '^install .* gcc .*libsodium-dev .*curl python3$'
	refute_output --regexp 'bats|chromium| jq'
	rm installs
	run_split env PATH="$PWD/bin" scripts/bootstrap
	assert_success
	[[ $stderr == *'bootstrap: apt-get does not know libclang-rt-14-dev'*'npm cannot install'* ]]
	run -0 cat installs
	assert_line --regexp '^install .* gcc .* clang valgrind .*chromium'
}

@test "make: CUDA is built for the GPUs that are here, without one not at all, for all with CUDA=1, and a line says so" {
	printf '#!/bin/sh\n[ "$1" = --list-gpu-code ] && printf "sm_75\\nsm_80\\nsm_90\\nsm_100\\n"\ntrue\n' >nvcc
	chmod +x nvcc
	cd "$ROOT"
	told() { make -n --no-print-directory BUILD="$BATS_TEST_TMPDIR/build" NVCC="$BATS_TEST_TMPDIR/nvcc" NVCC12= MPI= NCCL= "$@" all; }
	run -0 told GPUS=
	assert_line "echo '  CUDA  not built, no GPU here (CUDA=1: for all GPUs)'"
	refute_output --partial librnp_cuda.so
	run -0 told GPUS=/dev/nvidia0
	assert_line "echo '  CUDA  for the GPUs of this machine (CUDA=1: for all)'"
	assert_output --regexp 'nvcc .*-arch=native .*kernels/dev/cuda/mem.cu'
	run -0 told GPUS= CUDA=1
	refute_output --partial "echo '  CUDA"
	assert_output --regexp 'nvcc .*code=sm_75 .*code=sm_90 .*code=compute_100 .*kernels/dev/cuda/mem.cu'
	run -0 told GPUS= CUDA_ARCH=sm_90
	assert_output --regexp 'nvcc .*-arch=sm_90 .*kernels/dev/cuda/mem.cu'
	run -0 told GPUS=/dev/nvidia0 CUDA=
	assert_line "echo '  CUDA  not built (CUDA=1: for all GPUs)'"
	refute_output --partial librnp_cuda.so
	# what is there for all is kept up to date
	mkdir -p "$BATS_TEST_TMPDIR/build/lib"
	touch "$BATS_TEST_TMPDIR/build/lib/librnp_cuda.so"
	echo 'all-major nvcc' >"$BATS_TEST_TMPDIR/build/nvflags"
	run -0 told GPUS=
	assert_output --regexp 'nvcc .*code=compute_100 .*kernels/dev/cuda/mem.cu'
}

@test "check: the table has the processor's minutes by part, and names what took more than 40 s" {
	run -0 "$ROOT/scripts/check" --table - <<-'END'
		build 100.0 20.0 build
		unit under sanitizers 50.1 1.2 lm/x
		tests/suite 2.0 30.5 tests/suite/man.bats
		unit under sanitizers 8.0 0.7 a
		tests/suite 8.0 1.0 tests/suite/b.bats
	END
	assert_output "# core-minutes: 3.7
#    2.0  build
#    1.0  unit under sanitizers
#    0.7  tests/suite
# over 40 s:
#    51 s unit under sanitizers: lm/x"
}
