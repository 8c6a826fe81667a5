# Models that we write, run by other engines: llama.cpp (npm node-llama-cpp) and PyTorch
# (Debian's python3-torch), with the real model from the data.
load ../helper

setup_file() {
	local models=${RNP_DATA:-$ROOT/../shared/data}/models
	export DIR=$BATS_FILE_TMPDIR TEXT=$models/../text/tinystories_sample.txt
	[[ -e $models/stories260K.bin ]] || return 0
	for type in f32 f16 bf16 q8_0 q4_0; do
		rnp-train export --model "$models/stories260K.bin" --tokenizer "$models/tok512.bin" \
			--gguf "$DIR/$type.gguf" --type "$type"
	done
	rnp-train export --model "$models/stories260K.bin" --tokenizer "$models/tok512.bin" --out "$DIR/hf"
}

setup() {
	cd "$BATS_TEST_TMPDIR"
	data models/stories260K.bin >/dev/null || skip_data
}

llama_cpp() {
	python3 "$ROOT/tests/tools/llama_cpp.py" "$@"
}

# within PART A B: two losses whose perplexities differ by at most this relative amount
within() {
	python3 -c 'import math, sys; part, a, b = map(float, sys.argv[1:]); sys.exit(abs(math.exp(a - b) - 1) > part)' "$@" ||
		fail "perplexities of losses $2 and $3 differ by more than $1"
}

loss() {
	rnp-train eval --device cpu --data "$TEXT" "$@" | jq .loss
}

@test "lm parity: llama.cpp loads every type of a GGUF and goes on as we do" {
	need_llama_cpp
	for type in f32 f16 bf16 q8_0 q4_0; do
		llama_cpp greedy "$DIR/$type.gguf" 60 "One day, a" >theirs
		rnp-serve ask --device cpu --model "$DIR/$type.gguf" -n 60 --temperature 0 "One day, a" >ours
		(($(wc -c <theirs) > 60))
		# only the first words: products of quantised numbers are rounded differently
		# there
		cmp <(head -c 40 theirs) <(head -c 40 ours) || fail "$type: $(cat theirs) / $(cat ours)"
		if [[ $type == f32 ]]; then cmp theirs <(head -c "$(wc -c <theirs)" ours); fi
	done
	# a text without a choice between two words that are almost equally likely
	llama_cpp greedy "$DIR/f32.gguf" 256 "Once upon a time" >theirs
	rnp-serve ask --device cpu --model "$DIR/f32.gguf" -n 256 --temperature 0 "Once upon a time" >ours
	(($(wc -c <theirs) > 500))
	cmp theirs <(head -c "$(wc -c <theirs)" ours)
}

@test "lm parity: safetensors and a GGUF of f32 give the text of the .bin, 200 tokens" {
	local models
	models=$(dirname "$(data models/stories260K.bin)")
	rnp-serve ask --device cpu --model "$models/stories260K.bin" --tokenizer "$models/tok512.bin" -n 200 --temperature 0 \
		"Once upon a time" >bin
	(($(wc -c <bin) > 400))
	rnp-serve ask --device cpu --model "$DIR/hf" -n 200 --temperature 0 "Once upon a time" | cmp - bin
	rnp-serve ask --device cpu --model "$DIR/f32.gguf" -n 200 --temperature 0 "Once upon a time" | cmp - bin
}

@test "lm parity: f16, bf16 and q8_0 stay within 1% of f32's perplexity" {
	local want
	want=$(loss --model "$DIR/f32.gguf")
	for type in f16 bf16 q8_0; do within 0.01 "$(loss --model "$DIR/$type.gguf")" "$want"; done
}

@test "lm parity: perplexities are within 1% of llama.cpp's from the same file, f32 within 0.1%" {
	need_llama_cpp
	for type in f16 bf16 q8_0 q4_0; do
		within 0.01 "$(loss --model "$DIR/$type.gguf" --length 256)" "$(llama_cpp loss "$DIR/$type.gguf" 256 "$TEXT")"
	done
	within 0.001 "$(loss --model "$DIR/f32.gguf" --length 256)" "$(llama_cpp loss "$DIR/f32.gguf" 256 "$TEXT")"
}

# 1,882 tokens leave the rounding of bf16 a margin of 0.1% either way, which depends on the CPU: the next test, of six times as
# many, holds bf16 to 0.1%
@test "lm parity: perplexity is within 0.1% of PyTorch's in f32, 0.3% in bf16" {
	local python=/usr/bin/python3
	"$python" -c 'import torch' 2>/dev/null || skip "PyTorch is not there (Debian's python3-torch)"
	rnp-train tokenize --ids --whole --tokenizer "$DIR/hf" "$TEXT" | sed 's/\[/[1,/' >ids
	for precision in f32 bf16; do
		within "$([[ $precision == f32 ]] && echo 0.001 || echo 0.003)" "$(loss --model "$DIR/hf" --precision "$precision" --length 512)" \
			"$("$python" "$ROOT/tests/tools/llama_torch.py" loss "$DIR/hf" ids 512 "$precision")"
	done
}

@test "lm parity: on a longer text of the model's own, perplexity in bf16 is within 0.1% of PyTorch's at any length" {
	local python=/usr/bin/python3
	"$python" -c 'import torch' 2>/dev/null || skip "PyTorch is not there (Debian's python3-torch)"
	for seed in {1..30}; do
		rnp-serve ask -q --device cpu --model "$DIR/hf" -n 400 --temperature 1 --seed "$seed" "Once upon a time"
	done >long.txt
	rnp-train tokenize --ids --whole --tokenizer "$DIR/hf" long.txt | sed 's/\[/[1,/' >ids
	for length in 128 256; do
		within 0.001 "$(rnp-train eval --device cpu --data long.txt --model "$DIR/hf" --precision bf16 --length "$length" | jq .loss)" \
			"$("$python" "$ROOT/tests/tools/llama_torch.py" loss "$DIR/hf" ids "$length" bf16)"
	done
}

# near PART: every line of numbers of ours is within PART of theirs, relative to the lengths of
# the vectors
near() {
	python3 -c '
import sys
part = float(sys.argv[1])
ours, theirs = [[list(map(float, line.split())) for line in open(f)] for f in ("ours", "theirs")]
sys.exit(len(ours) != len(theirs) or any(
    not sum((x - y) ** 2 for x, y in zip(a, b)) <= part ** 2 * sum(y * y for y in b) for a, b in zip(ours, theirs)))' "$1" ||
		fail "$2: logits differ by more than $1"
}

# logits ARCHITECTURE TYPE: those of a random model, by llama.cpp all at once and by us in
# pieces of 13 tokens
logits() {
	local ids
	ids=$(seq 40 | awk '{print (7 * $1 * $1 + 3 * $1 + 5) % 96}' | tr '\n' ' ')
	python3 "$ROOT/tests/tools/random_model.py" m.gguf "$1" "$2"
	llama_cpp logits m.gguf "${3:-128}" "$ids" >theirs
	# shellcheck disable=SC2086
	RNP_DEVICE=cpu "$RNP_BUILD/unit/lm/engine/logits" m.gguf 13 $ids >ours
}

@test "lm parity: blocks of every quantised type are the numbers that ggml reads there" {
	need_llama_cpp
	while read -r type block bytes; do
		python3 -c '
import sys; sys.path.insert(0, sys.argv[1]); import random, random_model
random.seed(sys.argv[2]); sys.stdout.buffer.write(random_model.matrix(sys.argv[2], 16, 256))' "$ROOT/tests/tools" "${type^^}" >blocks
		llama_cpp numbers "$type" "$block" "$bytes" <blocks >theirs
		"$RNP_BUILD/unit/lm/model/tensor" "${type,,}" <blocks >ours
		python3 -c '
import array, sys
a, b = [array.array("f", open(f, "rb").read()) for f in ("ours", "theirs")]
sys.exit(len(a) != 4096 or a != b)' || fail "$type"
	done <<-END
		q8_0 32 34
		q4_0 32 18
		q4_1 32 20
		q5_0 32 22
		q5_1 32 24
		q4_K 256 144
		q5_K 256 176
		q6_K 256 210
	END
}

# llama.cpp stores keys and values in f16, and quantises activations for the K types by 256
@test "lm parity: logits of random weights of every type are llama.cpp's, but for the rounding of activations" {
	need_llama_cpp
	for type in F32 F16; do
		logits llama "$type"
		near 0.005 "$type"
	done
	for type in Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K mixed; do
		logits llama "$type"
		near 0.1 "$type"
	done
}

@test "lm parity: logits of random weights of every architecture are llama.cpp's, but for its cache in f16" {
	need_llama_cpp
	for architecture in qwen2 qwen3 gemma gemma2 gemma3 phi3 phi3-short; do
		logits "$architecture" F32
		near 0.005 "$architecture"
		logits "$architecture" mixed
		near 0.1 "$architecture"
	done
}

# the GGUF files are held against llama.cpp above
@test "lm parity: a directory of every architecture is the model of its GGUF" {
	for architecture in qwen2 qwen3 gemma gemma2 gemma3 phi3 phi3-short; do
		ids=$(seq 40 | awk '{print (7 * $1 * $1 + 3 * $1 + 5) % 96}' | tr '\n' ' ')
		python3 "$ROOT/tests/tools/random_model.py" m.gguf "$architecture" F32 "$architecture"
		# shellcheck disable=SC2086
		RNP_DEVICE=cpu "$RNP_BUILD/unit/lm/engine/logits" m.gguf 13 $ids >theirs
		# shellcheck disable=SC2086
		RNP_DEVICE=cpu "$RNP_BUILD/unit/lm/engine/logits" "$architecture" 13 $ids >ours
		near 0.0002 "$architecture" # the norms are rounded once more
	done
}
