#!/usr/bin/env bats
# rnp-train run and eval: training on this machine.
load ../helper
load train_net

setup_file() {
	export DIR=$BATS_FILE_TMPDIR
	make_text
	rnp-train init --preset nano --vocab 300 --out "$DIR/model"
}

train() { rnp-train run --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 32 "$@"; }

# checkpoint DIR CODE: change the checkpoint: its dicts head and meta, its bytes body
checkpoint() {
	python3 - "$1/checkpoint.safetensors" "$2" <<-'END'
		import json, struct, sys
		data = open(sys.argv[1], "rb").read()
		n, = struct.unpack("<Q", data[:8])
		head = json.loads(data[8:8 + n])
		meta, body = head["__metadata__"], bytearray(data[8 + n:])
		exec(sys.argv[2])
		text = json.dumps(head, separators=(",", ":")).encode()
		text += b" " * (-len(text) % 8)
		open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + body)
	END
}

# the file itself, so that one bit is noticed
sum() { sha256sum <"$1/model.safetensors"; }

@test "run: the loss falls, and the model is one that others of ours load" {
	train --out "$BATS_TEST_TMPDIR/r" --steps 60 --lr 3e-3 >"$BATS_TEST_TMPDIR/log"
	[ "$(jq -s 'map(select(.kind == "rnp.step")) | length' "$BATS_TEST_TMPDIR/log")" = 60 ]
	jq -se 'map(select(.kind == "rnp.step").loss) | (.[0] > 5) and (.[-1] < 3)' "$BATS_TEST_TMPDIR/log"
	jq -se '.[-1] | .kind == "rnp.run" and .ended == "steps" and .steps == 60 and .tokens == 60 * 128
		and .utilisation_ppm > 0 and .peak_bytes > 0' "$BATS_TEST_TMPDIR/log"
	rnp-train eval --model "$BATS_TEST_TMPDIR/r" --data "$DIR/held" --length 32 >"$BATS_TEST_TMPDIR/eval"
	jq -e '.loss < 3 and .bits_per_byte > 0 and .bits_per_byte < 3' "$BATS_TEST_TMPDIR/eval"
	# perplexity is e to the loss, bits per byte the loss in bits over the bytes that were predicted
	jq -e '((.perplexity | log) - .loss | fabs) < 1e-9 and
		(.loss * .tokens / (2 | log) / .bytes - .bits_per_byte | fabs) < 1e-9' "$BATS_TEST_TMPDIR/eval"
}

@test "run: a yardstick that is kept is used, one that is too short is measured again, and no share is above 1" {
	local log=$BATS_TEST_TMPDIR/log place=$BATS_TEST_TMPDIR/cache/rnp
	train --out "$BATS_TEST_TMPDIR/a" --steps 2 >/dev/null
	mkdir -p "$place"
	as() { jq -c "if .suite == \"roof\" then .params.best = $1 else . end" "$XDG_CACHE_HOME/rnp/measured.jsonl" >"$place/measured.jsonl"; }
	as 1000000000000000
	XDG_CACHE_HOME=${place%/*} train --out "$BATS_TEST_TMPDIR/b" --steps 20 --save-every 1 >"$log"
	jq -se 'all(.utilisation_ppm <= 1000000) and (.[-1] | .matrix_flops == 1000000000000000 and (.matrix_spread_ppm // 0) >= 0
		and .training_ms <= .elapsed_ms and ((.tokens_per_s - .tokens * 1000 / .training_ms) | fabs) <= 1 + .tokens_per_s * 2 / .training_ms)' "$log"
	as 5
	XDG_CACHE_HOME=${place%/*} train --out "$BATS_TEST_TMPDIR/c" --steps 20 >"$log"
	jq -se 'all((has("utilisation_ppm") and .utilisation_ppm <= 1000000) or .unknown.utilisation_ppm) and .[-1].matrix_flops > 1000000' "$log"
	jq -se 'map(select(.suite == "roof"))[0].params.best > 1000000' "$place/measured.jsonl"
}

@test "run: a terminal shows how much of --time is left, and commands that go on from there" {
	cd "$BATS_TEST_TMPDIR"
	declare -f train >train.bash
	on_terminal 100 "DIR=$DIR; . ./train.bash; train --out 'r s' --time 2m --every 100000" ', loss' 2 >seen
	grep -aq 'training \[#*\.*\] [0-9]*%  .* left, loss' seen || fail "$(<seen)"
	mapfile -t next < <(sed -n 's/.*rnp-train:.* next: //p' seen)
	[ "${#next[@]}" = 2 ] || fail "$(<seen)"
	# as they are printed
	bash -c "${next[0]}" >answer
	[[ -s answer ]]
	bash -c "${next[1]}" >/dev/null
	[[ -s "r s.gguf" ]]
}

@test "run: two runs give the same bits" {
	train --out "$BATS_TEST_TMPDIR/a" --steps 5 | jq -c 'select(.kind == "rnp.step") | [.loss, .gradient_norm]' >"$BATS_TEST_TMPDIR/1"
	train --out "$BATS_TEST_TMPDIR/b" --steps 5 | jq -c 'select(.kind == "rnp.step") | [.loss, .gradient_norm]' >"$BATS_TEST_TMPDIR/2"
	cmp "$BATS_TEST_TMPDIR/1" "$BATS_TEST_TMPDIR/2"
	[ "$(sum "$BATS_TEST_TMPDIR/a")" = "$(sum "$BATS_TEST_TMPDIR/b")" ]
}

@test "run: one that was stopped and resumed gives the bits of one that was not" {
	train --out "$BATS_TEST_TMPDIR/a" --steps 8 >/dev/null
	train --out "$BATS_TEST_TMPDIR/b" --steps 8 --time 1ms | tail -n 1 >"$BATS_TEST_TMPDIR/first"
	jq -e '.ended == "time" and .steps < 8' "$BATS_TEST_TMPDIR/first"
	train --out "$BATS_TEST_TMPDIR/b" --steps 8 --resume >/dev/null
	[ "$(sum "$BATS_TEST_TMPDIR/a")" = "$(sum "$BATS_TEST_TMPDIR/b")" ]
	cmp "$BATS_TEST_TMPDIR/a/checkpoint.safetensors" "$BATS_TEST_TMPDIR/b/checkpoint.safetensors"
}

@test "run: small batches that add up give the loss of a large one" {
	train --out "$BATS_TEST_TMPDIR/a" --steps 1 --precision f32 | head -n 1 >"$BATS_TEST_TMPDIR/1"
	train --out "$BATS_TEST_TMPDIR/b" --steps 1 --precision f32 --micro-batch 1 | head -n 1 >"$BATS_TEST_TMPDIR/2"
	jq -se '(.[0].loss - .[1].loss | fabs) < 1e-5 and (.[0].gradient_norm - .[1].gradient_norm | fabs) < 1e-3' \
		"$BATS_TEST_TMPDIR/1" "$BATS_TEST_TMPDIR/2"
}

@test "run: SIGTERM ends it after its step, with a checkpoint and 0" {
	timeout 120 rnp-train run --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 32 --out "$BATS_TEST_TMPDIR/r" \
		--steps 1000000 >"$BATS_TEST_TMPDIR/log" 3>&- &
	wait_file "$BATS_TEST_TMPDIR/log"
	kill -TERM $!
	ended $!
	jq -se '.[-1].ended == "signal"' "$BATS_TEST_TMPDIR/log"
	[ -s "$BATS_TEST_TMPDIR/r/checkpoint.safetensors" ]
}

@test "run: a signal that comes twice in a moment, as timeout sends it, is one" {
	rnp-train run --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 32 --out "$BATS_TEST_TMPDIR/r" \
		--steps 100000 >"$BATS_TEST_TMPDIR/log" 3>&- &
	wait_file "$BATS_TEST_TMPDIR/log"
	for _ in {1..10}; do
		kill -TERM $! 2>/dev/null || true
	done
	ended $!
	jq -se '.[-1].ended == "signal"' "$BATS_TEST_TMPDIR/log"
	[ -s "$BATS_TEST_TMPDIR/r/checkpoint.safetensors" ]
}

@test "run: a resumed run goes on with what it began with, and refuses other options" {
	local r=$BATS_TEST_TMPDIR/r o
	rnp-train run --model "$DIR/model" --data "$DIR/tok" --out "$BATS_TEST_TMPDIR/whole" --steps 6 --batch 6 --micro-batch 3 --length 24 --lr 2e-3 \
		--lr-min 0.3 --warmup 2 --weight-decay 0.2 --beta1 0.8 --beta2 0.9 --clip 0.5 --seed 3 --precision f32 >/dev/null
	rnp-train run --model "$DIR/model" --data "$DIR/tok" --out "$r" --steps 6 --batch 6 --micro-batch 3 --length 24 --lr 2e-3 --time 1ms \
		--lr-min 0.3 --warmup 2 --weight-decay 0.2 --beta1 0.8 --beta2 0.9 --clip 0.5 --seed 3 --precision f32 | tail -n 1 >"$BATS_TEST_TMPDIR/first"
	jq -e '.steps < 6' "$BATS_TEST_TMPDIR/first"
	resume() { rnp-train run --model "$DIR/model" --data "$DIR/tok" --out "$r" --resume "$@"; }
	before=$(sha256sum "$r"/*)
	for o in "batch 6 5" "micro-batch 3 2" "length 24 32" "lr 0.002 0.003" "lr-min 0.3 0" "warmup 2 3" "weight-decay 0.2 0" "beta1 0.8 0.9" \
		"beta2 0.9 0.95" "clip 0.5 1" "seed 3 4" "precision f32 bf16"; do
		read -r name was other <<<"$o"
		refused 64 "--$name $was, not $other" resume --steps 6 --"$name" "$other"
	done
	echo '{"batch": 4}' >"$BATS_TEST_TMPDIR/c.json"
	refused 64 "--batch 6, not 4" resume --steps 6 --config "$BATS_TEST_TMPDIR/c.json"
	[ "$(sha256sum "$r"/*)" = "$before" ]
	# what is not given is as it was, the end of the run too; the same value in other words is no other
	resume --time 1h --lr 20e-4 --every 2 --save-every 2 --plot "$BATS_TEST_TMPDIR/p.svg" >"$BATS_TEST_TMPDIR/second"
	jq -se '.[-1].ended == "steps" and .[-1].steps == 6' "$BATS_TEST_TMPDIR/second"
	cmp "$BATS_TEST_TMPDIR/whole/checkpoint.safetensors" "$r/checkpoint.safetensors"
	resume --steps 7 | jq -se '.[-1].steps == 7'
	for o in 'meta["option.batch"] = "0"' 'meta["option.lr"] = "-1"' 'meta["option.precision"] = "f64"' 'meta["option.ranks"] = "x"'; do
		cp "$BATS_TEST_TMPDIR/whole/checkpoint.safetensors" "$r"
		checkpoint "$r" "$o"
		refused 65 checkpoint.safetensors resume --steps 9
	done
}

@test "run: a resumed run is refused another model, also one of the same shapes" {
	cd "$BATS_TEST_TMPDIR"
	local change
	train --out r --steps 2 >/dev/null
	before=$(sha256sum r/*)
	cp -r "$DIR/model" m
	for change in 'rope_theta|.rope_theta = 500000' 'rms_norm_eps|.rms_norm_eps = 1e-6' \
		'rope_type|.rope_scaling = {rope_type: "linear", factor: 2}' \
		'num_attention_heads|.num_attention_heads *= 2 | .num_key_value_heads *= 2 | .head_dim /= 2'; do
		jq "${change#*|}" "$DIR/model/config.json" >m/config.json
		refused 65 "a checkpoint of another model: its ${change%%|*} is" rnp-train run --model m --data "$DIR/tok" --out r --steps 3 --resume
	done
	[ "$(sha256sum r/*)" = "$before" ]
	# the rows of q and k lie otherwise in a GGUF file
	rnp-train export -q --model "$DIR/model" --gguf m.gguf
	refused 65 "rope_interleaved is 0, not 1" rnp-train run --model m.gguf --data "$DIR/tok" --out r --steps 3 --resume
	rnp-train run --model r --data "$DIR/tok" --out r --steps 3 --resume | jq -se '.[-1].steps == 3'
	# one of before these numbers were kept is taken
	checkpoint r 'for k in [k for k in meta if k.startswith("model.")]: del meta[k]'
	train --out r --steps 4 --resume | jq -se '.[-1].steps == 4'
	checkpoint r 'meta["model.rope_theta"] = "x"'
	refused 65 "model.rope_theta" rnp-train run --model r --data "$DIR/tok" --out r --steps 5 --resume
}

@test "run: a checkpoint that is there is not overwritten without a word" {
	train --out "$BATS_TEST_TMPDIR/r" --steps 1 >/dev/null
	run -73 train --out "$BATS_TEST_TMPDIR/r" --steps 1
	[[ "$output" == *"--resume"* ]]
	run -64 train --out "$BATS_TEST_TMPDIR/r" --steps 2 --resume --seed 5
	[[ "$output" == *"--seed"* ]]
	run -64 rnp-train run --model "$DIR/model" --data "$DIR/valid" --batch 4 --length 32 --out "$BATS_TEST_TMPDIR/r" --steps 2 --resume
	[[ "$output" == *"another text"* ]]
}

@test "run: options from a file, the command line wins" {
	echo '{"steps": 3, "batch": 2, "lr": 0.001, "warmup": 0, "lr-min": 1, "recompute": true}' >"$BATS_TEST_TMPDIR/c.json"
	train --config "$BATS_TEST_TMPDIR/c.json" --out "$BATS_TEST_TMPDIR/r" >"$BATS_TEST_TMPDIR/log"
	jq -se '.[-1].steps == 3 and .[-1].tokens == 3 * 4 * 32 and .[0].learning_rate == 0.001' "$BATS_TEST_TMPDIR/log"
	echo '{"config": "other.json", "steps": 1}' >"$BATS_TEST_TMPDIR/c.json"
	refused 64 "'config': a file names no other" train --config "$BATS_TEST_TMPDIR/c.json" --out "$BATS_TEST_TMPDIR/r2"
	echo '{"stepz": 3}' >"$BATS_TEST_TMPDIR/c.json"
	run -64 train --config "$BATS_TEST_TMPDIR/c.json" --out "$BATS_TEST_TMPDIR/r2"
	[[ "$output" == *"stepz"* ]]
	echo '{"steps": 3, "stepz": false}' >"$BATS_TEST_TMPDIR/c.json"
	refused 64 "there is no option 'stepz'" train --config "$BATS_TEST_TMPDIR/c.json" --out "$BATS_TEST_TMPDIR/r2"
	echo '{"steps": 3, "batch": false}' >"$BATS_TEST_TMPDIR/c.json"
	refused 64 "'batch' needs a value" train --config "$BATS_TEST_TMPDIR/c.json" --out "$BATS_TEST_TMPDIR/r2"
}

@test "run: a loss that is not finite ends it, and keeps the last checkpoint" {
	train --out "$BATS_TEST_TMPDIR/r" --steps 1 --lr 1e30 --clip 0 --warmup 0 >/dev/null
	before=$(sha256sum <"$BATS_TEST_TMPDIR/r/checkpoint.safetensors")
	run -65 train --out "$BATS_TEST_TMPDIR/r" --steps 50 --resume --save-every 1000
	[[ "$output" == *"step "*"not finite"* ]]
	[ "$(sha256sum <"$BATS_TEST_TMPDIR/r/checkpoint.safetensors")" = "$before" ]
}

@test "run: a disk that is full leaves the checkpoint that was there" {
	train --out "$BATS_TEST_TMPDIR/r" --steps 1 >/dev/null
	before=$(sha256sum <"$BATS_TEST_TMPDIR/r/checkpoint.safetensors")
	# no file may be larger than what little is left
	run -74 bash -c "ulimit -f 64; trap '' XFSZ; rnp-train run --model '$DIR/model' --data '$DIR/tok' --batch 4 --length 32 --out '$BATS_TEST_TMPDIR/r' --steps 2 --resume"
	[ "$(sha256sum <"$BATS_TEST_TMPDIR/r/checkpoint.safetensors")" = "$before" ]
}

@test "run: parameters that are not finite are not saved" {
	train --out "$BATS_TEST_TMPDIR/r" --steps 1 >/dev/null
	checkpoint "$BATS_TEST_TMPDIR/r" 'for k in [k for k in meta if k.startswith("option.")]: del meta[k]'
	before=$(cat "$BATS_TEST_TMPDIR/r/"*.safetensors | sha256sum)
	# the step is taken with a gradient that is finite
	refused 65 "step 2: a parameter is not finite" train --out "$BATS_TEST_TMPDIR/r" --steps 2 --resume --lr 1e39 --warmup 0
	[ "$(cat "$BATS_TEST_TMPDIR/r/"*.safetensors | sha256sum)" = "$before" ]
}

@test "run: a checkpoint with values that are not finite is refused" {
	train --out "$BATS_TEST_TMPDIR/r" --steps 1 >/dev/null
	cp "$BATS_TEST_TMPDIR/r/checkpoint.safetensors" "$BATS_TEST_TMPDIR/good"
	for case in "model.norm.weight inf finite" "adamw.m.model.norm.weight nan finite" "adamw.v.model.embed_tokens.weight -inf finite" \
		"adamw.v.model.norm.weight -1e-9 negative"; do
		read -r name value why <<<"$case"
		cp "$BATS_TEST_TMPDIR/good" "$BATS_TEST_TMPDIR/r/checkpoint.safetensors"
		checkpoint "$BATS_TEST_TMPDIR/r" "struct.pack_into('<f', body, head['$name']['data_offsets'][1] - 4, float('$value'))"
		refused 65 "'$name' has a value that is" train --out "$BATS_TEST_TMPDIR/r" --steps 2 --resume
		[[ $stderr == *"$why" ]]
	done
}

@test "run: shards that were damaged since they were written are refused" {
	local shard=$BATS_TEST_TMPDIR/tok/00000.tokens
	cp -r "$DIR/tok" "$BATS_TEST_TMPDIR/tok"
	# one bit of an id that stays within the vocabulary
	python3 - "$shard" <<-'END'
		import sys
		data = bytearray(open(sys.argv[1], "rb").read())
		data[128 + 2 * 5000] ^= 1
		open(sys.argv[1], "wb").write(data)
	END
	damaged() { rnp-train run --model "$DIR/model" --batch 4 --length 32 --out "$BATS_TEST_TMPDIR/r" --steps 1 "$@"; }
	refused 65 "tok: token shard 0: its digest" damaged --data "$BATS_TEST_TMPDIR/tok"
	refused 65 "tok: token shard 0: its digest" damaged --data "$DIR/tok" --valid "$BATS_TEST_TMPDIR/tok"
	refused 65 "tok: token shard 0: its digest" rnp-train eval --model "$DIR/model" --data "$BATS_TEST_TMPDIR/tok" --tokens 50
	[ ! -e "$BATS_TEST_TMPDIR/r" ]
	damaged --no-check --data "$BATS_TEST_TMPDIR/tok" >/dev/null
	truncate -s -2 "$shard"
	refused 65 "which is not" damaged --no-check --data "$BATS_TEST_TMPDIR/tok" --resume
}

@test "run: a place that cannot be written is known before the first step" {
	: >"$BATS_TEST_TMPDIR/file"
	for out in "$BATS_TEST_TMPDIR/file" "" /proc/rnp; do
		run --separate-stderr train --out "$out" --steps 1
		((status >= 66)) && [ -z "$output" ]
	done
	refused 73 "cannot create" train --out "$BATS_TEST_TMPDIR/r" --steps 1 --plot "$BATS_TEST_TMPDIR/none/loss.svg"
	refused 73 "cannot create" train --out "$BATS_TEST_TMPDIR/r" --steps 1 --plot "$BATS_TEST_TMPDIR"
	[ ! -e "$BATS_TEST_TMPDIR/r" ]
	run -64 train --out "$BATS_TEST_TMPDIR/r" --time 9223372036854775807ms
}

@test "run: a reader or a terminal that goes away leaves a checkpoint, and one run at a time writes" {
	train --out "$BATS_TEST_TMPDIR/r" --steps 1000000 2>"$BATS_TEST_TMPDIR/err" | head -n 1 >/dev/null || true
	# who left reads no message
	if grep 'standard output' "$BATS_TEST_TMPDIR/err"; then fail "it complains to a reader that has left"; fi
	[ -s "$BATS_TEST_TMPDIR/r/checkpoint.safetensors" ]
	# under nohup the signal is ignored, as it should be, but for what is tried here
	env --default-signal=HUP timeout 120 rnp-train run --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 32 \
		--out "$BATS_TEST_TMPDIR/h" --steps 1000000 >"$BATS_TEST_TMPDIR/log" 3>&- &
	wait_file "$BATS_TEST_TMPDIR/log"
	refused 75 "another run" train --out "$BATS_TEST_TMPDIR/h" --steps 5 --resume
	kill -HUP $!
	ended $!
	[ -s "$BATS_TEST_TMPDIR/h/checkpoint.safetensors" ]
}

@test "eval: a perplexity beyond all numbers, and a batch beyond the text" {
	mkdir "$BATS_TEST_TMPDIR/huge"
	cp "$DIR/model/config.json" "$BATS_TEST_TMPDIR/huge"
	python3 - "$DIR/model/model.safetensors" "$BATS_TEST_TMPDIR/huge/model.safetensors" <<-'END'
		import json, struct, sys
		data = bytearray(open(sys.argv[1], "rb").read())
		n, = struct.unpack("<Q", data[:8])
		first, end = json.loads(data[8:8 + n])["model.norm.weight"]["data_offsets"]
		for i in range(8 + n + first, 8 + n + end, 4):
		    data[i:i + 4] = struct.pack("<f", 3000)
		open(sys.argv[2], "wb").write(data)
	END
	rnp-train eval --model "$BATS_TEST_TMPDIR/huge" --data "$DIR/valid" --tokens 50 >"$BATS_TEST_TMPDIR/e"
	jq -e '.loss > 710 and (has("perplexity") | not) and .unknown.perplexity' "$BATS_TEST_TMPDIR/e"
	timeout 120 rnp-train eval --model "$DIR/model" --data "$DIR/valid" --tokens 50 --length 5 --batch 65536 | jq -e '.tokens == 50'
}

@test "eval: the bytes are those of the text, without SentencePiece's blank before it" {
	local model tok
	model=$(data models/stories260K.bin) && tok=$(data models/tok512.bin) || skip_data
	printf 'Once upon a time' >"$BATS_TEST_TMPDIR/text"
	rnp-train eval --model "$model" --tokenizer "$tok" --data "$BATS_TEST_TMPDIR/text" --length 32 | jq -e '.bytes == 16'
}

@test "eval and run: tokens need no tokenizer, and a GGUF file may be without one" {
	cd "$BATS_TEST_TMPDIR"
	mkdir tokens
	cp "$DIR"/valid/*.tokens tokens
	rnp-train -q export --model "$DIR/model" --gguf m.gguf
	rnp-train eval --model m.gguf --data tokens --tokens 50 --length 32 | jq -e '.tokens == 50 and (has("bytes") | not)'
	rnp-train run --model m.gguf --data tokens --out r --steps 1 --batch 1 --length 8 >/dev/null
	[ ! -e r/tokenizer.json ]
	refused 64 "no tokenizer of its own" rnp-serve ask --model m.gguf x
}

@test "run: what it says it will take is what it takes" {
	train --plan --batch 8 --length 256 >"$BATS_TEST_TMPDIR/plan"
	train --batch 8 --length 256 --steps 2 --out "$BATS_TEST_TMPDIR/r" >"$BATS_TEST_TMPDIR/log"
	# the program itself, oneDNN's code and the text are no part of the plan
	jq -se '(.[0].total_bytes) as $plan | .[-1].peak_bytes as $peak | $peak > $plan * 0.9 and $peak < $plan * 1.1 + 100e6' \
		"$BATS_TEST_TMPDIR/plan" "$BATS_TEST_TMPDIR/log"
}

@test "run: a picture of the loss" {
	train --out "$BATS_TEST_TMPDIR/r" --steps 3 --valid "$DIR/valid" --eval-every 1 --plot "$BATS_TEST_TMPDIR/loss.svg" >/dev/null
	grep -q '<svg' "$BATS_TEST_TMPDIR/loss.svg"
	grep -q validation "$BATS_TEST_TMPDIR/loss.svg"
}

@test "run: the picture of a run that is resumed is that of the whole run" {
	cd "$BATS_TEST_TMPDIR"
	train --out r --steps 3 --valid "$DIR/valid" --eval-every 1 --plot loss.svg >first
	cp r/losses.jsonl before
	train --out r --steps 6 --resume --valid "$DIR/valid" --eval-every 1 --plot loss.svg >second
	assert_equal "$(jq -s 'map(.step) | tojson' r/losses.jsonl)" '"[1,2,3,4,5,6]"'
	head -3 r/losses.jsonl | cmp - before
	# what is drawn are the losses of both halves
	jq -se '[.[] | select(.kind == "rnp.step") | .loss] as $said | $said | length == 6' first second
	assert_equal "$(grep -c '<svg' loss.svg)" 1
	# a file that is damaged costs its lines and no more
	printf 'nonsense\n{"step":99,"loss":1}\n' >>r/losses.jsonl
	train --out r --steps 7 --resume --plot loss.svg >third
	assert_equal "$(jq -s 'map(.step) | tojson' r/losses.jsonl)" '"[1,2,3,4,5,6,7]"'
}

@test "run: tokens and models that do not go together are refused" {
	rnp-train init --preset nano --vocab 290 --out "$BATS_TEST_TMPDIR/small"
	run -65 rnp-train run --model "$BATS_TEST_TMPDIR/small" --data "$DIR/tok" --out "$BATS_TEST_TMPDIR/r" --steps 1
	[[ "$output" == *"300"*"290"* ]]
	run -64 train --out "$BATS_TEST_TMPDIR/r"
	[[ "$output" == *"--steps"* ]]
	run -65 train --out "$BATS_TEST_TMPDIR/r" --steps 1 --length 1000000
	run -64 train --out "$BATS_TEST_TMPDIR/r" --steps 1 --micro-batch 3
}

@test "eval and run: tokens of another tokenizer with as many tokens are refused" {
	cd "$BATS_TEST_TMPDIR"
	tr a-z A-Z <"$DIR/text" >TEXT
	rnp-train tokenize --vocab 300 --out other TEXT >/dev/null
	rnp-train init --preset nano --tokenizer "$DIR/tok" --out m
	refused 65 "other: the tokens are not those of the tokenizer of 'm/tokenizer.json'" rnp-train eval --model m --data other
	refused 65 "other: the tokens are not" rnp-train eval --model "$DIR/model" --tokenizer "$DIR/tok" --data other
	refused 65 "other: the tokens are not" rnp-train run --model m --data other --out r --steps 1
	refused 65 "other: the tokens are not" train --valid other --eval-every 1 --out r --steps 1
	mkdir alone
	cp other/*.tokens alone
	refused 65 "alone: the tokens are not" rnp-train run --model m --data alone --out r --steps 1
	cp "$DIR/tok/tokenizer.json" alone
	refused 65 "alone: the tokens are not" train --data alone --out r --steps 1
	[ ! -e r ]
	# the same in another form, and with rows that only fill the table, is the same
	rnp-train init --preset nano --vocab 320 --out large
	for model in m large; do
		rnp-train export --model $model --tokenizer "$DIR/tok" --gguf $model.gguf
		rnp-train eval --model $model.gguf --data "$DIR/valid" --tokens 50 --length 32 | jq -e .bits_per_byte
	done
	# and shards that do not say are taken
	python3 - "$DIR/valid/00000.tokens" 00000.tokens <<-'END'
		import sys
		b = bytearray(open(sys.argv[1], "rb").read())
		b[32:64] = bytes(32)
		open(sys.argv[2], "wb").write(b)
	END
	rnp-train eval --model m --data 00000.tokens --tokens 50 --length 32 | jq -e .bits_per_byte
}

@test "run: a plan and the end of a run are no rows of the table of steps" {
	cd "$BATS_TEST_TMPDIR"
	train --plan --table >page
	grep -qE '^total +[0-9.]+ [KMG]iB$' page || fail "$(<page)"
	! grep -q '^step' page || fail "$(<page)"
	train --steps 2 --out r --table >page
	grep -qE '^step +loss +' page && ! grep -qE '^ *- +[0-9.]+ +- ' page || fail "$(<page)"
}
