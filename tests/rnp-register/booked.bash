# booked.bash - the market as a whole: a registry, nodes' agents and customers, each the real program, with real containers. They
# stand in a network namespace with nothing but loopback. `load booked` after the five files that booked.bats loads.

setup_file() {
	need_podman
	need_sandbox
	make_machine
	start_images
	REAL_IMAGE=$(push_image plain)
	export REAL_IMAGE
}

teardown_file() {
	stop_images
	end_machine
}

# These stand on the node's machine, as does what asks them
rnp-register() {
	in_machine rnp-register "$@"
}

setup() {
	BOX=$(mktemp -d /var/tmp/rnp-booked-XXXXXX)
	RUN=/run/rb-$$
	IMAGE=$REAL_IMAGE
	mkdir -p "$RUN"
	cd "$BATS_TEST_TMPDIR" || return
	IN_MACHINE=(nsenter --net="$MACHINE")
	SERVE_UNDER=("${IN_MACHINE[@]}")
	rnp-register keygen --out gate-key.json >/dev/null
	start_market --trust "$(rnp-register address --key gate-key.json)"
	make_key c
	pays c 50000000
	agents=() beats=()
}

teardown() {
	for agent in "${agents[@]}" "${beats[@]}"; do kill "$agent" 2>/dev/null || true; done
	for agent in "${agents[@]}"; do ended "$agent" || true; done
	[[ -z ${gateway:-} ]] || kill "$gateway" "$users" 2>/dev/null || true
	stop_registry
	end_leases "$BOX" "$RUN"
	rm -rf "$BOX" "$RUN"
}

# agent NODE [OPTION...]: the node's agent; its state is in NODE.state
agent() {
	mkdir -p "$RUN/$1"
	"${IN_MACHINE[@]}" rnp-register work --registry "$url" --key "$1.json" --dir "$BOX/$1" --run-dir "$RUN/$1" --state-to "$1.state" \
		--memory 512MiB --disk 256MiB --images 256MiB --private-images --cpu-cores 1 --grace 5s "${@:2}" 2>>"$1.err" 3>&- &
	agents+=($!)
}

# node NODE [UUSD]: a node without GPUs that sells, and its agent
node() {
	sells "$1" 0 "${2:-800000}" '{cpu_cores: 1, memory_bytes: 536870912, disk_bytes: 268435456}'
	agent "$1"
}

# The gateway of the market, and users for it and for sessions that this machine alone has: before agents
gateway() {
	[[ -x /usr/sbin/sshd ]] || skip "no sshd (Debian's openssh-server): scripts/bootstrap"
	cp /etc/passwd passwd
	printf '%s\n' "rnp-session:x:65532:65532::/:/bin/sh" "rnp-gateway:x:65533:65533::/:/usr/sbin/nologin" >>passwd
	unshare -m sh -c "mount --bind '$PWD/passwd' /etc/passwd && exec sleep 1000000" 3>&- &
	users=$!
	users_are_there() { nsenter --mount="/proc/$users/ns/mnt" getent passwd rnp-gateway >/dev/null; }
	wait_until "users" users_are_there
	IN_MACHINE+=(--mount="/proc/$users/ns/mnt" --wd="$PWD")
	chmod 711 "$BOX"
	mkdir -m 700 "$BOX/gate"
	cp gate-key.json "$BOX/gate/key.json"
	chown -R 65533:65533 "$BOX/gate"
	"${IN_MACHINE[@]}" setpriv --reuid 65533 --regid 65533 --clear-groups rnp-register gateway --dir "$BOX/gate" --registry "$url" \
		--key "$BOX/gate/key.json" --listen 127.0.0.1:2222 >gateway.json 2>gateway.err 3>&- &
	gateway=$!
	gateway_is_known() { rnp-register() { in_machine rnp-register "$@"; }; curl -sf "$url/v1/gateways" | jq -e '.gateways | length == 1' >/dev/null; }
	wait_until "a gateway" gateway_is_known
}

launch() {
	rnp-register launch --registry "$url" --key c.json "$@" >out 2>err
}

# Whatever was said, should a test fail
said() {
	tail -n 40 err ./*.err >&2
	fail "$1"
}

# No lease's container, service, network or disk; of all nodes but that one
nothing_left() {
	local but=${1:-/}
	! pgrep -f "$RUN/[^$but]/l/" >/dev/null &&
		[[ -z $(find "$RUN"/[!"$but"]/{l,net} "$BOX"/[!"$but"]/volumes -mindepth 1 -maxdepth 1 ! -name '.*' 2>/dev/null) ]]
}
