#!/usr/bin/env bats
# scripts/lint finds what it is for, in a small tree with one bad file a rule, and is content with good ones.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	mkdir -p scripts cmd/rnp-a/low cmd/rnp-train/wire cmd/rnp-train/sim common/base common/json kernels/lm/cpu man tests
	cp "$ROOT/scripts/lint" scripts/
	cp "$ROOT/.clang-format" .
	echo >cmd/rnp-train/main.c
	header cmd/rnp-train/commands.h
	header cmd/rnp-train/options.h
	header common/base/base.h
}

# lint FILE...: its complaints; fails where it says nothing
lint() {
	run scripts/lint "$@"
}

# header PATH [LINE...]: a header with its guard
header() {
	local guard=${1#cmd/rnp-}
	guard=$(tr 'a-z/.-' 'A-Z___' <<<"$guard")
	{
		printf '/* %s - a header. */\n#ifndef RNP_%s\n#define RNP_%s\n\n' "${1##*/}" "$guard" "$guard"
		((${#@} == 1)) || printf '%s\n' "${@:2}" ''
		printf '#endif\n'
	} >"$1"
}

@test "lint: a good tree has no complaint, and what passed is not asked again" {
	header common/base/x.h 'int x_add(int a, int b);'
	printf '/* x.c - adds. */\n#include "common/base/x.h"\n\nint x_add(int a, int b)\n{\n\treturn a + b;\n}\n' >common/base/x.c
	lint
	assert_success
	assert_line 'lint: 0 complaints'
	mkdir -p build/bin
	printf '#!/bin/sh\n[ "$1" = --version ] || echo asked >>"%s/asked"\n' "$PWD" >build/bin/clang-format
	chmod +x build/bin/clang-format
	cp build/bin/clang-format build/bin/cppcheck
	PATH=$PWD/build/bin:$PATH lint
	assert_success
	rm asked
	PATH=$PWD/build/bin:$PATH lint
	[[ ! -e asked ]] || fail "asked again"
	echo >>common/base/x.h
	PATH=$PWD/build/bin:$PATH lint
	[[ -e asked ]] || fail "a header that changed is not looked at"
}

@test "lint: form of headers, lengths, formats, what prints" {
	printf '#ifndef RNP_Y\n#define RNP_Y\nint y(void);\n#endif\n' >common/base/y.h
	header common/base/lone.h 'int lone(struct nobody n, size_t m);'
	header common/base/own.h 'int own(void);'
	printf '#include <stdio.h>\n#include "common/base/own.h"\n\nint own(void)\n{\n\tputs("x");\n\treturn 0;\n}\n' >common/base/own.c
	printf 'int  z;\n' >common/base/z.c
	for _ in {1..601}; do echo; done >common/base/long.c
	lint
	assert_failure 1
	assert_line "common/base/y.h: guard is not RNP_COMMON_BASE_Y_H"
	assert_line "common/base/lone.h: does not compile alone"
	assert_line "common/base/own.c: its own header is not the first that it includes"
	assert_line "common/base/own.c: prints or exits below cmd/"
	assert_line 'common/base/long.c: more than 600 lines, no "long because"'
	! command -v clang-format >/dev/null || assert_line "common/base/z.c: make format would change it"
}

@test "lint: a comment goes to column 100, tabs being eight" {
	printf '/* %095d */\n\t/* %086d */\n' 0 0 >common/base/w.c
	lint common/base/w.c
	assert_line "common/base/w.c:1: a comment goes beyond column 100"
	refute_line --partial "w.c:2:"
	printf '/* a\n *\t%093d\n */\nconst char *const x = "%0120d";\n' 0 0 >common/base/w.c
	lint common/base/w.c
	assert_line "common/base/w.c:2: a comment goes beyond column 100"
	refute_line --partial "w.c:4:"
}

@test "lint: folders include only those below them, in programs, common and kernels" {
	header cmd/rnp-train/sim/s.h
	header common/json/j.h
	header kernels/lm/cpu/c.h
	header cmd/rnp-train/wire/up.h '#include "cmd/rnp-train/sim/s.h"'
	header cmd/rnp-train/sim/down.h '#include "cmd/rnp-train/wire/up.h"'
	header common/base/up.h '#include "common/json/j.h"'
	header common/json/cmd.h '#include "cmd/rnp-train/sim/s.h"'
	header kernels/lm/fast.h '#include "kernels/lm/cpu/c.h"'
	header cmd/rnp-a/low/other.h '#include "cmd/rnp-train/sim/s.h"'
	lint
	assert_line "cmd/rnp-train/wire/up.h: includes cmd/rnp-train/sim/s.h of cmd/rnp-train/sim, which stands above cmd/rnp-train/wire"
	assert_line "common/base/up.h: includes common/json/j.h of common/json, which stands above common/base"
	assert_line "common/json/cmd.h: includes cmd/rnp-train/sim/s.h of cmd/rnp-train/sim, a program's"
	assert_line "kernels/lm/fast.h: includes kernels/lm/cpu/c.h of kernels/lm/cpu, which stands above kernels/lm"
	assert_line "cmd/rnp-a/low/other.h: includes cmd/rnp-train/sim/s.h of cmd/rnp-train/sim, another program's"
	assert_line "cmd/rnp-a/low/other.h: cmd/rnp-a/low has no floor in scripts/lint"
	refute_line --partial "down.h: includes"
}

@test "lint: what is used without an include obeys the same order, by the linker's word or by the text" {
	header common/json/j.h 'int j_up(void);'
	printf '#include "common/json/j.h"\n\nint j_up(void)\n{\n\treturn 1;\n}\n' >common/json/j.c
	printf 'int j_up(void);\nint below(void);\n\nint below(void)\n{\n\treturn j_up();\n}\n' >common/base/below.c
	lint common/json/j.c common/base/below.c
	assert_line "common/base/below.c: uses j_up of common/json, which stands above common/base"
	# a pointer to it, which the text does not show, is found in the objects
	printf 'int j_up(void);\nextern int (*const below)(void);\nint (*const below)(void) = j_up;\n' >common/base/below.c
	mkdir -p build/obj/common/{base,json}
	gcc -I. -c -o build/obj/common/base/below.o common/base/below.c
	gcc -I. -c -o build/obj/common/json/j.o common/json/j.c
	lint common/json/j.c common/base/below.c
	assert_line "common/base/below.c: uses j_up of common/json, which stands above common/base"
}

@test "lint: at the top of a program stand main.c, commands.h, options.h and the subcommands" {
	header cmd/rnp-train/commands.h '#include "common/base/x.h"' '' 'extern const struct command command_run;'
	header cmd/rnp-train/helper.h
	header common/base/x.h 'struct command;'
	echo >cmd/rnp-train/run.c
	lint
	assert_line "cmd/rnp-train/helper.h: is no subcommand of cmd/rnp-train/commands.h: it belongs into a folder"
	refute_line --partial "run.c: is"
	refute_line --partial "options.h: is"
}

@test "lint: files and pages that comments and pages name are there" {
	printf '/* see common/base/gone.c, gone.h, gone(7), base/here.c, sysexits.h and llama2.c */\n' >common/base/here.c
	printf '/* rnp-gone(7), training.%s and %s 17 */\nconst char *const x = "gone.c";\n' md issue >common/json/here.c
	printf '.Dd x\n.Sh NAME\n.Pa cmd/rnp-X/NAME.c\n.Pa common/base/gone/NAME.c\n.Xr rnp-gone 5\n' >man/rnp-x.7
	printf '# the %s says so, in tests/gone.bats\n' spec >tests/x.bats
	lint
	assert_line "common/base/here.c:1: names common/base/gone.c, which is not there"
	assert_line "common/base/here.c:1: names gone.h, which is not there"
	assert_line "common/json/here.c:1: names rnp-gone(7), which is not there"
	assert_line "common/json/here.c:1: names training.md, which is not there"
	assert_line "common/json/here.c:1: cites 'issue 17', which nobody has here"
	assert_line "man/rnp-x.7:4: names common/base/gone/NAME.c, which is not there"
	assert_line "man/rnp-x.7:5: names rnp-gone(5), which is not there"
	assert_line "tests/x.bats:1: names tests/gone.bats, which is not there"
	assert_line "tests/x.bats:1: cites 'the spec', which nobody has here"
	refute_line --partial "names cmd/rnp-"
	refute_line --partial "sysexits"
	refute_line --partial "llama2"
	refute_line --partial "here.c:2:"
}

@test "lint: what does not belong to the top level" {
	echo >leftover
	lint
	assert_line "leftover: does not belong to the top level"
}

# commit SUBJECT: an empty commit
commit() {
	git -c user.name=a -c user.email=a@b commit -q --allow-empty -m "$1"
}

@test "lint: subjects of commits name an area and say with a verb what is done, in 65 characters" {
	git init -q .
	git add .
	commit 'The first one'
	sed -i "s/^SUBJECTS_SINCE = .*/SUBJECTS_SINCE = \"$(git rev-parse HEAD)\"/" scripts/lint
	commit 'base: add a file'
	commit 'tests, lint: say what is wrong'
	lint
	assert_line 'lint: 0 complaints'
	commit 'Add a file'
	commit 'base: the file is there'
	commit 'base: what was there is gone'
	commit "base: say $(printf '%060d' 0)"
	lint
	assert_line --regexp "^commit [0-9a-f]+: 'Add a file' does not begin with an area and a colon"
	assert_line --regexp "^commit [0-9a-f]+: 'base: the file is there' does not say with a verb"
	assert_line --regexp "^commit [0-9a-f]+: 'base: what was there is gone' does not say with a verb"
	assert_line --regexp "^commit [0-9a-f]+: 'base: say 0+' has more than 65 characters"
	assert_line 'lint: 4 complaints'
}
