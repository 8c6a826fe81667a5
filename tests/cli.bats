# What every program of the suite promises.
load helper

programs=(rnp-register rnp-bench rnp-price rnp-train rnp-serve rnp-reward)

# subcommands PROGRAM, from its own overview
subcommands() {
	"$1" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'
}

# each_subcommand FUNCTION: call it with PROGRAM SUBCOMMAND for all there are
each_subcommand() {
	local p sub
	for p in "${programs[@]}"; do
		for sub in $(subcommands "$p"); do
			"$1" "$p" "$sub" || fail "$p $sub"
		done
	done
}

@test "cli: --version and --help are on stdout and 0" {
	for p in "${programs[@]}"; do
		run_split "$p" --version
		assert_success
		assert_equal "$stderr" ""
		[[ $output == "$p "[0-9]*.*.* ]]
		run_split "$p" --help
		assert_success
		assert_equal "$stderr" ""
		[[ $output == "usage: $p SUBCOMMAND"* ]]
	done
}

helps() {
	run_split "$1" "$2" --help
	assert_equal "$status" 0
	assert_equal "$stderr" ""
	[[ $output == "usage: $1 $2"* && $output == *"See $1(1)." ]] || return 1
	assert_equal "$(grep -o "See $1(1)" <<<"$output" | wc -l)" 1
}

@test "cli: the overview says what each option does in one column" {
	for p in "${programs[@]}"; do
		"$p" --help | sed -n '/Common to all/,/^See/p' | grep -E '^ .*--' >"$BATS_TEST_TMPDIR/options"
		assert_equal "$(grep -cE '^.{24} [^ ]' "$BATS_TEST_TMPDIR/options")" \
			"$(wc -l <"$BATS_TEST_TMPDIR/options")"
	done
}

@test "cli: every subcommand answers --help with 0, also where options are missing" {
	each_subcommand helps
}

one_sentence_and_usage() {
	run_split "$1" "$2" --no-such-option
	assert_equal "$status" 64
	assert_equal "$output" ""
	assert_equal "$(wc -l <<<"$stderr")" 2
	[[ $stderr == "$1: there is no option --no-such-option"$'\n'"usage: $1 $2"* ]]
}

@test "cli: a wrong option is 64, one sentence and the usage line" {
	each_subcommand one_sentence_and_usage
	for p in "${programs[@]}"; do
		run_split "$p" --no-such-option
		assert_equal "$status" 64
		run_split "$p"
		assert_equal "$status" 64
		[[ $stderr == "$p: no subcommand given"$'\n'usage:* ]]
		run_split "$p" no-such-subcommand
		assert_equal "$status" 64
		[[ $stderr == "$p: there is no subcommand 'no-such-subcommand'"$'\n'usage:* ]]
	done
}

valid_error() {
	"$1" --schema rnp.error >"$BATS_TEST_TMPDIR/schema"
	python3 - "$BATS_TEST_TMPDIR/schema" "$2" <<-'END'
		import json, sys
		from jsonschema import Draft202012Validator
		Draft202012Validator(json.load(open(sys.argv[1]))).validate(json.loads(sys.argv[2]))
	END
}

@test "cli: with --log json errors are rnp.error records, the wrong option's too" {
	for p in "${programs[@]}"; do
		run_split "$p" --log json no-such-subcommand
		((status == 64 || status == 69))
		valid_error "$p" "$stderr"
		assert_equal "$(jq .code <<<"$stderr")" "$status"
	done
	for arguments in '--nope --log json' '--log=json --nope' '--log json --nope'; do
		# shellcheck disable=SC2086 # words on purpose
		run_split rnp-register $arguments
		assert_equal "$status" 64
		valid_error rnp-register "$stderr"
	done
	run_split rnp-register --log json $'\xff\n'
	assert_equal "$status" 64
	valid_error rnp-register "$stderr"
}

@test "cli: -q leaves only errors on stderr, no warnings" {
	cd "$BATS_TEST_TMPDIR"
	rnp-train init --preset nano --out m
	run_split rnp-train export --model m --gguf a.gguf
	assert_success
	[[ $stderr == *"has no tokenizer"* ]]
	for q in -q --quiet; do
		run_split rnp-train export "$q" --model m --gguf a.gguf
		assert_success
		assert_equal "$stderr" ""
	done
	refused 66 "none" rnp-train export -q --model none --gguf a.gguf
}

@test "cli: --schema prints a sound JSON Schema (2020-12) for every kind" {
	for p in "${programs[@]}"; do
		"$p" --schema >"$BATS_TEST_TMPDIR/all.$p"
		jq -r .title "$BATS_TEST_TMPDIR/all.$p" >"$BATS_TEST_TMPDIR/kinds"
		while read -r kind; do
			"$p" --schema "$kind"
			"$p" "--schema=$kind" | cmp - <("$p" --schema "$kind")
		done <"$BATS_TEST_TMPDIR/kinds" | cmp - "$BATS_TEST_TMPDIR/all.$p"
	done
	jq -s . "$BATS_TEST_TMPDIR"/all.* >"$BATS_TEST_TMPDIR/schemas"
	python3 - "$BATS_TEST_TMPDIR/schemas" <<-'END'
		import json, sys
		from jsonschema import Draft202012Validator
		for schema in json.load(open(sys.argv[1])):
		    Draft202012Validator.check_schema(schema)
		    assert schema["properties"]["kind"]["const"] == schema["title"]
		    assert schema["properties"]["v"]["const"] == 1
		    assert {"kind", "v"} <= set(schema["required"])
	END
	run_split rnp-price --schema rnp.nothing
	assert_equal "$status" 64
}

# completes PROGRAM WORD ...: what bash offers for the last word, as completion does it
completes() {
	bash -c '
		eval "$("$1" --completion bash)"
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		"_${1//-/_}"
		printf "%s\n" "${COMPREPLY[@]}"
	' bash "$@" | sort
}

# bash -c numbers the words from $1; COMP_WORDS[0] is the program
completes_all_of() {
	assert_equal "$(completes "$1" "$2" --)" \
		"$({ "$1" "$2" --help | grep -oE '^  (-[a-zA-Z], )?--[a-z0-9-]+' | grep -oE -- '--.*'
			printf -- '--%s\n' help version quiet verbose log table; } | sort)"
}

@test "cli: bash completion offers subcommands, options, choices and kinds" {
	for p in "${programs[@]}"; do
		"$p" --completion bash | bash -n
		assert_equal "$(completes "$p" '' | grep -v -- --)" "$(subcommands "$p" | sort)"
		assert_equal "$(completes "$p" --log '')" $'json\ntext'
		assert_equal "$(completes "$p" --completion b)" bash
		assert_equal "$(completes "$p" --schema rnp.err)" rnp.error
	done
	each_subcommand completes_all_of
	assert_equal "$(completes rnp-register --log json det)" detect
	assert_equal "$(completes rnp-register detect --wallet '')" "" # files are left to bash
	run_split rnp-price --completion fish
	assert_equal "$status" 64
}

@test "cli: a malformed RNP_NOW is 64 before anything is done" {
	for p in "${programs[@]}"; do
		RNP_NOW=yesterday refused 64 "RNP_NOW: 'yesterday' is not an RFC 3339 time" "$p" --version
	done
}

# cannot_write CODE PROGRAM ...: one line says why, and the code is that of an I/O error
cannot_write() {
	assert_equal "$status" 74
	assert_equal "$stderr" "$1: cannot write to standard output: $2"
}

@test "cli: a full disk, a closed stdout and a reader that left are 74" {
	for p in "${programs[@]}"; do
		for argument in --help --version --schema '--completion bash'; do
			run_split bash -c "$p $argument >/dev/full"
			cannot_write "$p" 'No space left on device'
			run_split bash -c "$p $argument >&-"
			cannot_write "$p" 'Bad file descriptor'
			run_split bash -c "exec 3> >(exit); wait \$!; $p $argument >&3; echo \$? >&2"
			assert_equal "$stderr" "$p: cannot write to standard output: Broken pipe"$'\n'74
		done
	done
}

@test "cli: closed stdin and stderr do not lend their numbers to files" {
	for p in "${programs[@]}"; do
		run bash -c "$p --help <&- 2>&-"
		assert_success
		run bash -c "$p --no-such-option <&- 2>&-"
		[[ $status == 64 || $status == 69 ]]
	done
}

@test "cli: an unknown subcommand is named, whatever options follow it" {
	run_split rnp-price quoot --costs f --table
	assert_equal "$status" 64
	[[ $stderr == "rnp-price: there is no subcommand 'quoot'"* ]]
}
