# Token ids against other engines: Hugging Face's tokenizers (npm @huggingface/tokenizers) and llama.cpp (npm node-llama-cpp).
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	HFT=$ROOT/build/node/node_modules/@huggingface/tokenizers
}

need_hft() {
	command -v node >/dev/null || skip "Node.js is not there"
	[[ -d $HFT ]] || skip "npm package @huggingface/tokenizers is not there: scripts/bootstrap"
}

# Texts of every kind as files below texts/, all of them UTF-8
texts() {
	mkdir texts
	python3 - "$ROOT/tests/tools" "$1" "${RNP_DATA:-$ROOT/../shared/data}" <<-'END'
		import os, sys
		sys.path.insert(0, sys.argv[1])
		import token_parity
		sets = token_parity.gather(sys.argv[3] if os.path.isdir(sys.argv[3]) else None, int(sys.argv[2]), 7, False)
		for i, text in enumerate(t for s in sets.values() for t in s):
		    open(f"texts/{i:05}", "wb").write(text)
	END
}

# same DIR FILE...: tokenizer.json there gives the same ids of these texts here and there
same() {
	rnp-train tokenize --ids --whole --special --tokenizer "$@" >ours
	node "$ROOT/tests/tools/hf_tokenizers.mjs" "$HFT" "$@" >theirs
	(($(wc -l <theirs) > 300))
	cmp ours theirs || fail "texts $(diff ours theirs | grep -c '^<') of $(wc -l <ours) differ in $1: $(diff ours theirs | head -2 | cut -c1-300)"
}

@test "token parity: Hugging Face's tokenizers give the same ids, of tokenizers learned here" {
	need_hft
	texts 300
	cat /usr/share/common-licenses/{GPL-2,GPL-3} >text
	for pattern in gpt-2 llama-bpe; do
		rnp-train tokenize --vocab 1500 --pattern "$pattern" --out "$pattern" text >/dev/null
		local files=(texts/*)
		# JavaScript's own class of blanks, which GPT-2's ByteLevel uses there, lacks U+0085; that of the original has it
		if [[ $pattern == gpt-2 ]]; then mapfile -t files < <(LC_ALL=C grep -L -a $'\xc2\x85' texts/*); fi
		same "$pattern" "${files[@]}"
	done
}

# The vocabulary is learned here, so that no data is needed: what is compared is how texts are cut into words.
@test "token parity: llama.cpp gives the same ids under every name of a pre-tokenizer" {
	need_llama_cpp
	cat /usr/share/common-licenses/{GPL-2,GPL-3} >text
	rnp-train tokenize --vocab 1500 --out t text >/dev/null
	rnp-train init --preset nano --tokenizer t --out m
	rnp-train export --model m --gguf m.gguf
	python3 "$ROOT/tests/tools/token_parity.py" --count 120 --short m.gguf >report || fail "$(grep -v ' 0 differ' report | head -20)"
	(($(wc -l <report) > 85))
}

@test "token parity: llama.cpp gives the same ids where a token's name says more than its file" {
	need_llama_cpp
	rnp-train tokenize --vocab 1500 --out t /usr/share/common-licenses/GPL-3 >/dev/null
	rnp-train init --preset nano --tokenizer t --out m
	rnp-train export --model m --gguf m.gguf
	mkdir kinds
	python3 "$ROOT/tests/tools/token_kinds.py" --compare m.gguf kinds
	(($(ls kinds | wc -l) > 35))
}

@test "token parity: llama.cpp gives the same ids with the vocabularies of GPT-2, Llama 3 and Llama 2" {
	local gguf
	need_llama_cpp
	gguf=$(data tokenizers/ggml-vocab-gpt-2.gguf) || skip_data
	for name in gpt-2 llama-bpe llama-spm; do
		python3 "$ROOT/tests/tools/token_parity.py" --count 200 --names "$name" --data "${RNP_DATA:-$ROOT/../shared/data}" \
			"${gguf/gpt-2/$name}" >report || fail "$(cat report)"
		grep -q "texts, 0 differ" report
	done
}
