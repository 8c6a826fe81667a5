# rnp-train tokenize: the ids that others give, tokenizers learned from text, shards.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# A text of some 100 KB that is on every Debian machine.
text() {
	cat /usr/share/common-licenses/{GPL-2,GPL-3,LGPL-2.1} >text
}

ids() {
	rnp-train tokenize --ids "$@"
}

# vectors NAME: each text of NAME.inp gives the ids of NAME.out, from the GGUF itself or the tokenizer $2
vectors() {
	local gguf inp n=0
	gguf=$(data "tokenizers/ggml-vocab-$1.gguf") || skip_data
	inp=$gguf.inp
	mkdir -p "parts.$1"
	python3 - "$inp" "parts.$1" <<-'END'
		import sys
		parts = open(sys.argv[1], "rb").read().split(b"\n__ggml_vocab_test__\n")
		for i, part in enumerate(parts):
		    open(f"{sys.argv[2]}/{i:03}", "wb").write(part)
	END
	ids --tokenizer "${2:-$gguf}" --whole "parts.$1"/* | tr -d '[]' | tr ',' ' ' >got
	sed 's/^ *//; s/ *$//' "$gguf.out" >want
	n=$(wc -l <want)
	((n > 40))
	diff <(head -n "$n" got) want
}

@test "tokenize: on a terminal it says what can be done with the shards, in a folder with blanks, too" {
	text
	on_terminal 100 "rnp-train tokenize --vocab 300 --out 'my tokens' text" >seen
	mapfile -t next < <(sed -n 's/.*rnp-train:.* next: //p' seen)
	assert_equal "${#next[@]}" 2
	bash -c "${next[0]}" >/dev/null
	# the second one trains for as long as it is let
	bash -c "${next[1]} --plan" | jq -e .kind
	rnp-train tokenize --vocab 300 --out again text 2>err >/dev/null
	! grep -q next: err || fail "$(<err)"
}

@test "tokenize: ids are llama.cpp's for GPT-2" {
	vectors gpt-2
}

@test "tokenize: ids are llama.cpp's for Llama 3" {
	vectors llama-bpe
}

@test "tokenize: ids are llama.cpp's for Llama 2 (SentencePiece)" {
	vectors llama-spm
}

@test "tokenize: a tokenizer written as tokenizer.json gives the same ids" {
	local name gguf
	text
	for name in gpt-2 llama-bpe llama-spm; do
		gguf=$(data "tokenizers/ggml-vocab-$name.gguf") || skip_data
		rnp-train tokenize --tokenizer "$gguf" --out "$name" text >record
		assert_equal "$(jq -r .tokens record)" "$(ids --tokenizer "$gguf" --whole text | jq length)"
		vectors "$name" "$name"
		cmp <(ids --tokenizer "$gguf" text) <(ids --tokenizer "$name/tokenizer.json" text)
	done
}

@test "tokenize: llama2.c's own tokenizer, and as tokenizer.json" {
	local bin sample
	bin=$(data models/tok512.bin) || skip_data
	sample=$(data text/tinystories_sample.txt) || skip_data
	# as llama2.c's run gives it for this prompt, without its begin-of-text token
	run ids --tokenizer "$bin" <<<"Once upon a time"
	assert_output "[403,407,261,378]"
	rnp-train tokenize --tokenizer "$bin" --out shards "$sample" >/dev/null
	cmp <(ids --tokenizer "$bin" "$sample") <(ids --tokenizer shards "$sample")
}

@test "tokenize: one array a line, blank lines too; --whole: one for all" {
	text
	rnp-train tokenize --vocab 300 --out t text >/dev/null
	run ids --tokenizer t < <(printf 'a\n\nb')
	assert_output "[64]
[]
[65]"
	run ids --tokenizer t --whole < <(printf 'a\n\nb')
	assert_output "[64,198,198,65]"
	run ids --tokenizer t --whole </dev/null
	assert_output "[]"
	run ids --tokenizer t <<<"a<|endoftext|>"
	assert_equal "$(jq 'index(299)' <<<"$output")" null
	run ids --tokenizer t --special <<<"a<|endoftext|>"
	assert_output "[64,299]"
}

@test "tokenize: --vocab learns the same vocabulary every time, on any number of threads" {
	text
	rnp-train tokenize --vocab 1000 --out a text >record
	assert_equal "$(jq -c '[.kind, .vocab, .shards, .bytes]' record)" \
		"[\"rnp.tokens\",1000,1,$(stat -c %s text)]"
	OMP_NUM_THREADS=1 rnp-train tokenize --vocab 1000 --out b text >/dev/null
	cmp a/tokenizer.json b/tokenizer.json
	cmp a/00000.tokens b/00000.tokens
	# fewer tokens than bytes, and all of them used for something
	(($(jq .tokens record) * 2 < $(stat -c %s text)))
	assert_equal "$(jq '.model.vocab | length' a/tokenizer.json)" 1000
	assert_equal "$(jq '.model.merges | length' a/tokenizer.json)" 743
}

@test "tokenize: --vocab 256 is bytes only" {
	printf 'h\xc3\xa9\xff\x00' >bytes
	rnp-train tokenize --vocab 256 --bytes --out t bytes >/dev/null
	jq -e '.model.merges == [] and (.model.vocab | length) == 256 and .added_tokens == []' t/tokenizer.json
	assert_equal "$(ids --tokenizer t --whole --bytes bytes | jq length)" 5
}

@test "tokenize: Hugging Face's tokenizers give the same ids" {
	python3 -c 'import tokenizers' 2>/dev/null || skip "python3 has no module tokenizers"
	text
	for pattern in gpt-2 llama-bpe; do
		rnp-train tokenize --vocab 800 --pattern "$pattern" --out "$pattern" text >/dev/null
		python3 - "$pattern" text >want <<-'END'
			import json, sys, tokenizers
			t = tokenizers.Tokenizer.from_file(sys.argv[1] + "/tokenizer.json")
			print(json.dumps(t.encode(open(sys.argv[2]).read()).ids, separators=(",", ":")))
		END
		ids --tokenizer "$pattern" --whole text | cmp - want
	done
}

@test "tokenize: shards hold the ids, header and digest as documented" {
	text
	rnp-train tokenize --vocab 700 --pattern llama-bpe --eos --out t text text >record
	python3 - t/00000.tokens "$(jq .tokens record)" >shard <<-'END'
		import hashlib, struct, sys
		data = open(sys.argv[1], "rb").read()
		magic, size, vocab, count, before = struct.unpack_from("<8sIIQQ", data)
		assert (magic, size, vocab, count, before) == (b"RNPTOKS1", 2, 700, int(sys.argv[2]), 0)
		assert struct.unpack_from("<II", data, 96) == (0, 1) and not any(data[104:128])
		assert hashlib.blake2b(data[128:], digest_size=32).digest() == data[64:96]
		print("[%s]" % ",".join(map(str, struct.unpack_from(f"<{count}H", data, 128))))
	END
	ids --tokenizer t --whole text >once
	jq -c --slurpfile a once '. == ($a[0] + [699] + $a[0] + [699])' shard | grep -qx true
}

@test "tokenize: text that gzip or zstd packed is its text, cut or damaged files are 65" {
	text
	rnp-train tokenize --vocab 300 --out t text >plain
	gzip -c text >text.gz
	# a member for each half, and the zeros that fill up a tape
	{ head -c 50000 text | gzip; tail -c +50001 text | gzip -1; head -c 512 /dev/zero; } >two.gz
	python3 -c 'import gzip; gzip.open("long.gz", "wb").write(open("text", "rb").read() * 40)'
	zstd -q text -o text.zst
	{ head -c 50000 text | zstd -q; tail -c +50001 text | zstd -q; } >two.zst
	for file in text.gz two.gz text.zst two.zst; do
		rnp-train tokenize --tokenizer t --out "of-$file" "$file" >record
		cmp "of-$file/00000.tokens" t/00000.tokens
		assert_equal "$(jq .bytes record)" "$(stat -c %s text)"
	done
	cat text.zst | rnp-train tokenize --tokenizer t --out of-pipe >/dev/null
	cmp of-pipe/00000.tokens t/00000.tokens
	assert_equal "$(rnp-train tokenize --tokenizer t --out of-long long.gz | jq .bytes)" $((40 * $(stat -c %s text)))
	rnp-train tokenize --vocab 300 --out learned text.gz >/dev/null
	cmp learned/tokenizer.json t/tokenizer.json
	head -c 20000 text.gz >cut.gz
	head -c 20000 text.zst >cut.zst
	{ head -c 9000 text.gz; printf XXXX; tail -c +9005 text.gz; } >bad.gz
	{ head -c 9000 text.zst; printf XXXX; tail -c +9005 text.zst; } >bad.zst
	for file in cut.gz cut.zst; do refused 65 "'$file' is compressed and damaged: its end is missing" rnp-train tokenize --tokenizer t --out no "$file"; done
	for file in bad.gz bad.zst; do refused 65 "'$file' is compressed and damaged: " rnp-train tokenize --tokenizer t --out no "$file"; done
	run -2 ls no
}

@test "tokenize: what is no text is named, and taken with --bytes" {
	text
	rnp-train tokenize --vocab 300 --out t text >/dev/null
	iconv -t UTF-16 text >utf-16
	iconv -t UTF-16LE text >utf-16le
	python3 - <<-'END'
		import struct
		open("shard.bin", "wb").write(struct.pack("<256I", 20240520, 1, 4, *[0] * 253) + b"abcdefgh")
		open("cut", "wb").write("rénder".encode()[:2])
		open("late", "wb").write(b"a\n" * 200000 + b"\xed\xa0\x80")
		open("x.safetensors", "wb").write(struct.pack("<Q", 20) + b'{"__metadata__":{}} ')
		open("mark", "wb").write(b"\xef\xbb\xbfone\n")
		open("no-mark", "wb").write(b"one\n")
	END
	printf '%%PDF-1.7\nall of it ASCII\n' >pdf
	tar cf archive.tar text
	tokens() { rnp-train tokenize --tokenizer t --out no "$@"; }
	refused 65 "'utf-16' is no text, but UTF-16: convert it (iconv -f UTF-16 -t UTF-8)" tokens utf-16
	refused 65 "'utf-16le' is no UTF-8 text: byte 0x00 at offset 1 (--bytes takes any bytes)" tokens utf-16le
	refused 65 "'shard.bin' is no text, but a token shard of llm.c: give it to --data" tokens shard.bin
	refused 65 "'t/00000.tokens' is no text, but a token shard: give it to --data" tokens t/00000.tokens
	refused 65 "'pdf' is no text, but a PDF file" tokens pdf
	refused 65 "'archive.tar' is no text, but a tar archive" tokens archive.tar
	refused 65 "'x.safetensors' is no text, but a safetensors file" tokens x.safetensors
	refused 65 "'cut' is no UTF-8 text: byte 0xc3 at offset 1 " tokens text cut
	refused 65 "'late' is no UTF-8 text: byte 0xed at offset 400000 " tokens late
	refused 65 "'late' is no UTF-8 text: byte 0xed at offset 400000 " rnp-train tokenize --vocab 300 --out no late
	refused 65 "'utf-16' is no text" rnp-train tokenize --ids --whole --tokenizer t utf-16
	python3 -c 'import gzip; gzip.open("word.gz", "wb").write(b"a" * 17000000)'
	refused 65 "'word.gz' has a word of more than 16777216 bytes behind offset 0: is it text?" tokens word.gz
	: >empty
	refused 65 "the text has no tokens: there is nothing to train on" tokens empty
	run -2 ls no
	assert_equal "$(tokens --bytes utf-16 | jq .bytes)" "$(stat -c %s utf-16)"
	assert_equal "$(ids --tokenizer t --whole mark)" "$(ids --tokenizer t --whole no-mark)"
}

@test "tokenize: --jsonl takes the field of each line as a document, with the end-of-text token behind it" {
	text
	rnp-train tokenize --vocab 300 --out t text >/dev/null
	jq -nc '("one \"quoted\"\nline", "", "thr\u00e9e \u0000", "😀" * 50) | {id: 1, meta: {text: "no"}, text: .}' >docs.jsonl
	for ((i = 1; i <= 4; i++)); do sed -n ${i}p docs.jsonl | jq -j .text >d$i; done
	rnp-train tokenize --tokenizer t --eos --bytes --out a d1 d2 d3 d4 >files
	gzip -k docs.jsonl
	for file in docs.jsonl docs.jsonl.gz; do
		rnp-train tokenize --tokenizer t --jsonl text --out "of-$file" "$file" >lines
		cmp a/00000.tokens "of-$file/00000.tokens"
		assert_equal "$(jq '[.tokens, .bytes, .documents]' lines)" "$(jq '[.tokens, .bytes, .documents]' files)"
	done
	assert_equal "$(ids --tokenizer t --jsonl text docs.jsonl)" "$(ids --tokenizer t --whole --bytes d1 d2 d3 d4)"
	lines() { rnp-train tokenize --tokenizer t --out no --jsonl text "$@"; }
	# who forgets the option is told; an id of any size stops nothing
	printf '\xef\xbb\xbf{"text":"a","id":123456789012345678901}\n' >ids.jsonl
	run_split rnp-train tokenize --tokenizer t --out plain ids.jsonl
	[[ $stderr == *"'ids.jsonl' looks like JSON Lines: --jsonl FIELD"* ]] || fail "$stderr"
	assert_equal "$(rnp-train tokenize --tokenizer t --out large --jsonl text ids.jsonl 2>&1 | jq .tokens)" 2
	echo '[{"text":"a"}' >list.json
	refused 65 "list.json:1: no JSON object" lines list.json
	printf '{"text":"a"}\n\n{"body":"b"}\n' >other.jsonl
	refused 65 "other.jsonl:3: no text in the field 'text'" lines other.jsonl
	printf '{"text":"a"}\n{"text":["b"]}\n' >list.jsonl
	refused 65 "list.jsonl:2: no text in the field 'text'" lines list.jsonl
	printf '{"text":"a"}\nand more\n' >broken.jsonl
	refused 65 "broken.jsonl:2: no JSON object: " lines broken.jsonl
	refused 65 "text:1: no JSON object" lines text
	rnp-train tokenize --vocab 256 --out bytes text >/dev/null
	refused 65 "this tokenizer has no end-of-text token for --jsonl" rnp-train tokenize --tokenizer bytes --jsonl text --out no docs.jsonl
	run -2 ls no
}

@test "tokenize: --data takes shards of llm.c and of nanoGPT as our own" {
	text
	rnp-train tokenize --vocab 300 --out t text >/dev/null
	rnp-train init --preset nano --tokenizer t --out m
	mkdir llmc
	python3 - <<-'END'
		import struct
		data = open("t/00000.tokens", "rb").read()[128:]
		n = len(data) // 2
		ids = struct.unpack(f"<{n}H", data)
		half = n // 2
		open("llmc/train_000000.bin", "wb").write(struct.pack("<256I", 20240520, 1, half, *[0] * 253) + data[:2 * half])
		open("llmc/train_000001.bin", "wb").write(struct.pack("<256I", 20240520, 1, n - half, *[0] * 253) + data[2 * half:])
		open("wide.bin", "wb").write(struct.pack("<256I", 20240801, 7, n, *[0] * 253) + struct.pack(f"<{n}I", *ids))
		open("raw.bin", "wb").write(data)
		open("raw4.bin", "wb").write(struct.pack(f"<{n}I", *ids))
		open("cut.bin", "wb").write(struct.pack("<256I", 20240520, 1, n, *[0] * 253) + data[:100])
		open("later.bin", "wb").write(struct.pack("<256I", 20240520, 9, n, *[0] * 253) + data)
		open("large.bin", "wb").write(struct.pack("<256I", 20240520, 1, 40, *[0] * 253) + struct.pack("<40H", *[60000] * 40))
	END
	loss() { rnp-train eval --model m --tokens 300 --length 64 "$@" | jq -e .loss; }
	want=$(loss --data t)
	assert_equal "$(loss --data llmc)" "$want"
	assert_equal "$(loss --data wide.bin)" "$want"
	assert_equal "$(loss --data raw.bin --ids u16)" "$want"
	assert_equal "$(loss --data raw4.bin --ids u32)" "$want"
	steps() { rm -rf o; rnp-train run --model m --out o --steps 2 --batch 2 --length 32 "$@" | jq -c 'select(.kind == "rnp.step") | .loss'; }
	assert_equal "$(steps --data llmc)" "$(steps --data t)"
	assert_equal "$(steps --data raw.bin --ids u16)" "$(steps --data t)"
	refused 65 "'cut.bin' has 1124 bytes, which is not " rnp-train eval --model m --data cut.bin
	refused 65 "'later.bin' is a shard of llm.c in version 9: 1 is known" rnp-train eval --model m --data later.bin
	refused 65 "large.bin" rnp-train run --model m --out o --steps 1 --data large.bin
	refused 65 "other bytes an id?" rnp-train run --model m --out o --steps 1 --data raw.bin --ids u32
	refused 65 "these shards are llm.c's" rnp-train coordinate --model m --data llmc --listen 127.0.0.1:0
}

@test "tokenize: shards are never overwritten, and nothing is left of a failure" {
	text
	rnp-train tokenize --vocab 300 --out t text >/dev/null
	refused 73 "holds token shards already" rnp-train tokenize --vocab 300 --out t text
	refused 66 "cannot open 'missing'" rnp-train tokenize --tokenizer t --out u text missing
	assert_equal "$(ls -A u)" ""
}

@test "tokenize: options that do not go together are 64" {
	text
	refused 64 "either --vocab or --tokenizer" rnp-train tokenize --out t text
	refused 64 "either --vocab or --tokenizer" rnp-train tokenize --out t --vocab 300 --tokenizer t text
	refused 64 "--out is needed" rnp-train tokenize --vocab 300 text
	refused 64 "--ids goes without" rnp-train tokenize --vocab 300 --ids text
	refused 64 "--whole goes with --ids" rnp-train tokenize --tokenizer t --out t --whole
	refused 64 "standard input can be read once" rnp-train tokenize --vocab 300 --out t
	run_split rnp-train tokenize --vocab 255 --out t text
	assert_equal "$status" 64
	[[ $stderr == *"--vocab"* ]]
}

@test "tokenize: malformed tokenizers are 65, missing ones 66" {
	local gguf
	refused 66 "cannot open 'none'" rnp-train tokenize --ids --tokenizer none
	mkdir empty
	refused 66 "empty/tokenizer.json" rnp-train tokenize --ids --tokenizer empty
	echo '{' >bad.json
	refused 65 bad.json rnp-train tokenize --ids --tokenizer bad.json
	echo '{"model":{"type":"WordPiece","vocab":{"a":0}}}' >word.json
	refused 65 "model 'WordPiece' is not supported" rnp-train tokenize --ids --tokenizer word.json
	echo '{"model":{"type":"BPE","vocab":{"a":0}}}' >merges.json
	refused 65 "no 'merges'" rnp-train tokenize --ids --tokenizer merges.json
	head -c 100 /dev/zero >zeros.bin
	refused 65 "is no tokenizer" rnp-train tokenize --ids --tokenizer zeros.bin
	gguf=$(data tokenizers/ggml-vocab-gpt-2.gguf) || skip_data
	# the name of its pre-tokenizer is the text "gpt-2" behind that key
	LC_ALL=C sed 's/\(tokenizer.ggml.pre.\{12\}\)gpt-2/\1gpt-9/' "$gguf" >unknown.gguf
	cmp -s "$gguf" unknown.gguf && fail "nothing was changed"
	refused 65 "unknown pre-tokenizer 'gpt-9'" rnp-train tokenize --ids --tokenizer unknown.gguf
}

# llama.cpp's ids are compared in token-parity.bats
@test "tokenize: some tokens of a GGUF file are known by their names, whatever it says of them" {
	text
	rnp-train tokenize --vocab 1000 --out t text >/dev/null
	rnp-train init --preset nano --tokenizer t --out m
	rnp-train export --model m --gguf m.gguf
	mkdir kinds
	python3 "$ROOT/tests/tools/token_kinds.py" m.gguf kinds
	# has FILE TEXT [--special]: is one of the file's further tokens, which are from 1000 on, in the text?
	has() {
		echo "$2" | rnp-train tokenize --ids --tokenizer "kinds/$1.gguf" "${@:3}" | jq -e 'any(. >= 1000)' >/dev/null
	}
	for kind in user normal; do
		! has fill-0-$kind 'x<|fim_prefix|>x' || fail "found without --special"
		has fill-0-$kind 'x<|fim_prefix|>x' --special
		! has ends-$kind 'x<|calls|>x' || fail "found without --special"
		has ends-$kind 'x<|calls|>x' --special
		has always-$kind 'x<|channel|>x'
		has harmony-$kind 'x<|end|>x'
		! has end-$kind 'x<|end|>x' || fail "found without --special"
		! has tool-$kind 'x</s>x' --special || fail "found though HTML"
		has no-tool-$kind 'x</s>x' --special
	done
	has keys 'x<|fim_prefix|>x'
	! has wrong-keys 'x<|fim_prefix|>x' || fail "found without --special"
}

@test "tokenize: a text begins with BOS under Gemma 4's name, whatever the file says" {
	text
	rnp-train tokenize --vocab 300 --out t text >/dev/null
	rnp-train init --preset nano --tokenizer t --out m
	rnp-train export --model m --gguf m.gguf
	for pre in gemma4 granite-embed-multi-311m sarvam-moe; do
		python3 - "$ROOT/tests/tools" $pre <<-'END'
			import sys
			sys.path.insert(0, sys.argv[1])
			import gguf_patch as g
			values, rest = g.read("m.gguf")
			for v in (g.text("tokenizer.ggml.pre", sys.argv[2]), g.u32("tokenizer.ggml.bos_token_id", 0),
			        ["tokenizer.ggml.add_bos_token", 7, b"\0"]):
			    g.put(values, v)
			g.write("p.gguf", values, rest)
		END
		rnp-train export --model p.gguf --out $pre
	done
	assert_equal "$(jq .add_bos_token gemma4/tokenizer_config.json granite*/tokenizer_config.json sarvam-moe/tokenizer_config.json | xargs)" \
		"true true false"
}

@test "corpus: the same text twice, in plain English" {
	"$ROOT/scripts/corpus" a 1000000 || skip "this machine has no text"
	"$ROOT/scripts/corpus" b 1000000
	cmp a b
	(($(stat -c %s a) >= 1000000))
	grep -q 'the' a
	# a place that is not there ends nothing, nor does a file that is damaged
	mkdir bin
	printf 'x' | gzip -n | head -c 10 >README.gz
	printf '\377%.0s' {1..100} >>README.gz
	printf '#!/bin/sh\n%s "$@"\nprintf "%%s\\0" "%s"\nexit 1\n' "$(command -v find)" "$PWD/README.gz" >bin/find
	chmod +x bin/find
	PATH=$PWD/bin:$PATH "$ROOT/scripts/corpus" c 1000000
	cmp a c
}

@test "tokenize: a full disk or a signal leaves nothing of a set" {
	text
	rnp-train tokenize --vocab 256 --out t text >/dev/null
	# 64 KB: room for the tokenizer, not for the shards
	for kib in 1 64; do
		refused 74 "cannot write" bash -c "ulimit -f $kib; rnp-train tokenize --tokenizer t --out full text"
		[ ! -e full ]
	done
	# known before anything is read, and then learnt
	refused 73 "shards already" rnp-train tokenize --vocab 300 --out t absent
	refused 66 "absent" rnp-train tokenize --vocab 300 --out new absent
	[ ! -e new ]
	mkdir full
	refused 74 "cannot write" bash -c "ulimit -f 64; rnp-train tokenize --tokenizer t --out full text"
	[ -z "$(ls -A full)" ]
	mkfifo pipe
	exec 9<>pipe
	rnp-train tokenize --tokenizer t --out killed text pipe >/dev/null 3>&- 9>&- &
	begun() { [ -n "$(ls -A killed 2>/dev/null)" ]; }
	wait_until 'a file of the set' begun
	kill -TERM $!
	local status=0
	ended $! || status=$?
	((status == 143))
	exec 9>&-
	[ -z "$(ls -A killed)" ]
}
