#!/usr/bin/env bats
# Several models in one server: loaded when a request needs one, unloaded when nobody does.
load helper
load serve

setup_file() { make_chat_model; }
teardown() { stop_serve; }

loaded() { # NAME WANT
	[[ $(curl -sS --max-time 10 "$url/metrics" | sed -n "s/^rnp_serve_loaded{model=\"$1\"} //p") == "$2" ]]
}

@test "models: an idle one is unloaded, and the next request loads it; its text and counts stay" {
	start_serve --model "other=$DIR/model" --idle-unload 1s --streams 2
	jq -s -e 'map(.model) == ["chat", "other"]' plan
	[ "$(curl -sS "$url/v1/models" | jq -c '[.data[] | [.id, .chat, .context]]')" = '[["chat",true,256],["other",true,256]]' ]
	local ask='{"model":"chat","prompt":"This program","max_tokens":20,"seed":4}'
	post /v1/completions "$ask" | jq -r '.choices[0].text' >first
	eventually loaded chat 0
	eventually loaded other 0
	generated() { curl -sS "$url/metrics" | sed -n 's/^rnp_serve_generated_tokens_total{model="chat"} //p'; }
	local tokens
	tokens=$(generated)
	((tokens >= 10))
	curl -sS "$url/v1/models" | jq -e '.data | map(.chat) == [true, true]'
	# several at once wait for the same load
	local i pids=()
	for i in 1 2 3 4; do
		post /v1/completions "$ask" >"again.$i" &
		pids+=($!)
	done
	wait "${pids[@]}"
	for i in 1 2 3 4; do jq -r '.choices[0].text' "again.$i" | cmp - first; done
	post /tokenize '{"model":"other","content":"x"}' | jq -e '.count > 0'
	(( $(generated) == 5 * tokens ))
	post /v1/completions '{"prompt":"x"}' | jq -e '.error.param == "model"'
}

@test "models: a file that is gone when it is loaded again is 503, and the others go on" {
	cp -r "$DIR/model" "$BATS_TEST_TMPDIR/gone"
	start_serve --model "gone=$BATS_TEST_TMPDIR/gone" --idle-unload 1s --streams 2
	eventually loaded gone 0
	rm -r "$BATS_TEST_TMPDIR/gone"
	post /v1/completions '{"model":"gone","prompt":"x"}' -w '%{http_code}' -o error | grep -qx 503
	jq -e '.error.code == "model_not_loaded" and (.error.message | contains("/") | not)' error
	post /v1/completions '{"model":"chat","prompt":"x"}' | jq -e .id
	# one that is in use stays
	post /v1/completions '{"model":"chat","prompt":"x","max_tokens":240,"n":8,"stream":true,"logit_bias":{"399":-100}}' -N >stream
	[ "$(tail -n 2 stream | head -1)" = "data: [DONE]" ]
}

@test "models: with --memory one takes the place of the other, and nobody that of one in use" {
	start_serve --streams 4 --cache 8MiB
	local one
	one=$(jq .total_bytes plan)
	stop_serve
	start_serve --model "other=$DIR/model" --streams 4 --cache 8MiB --memory $((one * 3 / 2))
	jq -s -e 'length == 2' plan
	loaded chat 0
	loaded other 1
	post /v1/completions '{"model":"chat","prompt":"x"}' | jq -e .id
	loaded chat 1
	loaded other 0
	post /v1/completions '{"model":"chat","prompt":"x","max_tokens":250,"n":4,"stream":true,"logit_bias":{"399":-100}}' -N >stream &
	local client=$!
	eventually test -s stream
	post /v1/completions '{"model":"other","prompt":"x"}' -w '%{http_code}' -o error -D headers >code
	wait "$client"
	# it was done in time, or told to come again
	if [[ $(cat code) == 503 ]]; then
		jq -e '.error.code == "model_does_not_fit"' error
		grep -qi '^retry-after:' headers
	fi
	[ "$(tail -n 2 stream | head -1)" = "data: [DONE]" ]
	fits() { post /v1/completions '{"model":"other","prompt":"x"}' | jq -e .id; }
	eventually fits
	stop_serve
	refused 75 "needs" rnp-serve run --model "$DIR/model" --listen 127.0.0.1:0 --memory 1MiB
}
