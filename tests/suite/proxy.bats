# The servers behind a real proxy, below a path of it, with the lines of rnp(7) as they are printed.
load ../helper
load ../rnp-train/train_net
load ../rnp-serve/serve

setup_file() {
	make_chat_model
}

setup() {
	cd "$BATS_TEST_TMPDIR"
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
	public=http://127.0.0.1:$port/rnp
	behind=(--external-url "$public" --trusted-proxy 127.0.0.1 --proxy-header x-forwarded-for)
}

teardown() {
	stop_serve
	kill "${proxy:-}" "${coordinator:-}" 2>/dev/null || true
}

# The literal block of rnp(7) that begins with this line
page_lines() {
	awk -v first="$1" '$0 == first { on = 1 } /^\.Ed/ { on = 0 } on' "$ROOT/man/rnp.7"
}

# Writes the lines of the page into a server block, in front of the server at $url
nginx_in_front() {
	command -v nginx >/dev/null || skip "nginx is not there: scripts/bootstrap"
	{
		echo "daemon off; pid $PWD/nginx.pid; error_log $PWD/nginx.err; events { }"
		echo "http { access_log off;"
		for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $PWD/$kind;"; done
		echo "server { listen 127.0.0.1:$port;"
		page_lines 'location /rnp/ {' | sed "s|http://127.0.0.1:8080/|$url/|"
		echo "} }"
	} >nginx.conf
	nginx -e nginx.err -c "$PWD/nginx.conf" 2>nginx.err 3>&- &
	proxy=$!
	wait_until "nginx to answer" curl -so /dev/null "$public/health"
}

code() {
	curl -so /dev/null -w '%{http_code}' "$@"
}

# Every link of a page leads to something below the path
links_work() {
	python3 - "$@" <<-'END'
		import html.parser, sys, urllib.parse, urllib.request
		page, public = sys.argv[1:]
		links = []
		class Links(html.parser.HTMLParser):
		    def handle_starttag(self, tag, attrs):
		        links.extend(v for k, v in attrs if k in ("href", "src", "action") and not v.startswith(("#", "data:", "https:")))
		Links().feed(urllib.request.urlopen(page).read().decode())
		assert links, "no links"
		for link in set(links):
		    to = urllib.parse.urljoin(page, link)
		    assert to.startswith(public + "/"), to
		    urllib.request.urlopen(to).read()
	END
}

@test "proxy: a registry below nginx's path: links, limits and log are the clients'" {
	rnp-register serve --db registry.db --listen 127.0.0.1:0 --port-file back --log-file requests.log --rate 1 "${behind[@]}" 2>serve.err 3>&- &
	server=$!
	wait_port back "$server"
	url=http://127.0.0.1:$(cat back)
	nginx_in_front
	# clients of different addresses have a limit each, and what they write into the header themselves does not count
	for _ in {1..9}; do code --interface 127.0.0.2 -H 'X-Forwarded-For: 203.0.113.9' -H 'Forwarded: for=203.0.113.8' "$public/health"; echo; done >codes
	grep -qx 429 codes
	[ "$(code --interface 127.0.0.3 "$public/health")" = 200 ]
	wait_until "the log" grep -q '"client":"127.0.0.3"' requests.log
	grep -q '"client":"127.0.0.2"' requests.log
	# nor from who is no such proxy
	code --interface 127.0.0.4 -H 'X-Forwarded-For: 203.0.113.9' "$url/health"
	wait_until "the log" grep -q '"client":"127.0.0.4"' requests.log
	run ! grep -q 203.0.113 requests.log
	[ "$(code -H 'X-Forwarded-For: unknown' "$url/health")" = 400 ]
	# whose proxy may set either
	kill "$server"
	wait "$server" || true
	rnp-register serve --db registry.db --listen "${url#http://}" --log-file requests.log "${behind[@]:0:4}" 2>serve.err 3>&- &
	server=$!
	wait_until "the registry to answer" curl -so /dev/null "$url/health"
	[[ $(curl -s -H 'X-Forwarded-For: 203.0.113.9' -H 'Forwarded: for=203.0.113.8' "$url/health" | jq -r .error) == \
		"X-Forwarded-For and Forwarded name different clients"*--proxy-header* ]]
	# what a client leaves open does not swallow the proxy's own word
	[ "$(code -H 'Forwarded: for=203.0.113.9;x="' -H 'Forwarded: for=203.0.113.8' "$url/health")" = 400 ]
	[ "$(code -H 'Forwarded: for=203.0.113.9;by=", for=203.0.113.8' "$url/health")" = 400 ]
	[ "$(code -H 'Forwarded: for=203.0.113.9;by=","' -H 'Forwarded: for=203.0.113.8' "$url/health")" = 200 ]
	wait_until "the log" grep -q '"client":"203.0.113.8"' requests.log
	run ! grep -q 203.0.113.9 requests.log
}

@test "proxy: pages and descriptions lead nowhere but below the path" {
	rnp-register keygen --out a.json
	address=$(rnp-register address --key a.json)
	rnp-register serve --db registry.db --listen 127.0.0.1:0 --port-file back -q "${behind[@]}" 2>serve.err 3>&- &
	server=$!
	wait_port back "$server"
	url=http://127.0.0.1:$(cat back)
	nginx_in_front
	rnp-register detect --key a.json 2>/dev/null | rnp-register sign --key a.json | rnp-register submit --registry "$public" >/dev/null
	links_work "$public/" "$public"
	grep -q "setup --registry $public<" <(curl -s "$public/")
	links_work "$public/nodes/$address" "$public"
	links_work "$public/?country=XX" "$public"
	[ "$(curl -s "$public/openapi.json" | jq -r '.servers[0].url')" = . ]
}

@test "proxy: a worker trains below nginx's path, and without --external-url is told the path that arrived" {
	start_coordinator --rounds 1 --inner-steps 2 -q
	nginx_in_front
	rnp-register keygen --out w.json
	refused 77 "the path that arrived here is '/v1/work?" timeout 60 rnp-train join -q "$public" --data "$DIR/tok" --state w --device cpu --key w.json
	kill "$coordinator" "$proxy"
	wait "$coordinator" "$proxy" || true
	start_coordinator --rounds 1 --inner-steps 2 -q "${behind[@]}"
	nginx_in_front
	timeout 60 rnp-train join "$public" --data "$DIR/tok" --state w --device cpu --key w.json -q >w.out
	[ "$(jq -r .kind c.out | grep -c rnp.round)" = 1 ]
	grep -q '"kind":"rnp.receipt"' w.out
}

@test "proxy: a chat server below nginx's path: its page asks there, and streams piece by piece" {
	start_serve "${behind[@]}"
	nginx_in_front
	grep -q 'fetch("v1/' <(curl -s "$public/")
	run ! grep -qE '(href|src|action)="/|fetch\("/' <(curl -s "$public/")
	# a browser names the proxy as the page's origin, and the server listens on loopback
	[ "$(code -H "Origin: http://127.0.0.1:$port" "$public/v1/models")" = 200 ]
	[ "$(code -H "Host: chat.example" -H "Origin: http://127.0.0.1:$port" "$url/v1/models")" = 403 ]
	[ "$(code -H "Origin: http://evil.example" "$public/v1/models")" = 403 ]
	curl -sD head -o /dev/null "$url/v1/completions" -d '{"prompt":"a","max_tokens":2,"stream":true}'
	grep -qi '^x-accel-buffering: no' head
	# the path may arrive, too
	[ "$(code "$url/rnp/v1/models")" = 200 ]
	[ "$(code "$url/other/v1/models")" = 404 ]
}

@test "proxy: the lines for Caddy put a registry below its path" {
	command -v caddy >/dev/null || skip "caddy is not there"
	rnp-register serve --db registry.db --listen 127.0.0.1:0 --port-file back --log-file requests.log "${behind[@]}" 2>serve.err 3>&- &
	server=$!
	wait_port back "$server"
	{
		echo "{ admin off }" | sed 's/{ /{\n/; s/ }/\n}/'
		page_lines 'example.org {' | sed "s|127.0.0.1:8080|127.0.0.1:$(cat back)|; s|^example.org|http://127.0.0.1:$port|"
	} >Caddyfile
	HOME=$PWD caddy run --config Caddyfile 2>caddy.err 3>&- &
	proxy=$!
	wait_until "Caddy to answer" curl -so /dev/null "$public/health"
	[ "$(code --interface 127.0.0.2 -H 'X-Forwarded-For: 203.0.113.9' -H 'Forwarded: for=203.0.113.8' "$public/v1/nodes")" = 200 ]
	wait_until "the log" grep -q '"client":"127.0.0.2"' requests.log
}

@test "proxy: what is no URL or no block of addresses is refused" {
	for url in example.org ftp://a/b http:// 'http://a/b?c' http://me@a/ 'http://a//b'; do
		refused 64 "--external-url: '$url' is not a URL" rnp-register serve --db x.db --listen 127.0.0.1:0 --external-url "$url"
	done
	for block in 10.0.0.1/8 300.0.0.1 10.0.0.0/33 ::1/129 '' nginx; do
		refused 64 "--trusted-proxy: '$block' is not a block" rnp-register serve --db x.db --listen 127.0.0.1:0 --trusted-proxy "$block"
	done
	refused 64 "--proxy-header needs --trusted-proxy" rnp-register serve --db x.db --listen 127.0.0.1:0 --proxy-header forwarded
}
