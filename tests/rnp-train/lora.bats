#!/usr/bin/env bats
# rnp-train run --lora: an adapter learns, the model stays as it is.
load ../helper
load train_net

setup_file() {
	export DIR=$BATS_FILE_TMPDIR
	make_text
	rnp-train init --preset nano --vocab 300 --out "$DIR/start"
	# something to adapt
	rnp-train run --model "$DIR/start" --data "$DIR/tok" --batch 4 --length 32 --steps 20 --lr 3e-3 --out "$DIR/run" >/dev/null
	mkdir "$DIR/model"
	mv "$DIR/run/config.json" "$DIR/run/model.safetensors" "$DIR/model"
	[ ! -e "$DIR/run/tokenizer.json" ] || cp "$DIR/run/tokenizer.json" "$DIR/model"
}

setup() { cd "$BATS_TEST_TMPDIR"; }

adapt() { rnp-train run --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 32 --lora 4 "$@"; }

# merged ADAPTER: its loss on the held text once it is merged in
merged() {
	python3 "$ROOT/tests/tools/lora_merge.py" "$DIR/model" "$1" "$1-merged"
	rnp-train eval --model "$1-merged" --data "$DIR/valid" --length 32 --tokens 3200 | jq .loss
}

@test "lora: the loss falls, and the adapter does for a model what its merged matrices do" {
	local before
	before=$(sha256sum <"$DIR/model/model.safetensors")
	adapt --out a --steps 30 --precision f32 --valid "$DIR/valid" --eval-tokens 3200 >log
	[ "$(sha256sum <"$DIR/model/model.safetensors")" = "$before" ]
	[ "$(ls a | tr '\n' ' ')" = "adapter_config.json adapter_model.safetensors checkpoint.safetensors " ]
	jq -se '(.[0].loss - .[-2].loss > 0.1) and (.[0] | .learning_rate > 0) and (.[-1].adapter | .rank == 4 and .alpha == 8 and .parameters > 0)' log
	jq -e '.peft_type == "LORA" and .r == 4 and .lora_alpha == 8 and .bias == "none" and (.rnp_base | length == 64) and (.target_modules | length == 7)' a/adapter_config.json
	jq -n --argjson merged "$(merged a)" --slurpfile log log -e '($log[-1].validation_loss - $merged | fabs) < 1e-4'
	# of a file whose rotary pairs lie in another order
	rnp-train export --model "$DIR/model" --gguf g.gguf --type f32 >/dev/null
	rnp-train run --model g.gguf --data "$DIR/tok" --batch 4 --length 32 --lora 4 --out g --steps 30 --precision f32 --valid "$DIR/valid" --eval-tokens 3200 >log
	jq -n --argjson merged "$(merged g)" --slurpfile log log -e '($log[-1].validation_loss - $merged | fabs) < 1e-4'
	jq -se '.[0].rnp_base == .[1].rnp_base' a/adapter_config.json g/adapter_config.json
	# some matrices of the second layer alone, scaled by the root of the rank
	adapt --out b --steps 5 --rslora --lora-alpha 3 --lora-target '.*\.1\..*(q_proj|up_proj)' --precision f32 --valid "$DIR/valid" --eval-tokens 3200 >log
	jq -e '.target_modules == ["model.layers.1.self_attn.q_proj", "model.layers.1.mlp.up_proj"] and .use_rslora and .lora_alpha == 3' b/adapter_config.json
	jq -n --argjson merged "$(merged b)" --slurpfile log log -e '($log[-1].validation_loss - $merged | fabs) < 1e-4'
}

@test "lora: a run that stops and goes on has the same bits, and keeps its options" {
	adapt --out whole --steps 8 >/dev/null
	adapt --out parts --steps 8 --recompute >/dev/null
	cmp whole/adapter_model.safetensors parts/adapter_model.safetensors
	rm -r parts
	adapt --out parts --steps 8 --time 1ms >part
	jq -se '.[-1] | .ended == "time" and .steps < 8' part
	rnp-train run --model "$DIR/model" --data "$DIR/tok" --out parts --steps 8 --resume >/dev/null
	cmp whole/adapter_model.safetensors parts/adapter_model.safetensors
	cmp whole/adapter_config.json parts/adapter_config.json
	run -64 adapt --out parts --steps 9 --resume --lora 8
	assert_output --partial "was made with --lora 4, not 8"
	run -64 rnp-train run --model "$DIR/start" --data "$DIR/tok" --out parts --steps 9 --resume
	assert_output --partial "adapts another model than"
	train_whole() { rnp-train run --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 32 --out full "$@"; }
	train_whole --steps 1 >/dev/null
	run -64 train_whole --steps 2 --resume --lora 4
	assert_output --partial "was made without --lora"
}

@test "lora: options that make no sense are one line, before anything is read" {
	run -64 rnp-train run --model "$DIR/model" --data "$DIR/tok" --out x --steps 1 --rslora
	assert_output --partial "--rslora goes with --lora"
	run -64 adapt --out x --steps 1 --lora-target nothing
	assert_output --partial "matches none of the matrices that can be adapted"
	run -64 adapt --out x --steps 1 --lora-target '(q'
	assert_output --partial "--lora-target: '(q':"
	run -64 adapt --out x --steps 1 --lora-alpha 0
	assert_output --partial "--lora-alpha is above 0"
	run -64 adapt --out x --steps 1 --lora 1025
	[ ! -e x ]
}

@test "lora: --plan says what the model and the adapter take" {
	adapt --plan >lora
	rnp-train run --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 32 --plan >whole
	jq -se '(.[0].adapter.parameters as $n | .[0] | .parameters_bytes >= 4 * $n and .optimiser_bytes == 2 * .parameters_bytes and .base_bytes >= 2 * .parameters)
		and .[0].optimiser_bytes < .[1].optimiser_bytes and (.[1] | has("base_bytes") | not)' lora whole
}
