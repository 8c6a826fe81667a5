#!/usr/bin/env bats
# The page of rnp-serve run: what its headers allow, and how it goes in a browser.
load ../helper
load serve

setup_file() { make_chat_model; }
teardown() { stop_serve; }

@test "page: one file, and no script runs but its own" {
	start_serve
	curl -sS -D headers "$url/" >page
	grep -qi '^content-type: text/html; charset=utf-8' headers
	python3 - <<-'END'
		import base64, hashlib, re
		page = open("page").read()
		policy = re.search(r"content-security-policy: (.*)", open("headers").read(), re.I).group(1)
		for tag in "script", "style":
		    assert page.count("<" + tag) == 1
		    inside = page.split(f"<{tag}>")[1].split(f"</{tag}>")[0]
		    digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
		    assert f"{tag}-src 'sha256-{digest}'" in policy, policy
		assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
		assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?://", page), "the page"
		assert not re.search(r"<[a-z]+[^>]*\son[a-z]+=", page)
	END
}

@test "page: in Chromium it chats, stops, edits, keeps, and a hostile model's text stays text" {
	command -v "${CHROMIUM:-chromium}" >/dev/null || skip "chromium is not there: scripts/bootstrap"
	local key locked
	cd "$BATS_TEST_TMPDIR"
	key=$(rnp-serve key --name a --append keys)
	start_serve --api-keys keys
	locked=$server
	local with_keys=$url
	start_serve --model "other=$DIR/model"
	timeout 120 node "$ROOT/tests/tools/page_chromium.mjs" "$url" "$BATS_TEST_TMPDIR" "$with_keys" "$key" || fail "$(cat serve.err)"
	kill "$locked"
	[ "$(metric running)" = 0 ]
	[ -s wide.png ]
	[ -s phone.png ]
}
