# node.bash - a node with leases, and a world that it can reach, in namespaces of their own: `load net/node` after `load helper`.
#
#     lease --veth-- host (192.168.7.10, 5.6.7.8) --veth-- world (192.168.7.1, 9.9.9.9 and many more)
#
# Nothing reaches the world outside. Needs root and what net/rig.bash asks for.
load "$ROOT/tests/net/rig"

# What the world answers by. Most of these no lease may reach.
NODE_WORLD=(9.9.9.9 1.1.1.1 10.1.2.3 172.31.0.5 192.168.200.1 169.254.169.254 100.100.100.200 168.63.129.16 192.0.0.192 198.18.0.9
	203.0.113.7 192.0.2.1 198.51.100.1 0.0.0.9)

# node_up: $node_host and $node_world are processes in them; the servers' words are "host" and "world"
node_up() {
	local address
	rig_namespace node_host
	rig_namespace node_world
	rig_in "$node_host" ip link set lo up
	rig_in "$node_world" ip link set lo up
	rig_in "$node_host" ip link add up0 type veth peer name down0 netns "$node_world"
	rig_in "$node_host" ip addr add 192.168.7.10/24 dev up0
	rig_in "$node_host" ip addr add 5.6.7.8/32 dev lo
	rig_in "$node_host" ip -6 addr add 2a00:1:2::10/64 dev up0 nodad
	rig_in "$node_world" ip addr add 192.168.7.1/24 dev down0
	for address in "${NODE_WORLD[@]}"; do
		[[ $address == 0.* ]] || rig_in "$node_world" ip addr add "$address/32" dev lo
	done
	rig_in "$node_host" ip link set up0 up
	rig_in "$node_world" ip link set down0 up
	rig_in "$node_host" ip route add default via 192.168.7.1
	node_serve "$node_host" host
	node_serve "$node_world" world
}

# node_serve PID WORD: a server in a namespace; what asks it stands in WORD.asked
node_serve() {
	nsenter -t "$1" -n python3 "$ROOT/tests/net/answers.py" "$2" 53 80 8008 >"$2.asked" 2>"$2.err" 3>&- &
	node_servers+=($!)
	wait_until "the server $2" grep -q ready "$2.asked"
}

# network ACTION [ARGUMENT...]: of the node's leases
network() { rig_in "$node_host" "$RNP_BUILD/evil/lease" network "$1" "$NET" "${@:2}"; }

# in_lease ID COMMAND...: as whoever is in it
in_lease() { nsenter --net="$NET/$1" "${@:2}"; }

# asks ID KIND ADDRESS PORT...: what it is answered, a word each
asks() { in_lease "$1" python3 "$ROOT/tests/net/ask.py" "${@:2}" | paste -sd' '; }

node_down() {
	local file
	for file in "$NET"/*; do
		umount -l "$file" 2>/dev/null || true
	done
	kill "${node_servers[@]}" "$node_host" "$node_world" 2>/dev/null || true
	wait "${node_servers[@]}" "$node_host" "$node_world" 2>/dev/null || true
	node_servers=()
}
