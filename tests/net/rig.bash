# rig.bash - homes behind a masquerading NAT and a bad network, in namespaces of their own: `load net/rig` after `load helper`.
#
#     worker 1..K --veth-- NAT (nftables) --tbf-- relay (TUN, delay, loss ...) --tbf-- server
#
# The server is 10.77.0.1 and sees one address, 10.77.0.2. Nothing reaches the world outside. Needs root, nft, /dev/net/tun.

rig_missing() {
	((EUID == 0)) || echo "not root"
	command -v nft >/dev/null || echo "no nft (Debian's nftables)"
	command -v tc >/dev/null || echo "no tc (Debian's iproute2)"
	[[ -c /dev/net/tun ]] || echo "no /dev/net/tun"
	unshare -n true 2>/dev/null || { echo "no network namespaces" && return; }
	unshare -n sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' 2>/dev/null || echo "no network namespace that may forward packets"
}

# A namespace that lives as long as its process, into the variable $1
rig_namespace() {
	unshare -n sleep 1000000 </dev/null >/dev/null 2>&1 3>&- &
	printf -v "$1" '%s' "$!"
	local until=$((SECONDS + 20))
	while [[ $(readlink "/proc/$!/ns/net") == "$(readlink /proc/self/ns/net)" ]] && ((SECONDS < until)); do sleep 0.05; done
}

# rig_in PID COMMAND...: in the namespace of this process
rig_in() { nsenter -t "$1" -n "${@:2}"; }

# The same in place of a shell: of `rig_exec ... &`, $! is the command's process.
rig_exec() { exec nsenter -t "$1" -n "${@:2}"; }

# rig_up K RATE_UP RATE_DOWN [RELAY'S OPTIONS]: K homes, rates as tc has them ("20mbit"): $rig_server, ${rig_home[i]} from 1 on
rig_up() {
	local k=$1 up=$2 down=$3 i
	shift 3
	rig_home=()
	rig_namespace rig_server
	rig_namespace rig_nat
	coproc RELAY { exec nsenter -t "$rig_nat" -n "$RELAY_PROGRAM" rnpa rnpb "$@" 3>&-; }
	rig_relay=$RELAY_PID
	read -r -t 20 <&"${RELAY[0]}"
	rig_in "$rig_nat" ip link set rnpa netns "$rig_server"
	rig_in "$rig_server" sh -c "ip link set lo up; ip addr add 10.77.0.1/24 dev rnpa; ip link set rnpa mtu 1400 up"
	rig_in "$rig_nat" sh -ec "ip link set lo up; ip addr add 10.77.0.2/24 dev rnpb; ip link set rnpb mtu 1400 up
		sysctl -qw net.ipv4.ip_forward=1
		nft add table ip nat; nft 'add chain ip nat post { type nat hook postrouting priority 100 ; }'
		nft add rule ip nat post oifname rnpb masquerade
		tc qdisc add dev rnpb root tbf rate $up burst ${rig_burst:-32kbit} latency 300ms"
	rig_in "$rig_server" tc qdisc add dev rnpa root tbf rate "$down" burst ${rig_burst:-32kbit} latency 300ms
	for ((i = 1; i <= k; i++)); do
		rig_namespace "rig_home[$i]"
		rig_in "$rig_nat" ip link add "veth$i" type veth peer name home netns "${rig_home[i]}"
		rig_in "$rig_nat" sh -c "ip addr add 10.78.$i.1/24 dev veth$i; ip link set veth$i up"
		rig_in "${rig_home[i]}" sh -c "ip link set lo up; ip addr add 10.78.$i.2/24 dev home; ip link set home up
			ip route add default via 10.78.$i.1"
	done
}

# rig_link up|down: of the whole home
rig_link() {
	rig_in "$rig_nat" ip link set rnpb "$1"
}

rig_down() {
	local pid
	for pid in ${rig_relay:-} ${rig_server:-} ${rig_nat:-} "${rig_home[@]}"; do
		kill -9 "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	rig_home=() rig_relay='' rig_server='' rig_nat=''
}

# --- training over it (after `load train_net`) --------------------------------------------------

# The coordinator in its namespace; arguments as start_coordinator's
serve_training() {
	cd "$BATS_TEST_TMPDIR" || return
	[[ -d m ]] || cp -r "$DIR/model" m
	rm -f started
	rig_exec "$rig_server" rnp-train coordinate --model m --data "$DIR/tok" --listen 10.77.0.1:8080 --open --port-file started --batch 4 \
		--length 32 --lr 3e-3 --device cpu --log-file requests.log "$@" >>c.out 2>>c.err 3>&- &
	coordinator=$!
	wait_until 'the coordinator to start' test -s started
	url=http://10.77.0.1:8080
}

# join_from HOME NAME [OPTION...]
join_from() {
	rig_exec "${rig_home[$1]}" rnp-train join "$url" --data "$DIR/tok" --state "$BATS_TEST_TMPDIR/state-$2" --device cpu "${@:3}" \
		>>"$BATS_TEST_TMPDIR/$2.out" 2>>"$BATS_TEST_TMPDIR/$2.err" 3>&- &
	worker[$2]=$!
}

# What holds whatever happened: the chain of rounds is whole, no sequence counts twice, workers have the coordinator's parameters
nothing_is_twice() {
	rounds | jq -se '. as $all | all(range(1; length); $all[.].base == $all[. - 1].model and $all[.].round == $all[. - 1].round + 1)'
	rounds | jq -se '[.[].members[] | select(.state == "counted").first] | length == (unique | length)'
}
