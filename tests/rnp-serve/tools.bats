#!/usr/bin/env bats
# Tools: calls as OpenAI's client expects them, kept to the tools' schemas, in the form that each template shows.
load ../helper
load serve

setup_file() {
	make_chat_model
	jq '.max_position_embeddings = 1024' "$DIR/model/config.json" >"$DIR/config" && mv "$DIR/config" "$DIR/model/config.json"
	# calls look like @name({...}), so that one token makes a model begin one
	cat >"$DIR/at.jinja" <<-'END'
		{%- for t in tools or [] %}{{ t.function | tojson }}
		{% endfor %}
		{%- for m in messages %}{{ m.role }}: {{ m.content }}
		{%- for c in m.tool_calls or [] %}@{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}
		{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}
	END
}
teardown() { stop_serve; }

@test "tools: the openai client calls them, whole, streamed and by the responses API" {
	[[ -d $ROOT/build/node/node_modules/openai ]] || skip "openai is not there: scripts/bootstrap"
	start_serve --chat-template "$DIR/at.jinja"
	timeout 120 node "$ROOT/tests/tools/openai_tools.mjs" "$url" >out 2>&1 || fail "$(cat out)"
	cat out
}

@test "tools: a streamed response that says something and then calls ends its text before the call" {
	start_serve --chat-template "$DIR/at.jinja"
	local tools='"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"x":{"enum":[1,2]}},"required":["x"],"additionalProperties":false}}]'
	# a model of random weights comes upon the mark by chance: in most of these answers
	for seed in {1..20}; do
		post /v1/responses "{\"input\":\"Hi\",\"max_output_tokens\":300,\"temperature\":2,\"seed\":$seed,\"stream\":true,$tools}" >events
		sed -n 's/^data: //p' events | jq -s '[.[] | select(.type == "response.output_item.done").item | [.type, .status]]' >items
		jq -e 'map(.[0]) == ["message", "function_call"]' items >/dev/null && break
	done
	jq -e '.[0] == ["message", "completed"] and .[1][0] == "function_call"' items
	grep -q '^event: response.\(completed\|incomplete\)$' events
	curl -sS "$url/health" | jq -e '.status == "ok"'
}

@test "tools: a template without them has the model told in a system message, and calls in our own form" {
	start_serve
	local tools='"tools":[{"type":"function","function":{"name":"f","parameters":{"type":["object","null"],"properties":{"x":{"enum":[1,2]}},"required":["x"],"additionalProperties":false}}}]'
	post /apply-template "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"4\"}],$tools}" |
		jq -r .prompt >prompt
	head -1 prompt | grep -qx '<|im_start|>system'
	grep -q '^{"name":"f","parameters":' prompt
	grep -qx '{"name": "f", "arguments": {"x":1}}' prompt
	grep -qx '<tool_response>' prompt
	post /v1/chat/completions "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":400,\"parallel_tool_calls\":false,\"tool_choice\":\"required\",$tools}" |
		jq -e '.choices[0] | .finish_reason == "tool_calls" and (.message.tool_calls[0].function | .name == "f" and (.arguments | fromjson | .x | IN(1, 2)))'
	# the batch has them, too
	echo "{\"custom_id\":\"a\",\"url\":\"/v1/chat/completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":400,\"parallel_tool_calls\":false,\"tool_choice\":\"required\",$tools}}" |
		rnp-serve batch --model "$DIR/model" | jq -e '.response.body.choices[0].message.tool_calls[0].function.name == "f"'
}

@test "tools: a word of a schema that cannot be held is left out and named, of a strict tool refused" {
	start_serve
	tool() { # STRICT
		printf '"tools":[{"type":"function","function":{"name":"f"%s,"parameters":{"type":"object","properties":{"x":{"type":"array","items":{"enum":[1]},"not":{"const":[1,1]},"description":"d"}},"required":["x"],"additionalProperties":false}}}]' "$1"
	}
	local ask='"messages":[{"role":"user","content":"Hi"}],"max_tokens":400,"parallel_tool_calls":false,"tool_choice":"required"'
	post /v1/chat/completions "{$ask,\"colour\":1,$(tool '')}" -D head >body
	grep -qi '^rnp-ignored: colour, f.schema.properties.x.not.$' head
	post /v1/chat/completions "{$ask,$(tool '')}" >body
	[ "$(grep -c "answers may break what is left out of tools' schemas: f.schema.properties.x.not$" serve.err)" = 1 ]
	echo "{\"custom_id\":\"a\",\"url\":\"/v1/chat/completions\",\"body\":{$ask,$(tool '')}}" |
		rnp-serve batch --model "$DIR/model" 2>batch.err | jq -e '.response.ignored == "f.schema.properties.x.not"'
	grep -q "schemas: f.schema.properties.x.not" batch.err
	jq -e '.choices[0].message.tool_calls[0].function.arguments | fromjson | .x | type == "array"' body
	post /v1/chat/completions "{$ask,$(tool ',"strict":true')}" -w '%{http_code}' >body
	grep -q "the parameters of tool 'f': schema.properties.x.not: this keyword is not supported.*400$" body
	# so is oneOf where two branches may hold for one value: no mask over tokens can hold "exactly one"
	local both='{"oneOf":[{"type":"integer"},{"type":"number","minimum":2}]}' apart='{"oneOf":[{"type":"integer"},{"type":"string"}]}' one
	for one in "$both" "$apart"; do
		tool() { printf '"tools":[{"type":"function","function":{"name":"f"%s,"parameters":{"type":"object","properties":{"x":%s},"required":["x"],"additionalProperties":false}}}]' "$1" "$one"; }
		post /v1/chat/completions "{$ask,$(tool '')}" -D head -w '%{http_code}' >body
		grep -q '200$' body
		post /v1/chat/completions "{$ask,$(tool ',"strict":true')}" -w '%{http_code}' >strict
		post /v1/chat/completions "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":9,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"schema\":$one}}}" -w '%{http_code}' >format
		if [ "$one" = "$both" ]; then
			grep -qi '^rnp-ignored: f.schema.properties.x.oneOf.$' head
			grep -q "the parameters of tool 'f': schema.properties.x.oneOf: two branches may hold for the same value.*400$" strict
			grep -q "schema.oneOf: two branches may hold for the same value.*400$" format
		else
			run ! grep -qi '^rnp-ignored' head
			grep -q '200$' strict
			grep -q '200$' format
		fi
	done
	# a schema that is none of an object takes no other tool away
	local odd
	for odd in '[]' true '"{}"' 7 '{"type":"OBJECT","properties":{"x":{"type":"STRING"}}}' '{"type":"string"}' '{"type":"object","properties":{"x":{"type":"STRING"}}}'; do
		post /v1/chat/completions "{$ask,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"x\":{\"const\":1}},\"required\":[\"x\"],\"additionalProperties\":false}}},{\"type\":\"function\",\"function\":{\"name\":\"odd\",\"parameters\":$odd}}]}" -D head >body
		jq -e .choices body >/dev/null || fail "$odd: $(cat body)"
		grep -qi '^rnp-ignored: odd.schema.$' head || fail "$odd: $(cat head)"
	done
	post /v1/chat/completions "{$ask,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"odd\",\"parameters\":[]}}]}" |
		jq -e '.choices[0] | .finish_reason == "length" or (.message.tool_calls[0].function | .name == "odd" and (.arguments | fromjson | type == "object"))'
	post /v1/chat/completions "{$ask,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"odd\",\"strict\":true,\"parameters\":[]}}]}" |
		jq -e '.error.param == "tools[0].function.parameters"'
	post /v1/chat/completions "{$ask,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"odd\",\"strict\":\"yes\"}}]}" |
		jq -e '.error.param == "tools[0].function.strict"'
	# response_format is strict, and so is what others call a JSON object with a schema
	local format='"response_format":{"type":"json_object","schema":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}}'
	post /v1/chat/completions "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":100,$format}" |
		jq -e '.choices[0].message.content | fromjson | .a | type == "boolean"'
	post /v1/chat/completions "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":9,${format/\"boolean\"/\"boolean\",\"not\":{\}}}" -w '%{http_code}' | grep -q '400$'
	# a stream passes through nginx as it is made; a path without /v1 is told where the API is
	post /v1/chat/completions '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"stream":true}' -D head >body
	grep -qi '^x-accel-buffering: no.$' head
	post /chat/completions '{}' | jq -e '.error.message | contains("/v1")'
}

@test "tools: a template that calls itself without end for a type it does not know is 400 that names it" {
	cd "$BATS_TEST_TMPDIR"
	# as that of Hermes 2 Pro: the letters of a type's name are types again
	cat >own.jinja <<-'END'
		{%- macro shown(spec) %}{% if spec.type == "string" %}str{% else %}{% for t in spec.type %}{{ shown({"type": t}) }}{% endfor %}{% endif %}{% endmacro %}
		{%- for tool in tools %}{{ tool.function.name }}({% for name, p in tool.function.parameters.properties|items %}{{ shown(p) }}{% endfor %}) {% endfor %}
		{%- for m in messages %}{{ m.content or "" }}{% for c in m.tool_calls or [] %}<tool_call>
		{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments|tojson }}}
		</tool_call>{% endfor %}{% endfor %}
	END
	start_serve --chat-template own.jinja
	ask() { post /apply-template "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":$1}}}}}]}"; }
	ask '"string"' >body; jq -e '.prompt | contains("f(str) Hi")' body || fail "$(cat body)"
	ask '"null"' >body
	jq -e '.error | .param == "tools" and (.message | test("cannot show these tools: .*own.jinja:1: the macro .shown. calls itself more than 64 deep, with \\{.type.: .n.\\}"))' body || fail "$(cat body)"
	# what may be null besides is shown without: clients that make schemas from types write it in four ways
	ask '["string","null"]' >body
	jq -e '.prompt | contains("f(str) Hi")' body || fail "$(cat body)"
	for more in '"type":["string","null"],"enum":["a",null]' '"anyOf":[{"type":["null","string"]},{"type":"null"}]' \
		'"type":["null","string"],"nullable":true,"const":"a"' '"oneOf":[{"type":"null"},{"type":["string"]}]'; do
		post /apply-template "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",
			\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{$more},\"y\":{\"type\":[\"string\",\"null\"]}}}}}]}" >body
		jq -e '.prompt | contains("f(strstr) Hi")' body || fail "$more: $(cat body)"
	done
}

@test "tools: the form of real templates is found" {
	data=${RNP_DATA:-$ROOT/../shared/data}/templates
	[ -f "$data/expected.json" ] || skip "real data not there: set RNP_DATA (see README)"
	cd "$BATS_TEST_TMPDIR" || return
	form() { # TEMPLATE MARK MIDDLE CLOSE MOST
		"$RNP_BUILD/unit/rnp-serve/chat/calls" "$data/$1.jinja" >form
		jq -e --arg mark "$2" --arg middle "$3" --arg close "$4" --argjson most "$5" \
			'.calls and .mark == $mark and .middle == $middle and .close == $close and .most == $most' form || fail "$1: $(cat form)"
	}
	form Qwen-Qwen2.5-7B-Instruct '<tool_call>' '", "arguments": ' $'}\n</tool_call>' 16
	form Qwen-Qwen3-0.6B '<tool_call>' '", "arguments": ' $'}\n</tool_call>' 16
	form NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use '<tool_call>' '", "arguments": ' $'}\n</tool_call>' 16
	form meta-llama-Llama-3.1-8B-Instruct '{"name": "' '", "parameters": ' '}' 1
	form Mistral-Small-3.2-24B-Instruct-2506 '[TOOL_CALLS]' $'[CALL_ID]\1[ARGS]' '' 16
	form meetkai-functionary-medium-v3.1 '<function=' '>' '</function>' 16
	form NVIDIA-Nemotron-Nano-v2 '<TOOLCALL>' '", "arguments": ' '}]</TOOLCALL>' 16
	form unsloth-Apriel-1.5 '<tool_calls>' '", "arguments": ' '}]</tool_calls>' 16
	form deepseek-ai-DeepSeek-V3.1 '<｜tool▁calls▁begin｜>' '<｜tool▁sep｜>' '<｜tool▁call▁end｜><｜tool▁calls▁end｜>' 16
	for t in google-gemma-2-2b-it microsoft-Phi-3.5-mini-instruct GLM-4.6; do
		"$RNP_BUILD/unit/rnp-serve/chat/calls" "$data/$t.jinja" | jq -e '(.calls or .tools | not) and .mark == "<tool_call>"'
	done
}
