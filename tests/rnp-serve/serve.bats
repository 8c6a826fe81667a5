# rnp-serve inspect: what a model file holds, and that a file which breaks a rule is refused.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# records KIND: those of $output, validated
records() {
	jq -c "select(.kind == \"$1\")" <<<"$output"
}

all_valid() {
	local kind
	for kind in rnp.model rnp.metadata rnp.tensor; do
		rnp-serve --schema "$kind" >"schema.$kind"
	done
	printf '%s\n' "$output" >records
	python3 - <<-'END'
		import json
		from jsonschema import Draft202012Validator
		checks = {}
		for line in open("records"):
		    record = json.loads(line)
		    kind = record["kind"]
		    if kind not in checks:
		        checks[kind] = Draft202012Validator(json.load(open("schema." + kind)))
		    checks[kind].validate(record)
	END
}

# gguf VERSION TENSORS KEYS: the head of a file on stdout
gguf() {
	python3 -c 'import struct, sys; sys.stdout.buffer.write(b"GGUF" + struct.pack("<IQQ", *map(int, sys.argv[1:])))' "$@"
}

@test "inspect: a directory, its tensors and their sizes" {
	rnp-train init --preset nano --out m
	run_split rnp-serve inspect m
	assert_success
	all_valid
	assert_equal "$(records rnp.model | jq -c '[.format, .shards, .tensors, .parameters]')" \
		'["safetensors",1,47,1070464]'
	assert_equal "$(records rnp.tensor | wc -l)" 47
	assert_equal "$(records rnp.tensor | jq -s 'map(.bytes) | add')" $((4 * 1070464))
	assert_equal "$(records rnp.tensor | jq -c 'select(.name == "model.layers.4.mlp.down_proj.weight") | [.type, .shape, .bytes]')" \
		'["F32",[128,352],180224]'
	run_split rnp-serve inspect m/model.safetensors
	assert_success
	assert_equal "$(records rnp.tensor | wc -l)" 47
}

@test "inspect: a GGUF file, its keys as JSON and its blocks" {
	rnp-train init --preset nano --out m
	rnp-train export --model m --gguf m.gguf --type q4_0
	run_split rnp-serve inspect m.gguf
	assert_success
	all_valid
	assert_equal "$(records rnp.model | jq -c '[.format, .version, .architecture, .tensors, .parameters]')" \
		'["gguf",3,"llama",47,1070464]'
	assert_equal "$(records rnp.metadata | jq -c 'select(.name == "llama.attention.layer_norm_rms_epsilon") | [.type, .value]')" \
		'["f32",1e-05]'
	assert_equal "$(records rnp.tensor | jq -c 'select(.name == "blk.4.ffn_down.weight") | [.type, .shape, .bytes]')" \
		'["Q4_0",[128,352],25344]'
	run_split rnp-serve inspect --table m.gguf
	assert_success
	[[ $output == name*type*shape*bytes* ]]
	assert_equal "$(grep -c Q4_0 <<<"$output")" 36
}

@test "inspect: the vocabularies of other engines pass" {
	local vocabularies file
	vocabularies=$(data tokenizers) || skip_data
	for file in "$vocabularies"/*.gguf; do
		run_split rnp-serve inspect "$file"
		assert_success
		assert_equal "$stderr" ""
		all_valid
		assert_equal "$(records rnp.metadata | jq -r 'select(.name == "tokenizer.ggml.tokens") | .items')" text
	done
}

@test "inspect: what cannot be opened is 66, what is no model file 65" {
	refused 66 "cannot open 'none.gguf'" rnp-serve inspect none.gguf
	refused 66 "cannot open" rnp-serve inspect none.safetensors
	mkdir d
	refused 66 "d/model.safetensors" rnp-serve inspect d
	mkfifo pipe.gguf
	refused 66 "not a regular file" rnp-serve inspect pipe.gguf
	: >empty.gguf
	refused 65 "ends too early" rnp-serve inspect empty.gguf
	: >empty.safetensors
	refused 65 "no safetensors file" rnp-serve inspect empty.safetensors
	echo "this is text, long enough for a header" >text
	refused 65 "no safetensors file" rnp-serve inspect text
}

@test "inspect: containers that break a rule are refused with nothing on stdout" {
	gguf 3 0 0 >good.gguf
	rnp-serve inspect good.gguf | grep -q '"tensors":0'
	gguf 1 0 0 >bad.gguf
	refused 65 "version 1 is not 2 or 3" rnp-serve inspect bad.gguf
	gguf 3 9223372036854775807 0 >bad.gguf
	refused 65 "ends too early" rnp-serve inspect bad.gguf
	rnp-train init --preset nano --out m
	rnp-train export --model m --gguf m.gguf
	head -c -100 m.gguf >bad.gguf
	refused 65 "ends behind the file" rnp-serve inspect bad.gguf
	assert_equal "$output" ""
	{ cat m.gguf && head -c 32 /dev/zero; } >bad.gguf
	refused 65 "what it holds ends at" rnp-serve inspect bad.gguf
	sed 's/blk\.1\.attn_k\.weight/blk.0.attn_k.weight/' m.gguf >bad.gguf
	refused 65 "'blk.0.attn_k.weight' stands there twice" rnp-serve inspect bad.gguf
	{ cat m/model.safetensors && echo; } >bad.safetensors
	refused 65 "1 bytes behind the last" rnp-serve inspect bad.safetensors
	sed 's/"data_offsets":\[0,/"data_offsets":[4,/' m/model.safetensors >bad.safetensors
	refused 65 "bad.safetensors: tensor" rnp-serve inspect bad.safetensors
}

# patched PYTHON: m.gguf to bad.gguf with its metadata changed; `values` is a list of [key, kind, bytes], of lists of texts too
patched() {
	PYTHONPATH=$ROOT/tests/tools python3 - "$1" <<-'END'
		import sys
		from gguf_patch import *
		values, rest = read("m.gguf")
		exec(sys.argv[1])
		write("bad.gguf", values, rest)
	END
}

# unusable WHY: bad.gguf is shown whole, and its first record says what keeps it from being run
unusable() {
	run_split rnp-serve inspect bad.gguf
	assert_success
	all_valid
	[[ $(jq -r .unusable <<<"${lines[0]}") == *"$1"* ]] || fail "${lines[0]} does not say '$1'"
	assert_equal "$(records rnp.tensor | wc -l)" "$(jq .tensors <<<"${lines[0]}")"
	refused 65 "$1" rnp-serve plan --model bad.gguf
}

@test "inspect: a sound file that cannot be run is shown, with the reason" {
	rnp-train init --preset nano --out m
	rnp-train export --model m --gguf m.gguf
	rnp-serve inspect m.gguf | jq -es 'map(has("unusable")) | any | not'
	rnp-serve inspect m | jq -es 'map(has("unusable")) | any | not'
	# an adapter names the model's architecture, and has none of its numbers
	patched "values = [v for v in values if v[0] != b'llama.block_count' and v[0] != 'llama.block_count']"
	unusable "key 'llama.block_count' is missing"
	patched "values += [u32('llama.expert_count', 8)]"
	unusable "models of 8 experts are not read"
	patched "values += [text('llama.rope.scaling.type', 'yarn')]"
	unusable "rope scaling 'yarn' is not none or linear"
	patched "put(values, u32('llama.rope.dimension_count', 3))"
	unusable "3 rotary dimensions"
	patched "put(values, text('general.architecture', 'other'))"
	unusable "the architecture is not llama, qwen2, qwen3, gemma, gemma2, gemma3 or phi3"
	sed 's/blk\.1\.attn_k\.weight/blk.1.attn_x.weight/' m.gguf >bad.gguf
	unusable "tensor 'blk.1.attn_k.weight' is missing"
	gguf 3 0 0 >bad.gguf
	unusable "the architecture is not llama, qwen2, qwen3, gemma, gemma2, gemma3 or phi3"
	# a directory is a model, too; a file of tensors alone is none
	rm m/config.json
	run_split rnp-serve inspect m
	assert_success
	assert_equal "$(jq -r .unusable <<<"${lines[0]}")" "cannot open 'm/config.json': No such file or directory"
	rnp-serve inspect m/model.safetensors | jq -es '.[0] | has("unusable") | not'
}

@test "inspect: a llama's hyper-parameters and tokenizer are checked" {
	local good='put(values, text("tokenizer.ggml.model", "gpt2")); values += [texts("tokenizer.ggml.tokens", TOKENS), texts("tokenizer.ggml.merges", ["a b"])];'
	rnp-train init --preset nano --vocab 4 --out m
	rnp-train export --model m --gguf m.gguf
	good=${good/TOKENS/'["a", "b", "ab", "<e>"]'}
	good="BROKEN = b'\\xff'; NUL = b'a\\0b'; $good"
	patched "$good values += [u32('tokenizer.ggml.eos_token_id', 3), u32('tokenizer.ggml.bos_token_id', 4294967295), text('tokenizer.chat_template', 'x' * 65536)]"
	run_split rnp-serve inspect bad.gguf
	assert_success
	patched "$good values += [u32('tokenizer.ggml.eos_token_id', 4)]"
	refused 65 "token" rnp-serve inspect bad.gguf
	patched "$good values += [u32('tokenizer.ggml.padding_token_id', 4)]"
	refused 65 "padding_token_id" rnp-serve inspect bad.gguf
	patched "$good values += [text('tokenizer.chat_template', 'x' * 65537)]"
	refused 65 "at most 65536 bytes" rnp-serve inspect bad.gguf
	patched "${good/\"ab\"/\"a\"}"
	refused 65 "token 'a' stands there twice" rnp-serve inspect bad.gguf
	patched "${good/\"ab\"/BROKEN}"
	refused 65 "token 2 is not UTF-8" rnp-serve inspect bad.gguf
	patched "${good/\"ab\"/NUL}"
	refused 65 "token 2 has a NUL" rnp-serve inspect bad.gguf
	refused 65 "token 2 has a NUL" rnp-train tokenize --tokenizer bad.gguf --ids /dev/null
	patched "${good/a b/a c}"
	refused 65 "merge 0 has 'c', which is no token" rnp-train tokenize --tokenizer bad.gguf --ids /dev/null
	patched "put(values, u32('general.architecture', 7))"
	refused 65 "general.architecture is u32, not a text" rnp-serve inspect bad.gguf
	patched "${good/a b/ab}"
	refused 65 "merge 0 is not two texts" rnp-serve inspect bad.gguf
	patched "$good values.pop()"
	refused 65 "tokenizer.ggml.merges' is missing" rnp-serve inspect bad.gguf
	patched "$good values += [floats('tokenizer.ggml.scores', [0, 1, 2])]"
	refused 65 "3 scores for 4 tokens" rnp-serve inspect bad.gguf
	patched "$good values += [floats('tokenizer.ggml.scores', [0, 1, 2, float('nan')])]"
	refused 65 "the score of token 3 is not finite" rnp-serve inspect bad.gguf
	patched "$good values += [ints('tokenizer.ggml.token_type', [1, 1, 1, 7])]"
	refused 65 "the type of token 3 is 7" rnp-serve inspect bad.gguf
	patched "put(values, f32('llama.rope.freq_base', float('inf')))"
	refused 65 "is not finite" rnp-serve inspect bad.gguf
	patched "put(values, f32('llama.attention.layer_norm_rms_epsilon', -1.0))"
	refused 65 "epsilon -1" rnp-serve inspect bad.gguf
	patched "put(values, u32('llama.attention.head_count', 0))"
	refused 65 "number of heads is 0" rnp-serve inspect bad.gguf
	patched "put(values, u32('llama.attention.head_count_kv', 3))"
	refused 65 "not a multiple" rnp-serve inspect bad.gguf
	patched "put(values, u32('llama.block_count', 4294967295))"
	refused 65 "number of layers" rnp-serve inspect bad.gguf
	# another architecture is its own judge
	patched "put(values, text('general.architecture', 'other')); put(values, u32('llama.block_count', 4294967295))"
	run_split rnp-serve inspect bad.gguf
	assert_success
}
