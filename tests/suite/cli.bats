# What every program of the suite must do.
load ../helper

programs=(rnp-register rnp-bench rnp-price rnp-train rnp-serve rnp-reward)

# subcommands PROGRAM: lists them from its own overview
subcommands() {
	"$1" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'
}

# each_subcommand FUNCTION: calls it with PROGRAM SUBCOMMAND for every subcommand of every
# program
each_subcommand() {
	local p sub
	for p in "${programs[@]}"; do
		for sub in $(subcommands "$p"); do
			echo "# $p $sub" # bats shows it when the next line fails; "|| fail" would switch -e off in it
			"$1" "$p" "$sub"
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
		# fits a terminal of 80 columns
		assert_equal "$(awk 'length > 79' <<<"$output")" ""
	done
}

helps() {
	local line page
	cd "$BATS_TEST_TMPDIR"
	page=$(sed 's/\\e//g; s/^[$>] //; s/\\(aq/\x27/g; s/\\-/-/g' "$ROOT/man/$1.1" | tr -d '[:space:]')
	run_split "$1" "$2" --help
	assert_equal "$status" 0
	assert_equal "$stderr" ""
	[[ $output == "usage: $1 $2"* && $output == *"See $1(1)." ]] || return 1
	assert_equal "$(grep -o "See $1(1)" <<<"$output" | wc -l)" 1
	# fits a terminal of 80 columns
	assert_equal "$(awk 'length > 79' <<<"$output")" ""
	# two examples, and they come from the page, whose examples tests/suite/man.bats runs
	awk '/^Examples:/ { on = 1; next } /^See/ { on = 0 } on' <<<"$output" | sed 's/ *\\$//' >examples
	[[ $(grep -cE '^  [^ ]' examples) == 2 ]] || fail "$1 $2 has not two examples: EXAMPLES in man/$1.1"
	grep -q "$1 $2" examples
	sed -i 's/^ *//' examples
	while read -r line; do
		line=${line//\\/} # as the page without its own
		[[ $page == *"${line//[[:space:]]/}"* ]] || fail "not an example of man/$1.1: $line"
	done <examples
}

@test "cli: the overview says what each option does in one column" {
	for p in "${programs[@]}"; do
		"$p" --help | sed -n '/Common to all/,/^Examples/p' | grep -E '^ .*--' >"$BATS_TEST_TMPDIR/options"
		assert_equal "$(grep -cE '^.{33} [^ ]' "$BATS_TEST_TMPDIR/options")" \
			"$(wc -l <"$BATS_TEST_TMPDIR/options")"
	done
}

# bats test_tags=wide
@test "cli: the help of a program ends with three examples; that of a subcommand which there is not is 64" {
	local p
	for p in "${programs[@]}"; do
		"$p" --help | sed -n '/^Examples:/,$p' >"$BATS_TEST_TMPDIR/shown"
		[[ $(grep -c "^  $p " "$BATS_TEST_TMPDIR/shown") == 3 ]] || fail "$p: $(<"$BATS_TEST_TMPDIR/shown")"
		for arguments in 'wrong --help' '--help wrong' 'help wrong' 'wrong --version'; do
			# shellcheck disable=SC2086
			run_split "$p" $arguments
			assert_equal "$p $arguments: $status $output" "$p $arguments: 64 "
			[[ ${stderr_lines[0]} == "$p: there is no subcommand 'wrong'"* ]] || fail "$stderr"
		done
	done
}

@test "cli: every subcommand answers --help with 0 and an example of its page, also where options are missing" {
	each_subcommand helps
}

one_sentence_and_usage() {
	run_split "$1" "$2" --no-such-option
	assert_equal "$status" 64
	assert_equal "$output" ""
	[[ $stderr == "$1: there is no option --no-such-option"$'\n'"usage: $1 $2"*$'\n'"try '$1 help $2'" ]]
	assert_equal "$(awk 'length > 79' <<<"$stderr")" ""
}

# bats test_tags=wide
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

@test "cli: who mistypes a name is told the nearest one" {
	refused_with() {
		run_split "${@:2}"
		assert_equal "$status" 64
		[[ $stderr == *"$1"* ]] || fail "stderr is '$stderr', it lacks '$1'"
	}
	refused_with "did you mean 'quote'?" rnp-price qoute
	refused_with "did you mean --costs?" rnp-price quote --cost f
	refused_with "did you mean 'skypilot'?" rnp-price feed --market skypilt
	refused_with "did you mean 'rnp.offer'?" rnp-price --schema offer
	refused_with "there is no subcommand 'zebra'"$'\n' rnp-price zebra
	refused_with "500ms is below 1 s" rnp-register heartbeat --registry http://127.0.0.1:1 --interval 500ms
}

@test "cli: help SUBCOMMAND is --help; --json and --table exclude each other" {
	assert_equal "$(rnp-price help quote)" "$(rnp-price quote --help)"
	assert_equal "$(rnp-price help)" "$(rnp-price --help)"
	refused_with_usage() { run_split "$@"; [[ $status == 64 ]]; }
	refused_with_usage rnp-price help qoute
	refused_with_usage rnp-price floor --costs c --json --table
}

@test "cli: settings come from the environment, ~/.config/rnp/config and /etc/rnp/node.env, in this order" {
	local w=4fYNw3dojWmQ4dXtSGE9epjRGy9pFSx62YypT7avPYvA
	mkdir -p "$XDG_CONFIG_HOME/rnp"
	export RNP_NODE_ENV=$BATS_TEST_TMPDIR/node.env
	rnp-register keygen
	wallet() { rnp-register detect | jq -r .wallet; }
	assert_equal "$(wallet)" null
	printf 'RNP_WALLET="%s"\nPATH=/bin\n' "$w" >"$RNP_NODE_ENV"
	assert_equal "$(wallet)" "$w"
	printf '# mine\n wallet = %s\n' 11111111111111111111111111111111 >"$XDG_CONFIG_HOME/rnp/config"
	assert_equal "$(wallet)" 11111111111111111111111111111111
	RNP_WALLET=$w
	export RNP_WALLET
	assert_equal "$(wallet)" "$w"
	assert_equal "$(rnp-register detect --wallet So11111111111111111111111111111111111111112 | jq -r .wallet)" \
		So11111111111111111111111111111111111111112
	echo 'walet = x' >"$XDG_CONFIG_HOME/rnp/config"
	refused 65 "config:1: there is no setting 'walet'; did you mean 'wallet'?" rnp-register detect
}

# lacks TEXT: fails when standard input holds it
lacks() {
	if grep -qF -- "$1"; then fail "there is '$1'"; fi
}

@test "cli: on a terminal people get tables, units and colours; in a pipe, programs get JSON Lines" {
	cd "$BATS_TEST_TMPDIR"
	rnp-register keygen
	for width in 80 200; do
		on_terminal "$width" 'rnp-bench list; rnp-register detect --name x' >screen
		lacks '"kind"' <screen
		grep -q $'\033\\[1m' screen
		grep -qE '^memory +[0-9.]+ GiB$' screen
		sed 's/\x1b\[[0-9]*m//g' screen | awk -v w="$width" 'length > w { print; bad = 1 } END { exit bad }'
	done
	# the narrower terminal loses no text
	assert_equal "$(on_terminal 60 'NO_COLOR=1 rnp-bench list' | tr -cd 'a-z' | wc -c)" \
		"$(on_terminal 200 'NO_COLOR=1 rnp-bench list' | tr -cd 'a-z' | wc -c)"
	on_terminal 80 'NO_COLOR=1 rnp-bench list' | lacks $'\033'
	on_terminal 80 'TERM=dumb rnp-bench list' | lacks $'\033'
	on_terminal 80 'rnp-bench list --color never' | lacks $'\033'
	on_terminal 80 'rnp-bench list --json' | head -1 | jq -e '.suite'
	rnp-bench list | lacks $'\033'
	rnp-bench list --table --color always | grep -q $'\033'
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

# bats test_tags=wide
@test "cli: --schema prints a sound JSON Schema (2020-12) for every kind" {
	for p in "${programs[@]}"; do
		"$p" --schema >"$BATS_TEST_TMPDIR/all.$p"
		jq -r .title "$BATS_TEST_TMPDIR/all.$p" >"$BATS_TEST_TMPDIR/kinds"
		while read -r kind; do
			"$p" --schema "$kind" | tee "$BATS_TEST_TMPDIR/one"
			"$p" "--schema=$kind" | cmp - "$BATS_TEST_TMPDIR/one"
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

# bats test_tags=wide
@test "cli: --schema lists every kind that the program names in its sources" {
	for p in "${programs[@]}"; do
		"$p" --schema | jq -r .title | sort >"$BATS_TEST_TMPDIR/kinds"
		grep -rohE --include='*.c' '"rnp\.[a-z_]+"' "$ROOT/cmd/$p" | tr -d '"' | sort -u >"$BATS_TEST_TMPDIR/named"
		assert_equal "$p:$(comm -13 "$BATS_TEST_TMPDIR/kinds" "$BATS_TEST_TMPDIR/named")" "$p:"
	done
}

@test "cli: a hundred wrong inputs, drawn from all options of all programs, are one line each and the right code" {
	# under the sanitizers where they are built; more of them: tests/soak/wrong-inputs
	local bin=$RNP_BUILD/bin
	[[ ! -x $RNP_BUILD/asan/bin/rnp-train ]] || bin=$RNP_BUILD/asan/bin
	run -0 python3 "$ROOT/tests/tools/wrong_inputs.py" 100 "${WRONG_SEED:-1}" "$bin"/rnp-{register,bench,price,reward,serve,train}
	[[ $output == *" options: 0 not right" ]]
}

# completes PROGRAM WORD ...: prints what bash completion offers for the last word
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
			printf -- '--%s\n' help version quiet verbose log table json color; } | sort)"
}

# bats test_tags=wide
@test "cli: bash completion offers subcommands, options, choices and kinds" {
	for p in "${programs[@]}"; do
		"$p" --completion bash | bash -n
		assert_equal "$(completes "$p" '' | grep -v -- --)" "$({ subcommands "$p"; echo help; } | sort)"
		assert_equal "$(completes "$p" help '' | grep -v -- --)" "$(subcommands "$p" | sort)"
		assert_equal "$(completes "$p" --log '')" $'json\ntext'
		assert_equal "$(completes "$p" --completion '')" $'bash\nfish\nzsh'
		assert_equal "$(completes "$p" --schema rnp.err)" rnp.error
	done
	each_subcommand completes_all_of
	assert_equal "$(completes rnp-register --log json det)" detect
	assert_equal "$(completes rnp-register detect --wallet '')" "" # files are left to bash
	run_split rnp-price --completion csh
	assert_equal "$status" 64
	# the names that come with the programs, beside files
	local names
	names=$(cd "$ROOT/cmd/rnp-reward/policies" && printf '%s\n' *.json | sed 's/\.json$//')
	for p in "rnp-reward epoch" "rnp-register setup" "rnp-price floor"; do
		# shellcheck disable=SC2086 # two words
		assert_equal "$(cd "$BATS_TEST_TMPDIR" && rm -f ./* && completes $p --policy '' | sort)" "$(sort <<<"$names")"
	done
	assert_equal "$(completes rnp-serve ask --chat-template cha)" chatml
}

@test "cli: a malformed RNP_NOW is 64 before anything is done" {
	for p in "${programs[@]}"; do
		RNP_NOW=yesterday refused 64 "RNP_NOW: 'yesterday' is not an RFC 3339 time" "$p" --version
	done
}

# cannot_write CODE PROGRAM ...: one line gives the reason, and the exit code is that of an I/O
# error
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
			assert_equal "$stderr" 74 # who has left reads no message
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
	# a word of another program is told what does it here; that it exists is tested with all messages
	run_split rnp-serve pull llama3.2
	assert_equal "$status" 64
	[[ $stderr == "rnp-serve: there is no subcommand 'pull'; a model is a .gguf file"* ]] || fail "$stderr"
	run_split rnp-train serve
	[[ $stderr == "rnp-train: there is no subcommand 'serve'; rnp-serve run serves a model"* ]] || fail "$stderr"
}

@test "cli: --watch looks again and again, on a terminal in place, in a pipe as further records" {
	cd "$BATS_TEST_TMPDIR"
	cp "$ROOT"/tests/data/man/{node.json,costs.json,offers.jsonl} .
	mkfifo records
	# in a process group of its own, to which a terminal's Ctrl-C goes
	rnp-price quote --node node.json --costs costs.json offers.jsonl --watch 1s >records 3>&- &
	watching=$!
	{
		read -r first
		read -r second
		kill -INT "$watching"
		cat >rest
	} <records
	status=0
	ended "$watching" || status=$?
	assert_equal "$status" 0
	assert_equal "$(jq -c .ask_uusd <<<"$first")" "$(jq -c .ask_uusd <<<"$second")"
	[[ $(jq -r .at <<<"$first") < $(jq -r .at <<<"$second") ]]
	on_terminal 80 'rnp-price quote --node node.json --costs costs.json offers.jsonl --watch 1s' $'\033[2J' 2 >screen
	(($(grep -c $'\033\\[2J' screen) >= 2))
	grep -q 'every 1 s' screen
	refused 64 "reads files again" rnp-price quote --node node.json --costs costs.json -q --watch 1s </dev/null
	run_split rnp-price quote --node node.json --costs no-such offers.jsonl --watch 1s
	assert_equal "$status" 66 # what will not change ends it
}

@test "cli: config --example is a file that is taken, and knows every setting" {
	mkdir -p "$XDG_CONFIG_HOME/rnp"
	rnp-register config --example >"$XDG_CONFIG_HOME/rnp/config"
	assert_equal "$(rnp-register config | jq -r 'select(.value) | .name')" registry
	# with the comment characters removed each line is a setting, too
	sed -i 's/^#\([a-z-]* = \)/\1/' "$XDG_CONFIG_HOME/rnp/config"
	assert_equal "$(rnp-register config | jq -r 'select(.value == null) | .name')" ""
}

# taken PROGRAM SUBCOMMAND KEY COMMAND...: the subcommand's --example, as the file "example", satisfies the
# command; with KEY spelled wrong the command names file and key, and the right one
taken() {
	local key=$3
	"$1" "$2" --example >example
	"${@:4}" || fail "$1 $2 --example is not taken"
	sed -i "0,/\"$key\"/s//\"${key}x\"/" example
	run_split "${@:4}"
	[[ $status == 65 || $status == 64 ]] || fail "exit $status of ${*:4}"
	[[ $stderr == *"example"*"${key}x'; did you mean '$key'?"* || $stderr == *"example"*"${key}x: "*"; did you mean '$key'?"* ]] ||
		fail "$1 $2: $stderr"
}

@test "cli: a file that a person writes has a template that is taken, and a mistyped key is refused with the right one" {
	cd "$BATS_TEST_TMPDIR"
	cp "$ROOT/tests/data/man/usage.jsonl" .
	taken rnp-reward policy tables rnp-reward policy check ./example
	taken rnp-reward policy at_least rnp-reward epoch -q --policy ./example usage.jsonl
	taken rnp-reward mint damping rnp-reward mint --schedule example --month 13
	taken rnp-reward simulate recycling rnp-reward simulate --schedule example --years 1
	taken rnp-train simulate up_bps rnp-train simulate --links example --workers 10 --rounds 1
	taken rnp-price floor hardware rnp-price floor --costs example
	taken rnp-price bid cpu bash -c "echo '{\"resources\":[{\"cpu\":1000}],\"price\":{\"denom\":\"uact\",\"amount\":\"9\"}}' | rnp-price bid --prices example"
	rnp-train tokenize --vocab 300 --out tokens "$ROOT/LICENSE" >tokens.json
	rnp-train init --preset nano --tokenizer tokens --out model >model.json
	taken rnp-train run warmup rnp-train run --config example --steps 1 --length 32 --batch 1
	# names that stand in options and settings
	refused 64 "there is no 'contry'; did you mean 'country'?" rnp-register detect --label contry=DE
	refused 64 "your own begin with x_" rnp-register detect --label rack=7
	rnp-register detect --label x_rack=7 | jq -e '.labels.x_rack == "7"'
	echo 'RNP_WALET="x"' >node.env
	RNP_NODE_ENV=node.env refused 65 "node.env:1: there is no setting 'walet'; did you mean 'wallet'?" rnp-register config
	refused 64 "there is no policy 'rnp-21'; did you mean 'rnp-021'?" rnp-reward epoch --policy rnp-21 usage.jsonl
	# a value of few
	rnp-reward policy --example | sed 's/"pass"/"pas"/' >example
	refused 65 "did you mean 'pass'?" rnp-reward policy check ./example
}

@test "cli: metrics shows what a server counts, again and again with --watch" {
	load ../rnp-register/registry
	start_registry
	get /v1/nodes
	rnp-register metrics --registry "$url" >metrics
	rnp-register --schema rnp.metric >schema
	python3 -c 'import json, jsonschema
for line in open("metrics"): jsonschema.Draft202012Validator(json.load(open("schema"))).validate(json.loads(line))'
	jq -se '[.[] | select(.name == "rnp_http_request_seconds" and .labels.route == "/v1/nodes") | .count] == [1]' metrics
	jq -se 'all(has("value") or .count > 0)' metrics
	refused 1 "no metric whose name contains 'zebra'" rnp-register metrics --registry "$url" --name zebra
	mkfifo records
	rnp-register metrics --registry "$url" --name rnp_http_requests_total --watch 1s >records 3>&- &
	watching=$!
	seen=0
	while read -r line; do
		jq -e '.labels.route == "/metrics" and .value >= 3' <<<"$line" >/dev/null && seen=1 && break
	done <records
	kill -INT "$watching"
	ended "$watching" || true
	stop_registry
	assert_equal "$seen" 1
	# on a terminal of 80 columns, with units
	start_registry
	on_terminal 80 "NO_COLOR=1 rnp-register metrics --registry $url --name http" >screen
	awk 'length > 80 { print; bad = 1 } END { exit bad }' screen
	on_terminal 80 "NO_COLOR=1 rnp-register metrics --registry $url --name http --watch 1s" $'\033[2J' 2 >screen
	stop_registry
	(($(grep -c $'\033\\[2J' screen) >= 2))
	grep -qE '[0-9] (ms|µs)' screen
}

@test "cli: who has forgotten the file is told that the terminal is read" {
	cd "$BATS_TEST_TMPDIR"
	rnp-register keygen >key
	on_terminal 80 'NO_COLOR=1 rnp-register sign' 'Ctrl-D ends it' 1 >screen
	grep -q 'rnp-register: reads what you type here; Ctrl-D ends it' screen
	run_split rnp-register sign </dev/null
	assert_equal "$stderr" ""
}

@test "cli: training and benchmarks are rows on a terminal of 80 columns" {
	cd "$BATS_TEST_TMPDIR"
	rnp-train tokenize --vocab 300 --out tokens "$ROOT/LICENSE" >tokens.json
	rnp-train init --preset nano --tokenizer tokens --out model >model.json
	on_terminal 80 'NO_COLOR=1 rnp-train run -q --model model --data tokens --out o --steps 6 --every 1 --batch 1 --length 32' >screen
	# nothing was validated, so there is no column of dashes
	grep -qE '^ *step +loss +tokens +rate +use +norm +lr$' screen
	(($(grep -cE '^ *[1-6] +[0-9]+[.][0-9]{4} .* (k )?tokens/s .* [0-9][.][0-9]{2}e-0[0-9]$' screen) == 6))
	# who asks for no rows gets one a second, the first and the last; a pipe all of them
	on_terminal 80 'NO_COLOR=1 rnp-train run -q --model model --data tokens --out p --steps 200 --batch 1 --length 8' >some
	grep -qE '^ +1 +[0-9.]+ ' some
	grep -qE '^ *200 +[0-9.]+ ' some
	(($(grep -cE '^ *[0-9]+ +[0-9.]+ ' some) < 200))
	(($(rnp-train run -q --model model --data tokens --out q --steps 20 --batch 1 --length 8 | grep -c rnp.step) == 20))
	# the first row that has more begins the table again
	on_terminal 80 'NO_COLOR=1 rnp-train run -q --model model --data tokens --out r --steps 230 --every 1 --valid tokens --eval-every 220 --eval-tokens 64 --batch 1 --length 8' >more
	grep -qE '^step +loss +tokens ' more
	grep -A1 -E '^step +loss +valid +tokens ' more | grep -qE '^ *220 +[0-9.]+ +[0-9.]+ '
	cat some more >>screen
	on_terminal 80 'NO_COLOR=1 rnp-bench run -q --quick --suite cpu --time 20ms' >>screen
	grep -qE '^suite +test +median \(95% interval\) +n( +slowed)?$' screen
	# characters, not bytes
	run ! grep -E '^.{81}' screen
}

@test "cli: figures with intervals, prices with their range and policies side by side are rows at 80 columns" {
	cd "$BATS_TEST_TMPDIR"
	cp -R "$ROOT/tests/data/man/." .
	rnp-bench run -q --quick --suite cpu --time 20ms >old.jsonl
	on_terminal 80 'NO_COLOR=1 rnp-bench compare old.jsonl old.jsonl' >screen
	grep -qE '^test +params +old \(95% +new \(95% +change +verdict$' screen
	(($(grep -cE ' no difference$' screen) == $(wc -l <old.jsonl)))
	# an interval has its unit once
	COLUMNS=200 rnp-bench compare --table old.jsonl old.jsonl >wide
	grep -qE ' [0-9.]+ [MGT]FLOP/s \([0-9.]+ to [0-9.]+\) .* the 95% intervals overlap' wide
	on_terminal 80 'NO_COLOR=1 rnp-price estimate --node node.json --costs costs.json offers.jsonl' >>screen
	grep -qE '^vast +1 +\$0\.42 +[0-9.]+ % +\$2\.5575 +\$[0-9.]+ +\$[0-9.]+$' screen
	on_terminal 80 'NO_COLOR=1 rnp-price backtest --jobs jobs.csv --gpus 8' >>screen
	grep -qE '^algorithm +refused +mean +.*p99 +wait mean +busy' screen
	on_terminal 80 'NO_COLOR=1 rnp-price backtest --history history.jsonl' >>screen
	grep -qE '^formula +undercut +18 +[0-9.]+ %' screen
	awk 'length > 80 { print; bad = 1 } END { exit bad }' screen
}

@test "cli: explain is a page on a terminal, with units, and nothing is cut at 80 columns" {
	cd "$BATS_TEST_TMPDIR"
	cp "$ROOT/tests/data/man/usage.jsonl" .
	local node
	node=$(head -1 usage.jsonl | jq -r .node)
	rnp-reward explain --node "$node" --policy rnp-021 usage.jsonl >steps
	on_terminal 80 "NO_COLOR=1 rnp-reward explain --node $node --policy rnp-021 usage.jsonl" >page
	awk 'length > 80 { print; bad = 1 } END { exit bad }' page
	grep -qxE '  gpu memory +24 GiB  \(usage.jsonl:1\)' page
	grep -qxE "  total +$(jq -r 'select(.step == "total") | .value' steps)" page
	assert_equal "$(grep -cE '^[A-Z]' page)" 5 # headings
	# every formula is there, whole
	jq -r 'select(.formula) | .formula' steps | tr -s ' ' | while read -r formula; do
		tr '\n' ' ' <page | tr -s ' ' | grep -qF "$formula" || fail "not on the page: $formula"
	done
}

@test "cli: a list that is empty says which filter emptied it; status says what was earned" {
	load ../rnp-register/registry
	cd "$BATS_TEST_TMPDIR"
	make_key coordinator
	make_key miner
	start_registry --trust "$coordinator"
	empty_because() {
		run_split rnp-register list --registry "$url" "${@:2}"
		assert_equal "$status $output" "0 "
		assert_equal "$stderr" "rnp-register: $1"
	}
	empty_because "the registry has no nodes yet"
	node_record miner '{labels: {country: "DE"}, cpu: {model: "AMD EPYC", cores: 2}, gpus: []}' >node.json
	rnp-register submit -q --registry "$url" node.json >stored
	empty_because "no node fits: --country leaves none" --device cpu --country FR
	empty_because "no node fits: --min-memory leaves none" --country DE --min-memory 24GiB --online
	empty_because "no node fits: --online leaves none" --country DE --online
	for job in a b; do
		signed coordinator "{kind: \"rnp.receipt\", node: \"$miner\", job: \"$job\", earned_uusd: 1250000,
			from: (now - 100 | todate), to: (now - 10 | todate)}"
	done >receipts
	rnp-register submit -q --registry "$url" receipts >stored
	rnp-register status --registry "$url" --node "$miner" | jq -ce '[.receipts, .earned_uusd]' >earned
	stop_registry
	assert_equal "$(<earned)" '[2,2500000]'
}

# bats test_tags=wide
@test "cli: fish offers subcommands, options and choices" {
	command -v fish >/dev/null || skip "no fish: apt-get install fish"
	cd "$BATS_TEST_TMPDIR"
	offers() { HOME=$PWD fish -c "source (rnp-price --completion fish | psub); complete -C '$1'" | cut -f1 | xargs; }
	assert_equal "$(offers 'rnp-price qu')" quote
	assert_equal "$(offers 'rnp-price help qu')" quote
	assert_equal "$(offers 'rnp-price feed --market v')" vast
	assert_equal "$(offers 'rnp-price floor --cos')" --costs
	for p in "${programs[@]}"; do
		HOME=$PWD fish --no-execute <("$p" --completion fish)
	done
}

# bats test_tags=wide
@test "cli: zsh completes subcommands and options" {
	command -v zsh >/dev/null || skip "no zsh: apt-get install zsh"
	cd "$BATS_TEST_TMPDIR"
	for p in "${programs[@]}"; do
		zsh -n <("$p" --completion zsh)
	done
	# a shell on its own pseudo-terminal, with keys sent as a person types them
	cat >keys.zsh <<-'END'
		zmodload zsh/zpty
		zpty z 'zsh -f -i'
		zpty -w z 'PS1=; autoload -U compinit; compinit -u -D; source <(rnp-price --completion zsh); echo SOU""RCED'
		zpty -r -m z out '*SOURCED*'
		zpty -w -n z $'rnp-price qu\t'
		zpty -r -m z out '*ote*'
		zpty -w -n z $'\025rnp-price help qu\t'
		zpty -r -m z out '*help quote*'
		zpty -w -n z $'\025rnp-price quote --cos\t'
		zpty -r -m z out '*costs*'
		zpty -d z
		print completed
	END
	assert_equal "$(timeout 120 zsh -f keys.zsh)" completed
}

@test "cli: every command that a message, a page or README names is one, with options that it has" {
	python3 - "$ROOT" <<-'END'
		import glob, os, re, subprocess, sys
		root = sys.argv[1]
		run = lambda *args: subprocess.run(args, capture_output=True, text=True).stdout
		common = {"--help", "--version", "--quiet", "--verbose", "--log", "--table", "--json", "--color", "--schema", "--completion"}
		options = {}
		for program in "register bench price train serve reward".split():
		    for sub in re.findall(r"^  ([a-z][a-z-]*)  ", run("rnp-" + program, "--help").split("Common to all")[0], re.M):
		        options["rnp-" + program, sub] = set(re.findall(r"--[a-z0-9-]+", run("rnp-" + program, "help", "--synopsis", sub)))
		assert len(options) > 50
		def text_of(path):
		    text = open(path, encoding="utf-8").read()
		    if path.endswith((".c", ".h")):
		        # the strings of a statement, one after the other, without the comments
		        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
		        text = re.sub(r'"\s*"', "", text)
		        return "\n".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text))
		    if re.search(r"\.[157]$", path):
		        return run("mandoc", "-T", "utf8", "-O", "width=1000", path)
		    return re.sub(r"\\\\\n *", "", text)
		paths = [root + "/README.md"] + glob.glob(root + "/man/*.[157]")
		for folder in "cmd", "common":
		    paths += [os.path.join(d, f) for d, _, files in os.walk(root + "/" + folder) for f in files if f.endswith((".c", ".h"))]
		wrong, seen = [], 0
		for path in paths:
		    for program, sub, rest in re.findall(r"\b(rnp-(?:register|bench|price|train|serve|reward)) ([a-z]+)((?: [^\n|;&\x60\u2018\u2019]*)?)", text_of(path)):
		        if (program, sub) not in options:
		            # prose, unless options follow at once
		            if re.match(r" --[a-z]", rest):
		                wrong.append(f"{path}: {program} {sub}")
		            continue
		        seen += 1
		        # options up to the end of the command: prose, or the next program
		        command = re.match(r"(?: (?:--?[a-z0-9-]+|[A-Za-z0-9_./:=$@%<>-]+|\[[^]]*\]))*", re.split(r" rnp-", rest)[0]).group(0)
		        for option in re.findall(r" (--[a-z][a-z0-9-]*)", command):
		            if option not in options[program, sub] | common:
		                wrong.append(f"{path}: {program} {sub} {option}")
		assert seen > 300, seen
		sys.exit("\n".join(sorted(set(wrong))) or 0)
	END
}
