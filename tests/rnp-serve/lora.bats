#!/usr/bin/env bats
# LoRA adapters: a model with one computes what the model with it merged in does, beside others in the same step.
load ../helper
load serve

setup_file() {
	make_chat_model
	python3 "$ROOT/tests/tools/lora.py" "$DIR/model" "$DIR/warm" "$DIR/warm-merged" 1
	python3 "$ROOT/tests/tools/lora.py" "$DIR/model" "$DIR/cold" "$DIR/cold-merged" 2 --rslora
	python3 "$ROOT/tests/tools/lora.py" "$DIR/model" "$DIR/mixed" "$DIR/mixed-merged" 3 --patterns
	python3 "$ROOT/tests/tools/lora_gguf.py" "$DIR/model" "$DIR/warm" "$DIR/warm.gguf"
	rnp-train export --model "$DIR/model" --gguf "$DIR/model.gguf" >/dev/null
}
teardown() { stop_serve; }

# ask MODEL: logprobs of a greedy answer
ask() {
	post /v1/completions "{\"model\":\"$1\",\"prompt\":\"The program is free\",\"max_tokens\":24,\"temperature\":0,\"logprobs\":1,\"logit_bias\":{\"399\":-100}}"
}

# near A B: the same text, and logprobs that differ by at most 0.001
near() {
	jq -s -e '(.[0].choices[0].text == .[1].choices[0].text) and ([.[] | .choices[0].logprobs.token_logprobs] | transpose | all((.[0] - .[1]) | fabs < 0.001))' "$1" "$2"
}

@test "lora: an adapter answers like the model that it is merged into, from a directory and from a GGUF file" {
	start_serve --model "gguf=$DIR/model.gguf" --model "warm-merged=$DIR/warm-merged" --model "cold-merged=$DIR/cold-merged" \
		--lora "warm=$DIR/warm" --lora "cold=$DIR/cold" --lora "gguf/warm-gguf=$DIR/warm" --context 64
	local name
	for name in chat warm cold warm-gguf warm-merged cold-merged; do ask "$name" >"$name"; done
	near warm warm-merged
	near cold cold-merged
	near warm-gguf warm-merged
	run near warm chat
	assert_failure
	run near warm cold
	assert_failure
	jq -e '.model == "warm-gguf"' warm-gguf
	[ "$(curl -sS "$url/v1/models" | jq -c '[.data[] | [.id, .parent]]')" = \
		'[["chat",null],["warm","chat"],["cold","chat"],["gguf",null],["warm-gguf","gguf"],["warm-merged",null],["cold-merged",null]]' ]
	curl -sS "$url/v1/models/warm" | jq -e '.parent == "chat"'
	jq -s -e '.[0].adapters_bytes > 0 and (.[2] | has("adapters_bytes") | not)' plan
}

@test "lora: ranks and alphas by pattern, and adapters of llama.cpp's format, answer like their merged models" {
	start_serve --model "gguf=$DIR/model.gguf" --model "warm-merged=$DIR/warm-merged" --model "mixed-merged=$DIR/mixed-merged" \
		--lora "mixed=$DIR/mixed" --lora "gguf/mixed-gguf=$DIR/mixed" --lora "warm=$DIR/warm.gguf" --lora "gguf/warm-gguf=$DIR/warm.gguf" --context 64
	local name
	for name in chat warm mixed warm-gguf mixed-gguf warm-merged mixed-merged; do ask "$name" >"$name"; done
	near mixed mixed-merged
	near mixed-gguf mixed-merged
	near warm warm-merged
	near warm-gguf warm-merged
	run near mixed chat
	assert_failure
}

@test "lora: the bits of an answer are its own, whichever adapters the others of a step have; caches are apart" {
	start_serve --lora "warm=$DIR/warm" --lora "cold=$DIR/cold" --streams 8
	local name i pids=()
	for name in chat warm cold; do ask "$name" | jq -S '.choices' >"$name"; done
	for i in 1 2 3; do
		for name in chat warm cold; do
			ask "$name" | jq -S '.choices' >"$name.$i" &
			pids+=($!)
		done
	done
	wait "${pids[@]}"
	for i in 1 2 3; do
		for name in chat warm cold; do cmp "$name" "$name.$i"; done
	done
	# a long prompt that one adapter has cached is computed anew for another
	local long
	long=$(printf 'the license of this program %.0s' {1..8})
	cached() { post /v1/completions "{\"model\":\"$1\",\"prompt\":\"$long\",\"max_tokens\":1}" | jq .usage.prompt_tokens_details.cached_tokens; }
	[ "$(cached warm)" = 0 ]
	[ "$(cached cold)" = 0 ]
	(( $(cached warm) > 0 ))
	post /v1/chat/completions '{"model":"cold","messages":[{"role":"user","content":"x"}],"max_tokens":3,"stream":true}' -N | head -1 | grep -q '"model":"cold"'
	post /v1/embeddings '{"model":"warm","input":"x"}' | jq -e '.model == "warm"'
}

@test "lora: ask and batch answer with an adapter as the server does" {
	local body='"prompt":"The program is free","max_tokens":24,"seed":5'
	start_serve --lora "warm=$DIR/warm" --lora "cold=$DIR/cold"
	local name
	for name in chat warm cold; do post /v1/completions "{\"model\":\"$name\",$body,\"top_p\":0.95,\"top_k\":40,\"temperature\":0.8}" | jq -r '.choices[0].text' >"$name"; done
	rnp-serve ask --model "$DIR/model" -n 24 --seed 5 "The program is free" | cmp - chat
	rnp-serve ask --model "$DIR/model" --lora "$DIR/warm" -n 24 --seed 5 "The program is free" | cmp - warm
	rnp-serve ask --model "$DIR/model" --lora "$DIR/cold" -n 24 --seed 5 "The program is free" | cmp - cold
	run cmp -s chat warm
	assert_failure
	for name in model warm cold other; do
		echo "{\"custom_id\":\"$name\",\"url\":\"/v1/completions\",\"body\":{\"model\":\"$name\",$body,\"top_p\":0.95,\"top_k\":40,\"temperature\":0.8}}"
	done >in
	rnp-serve batch --model "$DIR/model" --lora "warm=$DIR/warm" --lora "cold=$DIR/cold" in >out
	jq -r '.response.body | select(.model == "model") | .choices[0].text' out | cmp - chat
	for name in warm cold; do jq -r --arg n "$name" '.response.body | select(.model == $n) | .choices[0].text' out | cmp - "$name"; done
	jq -s -e '.[3].response | .status_code == 404 and .body.error.code == "model_not_found"' out
	refused 64 "is not NAME=DIR" rnp-serve batch --model "$DIR/model" --lora "$DIR/warm" in
	refused 64 "'a' is named twice" rnp-serve batch --model "$DIR/model" --lora "a=$DIR/warm" --lora "a=$DIR/cold" in
	refused 66 "adapter_config.json" rnp-serve ask --model "$DIR/model" --lora "$DIR" Hi
}

@test "lora: an adapter that is broken, of another model or of an unknown kind is refused at the start" {
	cd "$BATS_TEST_TMPDIR"
	try() { # CODE WORDS JQ: the config changed
		rm -rf bad && cp -r "$DIR/warm" bad
		jq "$3" "$DIR/warm/adapter_config.json" >bad/adapter_config.json
		refused "$1" "$2" rnp-serve run --model "m=$DIR/model" --listen 127.0.0.1:0 --lora x=bad
	}
	try 65 "'use_dora' is not supported" '.use_dora = true'
	try 65 "'bias' is not supported" '.bias = "all"'
	try 65 "'modules_to_save' is not supported" '.modules_to_save = ["lm_head"]'
	try 65 "'made_next_year' is not supported" '.made_next_year = {"a": 1}'
	try 65 "init_lora_weights 'pissa' is not supported: it changes the model" '.init_lora_weights = "pissa"'
	try 65 "is not [8, " '.rank_pattern = {"q_proj": 8}'
	try 65 "is not 1 to 1024" '.rank_pattern = {"q_proj": 1e9}'
	try 65 "alpha_pattern: 'q_proj' is no number above 0" '.alpha_pattern = {"q_proj": -1}'
	try 65 "rank_pattern: '(' is no regular expression" '.rank_pattern = {"(": 4}'
	try 65 "peft_type is 'IA3', not LORA" '.peft_type = "IA3"'
	try 65 "lora_alpha" '.lora_alpha = "x"'
	try 65 "'r'" '.r = 0'
	try 65 "is not [8, " '.r = 8'
	try 65 "JSON" 'empty'
	refused 66 "adapter_config.json" rnp-serve run --model "m=$DIR/model" --listen 127.0.0.1:0 --lora "x=$DIR"
	rm -rf bad && cp -r "$DIR/warm" bad && truncate -s -4 bad/adapter_model.safetensors
	refused 65 "bad/adapter_model.safetensors" rnp-serve run --model "m=$DIR/model" --listen 127.0.0.1:0 --lora x=bad
	refused 65 "its general.type is 'model', not adapter" rnp-serve run --model "m=$DIR/model" --listen 127.0.0.1:0 --lora "x=$DIR/model.gguf"
	# of a model with more layers
	rm -rf bad && cp -r "$DIR/warm" bad && sed -i 's/layers\.0\.self/layers.9.self/g' bad/adapter_model.safetensors
	refused 65 "belongs to no matrix of this model" rnp-serve run --model "m=$DIR/model" --listen 127.0.0.1:0 --lora x=bad
	refused 64 "'m' is named twice" rnp-serve run --model "m=$DIR/model" --listen 127.0.0.1:0 --lora "m=$DIR/warm"
	refused 64 "there is no model 'y'" rnp-serve run --model "m=$DIR/model" --listen 127.0.0.1:0 --lora "y/x=$DIR/warm"
	refused 64 "is not NAME=DIR" rnp-serve run --model "m=$DIR/model" --listen 127.0.0.1:0 --lora "$DIR/warm"
}
