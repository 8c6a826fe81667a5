# rnp-train init and export: models made, and written for other engines.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# sum_of FILE
sum_of() {
	sha256sum "$1" | cut -d' ' -f1
}

@test "init: the same seed gives the same bytes, another seed others" {
	rnp-train init --preset nano --seed 5 --out a
	RNP_ISA=ref OMP_NUM_THREADS=1 rnp-train init --preset nano --seed 5 --out b
	rnp-train init --preset nano --seed 6 --out c
	cmp a/model.safetensors b/model.safetensors
	cmp a/config.json b/config.json
	run cmp -s a/model.safetensors c/model.safetensors
	assert_failure
	assert_equal "$(sum_of a/model.safetensors)" "$(sed -n 's/^nano 5 //p' "$ROOT/tests/data/model/sums")"
}

@test "init: numbers are normal, norms are one, the ends of branches are smaller" {
	rnp-train init --preset mini --out m
	python3 - <<-'END'
		import array, json, math, struct
		b = open("m/model.safetensors", "rb").read()
		n = struct.unpack("<Q", b[:8])[0]
		head, data = json.loads(b[8:8 + n]), b[8 + n:]
		def moments(name):
		    begin, end = head[name]["data_offsets"]
		    x = array.array("f", data[begin:end])
		    mean = math.fsum(x) / len(x)
		    square = math.fsum(v * v for v in x) / len(x)
		    fourth = math.fsum(v ** 4 for v in x) / len(x)
		    return len(x), mean, math.sqrt(square), fourth / square ** 2
		for name, deviation in [("model.embed_tokens.weight", 0.02),
		        ("model.layers.0.self_attn.q_proj.weight", 0.02),
		        ("model.layers.3.mlp.down_proj.weight", 0.02 / math.sqrt(12)),
		        ("model.layers.5.self_attn.o_proj.weight", 0.02 / math.sqrt(12))]:
		    count, mean, spread, kurtosis = moments(name)
		    # five standard errors of each
		    assert abs(mean) < 5 * deviation / math.sqrt(count), (name, mean)
		    assert abs(spread / deviation - 1) < 5 / math.sqrt(2 * count), (name, spread)
		    assert abs(kurtosis - 3) < 5 * math.sqrt(24 / count), (name, kurtosis)
		assert moments("model.norm.weight")[1:3] == (1, 1)
	END
}

@test "init: config.json has what transformers wants" {
	rnp-train init --preset mini --vocab 1000 --type bf16 --out m
	run_split cat m/config.json
	for key in architectures model_type torch_dtype hidden_act vocab_size hidden_size intermediate_size \
		num_hidden_layers num_attention_heads num_key_value_heads head_dim max_position_embeddings \
		rms_norm_eps rope_theta tie_word_embeddings; do
		jq -e "has(\"$key\")" <<<"$output" >/dev/null || fail "no $key"
	done
	assert_equal "$(jq -c '[.model_type, .torch_dtype, .vocab_size, .hidden_size]' <<<"$output")" \
		'["llama","bfloat16",1000,384]'
	assert_equal "$(rnp-serve inspect m | jq -r 'select(.kind == "rnp.tensor") | .type' | sort -u)" BF16
}

@test "init: wrong presets, vocabularies and places are refused" {
	run_split rnp-train init --preset huge --out m
	assert_equal "$status" 64
	run_split rnp-train init --preset nano --vocab 0 --out m
	assert_equal "$status" 64
	run_split rnp-train init --preset nano --vocab 1048577 --out m
	assert_equal "$status" 64
	: >file
	refused 73 "file" rnp-train init --preset nano --out file
	# what somebody trained is not replaced by random numbers
	rnp-train init --preset nano --out kept
	before=$(sha256sum kept/*)
	refused 73 "kept/config.json" rnp-train init --preset nano --seed 9 --out kept
	[ "$(sha256sum kept/*)" = "$before" ]
	[[ ! -e m ]]
}

@test "export: the real model goes through every form and back, bit for bit" {
	local model
	model=$(data models/stories260K.bin) || skip_data
	run_split rnp-train export --model "$model" --out hf
	assert_success
	assert_equal "$output" ""
	[[ $stderr == *"has no tokenizer: 'hf' gets none"* ]]
	rnp-train export --model "$model" --gguf a.gguf
	rnp-train export --model hf --gguf b.gguf
	rnp-train export --model a.gguf --gguf c.gguf
	rnp-train -q export --model c.gguf --out hf2
	cmp hf/model.safetensors hf2/model.safetensors
	# but for the name of the model
	cmp <(rnp-serve inspect a.gguf | tail -n +2 | grep -v general.name) \
		<(rnp-serve inspect b.gguf | tail -n +2 | grep -v general.name)
	PYTHONPATH=$ROOT/tests/tools python3 - <<-'END'
		from gguf_patch import read
		assert read("a.gguf")[1] == read("b.gguf")[1] == read("c.gguf")[1]
	END
	# the same numbers as in the file of llama2.c, by a second reader: v of layer 1, and q of layer 0 in Hugging Face's order
	python3 - "$model" <<-'END'
		import json, struct, sys
		b = open(sys.argv[1], "rb").read()
		dim, hidden, layers, heads, kv, vocab, context = struct.unpack_from("<7i", b)
		at = 28 + 4 * (vocab * dim + layers * dim)
		q = b[at:at + 4 * dim * dim]
		at += 4 * layers * dim * (dim + dim * kv // heads)
		v = b[at:at + 2 * 4 * dim * dim * kv // heads][4 * dim * dim * kv // heads:]
		s = open("hf/model.safetensors", "rb").read()
		n = struct.unpack("<Q", s[:8])[0]
		head, data = json.loads(s[8:8 + n]), s[8 + n:]
		def tensor(name):
		    begin, end = head[name]["data_offsets"]
		    return data[begin:end]
		assert tensor("model.layers.1.self_attn.v_proj.weight") == v
		ours, row, size = tensor("model.layers.0.self_attn.q_proj.weight"), 4 * dim, dim // heads
		for head_at in range(heads):
		    for i in range(size):
		        pair = head_at * size + (2 * i if i < size // 2 else 2 * (i - size // 2) + 1)
		        have = (head_at * size + i) * row
		        assert ours[have:have + row] == q[pair * row:(pair + 1) * row]
	END
}

@test "export: the tokenizer goes along, from any form to any form, with the same ids" {
	local model tok text='Once upon a time, there was a little girl.'
	model=$(data models/stories260K.bin) && tok=$(data models/tok512.bin) || skip_data
	rnp-train export --model "$model" --tokenizer "$tok" --gguf a.gguf --type q8_0
	rnp-train export --model "$model" --tokenizer "$tok" --out hf
	rnp-train export --model hf --gguf b.gguf
	rnp-train export --model a.gguf --out hf2
	rnp-train export --model a.gguf --gguf c.gguf
	rnp-serve inspect a.gguf >/dev/null
	assert_equal "$(jq -c '[.bos_token_id, .eos_token_id]' hf2/config.json)" '[1,2]'
	echo "$text" | rnp-train tokenize --tokenizer "$tok" --ids >want
	grep -q '^\[[0-9]' want
	for made in a.gguf hf b.gguf hf2 c.gguf; do
		echo "$text" | rnp-train tokenize --tokenizer "$made" --ids | cmp - want
	done
	refused 65 "the tokenizer has" bash -c 'rnp-train init --preset nano --vocab 100 --out small &&
		rnp-train export --model small --tokenizer hf --gguf x.gguf'
	# nor a directory that ask would not take
	refused 65 "the tokenizer has" rnp-train export --model small --tokenizer hf --out e
	[[ ! -e e ]]
	# fewer tokens than the model has rows
	rnp-train init --preset nano --vocab 520 --out large
	rnp-train export --model large --tokenizer hf --gguf padded.gguf
	rnp-train export --model large --tokenizer "$tok" --gguf also.gguf
	cmp <(rnp-serve inspect padded.gguf | grep tokenizer.ggml.tokens) <(rnp-serve inspect also.gguf | grep tokenizer.ggml.tokens)
	refused 65 "more than the model's 100 tokens" rnp-train export --model small --tokenizer "$tok" --gguf x.gguf
	assert_equal "$(rnp-serve inspect padded.gguf | jq 'select(.name == "tokenizer.ggml.tokens") | .count')" 520
	refused 65 "is no tokenizer" bash -c 'echo x >bad.json; rnp-train export --model large --tokenizer bad.json --gguf x.gguf'
}

@test "export, init and run: another model's tokenizer is not left to one that has none" {
	printf 'the cat sees a bird. %.0s' {1..200} >text
	rnp-train tokenize --vocab 260 --out data text >/dev/null
	mkdir dir tokens
	cp data/*.tokens tokens
	cp data/tokenizer.json dir
	rnp-train init --preset nano --vocab 260 --out m
	before=$(sum_of dir/tokenizer.json)
	for command in "export --model m" "init --preset nano --vocab 260" \
		"run --model m --data tokens --steps 1 --batch 1 --length 8"; do
		# shellcheck disable=SC2086 # words on purpose
		refused 73 "dir/tokenizer.json' is there" rnp-train $command --out dir
	done
	assert_equal "$(ls dir)" tokenizer.json
	assert_equal "$(sum_of dir/tokenizer.json)" "$before"
	# with one it is replaced; and a run that goes on keeps what it began with
	rnp-train run --model m --data data --steps 1 --batch 1 --length 8 --out r >/dev/null
	cp r/tokenizer.json kept
	rnp-train run --model m --data tokens --steps 2 --batch 1 --length 8 --out r --resume >/dev/null
	cmp kept r/tokenizer.json
	rnp-train export --model r --out dir
	[ "$(sum_of dir/tokenizer.json)" = "$(sum_of r/tokenizer.json)" ]
}

@test "export: merges of characters become scores, the earliest the highest" {
	local spm text
	spm=$(data tokenizers/ggml-vocab-llama-spm.gguf) || skip_data
	echo "Once upon a time" >text
	# tokenizer.json as Llama 2 has it: merges and a byte fall-back, no scores
	rnp-train tokenize --tokenizer "$spm" --out tok text >/dev/null
	jq -e '.model.byte_fallback and (.model.merges | length) > 60000' tok/tokenizer.json
	rnp-train init --preset nano --tokenizer tok --out m
	rnp-train export --model m --gguf m.gguf
	python3 - "$ROOT/tests/tools" <<-'END'
		import json, struct, sys
		sys.path.insert(0, sys.argv[1])
		import gguf_patch
		model = json.load(open("tok/tokenizer.json"))["model"]
		first = {}
		for rank, merge in enumerate(model["merges"]):
		    text = "".join(merge if isinstance(merge, list) else merge.split(" "))
		    first.setdefault(model["vocab"][text], -rank)
		values = {v[0]: v[2] for v in gguf_patch.read("m.gguf")[0]}
		count = struct.unpack_from("<Q", values["tokenizer.ggml.scores"], 4)[0]
		scores = struct.unpack_from(f"<{count}f", values["tokenizer.ggml.scores"], 12)
		assert count == 32000 and len(first) > 29000
		assert all(scores[i] == score for i, score in first.items())
	END
	text=$(data text/tinystories_sample.txt) || skip_data
	cmp <(rnp-train tokenize --ids --tokenizer "$spm" "$text") <(rnp-train tokenize --ids --tokenizer m.gguf "$text")
}

@test "export: words cut in a way that GGUF has no name for are refused, a directory takes them" {
	rnp-train tokenize --vocab 300 --out t /usr/share/common-licenses/GPL-3 >/dev/null
	jq '.pre_tokenizer = {type: "Sequence", pretokenizers: [
		{type: "Split", pattern: {Regex: "[a-z]+|."}, behavior: "Isolated", invert: false},
		{type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false}]}' t/tokenizer.json >odd.json
	rnp-train init --preset nano --tokenizer odd.json --out m
	refused 65 "GGUF has no name for the way in which the tokenizer cuts words" rnp-train export --model m --gguf m.gguf
	[[ ! -e m.gguf ]]
	# a blank before the text, which GGUF has for SentencePiece alone
	jq '.pre_tokenizer.add_prefix_space = true' t/tokenizer.json >blank.json
	run_split rnp-train export --model m --tokenizer blank.json --gguf blank.gguf
	assert_success
	[[ $stderr == *"cannot say that this tokenizer puts a blank before a text"* ]]
	rnp-train export --model m --out hf
	cmp <(echo "Abc def" | rnp-train tokenize --ids --tokenizer hf) <(echo "Abc def" | rnp-train tokenize --ids --tokenizer odd.json)
}

@test "init: with a tokenizer, whose tokens are the vocabulary" {
	rnp-train tokenize --vocab 300 --out tokens /usr/share/common-licenses/GPL-3 >/dev/null
	rnp-train init --preset nano --tokenizer tokens --out m
	assert_equal "$(jq .vocab_size m/config.json)" 300
	assert_equal "$(jq .eos_token_id m/config.json)" 299
	rnp-train export --model m --gguf m.gguf --type f16
	run_split rnp-serve inspect m.gguf
	assert_success
	assert_equal "$(jq -r 'select(.name == "tokenizer.ggml.tokens" or .name == "tokenizer.ggml.merges") | .count' <<<"$output" | tr '\n' ' ')" "300 43 "
	refused 64 "give one of --vocab N and --tokenizer F" rnp-train init --preset nano --vocab 3 --tokenizer tokens --out x
}

@test "export: types of a GGUF; norms are f32, rows of no multiple of 32 are f16" {
	local model type
	model=$(data models/stories260K.bin) || skip_data
	for type in f32:F32 f16:F16 bf16:BF16 q8_0:Q8_0 q4_0:Q4_0; do
		rnp-train export --model "$model" --gguf m.gguf --type "${type%:*}"
		run_split rnp-serve inspect m.gguf
		assert_success
		type_of() {
			jq -r "select(.kind == \"rnp.tensor\" and .name == \"$1\") | .type" <<<"$output"
		}
		assert_equal "$(type_of blk.0.attn_q.weight)" "${type#*:}"
		assert_equal "$(type_of token_embd.weight)" "${type#*:}"
		assert_equal "$(type_of blk.4.attn_norm.weight)" F32
		case $type in # rows of 172
		q*) assert_equal "$(type_of blk.0.ffn_down.weight)" F16 ;;
		*) assert_equal "$(type_of blk.0.ffn_down.weight)" "${type#*:}" ;;
		esac
	done
	# what is there already is copied, not quantised again
	rnp-train export --model m.gguf --gguf again.gguf
	PYTHONPATH=$ROOT/tests/tools python3 -c 'from gguf_patch import read; assert read("m.gguf")[1] == read("again.gguf")[1]'
}

@test "export: quantised blocks are those of a second quantiser" {
	rnp-train init --preset nano --out m
	rnp-train export --model m --gguf q8.gguf --type q8_0
	rnp-train export --model m --gguf q4.gguf --type q4_0
	PYTHONPATH=$ROOT/tests/tools python3 - <<-'END'
		import array, json, math, struct
		from gguf_patch import read
		s = open("m/model.safetensors", "rb").read()
		n = struct.unpack("<Q", s[:8])[0]
		head, data = json.loads(s[8:8 + n]), s[8 + n:]
		begin, end = head["model.embed_tokens.weight"]["data_offsets"]
		x = array.array("f", data[begin:end])
		f32 = lambda v: struct.unpack("<f", struct.pack("<f", v))[0]
		def q8(block):
		    d = f32(max(map(abs, block)) / 127)
		    inverse = f32(1 / d)
		    codes = [f32(v * inverse) for v in block]
		    return struct.pack("<e32b", d, *(int(math.copysign(math.floor(abs(c) + 0.5), c)) for c in codes))
		def q4(block):
		    d = f32(max(block, key=abs) / -8)
		    inverse = f32(1 / d)
		    codes = [min(15, int(f32(f32(v * inverse) + 8.5))) for v in block]
		    return struct.pack("<e16B", d, *(codes[i] | codes[i + 16] << 4 for i in range(16)))
		for path, quantise in (("q8.gguf", q8), ("q4.gguf", q4)):
		    want = b"".join(quantise(x[i:i + 32]) for i in range(0, len(x), 32))
		    assert read(path)[1][2][:len(want)] == want, path  # the embedding is the first
	END
}

@test "export: shards are read as one model" {
	rnp-train init --preset nano --out m
	mkdir shards
	cp m/config.json shards/
	python3 - <<-'END'
		import json, struct
		s = open("m/model.safetensors", "rb").read()
		n = struct.unpack("<Q", s[:8])[0]
		head, data = json.loads(s[8:8 + n]), s[8 + n:]
		head.pop("__metadata__")
		names, index = sorted(head), {}
		for k in range(3):
		    file, part, at = "part-%d.safetensors" % k, {}, 0
		    for name in names[k::3]:
		        begin, end = head[name]["data_offsets"]
		        part[name] = dict(head[name], data_offsets=[at, at + end - begin])
		        at += end - begin
		        index[name] = file
		    text = json.dumps(part).encode()
		    body = b"".join(data[slice(*head[name]["data_offsets"])] for name in names[k::3])
		    open("shards/" + file, "wb").write(struct.pack("<Q", len(text)) + text + body)
		json.dump({"weight_map": index}, open("shards/model.safetensors.index.json", "w"))
	END
	rnp-train -q export --model shards --out whole
	cmp m/model.safetensors whole/model.safetensors
	sed -i 's/part-1/..\/part-1/' shards/model.safetensors.index.json
	refused 65 "no plain name" rnp-train export --model shards --gguf x.gguf
}

@test "export: a rope scaling that GGUF has no place for is refused, not left out" {
	rnp-train init --preset nano --out m
	# the same model with biases of zeros, as Qwen 2's
	python3 - <<-'END'
		import json, struct
		s = open("m/model.safetensors", "rb").read()
		n = struct.unpack("<Q", s[:8])[0]
		head, data = json.loads(s[8:8 + n]), s[8 + n:]
		for layer in range(5):
		    for part in "qkv":
		        head[f"model.layers.{layer}.self_attn.{part}_proj.bias"] = {
		            "dtype": "F32", "shape": [128], "data_offsets": [len(data), len(data) + 512]}
		        data += bytes(512)
		text = json.dumps(head).encode()
		open("m/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
		c = json.load(open("m/config.json"))
		c["model_type"] = "qwen2"
		json.dump(c, open("m/config.json", "w"))
	END
	rnp-train -q export --model m --gguf plain.gguf
	jq '.rope_scaling = {rope_type: "llama3", factor: 8, low_freq_factor: 1, high_freq_factor: 4,
		original_max_position_embeddings: 8192}' m/config.json >c.json
	mv c.json m/config.json
	run -65 rnp-train export --model m --gguf x.gguf
	[[ $output == *"GGUF has no Llama 3 rope scaling"* && ! -e x.gguf ]]
	rnp-train -q export --model m --out hf
	jq -e '.rope_scaling.rope_type == "llama3"' hf/config.json
}

@test "export: models that are malformed are refused in one line, and nothing is written" {
	rnp-train init --preset nano --out m
	refused 66 "cannot open 'none'" rnp-train export --model none --gguf x.gguf
	cp m/config.json good
	sed 's/"num_hidden_layers":5/"num_hidden_layers":6/' good >m/config.json
	refused 65 "'model.layers.5.input_layernorm.weight' is missing" rnp-train export --model m --gguf x.gguf
	sed 's/"num_hidden_layers":5/"num_hidden_layers":4/' good >m/config.json
	refused 65 "has no place" rnp-train export --model m --gguf x.gguf
	sed 's/"num_key_value_heads":4/"num_key_value_heads":2/' good >m/config.json
	refused 65 "k_proj.weight' is not [64, 128]" rnp-train export --model m --gguf x.gguf
	sed 's/"num_key_value_heads":4/"num_key_value_heads":3/' good >m/config.json
	refused 65 "not a multiple" rnp-train export --model m --gguf x.gguf
	sed 's/"vocab_size":512/"vocab_size":4294967296/' good >m/config.json
	refused 65 "vocab_size" rnp-train export --model m --gguf x.gguf
	sed 's/"tie_word_embeddings":true/"tie_word_embeddings":false/' good >m/config.json
	refused 65 "'lm_head.weight' is missing" rnp-train export --model m --gguf x.gguf
	sed 's/llama/mamba/' good >m/config.json
	refused 65 "model_type 'mamba'" rnp-train export --model m --gguf x.gguf
	head -c 1000 good | head -c 100 >m/config.json
	refused 65 "m/config.json: not JSON" rnp-train export --model m --gguf x.gguf
	rm m/config.json
	refused 66 "m/config.json" rnp-train export --model m --gguf x.gguf
	head -c 999 /dev/urandom >x.bin
	refused 65 "no llama2.c model" rnp-train export --model x.bin --gguf x.gguf
	[[ ! -e x.gguf ]]
}

@test "export: --gguf or --out, and a full disk leaves what was there" {
	rnp-train init --preset nano --out m
	refused 64 "give one of --gguf F and --out DIR" rnp-train export --model m
	refused 64 "give one of" rnp-train export --model m --gguf f --out d
	refused 64 "--type q8_0 is for --gguf" rnp-train export --model m --out d --type q8_0
	echo old >x.gguf
	run_split bash -c 'ulimit -f 100; trap "" XFSZ; rnp-train export --model m --gguf x.gguf'
	assert_equal "$status" 74
	[[ $stderr == *"rnp-train: cannot write 'x.gguf': File too large" ]]
	assert_equal "$(cat x.gguf)" old
	assert_equal "$(find . -name 'x.gguf*' | wc -l)" 1
}
