#!/usr/bin/env bats
# rnp-serve ask and plan: a model answers, and says what it needs.
load ../helper

setup_file() {
	export DIR=$BATS_FILE_TMPDIR
	rnp-train tokenize --vocab 400 --out "$DIR/tok" /usr/share/common-licenses/GPL-3 >/dev/null
	rnp-train init --preset nano --tokenizer "$DIR/tok" --seed 3 --out "$DIR/model"
}

ask() { rnp-serve ask --model "$DIR/model" "$@"; }

@test "ask: the same seed gives the same answer, another seed another" {
	ask -n 30 --seed 1 "This program" >"$BATS_TEST_TMPDIR/a"
	ask -n 30 --seed 1 "This program" >"$BATS_TEST_TMPDIR/b"
	ask -n 30 --seed 2 "This program" >"$BATS_TEST_TMPDIR/c"
	cmp "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/b"
	! cmp -s "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/c"
}

@test "ask: the prompt is an argument, or standard input" {
	ask -n 10 --temperature 0 "free software" >"$BATS_TEST_TMPDIR/a"
	printf 'free software' | ask -n 10 --temperature 0 >"$BATS_TEST_TMPDIR/b"
	cmp "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/b"
	ask -n 10 --temperature 0 --echo "free software" >"$BATS_TEST_TMPDIR/c"
	{ printf 'free software' && cat "$BATS_TEST_TMPDIR/a"; } | cmp - "$BATS_TEST_TMPDIR/c"
}

@test "ask: every form of a model gives the same greedy text" {
	ask -n 20 --temperature 0 "The license" >"$BATS_TEST_TMPDIR/want"
	rnp-train export --model "$DIR/model" --gguf "$BATS_TEST_TMPDIR/m.gguf" --type f32
	rnp-serve ask --model "$BATS_TEST_TMPDIR/m.gguf" -n 20 --temperature 0 "The license" |
		cmp - "$BATS_TEST_TMPDIR/want"
	for type in f16 bf16 q8_0 q4_0; do
		rnp-train export --model "$DIR/model" --gguf "$BATS_TEST_TMPDIR/m.gguf" --type "$type"
		rnp-serve ask --json --model "$BATS_TEST_TMPDIR/m.gguf" -n 5 --temperature 0 x |
			jq -e '.tokens == 5 and .finish == "length"'
	done
}

@test "ask: --json is one record that says all" {
	ask --json -n 7 --seed 9 "This" >"$BATS_TEST_TMPDIR/a"
	jq -e '.kind == "rnp.completion" and .tokens == 7 and .seed == 9 and .prompt_tokens >= 1 and
		.prompt_ns > 0 and .decode_ns > 0 and (.text | length) > 0' "$BATS_TEST_TMPDIR/a"
	text=$(ask -n 7 --seed 9 "This")
	[ "$(jq -r .text "$BATS_TEST_TMPDIR/a")" = "$text" ]
}

@test "ask: it ends where the context ends" {
	ask --json --context 16 -n 100 --temperature 0 "This" | jq -e '.finish == "length" and .tokens < 16'
	run -65 ask --context 4 -n 3 "This is a long prompt, longer than four tokens by far"
	[[ "$output" == *"context 4"* ]]
}

@test "ask: a model that computes NaN is malformed, not silent" {
	cp -r "$DIR/model" "$BATS_TEST_TMPDIR/nan"
	# the last four bytes of the norm before the output
	python3 - "$BATS_TEST_TMPDIR/nan/model.safetensors" <<-'END'
		import json, struct, sys
		data = bytearray(open(sys.argv[1], "rb").read())
		n, = struct.unpack("<Q", data[:8])
		end = 8 + n + json.loads(data[8:8 + n])["model.norm.weight"]["data_offsets"][1]
		data[end - 4:end] = struct.pack("<f", float("nan"))
		open(sys.argv[1], "wb").write(data)
	END
	refused 65 "not finite" rnp-serve ask --model "$BATS_TEST_TMPDIR/nan" -n 5 x
	refused 65 "not finite" rnp-serve ask --model "$BATS_TEST_TMPDIR/nan" -n 5 --temperature 0 x
}

@test "ask: what was said is less likely with a penalty, and min-p leaves the most likely" {
	# greedy, this model says one token again and again
	ask --json -n 30 --temperature 0 "This" >"$BATS_TEST_TMPDIR/again"
	ask --json -n 30 --temperature 0 --repetition-penalty 100 "This" >"$BATS_TEST_TMPDIR/other"
	rnp-serve ask --model "$DIR/model" --json -n 30 --temperature 0 --presence-penalty 2 --frequency-penalty 2 "This" |
		jq -e --slurpfile a "$BATS_TEST_TMPDIR/again" '.text != $a[0].text'
	jq -e --slurpfile a "$BATS_TEST_TMPDIR/again" '.text != $a[0].text' "$BATS_TEST_TMPDIR/other"
	ask --json -n 30 --seed 3 --top-k 0 --top-p 1 --min-p 1 "This" |
		jq -e --slurpfile a "$BATS_TEST_TMPDIR/again" '.text == $a[0].text'
	refused 64 "--min-p: from 0 to 1" rnp-serve ask --model "$DIR/model" --min-p 1.5 x
	refused 64 "--repetition-penalty: from 0.01 to 100" rnp-serve ask --model "$DIR/model" --repetition-penalty 0 x
	refused 64 "--presence-penalty: from -2 to 2" rnp-serve ask --model "$DIR/model" --presence-penalty=-3 x
}

@test "ask: a NUL that the model says is U+FFFD in the record, and ends nothing" {
	all=(--context 5000 -n 4000 --seed 5 --top-k 0 --top-p 1 x)
	ask "${all[@]}" >"$BATS_TEST_TMPDIR/a"
	[ "$(tr -cd '\0' <"$BATS_TEST_TMPDIR/a" | wc -c)" -gt 0 ]
	ask --json "${all[@]}" | jq -r .text >"$BATS_TEST_TMPDIR/b"
	perl -pe 's/\0/\xef\xbf\xbd/g' "$BATS_TEST_TMPDIR/a" | cmp - "$BATS_TEST_TMPDIR/b"
}

@test "ask: bad options and models are one clear line" {
	run -64 ask --temperature -1 x
	run -64 ask --top-p 0 x
	run -64 ask --system "be kind" x
	# more than a number of JSON: it could not be given again
	run -64 ask --seed 9007199254740992 x
	# no end is no overflow
	ask --context 20 -n 9223372036854775807 --seed 1 x
	run -0 ask --chat -n 2 x
	[[ "$output" == *"no chat template: chats are written in the form 'plain' (--chat-template "* ]]
	run -64 ask --chat-template chatml x
	run -66 ask --chat --chat-template "$BATS_TEST_TMPDIR/none" x
	printf '{%% if x %%}' >"$BATS_TEST_TMPDIR/bad"
	run -65 ask --chat --chat-template "$BATS_TEST_TMPDIR/bad" x
	[[ "$output" == *"bad:1: "* ]]
	run -66 rnp-serve ask --model "$DIR/none" x
	run -69 ask --device cuda:7 x
	run -64 rnp-serve ask --model "$DIR/model" a b
}

@test "ask: a chat template says how the question is put, and is the model's own, a file or a name" {
	mkdir "$BATS_TEST_TMPDIR/m"
	cp "$DIR/model"/* "$BATS_TEST_TMPDIR/m"
	template='{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}{% if add_generation_prompt %} [answer]{% endif %}'
	printf '%s' "$template" >"$BATS_TEST_TMPDIR/t.jinja"
	printf '%s' '[system] Be brief.[user] Hi [answer]' |
		ask --json -n 20 --temperature 0 | jq -c '[.prompt_tokens, .tokens]' >"$BATS_TEST_TMPDIR/want"
	ask --json -n 20 --temperature 0 --chat --system "Be brief." --chat-template "$BATS_TEST_TMPDIR/t.jinja" Hi |
		jq -c '[.prompt_tokens, .tokens]' | cmp - "$BATS_TEST_TMPDIR/want"
	f=$BATS_TEST_TMPDIR/m/tokenizer_config.json
	if [ -f "$f" ]; then jq --arg t "$template" '.chat_template = $t' "$f" >"$f.new"; else
		jq -n --arg t "$template" '{chat_template: $t}' >"$f.new"
	fi
	mv "$f.new" "$f"
	rnp-serve ask --model "$BATS_TEST_TMPDIR/m" --json -n 20 --temperature 0 --chat --system "Be brief." Hi |
		jq -c '[.prompt_tokens, .tokens]' | cmp - "$BATS_TEST_TMPDIR/want"
	rnp-train export --model "$BATS_TEST_TMPDIR/m" --gguf "$BATS_TEST_TMPDIR/m.gguf" --type f32
	rnp-serve ask --model "$BATS_TEST_TMPDIR/m.gguf" --json -n 20 --temperature 0 --chat --system "Be brief." Hi |
		jq -c '[.prompt_tokens, .tokens]' | cmp - "$BATS_TEST_TMPDIR/want"
	# where makers mend a template they write a file, and leave the older one where it was
	mv "$f" "$f.old"
	jq '.chat_template = "OLD {{ messages[0].content }}"' "$f.old" >"$f"
	cp "$BATS_TEST_TMPDIR/t.jinja" "$BATS_TEST_TMPDIR/m/chat_template.jinja"
	rnp-serve ask --model "$BATS_TEST_TMPDIR/m" --json -n 20 --temperature 0 --chat --system "Be brief." Hi |
		jq -c '[.prompt_tokens, .tokens]' | cmp - "$BATS_TEST_TMPDIR/want"
	ask -n 5 --chat --chat-template chatml Hi
	# what the template refuses is told with its line
	printf '{%% for m in messages %%}\n{{ raise_exception("no systems") }}{%% endfor %%}' >"$BATS_TEST_TMPDIR/t.jinja"
	run -65 ask --chat --chat-template "$BATS_TEST_TMPDIR/t.jinja" Hi
	[[ "$output" == *"t.jinja:2: the template refuses this conversation: no systems"* ]]
}

@test "ask: the real model says what llama2.c says, word for word" {
	models=${RNP_DATA:-$ROOT/../shared/data}/models
	[ -f "$models/stories260K.bin" ] || skip "real data not there: set RNP_DATA (see README)"
	rnp-serve ask --model "$models/stories260K.bin" --tokenizer "$models/tok512.bin" --temperature 0 -n 200 \
		"Once upon a time" >"$BATS_TEST_TMPDIR/a"
	# the digest of what llama2.c's run prints behind the prompt, -t 0 -n 204 -i "Once upon a time"
	[ "$(sha256sum <"$BATS_TEST_TMPDIR/a" | cut -c1-64)" = f7f77bc98b90b79a2ba14423a284a6a1bb4c5496e5cd8a22ad0cdf8c6e126c59 ]
}

@test "plan: what a model takes, and whether it is there" {
	rnp-serve plan --model "$DIR/model" >"$BATS_TEST_TMPDIR/p"
	jq -e '.kind == "rnp.plan" and .fits and
		.total_bytes == .weights_bytes + .tables_bytes + .cache_bytes + .work_bytes' "$BATS_TEST_TMPDIR/p"
	# twice the context, twice the cache; whole pages of 16 tokens
	rnp-serve plan --model "$DIR/model" --context 1000 >"$BATS_TEST_TMPDIR/1"
	rnp-serve plan --model "$DIR/model" --context 2016 >"$BATS_TEST_TMPDIR/2"
	jq -se '.[1].cache_bytes == 2 * .[0].cache_bytes' "$BATS_TEST_TMPDIR/1" "$BATS_TEST_TMPDIR/2"
	# f16 is the default; q8_0 takes 34 bytes for 32 numbers
	for type in f16 f32 q8_0; do
		rnp-serve plan --model "$DIR/model" --context 1000 --cache-type "$type" >"$BATS_TEST_TMPDIR/$type"
	done
	cmp "$BATS_TEST_TMPDIR/1" <(jq -c --argjson a "$(jq .available_bytes "$BATS_TEST_TMPDIR/1")" \
		--argjson m "$(jq .context_max "$BATS_TEST_TMPDIR/1")" '.available_bytes = $a | .context_max = $m' "$BATS_TEST_TMPDIR/f16")
	jq -se '.[1].cache_bytes == 2 * .[0].cache_bytes and .[2].cache_bytes * 32 == .[0].cache_bytes * 17' \
		"$BATS_TEST_TMPDIR"/{f16,f32,q8_0}
	refused 64 "a cache is of f16, f32 or q8_0, not 'f8'" rnp-serve plan --model "$DIR/model" --cache-type f8
	# more than there is: a clear no
	most=$(jq .context_max "$BATS_TEST_TMPDIR/p")
	if ((most < 16777216)); then
		run -1 rnp-serve plan --model "$DIR/model" --context $((most + most / 2))
		[[ "$output" == *'"fits":false'* ]]
	fi
}

@test "plan: what does not fit comes with what would" {
	cd "$BATS_TEST_TMPDIR"
	rnp-train init --preset nano --out model >/dev/null
	rnp-serve plan --model model >fits.json
	jq -e '.fits and (has("proposals") | not)' fits.json
	total=$(jq .total_bytes fits.json) weights=$(jq .weights_bytes fits.json)
	mkdir -p machine/proc
	export RNP_SYSROOT=$PWD/machine
	# available BYTES: a machine with so much
	available() { printf 'MemTotal: %d kB\nMemAvailable: %d kB\n' $(($1 / 1024)) $(($1 / 1024)) >machine/proc/meminfo; }
	available $((total - 4096))
	run_split rnp-serve plan --model model
	assert_equal "$status" 1
	jq -e '.proposals[0] | test("--type q8_0 takes about")' <<<"$output"
	context=$(jq -r '.proposals[] | capture("--context (?<n>[0-9]+)").n' <<<"$output")
	# what is proposed does fit
	rnp-serve plan --model model --context "$context" | jq -e .fits
	run rnp-serve plan --model model --context $((context + 16))
	assert_equal "$status" 1
	available $((weights / 20))
	run_split rnp-serve plan --model model
	jq -e '.proposals | length == 1 and (.[0] | test("^a machine with .* free"))' <<<"$output"
}

@test "ask: with any kind of cache the model begins alike" {
	for type in f16 f32 q8_0; do
		rnp-serve ask --model "$DIR/model" --device cpu --cache-type "$type" --temperature 0 -n 8 "Once upon" >"$BATS_TEST_TMPDIR/$type"
	done
	cmp "$BATS_TEST_TMPDIR/f16" "$BATS_TEST_TMPDIR/f32"
	cmp "$BATS_TEST_TMPDIR/q8_0" "$BATS_TEST_TMPDIR/f32"
	refused 64 "a cache is of" rnp-serve ask --model "$DIR/model" --cache-type q4 x
}

@test "ask, run, plan: who knows llama.cpp or vLLM is told what an option is here" {
	said() {
		run --separate-stderr "${@:2}"
		assert_equal "$status" 64
		[[ $stderr == "rnp-serve: $1"$'\n'* ]] || fail "stderr is '$stderr', not '$1'"
	}
	said 'there is no option --port; here it is --listen HOST:PORT' rnp-serve run --model m --port 8080
	said 'there is no option -m; here it is --model M' rnp-serve ask -m model x
	said 'there is no option -p; here it is TEXT alone' rnp-serve ask --model model -p x
	said 'there is no option --ctx-size; here it is --context N' rnp-serve plan --model model --ctx-size 4096
	said 'there is no option --served-model-name; here it is --model NAME=M' rnp-serve run --served-model-name a
	said 'there is no option --max-concurrency; here it is --clients N' rnp-serve bench --url http://x --max-concurrency 8
	said 'option --model M is required; did you mean --model model.gguf?' rnp-serve plan model.gguf
	# run takes it as it stands, under its name
	refused 66 "cannot open 'model.gguf'" rnp-serve run model.gguf --listen 127.0.0.1:0
	refused 64 "a model is needed: rnp-serve run MODEL" rnp-serve run
	refused 64 "'a' is named twice" rnp-serve run a=model.gguf --model a=other.gguf
	misused "'localhost:8080' is not an http or https URL (http://HOST)" \
		rnp-serve bench --url localhost:8080
}

@test "ask: a terminal is told that its prompt is read, and a context that is too long is warned of" {
	on_terminal 80 "NO_COLOR=1 rnp-serve ask --model $DIR/model -n 1" 'Ctrl-D ends it' 1 >"$BATS_TEST_TMPDIR/screen"
	grep -q 'rnp-serve: reads what you type here; Ctrl-D ends it' "$BATS_TEST_TMPDIR/screen"
	made_for=$(rnp-serve plan --model "$DIR/model" | jq .context)
	for command in "ask -n 1 x" plan; do
		# shellcheck disable=SC2086 # words
		run_split rnp-serve $command --model "$DIR/model" --context "$((made_for + 1))"
		assert_equal "$status" 0
		[[ $stderr == *"was made for $made_for tokens"* ]]
		run_split rnp-serve $command --model "$DIR/model" --context "$made_for"
		assert_equal "$stderr" ""
	done
}
