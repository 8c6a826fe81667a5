# rnp-register setup --sell makes a node sell, and --no-sell ends that.
load ../helper
load registry
load containers
load sign
load market
load ../suite/man_examples

setup_file() {
	make_machine
}

teardown_file() {
	end_machine
}

rnp-register() {
	in_machine rnp-register "$@"
}

setup() {
	IN_MACHINE=(nsenter --net="$MACHINE")
	SERVE_UNDER=("${IN_MACHINE[@]}")
	cd "$BATS_TEST_TMPDIR" || return
	unset RNP_REGISTRY RNP_WALLET RNP_KEY RNP_COSTS RNP_LABEL RNP_NAME RNP_BENCH RNP_GPUS
	export RNP_NODE_ENV=$BATS_TEST_TMPDIR/none
	cp "$ROOT/tests/data/man/costs.json" .
	jq -nc '{kind: "rnp.bench", v: 1, at: "2026-11-01T00:00:00Z", suite: "net", test: "down", device: "network", samples: 5,
		params: {peer: "http://127.0.0.1:1"}, unit: "B/s", median: 125000000, low: 120000000, high: 126000000}' >bench.jsonl
	pids=()
}

teardown() {
	local pid
	for pid in "${pids[@]}"; do kill -- "$pid" 2>/dev/null || true; done
	stop_registry || true
	stop_images
	[[ -z ${BOX:-} ]] || { end_leases "$BOX" "$RUN"; rm -rf "$BOX" "$RUN"; }
}

# sell [OPTION...]: in an image
sell() {
	run_split rnp-register setup --root image --registry "$url" --policy testnet --bench bench.jsonl --sell "$@"
	echo "$output" >out
}

@test "sell: an image has options, unit and price of a node that sells, and says what it still needs" {
	start_registry
	sell --price 0.40
	assert_equal "$status" 0
	rnp-register --schema rnp.setup >schema
	python3 -c 'import json, sys, jsonschema
jsonschema.Draft202012Validator(json.load(open("schema"))).validate(json.load(open("out")))'
	jq -e '.sells == "written" and .price_uusd == 400000 and (has("lacks") | not)' out
	advised .next out | grep -q '^apt-get install .*podman runc conmon nftables'
	advised .next out | grep -qx 'systemctl enable --now rnp-work.service'
	# the registry has the price, signed by the node: what it gets, and what its customers pay
	rnp-register list --quotes --registry "$url" >quote
	rnp-register verify <quote
	jq -e --arg n "$(jq -r .node out)" 'select(.kind == "rnp.quote") | .node == $n and .ask_uusd == 400000 and .customer_uusd == 421053' quote
	[[ ! -e image/etc/rnp/price.env && -z $(find image/etc/rnp -name '.*') ]]
	# what a person writes stays
	sed -i 's/^RNP_WORK_OPTIONS=.*/RNP_WORK_OPTIONS="--memory 4GiB"/' image/etc/rnp/work.env
	sell
	jq -e '.sells == "written" and (has("lacks") | not)' out
	sell --price 0.50
	grep -qx 'RNP_WORK_OPTIONS="--memory 4GiB"' image/etc/rnp/work.env
	assert_equal "$(rnp-register list --quotes --registry "$url" | jq "select(.kind == \"rnp.quote\").ask_uusd")" 500000
	grep -q 'EnvironmentFile=-/etc/rnp/work.env' image/etc/systemd/system/rnp-work.service
	! command -v systemd-analyze >/dev/null || {
		sed "s|/usr/local/bin|$RNP_BUILD/bin|; s|/usr/local/share/rnp|$ROOT/scripts|" -i image/etc/systemd/system/*
		systemd-analyze verify --man=no image/etc/systemd/system/* 2>verify.err || fail "$(<verify.err)"
	}
}

@test "sell: with costs and no price it follows the markets, until it gets a price of its own" {
	start_registry
	sell --costs costs.json
	jq -e '.sells == "written" and (has("price_uusd") | not)' out
	grep -qx "RNP_PUBLISH=\"--market rnp --url $url --key-file /run/credentials/rnp-price.service/key\"" image/etc/rnp/price.env
	[[ -s image/etc/systemd/system/rnp-price.timer && -s image/etc/systemd/system/rnp-price.service ]]
	# price-loop with this file lists a price in the registry
	node=$(jq -r .node image/etc/rnp/node.json)
	sed "s|/run/credentials/rnp-price.service/key|image/etc/rnp/key.json|" image/etc/rnp/price.env >env
	(. ./env && in_machine rnp-price quote --node image/etc/rnp/node.json --costs image/etc/rnp/costs.json --floor-if-empty /dev/null >q.json &&
		in_machine rnp-price publish $RNP_PUBLISH --state p.db q.json >published)
	jq -e --arg n "$node" 'select(.kind == "rnp.quote") | .node == $n and .ask_uusd > 0' <(rnp-register list --quotes --registry "$url")
	sell --price 1
	[[ ! -e image/etc/rnp/price.env ]]
}

@test "sell: without a price it says so, and which command sets one" {
	start_registry
	sell
	assert_equal "$status" 1
	jq -e '.sells == "lacks" and .lacks == ["price: neither --price nor --costs was given"]' out
	advised .next out | grep -qx 'rnp-register setup --root image --sell --price 0.40'
}

@test "sell: --no-sell ends it though the registry is away, --sell begins it again, and both at once are no wish" {
	start_registry
	sell --price 1
	stop_registry
	run_split rnp-register setup --root image --no-sell
	assert_equal "$status" 69
	[[ -e image/var/lib/rnp-work/closed ]]
	start_registry
	run_split rnp-register setup --root image --registry "$url" --policy testnet --bench bench.jsonl --no-sell
	assert_equal "$(jq -r .sells <<<"$output")" ends
	sell --price 1
	[[ ! -e image/var/lib/rnp-work/closed ]]
	refused 64 'either --sell or --no-sell' rnp-register setup --root image --sell --no-sell
	refused 64 '--price is of --sell' rnp-register setup --root image --price 1
}

# A machine whose /etc, /var/lib and /run/rnp are its own: what setup writes there touches none that there is
own_machine() {
	BOX=$(mktemp -d /var/tmp/rnp-sell-XXXXXX)
	RUN=$(mktemp -d /run/rs-XXX)
	mkdir "$BOX/work" "$BOX/layers"
	chmod 711 "$BOX" "$RUN"
	cat >own <<-'S'
		set -e
		mount -t tmpfs layers "$1/layers"
		for d in etc var/lib; do
			mkdir -p "$1/layers/$d/up" "$1/layers/$d/work"
			mount -t overlay over -o "lowerdir=/$d,upperdir=$1/layers/$d/up,workdir=$1/layers/$d/work" "/$d"
		done
		rm -rf /etc/rnp /etc/systemd/system/rnp-*
		mkdir -p /var/lib/rnp-work /run/rnp
		mount --bind "$1/work" /var/lib/rnp-work
		mount --bind "$2" /run/rnp
		sed -i '/^rnp-session:/d' /etc/passwd
		: >"$1/there"
		exec sleep 1000000
	S
	unshare -m bash own "$BOX" "$RUN" 2>own.err 3>&- &
	pids+=($!)
	there() { [[ -e $BOX/there ]] || ! kill -0 "${pids[0]}" 2>/dev/null; }
	wait_until "a machine" there
	[[ -e $BOX/there ]] || skip "NO OVERLAY OF /etc HERE: $(cat own.err)"
	IN_MACHINE+=(--mount="/proc/${pids[0]}/ns/mnt" --wd="$PWD")
	in_machine() { "${IN_MACHINE[@]}" "$@"; }
}

# The node sells here: setup with these options. A disk that is nearly full is the test's machine's
sell_here() {
	run_split rnp-register setup --registry "$url" --policy testnet --bench bench.jsonl --no-start --sell "$@"
	jq -c '.lacks = [.lacks // [] | .[] | select(startswith("disk:") | not)]' <<<"$output" >out
}

# unit UNIT [SED]: what its service runs, in the background, with this build's programs
unit() {
	in_machine cat "/etc/systemd/system/$1" >unit
	{
		echo 'set -a; . /etc/rnp/node.env; [ ! -e /etc/rnp/work.env ] || . /etc/rnp/work.env; set +a'
		awk '/^ExecStart=/ { on = 1; sub(/^ExecStart=/, "") } on { more = sub(/\\$/, ""); printf "%s", $0; if (!more) exit }' unit |
			sed "s|/usr/local/bin/|$RNP_BUILD/bin/|g; ${2:-}"
	} >"$1.sh"
	[[ -e credentials ]] || { mkdir credentials && in_machine install -m 600 /etc/rnp/key.json credentials/key; }
	NOTIFY_SOCKET=$PWD/notify CREDENTIALS_DIRECTORY=$PWD/credentials "${IN_MACHINE[@]}" setsid bash "$1.sh" 2>>"$1.err" >/dev/null 3>&- &
	pids+=("-$!")
}

@test "sell: a program that lacks is named with the command that installs it, and nothing begins" {
	need_podman
	need_sandbox
	start_registry
	own_machine
	sell_here --price 1
	jq -e '.lacks == []' out || fail "$(cat out)"
	assert_equal "$(in_machine getent passwd rnp-session | cut -d: -f6,7)" /:/bin/sh
	# of GPUs, each of which has to stand in a CDI file by its uuid
	"${CC:-gcc}" -shared -fPIC -o libnvidia-ml.so.1 "$ROOT/tests/fake/nvml.c"
	LD_LIBRARY_PATH=$PWD sell_here --price 1
	jq -e '.lacks == ["GPU in containers: no CDI file names nvidia.com/gpu=GPU-11111111-2222-3333-4444-555555555555"]' out || fail "$(cat out)"
	grep -q 'nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml' out
	in_machine mkdir -p /etc/cdi
	in_machine sh -c 'echo "{\"kind\": \"nvidia.com/gpu\", \"devices\": [{\"name\": \"GPU-11111111-2222-3333-4444-555555555555\"},
		{\"name\": \"GPU-66666666-7777-8888-9999-aaaaaaaaaaaa\"}]}" >/etc/cdi/nvidia.json'
	LD_LIBRARY_PATH=$PWD sell_here --price 1
	jq -e '.lacks == []' out || fail "$(cat out)"
	: >nothing
	in_machine mount --bind nothing "$(command -v podman)"
	in_machine mount --bind nothing "$(PATH=$PATH:/usr/sbin command -v nft)"
	in_machine sed -i '/^rnp-session:/d' /etc/passwd
	in_machine mount --bind nothing "$(PATH=$PATH:/usr/sbin command -v useradd)"
	sell_here --price 1
	assert_equal "$status" 1
	jq -e '.sells == "lacks" and .lacks == ["podman: containers", "nft: networks of leases", "user rnp-session: SSH into leases"]' out ||
		fail "$(cat out)"
	advised .next out | grep -qE '^(apt-get install --no-install-recommends|dnf install) podman nftables$'
	advised .next out | grep -qx 'useradd --system --home-dir / --shell /bin/sh rnp-session'
	advised .next out | grep -qx 'rnp-register setup --sell'
	# nothing of what was tried is left
	[[ -z $(ls "$BOX/work/volumes" "$RUN/net" 2>/dev/null | grep -v ':$\|^$') ]]
}

@test "sell: after setup --sell its units sell, a leased node is busy, and after --no-sell it ends with the last lease" {
	need_podman
	need_sandbox
	start_images
	IMAGE=$(push_image plain)
	own_machine
	start_market
	make_key c
	pays c 50000000
	sell_here --price 0.80
	jq -e '.sells == "written" and .lacks == []' out || fail "$(cat out)"
	in_machine sed -i 's/^RNP_WORK_OPTIONS=.*/RNP_WORK_OPTIONS="--memory 512MiB --disk 256MiB --cpu-cores 1 --grace 5s --images 256MiB --private-images"/' /etc/rnp/work.env
	# what systemctl status says of the agent
	python3 -c '
import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind("notify.part"); os.rename("notify.part", "notify")
while True: print(s.recv(4096).decode(), flush=True)' >notified 3>&- &
	pids+=($!)
	wait_file_there() { [[ -S notify ]]; }
	wait_until "who listens" wait_file_there
	unit rnp-work.service
	unit rnp-heartbeat.service 's/heartbeat --/heartbeat --interval 1s --/'
	printf '%s\n' 'resources: {cpus: 1, memory: 0.125, disk_size: 0.0625}' 'run: "echo what it printed"' >job.yaml
	offered() { rnp-register plan --registry "$url" job.yaml >planned 2>plan.err && jq -e '.offers[0].nodes[0].node_uusd_per_hour == 800000' planned; }
	wait_until "an offer" offered
	node=$(jq -r .node out)
	# what rnp-market(7) tells a customer to do, as it stands there, with money and without
	mkdir page way
	examples "$ROOT/man/rnp-market.7" page DESCRIPTION
	[[ -s page/2 && ! -e page/3 ]]
	printf '%s\n' 'unset XDG_CONFIG_HOME' "export HOME=$PWD/way RNP_REGISTRY=$url" >way/buy
	sed 's/^export RNP_REGISTRY=.*//' page/1 >>way/buy
	in_machine bash -e way/buy >account
	customer=$(tail -n 1 account)
	pays customer 5000000
	{ head -n 2 way/buy; cat page/2; } >way/run
	in_machine bash -e -o pipefail way/run >bought 2>buy.err || fail "$(cat buy.err bought)"
	grep -q 'what it printed' bought
	jq -se 'any(.kind == "rnp.invoice") and any(.kind == "rnp.cluster" and .state == "released")' <(grep '^{' bought) || fail "$(cat bought)"
	sed -i 's/^run: .*/run: "echo begun; sleep 1000"/' job.yaml
	"${IN_MACHINE[@]}" rnp-register launch --registry "$url" --key c.json --hours 1 job.yaml >launched 2>launch.err 3>&- &
	pids+=($!)
	state_is() { rnp-register status --registry "$url" --node "$node" | jq -e --arg s "$1" '.state == $s'; }
	wait_until "a busy node" state_is busy
	rnp-register status --registry "$url" --node "$node" | jq -e '.price_uusd == 800000 and .leases == 1'
	rnp-register setup --registry "$url" --policy testnet --bench bench.jsonl --no-start --no-sell >ends 2>ends.err
	grep -q 'what customers have booked runs to its end' ends.err
	gone() { ! rnp-register plan --registry "$url" job.yaml >planned 2>plan.err; }
	wait_until "an end of the offers" gone
	rnp-register clusters --registry "$url" --key c.json >clusters
	cluster=$(jq -r .cluster clusters)
	jq -e '.state | IN("reserved", "proving", "pulling", "starting", "ready")' clusters
	rnp-register release --registry "$url" --key c.json "$cluster" >released
	# it ends by itself
	ended_well() { ! kill -0 -- "${pids[2]}" 2>/dev/null; }
	wait_until "an end of the agent" ended_well
	wait_until "an idle node" state_is idle
	said=$(grep -vF '; the registry is away' notified | paste -sd'|')
	[[ $said == 'STATUS=0 leases|STATUS=1 lease|'* && $said == *'STATUS=1 lease|STATUS=sells no more; 1 lease'* ]] || fail "$said"
}
