#!/usr/bin/env bats
# Chat templates: byte for byte what Jinja makes of the real ones, and what another engine makes of
# those that are not there.
load ../helper

@test "template: every real one gives the bytes that Jinja gives, or refuses what it refuses" {
	data=${RNP_DATA:-$ROOT/../shared/data}/templates
	[ -f "$data/expected.json" ] || skip "real data not there: set RNP_DATA (see README)"
	python3 - "$RNP_BUILD/unit/lm/template/template" "$data" <<-'END'
		import json, subprocess, sys
		unit, data = sys.argv[1:]
		known = json.load(open(data + "/expected.json"))
		bad = count = 0
		for name, texts in known["expected"].items():
		    lines = [json.dumps(dict(known["cases"][c], add_generation_prompt=True)) for c in texts]
		    out = subprocess.run([unit, f"{data}/{name}"], input="\n".join(lines) + "\n",
		                         capture_output=True, text=True, check=True).stdout.splitlines()
		    assert len(out) == len(lines), name
		    for case, line in zip(texts, map(json.loads, out)):
		        count += 1
		        if line.get("text") != texts[case]:
		            bad += 1
		            print(name, case, line, "not", repr(texts[case]))
		print(count, "texts")
		sys.exit(bad > 0 or count < 90)
	END
}

@test "template: other templates and conversations give what @huggingface/jinja gives" {
	[ -d "$ROOT/build/node/node_modules/@huggingface/jinja" ] || skip "@huggingface/jinja is not there: scripts/bootstrap"
	node "$ROOT/tests/tools/template_parity.mjs" "$RNP_BUILD/unit/lm/template/template" "$ROOT/build/node/node_modules/@huggingface/jinja/dist/index.js"
}

@test "template: a long conversation is rendered and tokenized within a moment" {
	"$RNP_BUILD/unit/lm/template/template" --time >"$BATS_TEST_TMPDIR/time"
	cat "$BATS_TEST_TMPDIR/time"
	jq -e '.bytes > 30000' "$BATS_TEST_TMPDIR/time"
}
