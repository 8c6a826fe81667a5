#!/usr/bin/env bats
# rnp-serve run: OpenAI's API, streamed and not; the same text whatever else is computed; refusals; who leaves.
load ../helper
load serve

setup_file() { make_chat_model; }
teardown() { stop_serve; }

@test "run: a chat is answered, and streams the same text" {
	start_serve
	jq -e '.kind == "rnp.plan" and .model == "chat" and .streams == 16 and .fits' plan
	local ask='"messages":[{"role":"user","content":"Hi"}],"max_tokens":20,"seed":1,"temperature":0.7'
	post /v1/chat/completions "{$ask}" >whole
	jq -e '.object == "chat.completion" and (.id | startswith("chatcmpl-")) and .model == "chat" and
		.choices[0].message.role == "assistant" and .usage.completion_tokens <= 20 and
		.usage.total_tokens == .usage.prompt_tokens + .usage.completion_tokens and
		(.choices[0].finish_reason | IN("stop", "length"))' whole
	post /v1/chat/completions "{$ask,\"stream\":true,\"stream_options\":{\"include_usage\":true}}" -N >stream
	[ "$(tail -n 2 stream | head -1)" = "data: [DONE]" ]
	grep -o '^data: {.*' stream | cut -c7- >chunks
	[ "$(jq -rj '.choices[0].delta.content // empty' chunks)" = "$(jq -rj '.choices[0].message.content' whole)" ]
	jq -s -e '(map(.id) | unique | length) == 1 and .[0].choices[0].delta.role == "assistant" and
		(map(select(.choices[0].finish_reason)) | length) == 1 and .[-1].choices == [] and
		(.[-1].usage | .prompt_tokens > 0 and .completion_tokens > 0)' chunks
}

@test "run: the text of a seed is that of ask" {
	start_serve
	rnp-serve ask --model "$DIR/model" -n 30 --seed 7 "This program" >want
	post /v1/completions '{"model":"chat","prompt":"This program","max_tokens":30,"seed":7,"temperature":0.8,"top_p":0.95,"top_k":40}' |
		jq -r '.choices[0].text' | cmp - want
	rnp-serve ask --model "$DIR/model" --chat -n 30 --seed 7 "Hello" >want
	post /v1/chat/completions '{"messages":[{"role":"user","content":[{"type":"text","text":"Hel"},{"type":"text","text":"lo"}]}],"max_tokens":30,"seed":7,"temperature":0.8,"top_p":0.95,"top_k":40}' |
		jq -r '.choices[0].message.content' | cmp - want
	rnp-serve ask --model "$DIR/model" -n 30 --seed 7 --min-p 0.1 --repetition-penalty 1.5 --presence-penalty 0.5 \
		--frequency-penalty 0.25 "This program" >want
	post /v1/completions '{"model":"chat","prompt":"This program","max_tokens":30,"seed":7,"temperature":0.8,"top_p":0.95,"top_k":40,
		"min_p":0.1,"repetition_penalty":1.5,"presence_penalty":0.5,"frequency_penalty":0.25}' |
		jq -r '.choices[0].text' | cmp - want
}

@test "run: a seed's text is the same alone, among 16 others, after a cache hit, and preempted" {
	local ask='{"prompt":"This program is free software and you can do with it whatever you like, ","max_tokens":60,"seed":5}' i round
	start_serve --context 200
	post /v1/completions "$ask" | jq -j '.choices[0].text' >alone
	post /v1/completions "$ask" >hit
	jq -e '.usage.prompt_tokens_details.cached_tokens >= 16' hit
	jq -j '.choices[0].text' hit | cmp - alone
	stop_serve
	# a small cache: 400 tokens for texts that want 100 each
	start_serve --context 200 --cache 2100000 --streams 8
	# on a busy machine they may arrive one after the other, and none be preempted
	for round in 1 2 3 4 5; do
		for ((i = 0; i < 16; i++)); do
			post /v1/completions "{\"prompt\":\"$i is another one of the others that the server answers at the time\",\"max_tokens\":90,\"seed\":$i}" >"other.$i" &
		done
		for i in 1 2 3; do
			post /v1/completions "$ask" | jq -j '.choices[0].text' >"among.$i" &
		done
		wait $(jobs -p | grep -v "^$server\$")
		for i in 1 2 3; do cmp "among.$i" alone; done
		for ((i = 0; i < 16; i++)); do jq -e '.usage.completion_tokens > 0' "other.$i" >/dev/null; done
		[ "$(metric preempted_total)" -gt 0 ] && break
	done
	[ "$(metric preempted_total)" -gt 0 ]
	[ "$(metric running)" = 0 ]
}

@test "run: n choices differ and share one prompt; stop texts end before themselves" {
	start_serve
	post /v1/completions '{"prompt":"the license of this program, the license of this program","max_tokens":12,"n":3,"seed":2}' >n
	jq -e '(.choices | map(.index) == [0, 1, 2]) and (.choices | map(.text) | unique | length) == 3' n
	post /v1/completions '{"prompt":["one","two"],"max_tokens":5,"n":2,"seed":2}' |
		jq -e '.choices | map(.index) == [0, 1, 2, 3]'
	post /v1/completions '{"prompt":"x","max_tokens":60,"seed":3}' | jq -j '.choices[0].text' >text
	stop=$(python3 -c 'import sys; t = open("text").read(); print(t[20:24], end="")')
	jq -nc --arg s "$stop" '{prompt: "x", max_tokens: 60, seed: 3, stop: ["never there", $s]}' >ask
	post /v1/completions @ask | tee stopped | jq -e '.choices[0].finish_reason == "stop"'
	python3 - "$stop" <<-'END'
		import json, sys
		text = json.load(open("stopped"))["choices"][0]["text"]
		whole = open("text").read()
		assert text == whole[:whole.index(sys.argv[1])], (text, whole)
	END
	jq -c '.stream = true' ask >stream
	post /v1/completions @stream -N | sed -n 's/^data: {/{/p' | jq -rj '.choices[0].text' |
		cmp - <(jq -j '.choices[0].text' stopped)
}

@test "run: logprobs of a chat and of a completion are the model's" {
	start_serve
	post /v1/chat/completions '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":4,"seed":1,"logprobs":true,"top_logprobs":3}' >chat
	jq -e '.choices[0].logprobs.content | length == 4 and all(.logprob < 0 and (.bytes | length) > 0 and
		(.top_logprobs | length == 3 and .[0].logprob >= .[1].logprob and .[1].logprob >= .[2].logprob))' chat
	post /v1/completions '{"prompt":"Hi","max_tokens":4,"temperature":0,"logprobs":2}' >text
	jq -e '.choices[0].logprobs | (.tokens | length) == 4 and .text_offset[0] == 0 and
		([.tokens, .token_logprobs, .top_logprobs] | transpose | all(.[2][.[0]] == .[1]))' text
	# a bias of 100 decides
	post /v1/completions '{"prompt":"Hi","max_tokens":3,"logit_bias":{"65":100}}' >biased
	post /detokenize '{"tokens":[65,65,65]}' | jq -j .content | cmp - <(jq -j '.choices[0].text' biased)
}

# mean FILE: of the log probabilities of the first answer's tokens that have one
mean() { jq '[.choices[0].logprobs.token_logprobs[] | numbers] | -add / length' "$1"; }

@test "run: echo with logprobs tells those of the prompt: eval's loss, whatever is cached, whole, streamed, as ids and in batch" {
	start_serve --cache-type f32
	head -c 1500 /usr/share/common-licenses/GPL-3 | tail -c 400 >text
	local n
	jq -Rs '{prompt: ., max_tokens: 0, echo: true, logprobs: 2}' text >ask
	post /v1/completions @ask >whole
	jq -e --rawfile t text '.choices[0] | .text == $t and .finish_reason == "length" and (.logprobs | .token_logprobs[0] == null and
		.top_logprobs[0] == null and all(.token_logprobs[1:][]; . < 0) and (.tokens | join("")) == $t and
		([.tokens, .text_offset] | transpose | all(.[0] as $token | $t[.[1]:] | startswith($token))))' whole
	n=$(jq .usage.prompt_tokens whole)
	jq -e --argjson n "$n" '.usage.completion_tokens == 0 and (.choices[0].logprobs | map(length) == [$n, $n, $n, $n])' whole
	rnp-train eval --device cpu --model "$DIR/model" --data text --length "$n" >eval
	jq -e --argjson mean "$(mean whole)" '(.loss - $mean) / .loss | fabs < 0.00001' eval || fail "$(mean whole) $(cat eval)"
	# again, where the cache has it, and with an answer behind it
	jq -c '.max_tokens = 6 | .seed = 4' ask >longer
	post /v1/completions @longer >again
	jq -e --slurpfile w whole --argjson n "$n" '.usage.prompt_tokens_details.cached_tokens == 0 and
		(.choices[0].logprobs | map(.[:$n])) == ($w[0].choices[0].logprobs | map(.)) and
		(.choices[0].logprobs.tokens | length) == $n + 6' again
	jq -c 'del(.echo, .logprobs)' longer >plain
	post /v1/completions @plain | tee hit | jq -j '.choices[0].text' | cmp - <(jq -j --rawfile t text '.choices[0].text[($t | length):]' again)
	jq -e '.usage.prompt_tokens_details.cached_tokens > 0' hit
	# streamed, for two answers, it joins to the same
	jq -c '.n = 2' longer >two
	post /v1/completions @two >both
	jq -e '.choices[0].logprobs.token_logprobs[1:50] == .choices[1].logprobs.token_logprobs[1:50] and .choices[0].text != .choices[1].text' both
	jq -c '.stream = true' two >stream
	post /v1/completions @stream -N | sed -n 's/^data: {/{/p' | jq -s '. as $all | [0, 1] | map(. as $i | [$all[].choices[] | select(.index == $i)] |
		[(map(.text) | add), (map(.logprobs.tokens) | add), (map(.logprobs.token_logprobs) | add), (map(.logprobs.text_offset) | add)])' >joined
	jq '.choices | map([.text, .logprobs.tokens, .logprobs.token_logprobs, .logprobs.text_offset])' both | cmp - joined
	jq -Rs '{content: .}' text >content
	post /tokenize @content | jq -c --slurpfile a ask '$a[0] + {prompt: .tokens}' >ids
	post /v1/completions @ids | jq .choices | cmp - <(jq .choices whole)
	jq -c '{custom_id: "a", url: "/v1/completions", body: .}' two >in
	rnp-serve batch --model "$DIR/model" --cache-type f32 in | jq .response.body.choices | cmp - <(jq .choices both)
	# how much is told has a bound
	stop_serve
	start_serve --context 600
	jq -nc '{prompt: [range(128) | [range(500) | 5]], echo: true, logprobs: 20, max_tokens: 0}' >many
	post /v1/completions @many | jq -e '.error.code == "max_tokens_per_request" and .error.param == "prompt" and
		(.error.message | contains("at most 49932 tokens"))'
}

@test "run: a number is whole however it is spelled, and an answer may be allowed any number of tokens" {
	start_serve
	text() { post /v1/completions "{\"prompt\":\"x\",\"seed\":3,$1}" | jq -e '[.choices[] | .text, .finish_reason]'; }
	local n want
	want=$(text '"max_tokens":1000')
	for n in 1e3 2147483648 9223372036854775807 99999999999999999999999 1e300; do
		[ "$(text "\"max_tokens\":$n")" = "$want" ] || fail "$n: $(text "\"max_tokens\":$n")"
	done
	[ "$(text '"max_tokens":4.0,"n":2.0,"top_k":5e0,"logprobs":1.0,"seed":3.0')" = \
		"$(text '"max_tokens":4,"n":2,"top_k":5,"logprobs":1,"seed":3')" ]
	for n in '"max_tokens":4.5' '"n":1e300' '"max_tokens":-1e300' '"seed":1e300' '"seed":-1e19' '"top_k":0.5'; do
		post /v1/completions "{\"prompt\":\"x\",$n}" | jq -e --arg n "$n" '.error | .param as $p | .code == "invalid_value" and ($n | startswith("\"\($p)\":")) and (.message | contains("whole number"))' ||
			fail "$n"
	done
}

@test "run: what other servers call a constraint holds, or is refused" {
	start_serve
	local m='"messages":[{"role":"user","content":"x"}],"max_tokens":100,"temperature":2' schema='{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}' field
	for field in '"guided_json":S' "\"guided_json\":$(jq -nc --arg s "$schema" '$s')" '"json_schema":S' '"format":S' '"structured_outputs":{"json":S,"disable_any_whitespace":false}'; do
		post /v1/chat/completions "{$m,${field/S/$schema}}" -D head | jq -e '.choices[0].message.content | fromjson | .a | type == "boolean"' || fail "$field"
		run ! grep -qi '^rnp-ignored' head
	done
	post /v1/completions "{\"prompt\":\"x\",\"max_tokens\":100,\"guided_json\":$schema}" | jq -e '.choices[0].text | fromjson | .a | type == "boolean"'
	post /v1/completions "{\"prompt\":\"x\",\"max_tokens\":100,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":$schema}}}" | jq -e '.choices[0].text | fromjson | .a | type == "boolean"'
	for field in '"format":"json"' '"structured_outputs":{"json_object":true}'; do
		post /v1/chat/completions "{${m/100/2},$field}" | jq -e '.choices[0].message.content | startswith("{")' || fail "$field"
	done
	# one of several texts, of which one begins another, and which are no regular expressions
	for field in '"guided_choice":["größer","a.b","a.b|c"]' '"structured_outputs":{"choice":["größer","a.b","a.b|c"]}'; do
		post /v1/chat/completions "{$m,\"n\":8,$field}" | jq -e '[.choices[] | .message.content, .finish_reason] | unique - ["größer", "a.b", "a.b|c", "stop"] == []' || fail "$field"
	done
	for field in größer 'a.b|c'; do
		[ "$(post /v1/chat/completions "{$m,\"guided_choice\":[\"$field\"]}" | jq -r '.choices[0].message.content')" = "$field" ]
	done
	for field in '"guided_regex":"[0-9]{3}|[a-f]{2}x"' '"regex":"[0-9]{3}|[a-f]{2}x"' '"structured_outputs":{"regex":"[0-9]{3}|[a-f]{2}x"}'; do
		post /v1/chat/completions "{$m,$field}" | jq -e '.choices[0].message.content | test("^([0-9]{3}|[a-f]{2}x)$")' || fail "$field"
	done
	refused_field() { # PARAM FIELDS
		post /v1/chat/completions "{$m,$2}" -w '%{http_code}' -o error | grep -qx 400 || fail "$2"
		jq -e --arg p "$1" '.error.param == $p' error || fail "$2: $(cat error)"
	}
	for field in '"guided_grammar":"a"' '"grammar":"root ::= \"a\""' '"ebnf":"a"' '"structural_tag":"{}"' '"allowed_token_ids":[1]' '"bad_words":["a"]' '"stop_token_ids":[1]' '"ignore_eos":true' '"min_tokens":2' \
		'"guided_json":"{"' '"guided_json":7' '"json_schema":[1]' '"format":"yaml"' '"guided_choice":[]' '"guided_choice":["a",""]' '"guided_choice":"a"' '"guided_regex":7' '"guided_regex":"("' '"structured_outputs":"a"'; do
		refused_field "$(cut -d'"' -f2 <<<"$field")" "$field"
	done
	refused_field structured_outputs.grammar '"structured_outputs":{"grammar":"a"}'
	post /v1/chat/completions "{$m,\"response_format\":{\"type\":\"json_object\"},\"guided_json\":$schema}" | jq -e '.error.message | contains("keeps to one of them")'
	refused_field guided_choice '"guided_choice":["a"],"tools":[{"type":"function","function":{"name":"f"}}]'
	# what asks for nothing is as if it were not there
	post /v1/chat/completions "{${m/100/1},\"grammar\":\"\",\"format\":\"\",\"guided_json\":null,\"stop_token_ids\":[],\"ignore_eos\":false,\"min_tokens\":0,\"response_format\":{\"type\":\"text\"}}" -D head | jq -e '.choices[0].message'
	run ! grep -qi '^rnp-ignored' head
}

@test "run: what is wrong is named in OpenAI's shape" {
	start_serve
	wrong() { # STATUS PARAM CODE JSON [PATH]
		local got
		got=$(post "${5:-/v1/chat/completions}" "$4" -w '%{http_code}' -o error)
		[ "$got" = "$1" ] || fail "$4: $got $(cat error)"
		jq -e --arg p "$2" --arg c "$3" '.error | (.message | length) > 0 and .type and
			(.param // "") == $p and .code == $c' error || fail "$4: $(cat error)"
	}
	local m='"messages":[{"role":"user","content":"x"}]'
	wrong 400 "" invalid_json '{'
	wrong 400 "" invalid_json '[]'
	wrong 400 messages missing_required_parameter '{}'
	wrong 404 model model_not_found "{$m,\"model\":\"gpt-5\"}"
	wrong 400 n invalid_value "{$m,\"n\":0}"
	wrong 400 n invalid_value "{$m,\"n\":9}"
	wrong 400 temperature invalid_value "{$m,\"temperature\":\"hot\"}"
	wrong 400 stop invalid_value "{$m,\"stop\":[\"\"]}"
	jq -nc '{messages: [{role: "user", content: "x"}], stop: [range(100000) | tostring]}' >stops
	wrong 400 stop invalid_value @stops
	wrong 400 top_logprobs invalid_value "{$m,\"logprobs\":true,\"top_logprobs\":21}"
	wrong 400 audio unsupported_parameter "{$m,\"audio\":{}}"
	wrong 400 best_of unsupported_parameter '{"prompt":"x","best_of":3}' /v1/completions
	wrong 400 "messages[0].content[0]" unsupported_parameter \
		'{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}'
	wrong 400 "messages[0].role" invalid_value '{"messages":[{"role":"wizard","content":"x"}]}'
	wrong 400 prompt context_length_exceeded "{\"prompt\":\"$(printf 'word %.0s' {1..2000})\"}" /v1/completions
	wrong 400 prompt invalid_value '{"prompt":[1,400000]}' /v1/completions
	wrong 400 prompt invalid_value '{"prompt":{}}' /v1/completions
	wrong 400 input invalid_value '{"input":{}}' /v1/embeddings
	wrong 400 input invalid_value '{"input":[[5,400000]]}' /v1/embeddings
	jq -e '.error.message | contains("input[0][1]")' error
	wrong 400 input invalid_value '{"input":[[1,2],["a"]]}' /v1/embeddings
	jq -e '.error.message | contains("input[1][0]")' error
	# within what the API knows nothing is dropped
	wrong 400 "response_format.json_schema.shema" unsupported_parameter "{$m,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"schema\":{},\"shema\":{\"a\":1}}}}"
	wrong 400 "stream_options.usage" unsupported_parameter "{$m,\"stream_options\":{\"include_usage\":true,\"usage\":true}}"
	wrong 400 "prediction.weight" unsupported_parameter "{$m,\"prediction\":{\"type\":\"content\",\"content\":\"a\",\"weight\":2}}"
	wrong 400 "tool_choice.tool" unsupported_parameter "{$m,\"tool_choice\":{\"type\":\"function\",\"tool\":\"a\"}}"
	wrong 400 "messages[0].content[0].detail" unsupported_parameter '{"messages":[{"role":"user","content":[{"type":"text","text":"x","detail":"low"}]}]}'
	wrong 400 "reasoning.summary" unsupported_parameter '{"input":"x","reasoning":{"summary":"detailed"}}' /v1/responses
	wrong 400 "text.verbosity" unsupported_parameter '{"input":"x","text":{"verbosity":"low"}}' /v1/responses
	wrong 400 "input[0].phase" unsupported_parameter '{"input":[{"role":"user","content":"x","phase":"final"}]}' /v1/responses
	post /v1/responses '{"input":[{"role":"user","content":[{"type":"input_text","text":"x","annotations":[],"cache_control":{"type":"ephemeral"}}],"phase":null}],"text":{"verbosity":"medium","format":{"type":"text"}},"reasoning":{"effort":null,"summary":"auto"},"max_output_tokens":1}' |
		jq -e '.object == "response"'
	# nor within messages
	local call='"function_call":{"name":"f","arguments":"{}"}'
	wrong 400 "messages[0].function_call" invalid_value "{\"messages\":[{\"role\":\"user\",\"content\":\"x\",$call}]}"
	wrong 400 "messages[0].function_call" invalid_value '{"messages":[{"role":"assistant","function_call":{"arguments":"{}"}}]}'
	wrong 400 "messages[0].function_call" invalid_value "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}],$call}]}"
	wrong 400 "messages[0].tool_calls" invalid_value '{"messages":[{"role":"assistant","content":"x","tool_calls":{"function":{"name":"f"}}}]}'
	wrong 400 "messages[0].tool_calls" invalid_value '{"messages":[{"role":"user","content":"x","tool_calls":[{"function":{"name":"f"}}]}]}'
	wrong 400 "messages[0].tool_calls[0]" invalid_value '{"messages":[{"role":"assistant","tool_calls":[{"type":"function","name":"f","arguments":"{}"}]}]}'
	wrong 400 "messages[0].tool_calls[0]" invalid_value '{"messages":[{"role":"assistant","tool_calls":[{"type":"custom","custom":{"name":"f","input":"x"}}]}]}'
	wrong 400 "messages[0].refusal" invalid_value '{"messages":[{"role":"user","content":"x","refusal":"no"}]}'
	wrong 400 "messages[0].images" unsupported_parameter '{"messages":[{"role":"user","content":"x","images":["aGk="]}]}'
	wrong 400 "messages[0].audio" unsupported_parameter '{"messages":[{"role":"assistant","audio":{"id":"a"}}]}'
	wrong 400 "messages[0].prefix" invalid_value '{"messages":[{"role":"assistant","content":"x","prefix":true},{"role":"user","content":"x"}]}'
	wrong 400 add_generation_prompt invalid_value "{$m,\"continue_final_message\":true,\"add_generation_prompt\":true}" /apply-template
	wrong 400 "messages[0].content" invalid_value '{"messages":[{"role":"assistant","content":""}],"continue_final_message":true}'
	# what has no content is none that is empty: a name may be misspelt
	wrong 400 "messages[1].content" missing_required_parameter '{"messages":[{"role":"user","content":"x"},{"role":"user","contents":"x"}]}'
	wrong 400 "messages[0].content" missing_required_parameter '{"messages":[{"role":"tool","tool_call_id":"a","content":null}]}'
	wrong 400 "input[0]" invalid_value '{"input":[{"role":"user"}]}' /v1/responses
	wrong 400 "input[0]" invalid_value '{"input":[{"type":"function_call_output","call_id":"a"}]}' /v1/responses
	wrong 400 logit_bias invalid_value "{$m,\"logit_bias\":{\"400\":1}}"
	wrong 400 "" invalid_json ''
	jq -e '.error.message | contains("empty")' error
	wrong 404 "" not_found '{}' /v1/nothing
	wrong 405 "" method_not_allowed '{}' /v1/models
	python3 -c 'print("{\"prompt\":\"" + "x" * 10000000 + "\"}")' >large
	wrong 400 prompt context_length_exceeded @large /v1/completions
	python3 -c 'print("{\"prompt\":\"" + "x" * 17000000 + "\"}")' >large
	wrong 413 "" request_too_large @large /v1/completions
	post /v1/chat/completions "{$m,\"max_tokens\":1,\"frob\":1,\"nicate\":null}" -D headers >/dev/null
	grep -qi '^rnp-ignored: frob, nicate' headers
	jq -nc '{messages: [{role: "user", content: "x"}], max_tokens: 1, "a\r\nSet-Cookie: b,c": 1} + ([range(999) | {key: "key\(.)", value: 1}] | from_entries)' >ask
	post /v1/chat/completions @ask -D headers >/dev/null
	grep -qi '^rnp-ignored: a??Set-Cookie:?b?c, key0, key1, .*, key99, .*, \.\.\..$' headers
	run ! grep -qi '^set-cookie' headers
	! grep -q 'content":"x' requests.log
}

@test "run: who leaves is gone within a step, and takes nobody along" {
	start_serve --context 250 --streams 2
	post /v1/completions '{"prompt":"stays","max_tokens":200,"seed":1}' | jq -j '.choices[0].text' >want
	local long='{"prompt":"leaves","max_tokens":240,"n":8,"stream":true,"logit_bias":{"399":-100}}' i
	post /v1/completions '{"prompt":"stays","max_tokens":200,"seed":1}' >stays &
	local stays=$!
	for i in 1 2 3; do
		rm -f leaves
		curl -sN "$url/v1/completions" -H 'Content-Type: application/json' -d "$long" >leaves 3>&- &
		wait_file leaves
		kill $!
	done
	wait "$stays"
	jq -j '.choices[0].text' stays | cmp - want
	idle() { [[ $(metric running) == 0 && $(metric waiting) == 0 ]]; }
	eventually idle
	[ "$(metric cancelled_total)" -ge 1 ]
}

@test "run: a full queue is 429 with Retry-After" {
	start_serve --streams 1 --queue 1
	# more answers than would ever find room at once are computed one after the other
	local ask='"prompt":"x","n":8,"seed":3,"max_tokens":'
	post /v1/completions "{${ask}4}" >alone
	jq -e '(.choices | map(.index)) == [range(8)] and (.choices | map(.text) | unique | length) > 1' alone
	stop_serve
	start_serve
	post /v1/completions "{${ask}4}" | jq .choices | cmp - <(jq .choices alone)
	stop_serve
	# two of them fill stream and queue, on a device that is slow enough for it
	start_failing --streams 1 --queue 1
	device slow
	post /v1/completions "{${ask}200,\"stream\":true,\"logit_bias\":{\"399\":-100}}" -N >stream &
	local first=$!
	eventually test -s stream
	post /v1/completions "{${ask}200,\"stream\":true,\"logit_bias\":{\"399\":-100}}" -N >second &
	local second=$!
	eventually eval '[ "$(metric waiting)" = 1 ]'
	post /v1/completions '{"prompt":"x"}' -D headers >error
	kill "$first" "$second"
	wait "$first" "$second" || true
	device
	head -1 headers | grep -q 429
	grep -qi '^retry-after: ' headers
	jq -e '.error.code == "queue_full" and .error.type == "rate_limit_error"' error
	stop_serve
	# a client takes half of the places that others leave: there is always one for another
	start_failing --streams 1 --queue 5
	device slow
	python3 - "$(cat port)" <<-'END'
		import http.client, json, socket, sys
		def ask(address):
		    c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60, source_address=(address, 0))
		    c.request("POST", "/v1/completions", json.dumps({"prompt": "x", "max_tokens": 200, "stream": True, "logit_bias": {"399": -100}}), {"Content-Type": "application/json"})
		    return c
		def running(n):
		    while True:
		        c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
		        c.request("GET", "/metrics")
		        text = c.getresponse().read().decode()
		        if sum(int(float(l.rsplit(" ", 1)[1])) for l in text.splitlines() if l.startswith(("rnp_serve_running", "rnp_serve_waiting"))) >= n:
		            return
		taken = []
		for i in range(4): # one that is computed, and three of five that wait
		    taken.append(ask("127.0.0.2"))
		    running(i + 1)
		def status(c):
		    r = c.getresponse()
		    return r.status, json.load(r)["error"]["message"]
		full = status(ask("127.0.0.2"))
		assert full[0] == 429 and "3 of its answers wait" in full[1], full
		taken.append(ask("127.0.0.3"))
		running(5)
		assert status(ask("127.0.0.3"))[0] == 429
		taken.append(ask("127.0.0.4"))
		running(6)
		assert status(ask("127.0.0.5"))[0] == 429
	END
	stop_serve
	device
	start_serve --streams 1 --queue 1
	idle() { [[ $(metric running) == 0 && $(metric waiting) == 0 ]]; }
	eventually idle
	post /v1/completions '{"prompt":"x"}' | jq -e .id
}

@test "run: SIGTERM lets answers end, takes no new ones, and exits 0" {
	start_serve
	post /v1/completions '{"prompt":"x","max_tokens":250,"n":8,"stream":true,"logit_bias":{"399":-100}}' -N >stream &
	local client=$!
	eventually test -s stream
	kill -TERM "$server"
	wait "$client"
	[ "$(tail -n 2 stream | head -1)" = "data: [DONE]" ]
	local rc=0
	ended "$server" || rc=$?
	server=
	[ "$rc" = 0 ]
}

@test "run: tokens and templates are shown" {
	start_serve
	post /tokenize '{"content":"This program"}' >ids
	rnp-train tokenize --ids --tokenizer "$DIR/model" <<<"This program" | jq -c . | cmp - <(jq -c .tokens ids)
	jq -e '.count == (.tokens | length)' ids
	jq -c '{tokens}' ids >ask
	[ "$(post /detokenize @ask | jq -r .content)" = "This program" ]
	[ "$(post /apply-template '{"messages":[{"role":"user","content":"Hi"}]}' | jq -r .prompt)" = \
		$'<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant' ]
	local late='{"messages":[{"role":"developer","content":"B"},{"role":"user","content":[{"type":"text","text":"Hi"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","content":"4"}]}'
	[ "$(post /apply-template "$late" | jq -r .prompt)" = \
		$'<|im_start|>system\nB<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{"name": "f", "arguments": {"x":1}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n<|im_start|>assistant' ]
	# clients write no arguments in several ways
	local none
	for none in '"arguments":""' '"arguments":" \n"' '"arguments":null' '"arguments":"{}"' '"x":1'; do
		post /apply-template '{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f",'"$none"'}}]},{"role":"tool","content":"4"}]}' |
			jq -e '.prompt | contains("{\"name\": \"f\", \"arguments\": {}}")' || fail "$none"
	done
	post /apply-template '{"messages":[{"role":"king","content":"Hi"}]}' | jq -e '.error.param == "messages[0].role"'
	# as older clients write calls and what they return; a refusal was said
	prompt() { post /apply-template "$1" | jq -r .prompt; }
	[ "$(prompt '{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"x\":1}"}},{"role":"function","name":"f","content":"4"}]}')" = \
		"$(prompt '{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","content":"4"}]}')" ]
	prompt '{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":""}}]}' | grep -q '"name": "f", "arguments": {}'
	prompt '{"messages":[{"role":"assistant","content":null,"refusal":"I will not"},{"role":"user","content":"Hi"}]}' | grep -qx 'I will not<|im_end|>'
	# an answer that has been begun is gone on with
	local begun='"messages":[{"role":"user","content":"end"},{"role":"assistant","content":"The end "}]'
	for none in '"continue_final_message":true' '"continue_final_message":true,"add_generation_prompt":false'; do
		post /apply-template "{$begun,$none}" | jq -e '.prompt == "<|im_start|>user\nend<|im_end|>\n<|im_start|>assistant\nThe end "' || fail "$none"
	done
	post /apply-template '{"messages":[{"role":"user","content":"end"},{"role":"assistant","content":"The end","prefix":true}]}' | jq -e '.prompt | endswith("assistant\nThe end")'
	[ "$(post /v1/chat/completions "{$begun,\"continue_final_message\":true,\"max_tokens\":1}" | jq .usage.prompt_tokens)" -lt \
		"$(post /v1/chat/completions "{$begun,\"max_tokens\":1}" | jq .usage.prompt_tokens)" ]
	# what nobody reads is named
	post /apply-template "{$begun,\"frob\":1}" -D head >/dev/null
	grep -qi '^rnp-ignored: frob.$' head
	post /tokenize '{"content":"a","special":false,"with_pieces":true}' -D head >/dev/null
	grep -qi '^rnp-ignored: with_pieces.$' head
	# who writes a whole prompt writes names of special tokens in it; to be embedded they are text
	local text='a <|endoftext|> b' special plain
	special=$(post /tokenize "{\"content\":\"$text\",\"special\":true}" | jq .count)
	plain=$(post /tokenize "{\"content\":\"$text\"}" | jq .count)
	[ "$special" -lt "$plain" ]
	[ "$(post /v1/completions "{\"prompt\":\"$text\",\"max_tokens\":1}" | jq .usage.prompt_tokens)" = "$special" ]
	[ "$(post /v1/embeddings "{\"input\":\"$text\"}" | jq .usage.prompt_tokens)" = "$plain" ]
	# where nothing is generated a text may fill the context
	fill() { # PATH KEY TOKENS MORE: its status
		post "$1" "$(jq -nc "{$2: [range($3) | 5]$4}")" -w '%{http_code}' -o answer
	}
	[ "$(fill /v1/embeddings input 256 '')" = 200 ]
	[ "$(fill /v1/embeddings input 257 '')" = 400 ]
	[ "$(fill /v1/completions prompt 256 ', echo: true, max_tokens: 0')" = 200 ]
	jq -e '.usage.prompt_tokens == 256 and .usage.completion_tokens == 0 and (.choices[0].text | length) > 0' answer
	[ "$(fill /v1/completions prompt 256 ', max_tokens: 1')" = 400 ]
	curl -sS "$url/v1/models" | jq -e '.data | length == 1 and .[0].id == "chat"'
	curl -sS "$url/v1/models/chat" | jq -e '.id == "chat"'
	curl -sS "$url/health" | jq -e '.status == "ok"'
}

@test "run: --chat-template is a file or a name; variables reach it, and what it refuses is told" {
	cd "$BATS_TEST_TMPDIR" || return
	cat >t.jinja <<-'END'
		{%- if messages | length > 3 %}{{ raise_exception('too long a talk') }}{% endif %}
		{%- for m in messages %}[{{ m.role }}|{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}({{ c.function.arguments.x }}){% endfor %}]{% endfor %}
		{{- mode }}{{ reasoning_effort }}{{ enable_thinking }}{% if add_generation_prompt %} <think>
		{% endif %}
	END
	start_serve --chat-template t.jinja
	[ "$(post /apply-template '{"messages":[{"role":"user","content":"Hi"}],"chat_template_kwargs":{"mode":"m"},"reasoning_effort":"none"}' |
		jq -r .prompt)" = $'[user|Hi]mnoneFalse <think>' ]
	[ "$(post /apply-template '{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":17}"}}]}]}' |
		jq -r .prompt)" = $'[assistant|f(17)] <think>' ]
	post /v1/chat/completions '{"messages":[{"role":"user","content":"a"},{"role":"user","content":"a"},{"role":"user","content":"a"},{"role":"user","content":"a"}]}' |
		jq -e '.error.type == "invalid_request_error" and (.error.message | contains("too long a talk"))'
	# the prompt opens the marks of reasoning, so that what comes is reasoning until they close
	post /v1/chat/completions '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":8,"seed":1}' |
		jq -e '.choices[0].message | .content == "" and (.reasoning_content | length) > 0'
	stop_serve
	start_serve --chat-template gemma
	[ "$(post /apply-template '{"messages":[{"role":"user","content":"Hi"}]}' | jq -r .prompt)" = \
		$'<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model' ]
	stop_serve
	printf 'a\n{%% include "x" %%}' >bad.jinja
	refused 66 "the formats with a name are chatml, " rnp-serve run --model "$DIR/model" --listen 127.0.0.1:0 --chat-template chatml2
	# a file that is no template, or one that says the same whatever is asked
	printf 'Read me first: {{ bos_token }} is messages.\n' >README
	refused 65 "README: it does not use 'messages', and no question" rnp-serve run --model "$DIR/model" --listen 127.0.0.1:0 --chat-template README
	refused 65 "README: it does not use 'messages', and no question" rnp-serve ask --model "$DIR/model" --chat --chat-template README Hi
	refused 65 "bad.jinja:2: a tag that we know expected, not 'include'" rnp-serve run --model "$DIR/model" --listen 127.0.0.1:0 --chat-template bad.jinja
}

@test "run: response_format keeps an answer to a schema; reasoning, choices, streams and logprobs stay" {
	start_serve
	local schema='{"type":"object","properties":{"city":{"type":"string","maxLength":12},"n":{"type":"integer","minimum":1,"maximum":99},"ok":{"type":"boolean"}},"required":["city","n","ok"],"additionalProperties":false}'
	local ask='"messages":[{"role":"user","content":"Hi"}],"max_tokens":150,"n":4,"temperature":1.5,"seed":3,"response_format":{"type":"json_schema","json_schema":{"name":"place","schema":'"$schema"'}}'
	post /v1/chat/completions "{$ask}" >whole
	jq -e '[.choices[] | select(.finish_reason == "stop") | .message.content | fromjson |
		(.city | length <= 12) and .n >= 1 and .n <= 99 and (.ok | type == "boolean") and (keys | length) == 3] | length > 0 and all' whole
	post /v1/chat/completions "{$ask,\"stream\":true}" -N >stream
	grep -o '^data: {.*' stream | cut -c7- >chunks
	local i
	for i in 0 1 2 3; do
		[ "$(jq -rj --argjson i "$i" '.choices[] | select(.index == $i) | .delta.content // empty' chunks)" = \
			"$(jq -rj --argjson i "$i" '.choices[$i].message.content' whole)" ]
	done
	post /v1/chat/completions '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":200,"seed":1,"logprobs":true,"response_format":{"type":"json_object"}}' >object
	jq -e '.choices[0] | (.message.content | startswith("{")) and (.logprobs.content | length) > 1' object
	jq -e '.choices[0] | .finish_reason == "length" or (.message.content | fromjson | type == "object")' object
	post /v1/chat/completions '{"messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"a":{"not":{"const":1}}}}}}}' |
		jq -e '.error.param == "response_format" and (.error.message | contains("schema.properties.a.not"))'
	post /v1/chat/completions '{"messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"xml"}}' | jq -e '.error.param == "response_format"'
	# tools that the model may not call change nothing
	local tools='"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]'
	post /v1/chat/completions "{$ask,$tools,\"tool_choice\":\"none\"}" | jq -c '[.choices[].message.content]' |
		cmp - <(jq -c '[.choices[].message.content]' whole)
	# nobody else's text changes
	post /v1/chat/completions '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":20,"seed":5}' | jq -r '.choices[0].message.content' >alone
	post /v1/chat/completions "{$ask}" >/dev/null &
	local other=$!
	post /v1/chat/completions '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":20,"seed":5}' | jq -r '.choices[0].message.content' | cmp - alone
	wait "$other"
}

@test "run: a client that closes its sending half is answered, whole and streamed; bodies of two lengths are refused, and two requests in one packet are two" {
	start_serve
	python3 - "${url##*:}" "$server" <<-'END'
		import json, os, re, signal, socket, sys, threading
		def talk(data, half=False):
		    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
		    s.sendall(data)
		    if half:
		        s.shutdown(socket.SHUT_WR)
		    got = b""
		    while piece := s.recv(65536):
		        got += piece
		    return got
		def ask(body, more=b""):
		    return b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n%s" % (len(body), more, body)
		def texts(said, stream):
		    # an interim response is how the server finds out that somebody still reads
		    while said.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"):
		        said = said[25:]
		    assert said.startswith(b"HTTP/1.1 200 OK\r\n"), said
		    if stream: # a chunk may end anywhere in an event
		        said = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", said)
		    assert not stream or b"data: [DONE]" in said, said
		    return b"".join(re.findall(rb'"text":"((?:[^"\\]|\\.)*)"', said))
		for stream in (False, True):
		    body = json.dumps({"prompt": "x", "max_tokens": 200, "stream": stream, "seed": 1, "logit_bias": {"399": -100}}).encode()
		    whole = texts(talk(ask(body, b"Connection: close\r\n")), stream)
		    half = texts(talk(ask(body, b"Connection: close\r\n"), half=True), stream)
		    assert whole and whole == half, (whole, half)
		# HTTP/1.0 has no interim response: nobody can tell it from a client that has left. A server that
		# stands still finds request and end together, however busy the machine is
		body = json.dumps({"prompt": "x", "max_tokens": 200, "seed": 1, "logit_bias": {"399": -100}}).encode()
		os.kill(int(sys.argv[2]), signal.SIGSTOP)
		threading.Timer(.5, os.kill, (int(sys.argv[2]), signal.SIGCONT)).start()
		old = talk(b"POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body), half=True)
		assert b" 499 " in old[:14] and b"client_closed_request" in old, old
		# a body that its length cuts short is not the next request's beginning
		short = json.dumps({"prompt": "x", "max_tokens": 2}).encode()
		both = talk(ask(short) + ask(short, b"Connection: close\r\n"))
		assert both.count(b"HTTP/1.1 200") == 2, both
		for bad in (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Transfer-Encoding: chunked, identity\r\n", b"Content-Length: +5\r\n"):
		    said = talk(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + bad + b"\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
		    assert said.count(b"HTTP/1.1 ") == 1 and said[9:10] in b"45", (bad, said)
	END
	[ "$(metric cancelled_total)" -ge 1 ]
	idle() { [[ $(metric running) == 0 && $(metric waiting) == 0 ]]; }
	eventually idle
}

@test "run: hostile schemas are refused at once, and cost nobody else anything" {
	start_serve
	python3 - "$url" "$server" <<-'END'
		import json, sys, time, urllib.error, urllib.request
		url, pid = sys.argv[1:]
		def nested(n, kind):
		    s = {"type": "string"}
		    for _ in range(n):
		        s = {"type": "object", "properties": {"a": s}} if kind == "object" else {"type": "array", "items": s} if kind == "array" else {"anyOf": [s, {"type": "null"}]}
		    return s
		def resident():
		    return next(int(l.split()[1]) for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS"))
		bomb = {f"d{i}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/d{i + 1}"} for k in "abcdefgh"}} for i in range(30)}
		schemas = {
		    "deep objects": nested(25, "object"), "deep arrays": nested(28, "array"), "deep anyOf": nested(28, "any"),
		    "itself": {"$ref": "#"}, "two that are each other": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
		    "references that multiply": {"$ref": "#/$defs/d0", "$defs": {**bomb, "d30": {"type": "string"}}},
		    "counted repeats": {"type": "string", "pattern": "^((a{1,1000}){1,1000}){1,1000}$"},
		    "alternatives of one": {"type": "string", "pattern": "^(" + "|".join(["(a|a)*"] * 200) + ")$"},
		    "a bit far behind": {"type": "string", "pattern": "^[ab]*a[ab]{40}$"},
		    "a string of 10^9": {"type": "string", "minLength": 10**9}, "items of 10^9": {"type": "array", "minItems": 10**9, "maxItems": 10**9},
		    "a range of 10^300": {"type": "integer", "minimum": -(10**300), "maximum": 10**300},
		    "no multiple": {"type": "integer", "multipleOf": 0}, "nothing": {"enum": []}, "contradiction": {"type": "integer", "minimum": 5, "maximum": 4},
		    "a large enum": {"enum": [f"word {i}" for i in range(4000)]}, "too large": {"enum": ["x" * 100] * 1000},
		    "what looks behind": {"type": "string", "pattern": "(?<=a)b"}, "unclosed": {"type": "string", "pattern": "((((("},
		    "of no type": {"type": "wizard"}, "not a schema": 7, "nowhere": {"$ref": "http://127.0.0.1/schema"},
		}
		before, counts = resident(), {}
		for name, schema in schemas.items():
		    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 3,
		            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
		    begun = time.monotonic()
		    try:
		        with urllib.request.urlopen(urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}), timeout=60) as r:
		            status, said = r.status, json.load(r)
		    except urllib.error.HTTPError as e:
		        status, said = e.code, json.load(e)
		    took = time.monotonic() - begun
		    counts[status] = counts.get(status, 0) + 1
		    print(status, round(took, 2), name, said.get("error", {}).get("message", "")[:100])
		    assert status == 200 or status == 400 and said["error"]["param"].startswith("response_format"), (name, status, said)
		    assert took < 50, (name, took)
		assert counts[400] >= 10, counts
		assert resident() - before < 400000, (before, resident())
	END
	curl -sS "$url/health" | jq -e '.status == "ok"'
}

@test "run: the openai client from npm works unchanged" {
	[[ -d $ROOT/build/node/node_modules/openai ]] || skip "openai is not there: scripts/bootstrap"
	start_serve
	NODE_PATH=$ROOT/build/node/node_modules timeout 120 node "$ROOT/tests/tools/openai_client.mjs" "$url" >out ||
		fail "$(cat out)"
	cat out
}

@test "run: bad options and models are one clear line" {
	run -64 rnp-serve run
	refused 66 "nowhere" rnp-serve run --model nowhere --listen 127.0.0.1:0
	refused 64 "named twice" rnp-serve run --model "a=$DIR/model" --model "a=$DIR/model" --listen 127.0.0.1:0
	refused 64 "listen" rnp-serve run --model "$DIR/model" --listen nonsense
}

@test "run: a draft model changes no text, and takes fewer steps where it is right" {
	local kind i
	rnp-train init --preset nano --tokenizer "$DIR/tok" --seed 9 --out "$BATS_TEST_TMPDIR/other"
	for kind in none same other; do
		case $kind in
		none) start_serve ;;
		same) start_serve --draft "$DIR/model" ;;
		other) start_serve --draft "chat=$BATS_TEST_TMPDIR/other" ;;
		esac
		for i in 1 2 3; do
			post /v1/completions "{\"prompt\":\"This program is number $i\",\"max_tokens\":40,\"seed\":$i,\"temperature\":1,\"logit_bias\":{\"399\":-100}}" |
				jq -r '.choices[0].text'
		done >"texts.$kind"
		metric steps_total >"steps.$kind"
		cp plan "plan.$kind"
		stop_serve
	done
	cmp texts.none texts.same
	cmp texts.none texts.other
	(( $(cat steps.same) * 2 < $(cat steps.none) ))
	jq -e '.draft_bytes > 0 and .total_bytes == .draft_bytes + .weights_bytes + .tables_bytes + .cache_bytes + .work_bytes' plan.same
	jq -e 'has("draft_bytes") | not' plan.none
	rnp-train tokenize --vocab 300 --out "$BATS_TEST_TMPDIR/tok300" /usr/share/common-licenses/GPL-3 >/dev/null
	rnp-train init --preset nano --tokenizer "$BATS_TEST_TMPDIR/tok300" --out "$BATS_TEST_TMPDIR/foreign"
	refused 65 "has other tokens" rnp-serve run --model "$DIR/model" --listen 127.0.0.1:0 --draft "$BATS_TEST_TMPDIR/foreign"
	refused 66 "nowhere" rnp-serve run --model "$DIR/model" --listen 127.0.0.1:0 --draft nowhere
}

@test "run: speculation takes fewer steps where text repeats, and changes no text" {
	start_serve
	local ask='"messages":[{"role":"user","content":"Say it"}],"max_tokens":60,"seed":3,"temperature":0.5' the before
	post /v1/chat/completions "{$ask}" | jq .choices[0].message >plain
	jq -c "{$ask, prediction: {type: \"content\", content: .content}}" plain >predicted
	post /v1/chat/completions @predicted | jq .choices[0].message | cmp - plain
	post /v1/chat/completions "{$ask,\"prediction\":{\"type\":\"content\",\"content\":\"something else\"}}" |
		jq .choices[0].message | cmp - plain
	the=$(post /tokenize '{"content":" the"}' | jq .tokens[0])
	before=$(metric steps_total)
	post /v1/chat/completions "{$ask,\"logit_bias\":{\"$the\":100}}" >repeats
	jq -e '.usage.completion_tokens == 60 and
		.usage.completion_tokens_details.accepted_prediction_tokens >= 30' repeats || fail "$(cat repeats)"
	(($(metric steps_total) - before < 30))
	stop_serve
	start_serve --speculate 0
	post /v1/chat/completions @predicted | jq .choices[0].message | cmp - plain
	before=$(metric steps_total)
	post /v1/chat/completions "{$ask,\"logit_bias\":{\"$the\":100}}" | jq .choices[0].message | cmp - <(jq .choices[0].message repeats)
	(($(metric steps_total) - before >= 60))
	[ "$(metric proposed_tokens_total)" = 0 ]
	refused 64 "--draft" rnp-serve run --model "$DIR/model" --draft "$DIR/model" --speculate 0 --listen 127.0.0.1:0
	jq -c '{custom_id: "a", url: "/v1/chat/completions", body: .}' predicted >in
	rnp-serve batch --model "$DIR/model" --speculate 0 in | jq .response.body.choices[0].message | cmp - plain
}

@test "run: embeddings are the same in every batch, and a mean is that of all rows" {
	start_serve
	ask='{"input":"The license of this program says what others may do with it.","dimensions":16}'
	post /v1/embeddings "$ask" >alone
	jq -e '.object == "list" and (.data[0].embedding | length) == 16 and .usage.prompt_tokens > 5' alone
	post /v1/completions '{"prompt":"others","max_tokens":200,"n":8}' >/dev/null &
	local other=$!
	for _ in 1 2 3; do post /v1/embeddings "$ask" | jq -c .data | cmp - <(jq -c .data alone); done
	wait "$other"
	stop_serve
	start_serve --embeddings mean
	post /v1/embeddings "$ask" >mean
	run ! cmp -s mean alone
	post /v1/embeddings "$ask" | jq -c .data | cmp - <(jq -c .data mean)
	# one token is its own mean
	id=$(post /tokenize '{"content":"the"}' | jq .tokens[0])
	post /v1/embeddings "{\"input\":[$id]}" | jq -c .data >one
	stop_serve
	start_serve
	post /v1/embeddings "{\"input\":[$id]}" | jq -c .data | cmp - one
	[ "$(post /v1/embeddings '{}' | jq -r .error.param)" = input ]
	[ "$(post /v1/embeddings '{"input":"x","encoding_format":"text"}' | jq -r .error.param)" = encoding_format ]
}

@test "run: many inputs or prompts leave a stream in four to others, and end with their client" {
	# none may wait: what does not find a stream is refused
	start_serve --streams 4 --queue 0 --drain 0s
	local text many other
	printf -v text 'free software %.0s' {1..20}
	ask() { # N inputs
		jq -nc --arg t "$text" --argjson n "$1" '{input: [range($n) | "\(.) \($t)"], dimensions: 2}' >"inputs.$1"
		exec curl -sS "$url/v1/embeddings" -H 'Content-Type: application/json' -d "@inputs.$1"
	}
	ask 100 >many &
	many=$!
	eventually eval '[ "$(metric running)" = 3 ] || [ -s many ]'
	post /v1/completions '{"prompt":"x","max_tokens":2}' | jq -e .id
	wait "$many"
	jq -e '(.data | length) == 100 and .data[0].embedding != .data[99].embedding' many
	# prompts of completions, too: more answers than there are streams and places in the queue
	post /v1/completions '{"prompt":["a","b","c","d","e","f"],"n":2,"max_tokens":3,"seed":4}' >several
	post /v1/completions '{"prompt":"f","n":2,"max_tokens":3,"seed":4}' | jq -c '[.choices[].text]' | cmp - <(jq -c '[.choices[10, 11].text]' several)
	# who leaves leaves nothing behind
	local before
	before=$(metric prompt_tokens_total)
	ask 1000 >cut &
	other=$!
	eventually eval '[ "$(metric running)" -gt 0 ]'
	kill "$other"
	eventually eval '[ "$(metric running)$(metric waiting)" = 00 ]'
	(( $(metric prompt_tokens_total) - before < 10 * $(jq .usage.prompt_tokens many) ))
	[ "$(metric cancelled_total)" = 1 ]
	# nor does the server wait for them when it ends
	ask 1000 >cut 2>/dev/null &
	other=$!
	eventually eval '[ "$(metric running)" -gt 0 ]'
	stop_serve
	[ "$stopped_with" = 0 ]
	wait "$other" || true
}

@test "run: --threads sets how many compute, and no text depends on them" {
	local ask='{"prompt":"This program","max_tokens":30,"seed":7,"temperature":0.8,"top_p":0.95,"top_k":40}' one
	start_serve --threads 1
	post /v1/completions "$ask" | jq -r '.choices[0].text' >text.1
	one=$server
	start_serve --threads 3
	post /v1/completions "$ask" | jq -r '.choices[0].text' >text.3
	tasks() { find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l; }
	# each has one more while it packs weights
	two_more() { (($(tasks "$server") == $(tasks "$one") + 2)); }
	eventually two_more
	stop_serve
	server=$one
	stop_serve
	cmp text.1 text.3
	rnp-serve ask --model "$DIR/model" --threads 2 -n 30 --seed 7 "This program" | cmp - text.1
	jq -c '{custom_id: "a", url: "/v1/completions", body: .}' <<<"$ask" >in
	rnp-serve batch --model "$DIR/model" --threads 2 in | jq -r '.response.body.choices[0].text' | cmp - text.1
}

@test "run: --type quantises at load what export would have quantised" {
	local ask='{"prompt":"This program","max_tokens":30,"seed":7,"temperature":0.8,"top_p":0.95,"top_k":40}' type bytes
	rnp-train export --model "$DIR/model" --gguf "$BATS_TEST_TMPDIR/f32.gguf" --type f32 >/dev/null
	for type in q8_0 q4_0; do
		rnp-train export --model "$DIR/model" --gguf "$BATS_TEST_TMPDIR/$type.gguf" --type "$type" >/dev/null
		start_serve --model "file=$BATS_TEST_TMPDIR/$type.gguf" --model "load=$BATS_TEST_TMPDIR/f32.gguf" --type "$type"
		# the first, f32 too, is quantised; the file of that type stays as it is
		jq -s -e '.[1].weights_bytes == .[2].weights_bytes and .[0].weights_bytes == .[2].weights_bytes' plan
		post /v1/completions "$(jq -c '.model = "file"' <<<"$ask")" | jq -r '.choices[0].text' >want
		post /v1/completions "$(jq -c '.model = "load"' <<<"$ask")" | jq -r '.choices[0].text' | cmp - want
		stop_serve
		rnp-serve ask --model f32.gguf --type "$type" -n 30 --seed 7 "This program" | cmp - want
		jq -c '{custom_id: "a", url: "/v1/completions", body: .}' <<<"$ask" >in
		rnp-serve batch --model f32.gguf --type "$type" in | jq -r '.response.body.choices[0].text' | cmp - want
		mv want "want.$type"
	done
	run cmp -s want.q8_0 want.q4_0
	assert_failure
	# the order of the weights in memory changes nothing
	start_serve --model "m=$BATS_TEST_TMPDIR/q4_0.gguf"
	packed() { curl -sS "$url/metrics" | grep -q '^rnp_serve_packing{model="m"} 0$'; }
	eventually packed
	post /v1/completions "$(jq -c '.model = "m"' <<<"$ask")" | jq -r '.choices[0].text' | cmp - want.q4_0
	stop_serve
	start_serve --model "m=$BATS_TEST_TMPDIR/q4_0.gguf" --pack never
	post /v1/completions "$(jq -c '.model = "m"' <<<"$ask")" | jq -r '.choices[0].text' | cmp - want.q4_0
	stop_serve
	# what is smaller already stays
	rnp-serve ask --model q4_0.gguf --type q8_0 -n 30 --seed 7 "This program" | cmp - want.q4_0
}

@test "run: --cache-type q8_0 takes half the memory, f32 gives the text of ask" {
	local ask='{"prompt":"This program","max_tokens":30,"seed":7,"temperature":0.8,"top_p":0.95,"top_k":40}'
	start_serve --cache-type q8_0 --streams 2
	cp plan small
	post /v1/completions "$ask" | jq -e '.usage.completion_tokens > 0'
	stop_serve
	start_serve --cache-type f32 --streams 2
	jq -s -e '.[0].cache_bytes < 0.3 * .[1].cache_bytes' small plan
	rnp-serve ask --model "$DIR/model" --cache-type f32 -n 30 --seed 7 "This program" >want
	post /v1/completions "$ask" | jq -r '.choices[0].text' | cmp - want
	stop_serve
	refused 64 "f16" rnp-serve run --model "$DIR/model" --listen 127.0.0.1:0 --cache-type f8
}

@test "run: an embedding model as it is published: names without 'model.', a last token of its own, a mark too many" {
	mkdir "$BATS_TEST_TMPDIR/published"
	cp "$DIR/model"/* "$BATS_TEST_TMPDIR/published"
	cd "$BATS_TEST_TMPDIR/published"
	python3 - <<-'END'
		import json, struct
		raw = open("model.safetensors", "rb").read()
		n, = struct.unpack("<Q", raw[:8])
		head = {k.removeprefix("model."): v for k, v in json.loads(raw[8:8 + n]).items()}
		text = json.dumps(head).encode()
		open("model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + raw[8 + n:])
		rows = json.load(open("config.json"))["vocab_size"]
		t = json.load(open("tokenizer.json"))
		last = next(a for a in t["added_tokens"] if a["special"])
		t["added_tokens"].append(dict(last, id=rows, content="<picture>"))
		t["post_processor"] = {"type": "TemplateProcessing", "pair": [], "special_tokens": {},
			"single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": last["content"], "type_id": 0}}]}
		json.dump(t, open("tokenizer.json", "w"))
		config = json.load(open("tokenizer_config.json"))
		config.pop("add_bos_token", None), config.pop("add_eos_token", None)
		json.dump(config, open("tokenizer_config.json", "w"))
		open("../last", "w").write(str(last["id"]))
	END
	start_serve --model "e=$BATS_TEST_TMPDIR/published"
	ids=$(post /tokenize '{"model":"e","content":"Once <picture> upon"}' | jq -c .tokens)
	post /tokenize '{"model":"e","content":"Once <picture> upon","add_special":true}' |
		jq -e --argjson ids "$ids" --argjson last "$(<last)" '.tokens == $ids + [$last]'
	post /v1/embeddings '{"model":"e","input":"Once <picture> upon"}' >text
	post /v1/embeddings "$(jq -nc --argjson ids "$ids" --argjson last "$(<last)" '{model: "e", input: ($ids + [$last])}')" >whole
	post /v1/embeddings "$(jq -nc --argjson ids "$ids" '{model: "e", input: $ids}')" >bare
	jq -e -n --slurpfile a text --slurpfile b whole --slurpfile c bare \
		'$a[0].data == $b[0].data and $a[0].usage == $b[0].usage and $a[0].data != $c[0].data'
	stop_serve
	# of which rows it is made stands in a file of its own
	mkdir published/1_Pooling
	echo '{"pooling_mode_mean_tokens":true,"pooling_mode_lasttoken":false}' >published/1_Pooling/config.json
	start_serve --model "e=$BATS_TEST_TMPDIR/published"
	post /v1/embeddings '{"model":"e","input":"Once <picture> upon"}' | jq .data >mean
	stop_serve
	start_serve --model "e=$BATS_TEST_TMPDIR/published" --embeddings last
	post /v1/embeddings '{"model":"e","input":"Once <picture> upon"}' | jq .data >last
	stop_serve
	jq .data text | cmp - last
	run -1 cmp -s last mean
	echo '{"pooling_mode_cls_token":true}' >published/1_Pooling/config.json
	refused 65 "'pooling_mode_cls_token' are not supported" rnp-serve run --model "e=$BATS_TEST_TMPDIR/published" --listen 127.0.0.1:0
}

@test "run: a part of a model that is split over files says so" {
	rnp-train export --model "$DIR/model" --gguf "$BATS_TEST_TMPDIR/whole.gguf" --type f32
	cd "$BATS_TEST_TMPDIR"
	PYTHONPATH=$ROOT/tests/tools python3 - <<-'END'
		from gguf_patch import *
		values, rest = read("whole.gguf")
		values += [["split.no", 2, struct.pack("<H", 1)], ["split.count", 2, struct.pack("<H", 3)]]
		write("part.gguf", values, rest)
	END
	refused 65 "it is part 2 of 3 of a model" rnp-serve ask --model part.gguf x
}
