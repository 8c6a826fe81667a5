# containers.bash - leases of a node with what somebody hostile runs in them: volume, network and engine as the agent has them.
# `load containers` after `load ../helper`. Nothing leaves the machine: the node's host is a network namespace, see net/node.bash.
load "$ROOT/tests/rnp-register/containers"
load "$ROOT/tests/net/node"

need_leases() {
	need_podman
	missing=$(rig_missing)
	[[ -z $missing ]] || skip "$missing"
	[[ -e /dev/loop-control && -e /sys/fs/ext4/features/encryption ]] || skip "no loop devices, or no ext4 that encrypts"
}

# node_begin: in setup_file. $BASE has volumes, networks and images; $IMAGE is an image with busybox and build/evil/inside.
node_begin() {
	BASE=$(mktemp -d "$(realpath "$BATS_FILE_TMPDIR")/rnp-test-XXXXXX")
	NET=$BASE/net
	export BASE NET RESOLVERS='' BLOCKED='' POOL=''
	cd "$BATS_FILE_TMPDIR" || return
	# users that nobody else on this machine has, so that a test may look for their processes
	USERS=$((1 << 24 | (RANDOM << 16 & 0x3fff0000)))
	NEIGHBOUR=$((USERS + 65536))
	export USERS NEIGHBOUR
	start_images
	node_up
	export node_host node_world
	printf '%s ' "${node_servers[@]}" >"$BASE/servers"
	IMAGE=$(pulled plain --program "$RNP_BUILD/evil/inside")
	export IMAGE
}

# pulled NAME [OPTION...]: an image of image.py in the node's store; prints its reference
pulled() {
	local reference
	reference=$(push_image "$@") || return
	lease container pull "$BASE" images "$reference" >&2 || return
	echo "$reference"
}

lease() { "$RNP_BUILD/evil/lease" "$@"; }

# lease_begin ID [MIB]: a lease with a volume of that size and a network
lease_begin() {
	lease volume open "$BASE/vol" 0 "$1" $((${2:-64} << 20)) || return
	network open "$1" 0
}

# start ID SCRIPT [IMAGE]: a container of the lease; its id stands in $container
start() { container=$(lease container start "$BASE" "$1" "${3:-$IMAGE}" "$2"); }

# result ID [MS]: the state of $container once it has ended
result() {
	local until=$((SECONDS + 60))
	while ((SECONDS < until)); do
		lease container state "$BASE" "$1" "$container" "${2:-1000}" >state
		[[ $(jq -r .status state) == running ]] || break
	done
	cat state
}

# in_container ID SCRIPT [IMAGE]: runs it to its end in a container; prints its log, the state stands in the file state
in_container() {
	start "$@" || return
	result "$1" >/dev/null
	lease container log "$BASE" "$1" "$container"
	lease container remove "$BASE" "$1" "$container"
}

# lease_end ID: as the agent ends one
lease_end() {
	[[ -z ${container-} ]] || lease container remove "$BASE" "$1" "$container" || true
	lease container quit "$BASE" "$1" || true
	network close "$1"
	lease volume close "$BASE/vol" 0 "$1" 20000
}

# leases_end: in teardown, whatever a failed test left of its leases
leases_end() {
	local id
	for id in $(lease volume list "$BASE/vol" 0 2>/dev/null | grep -v ' held ' | cut -d' ' -f1); do
		container=$id lease_end "$id" || true
	done
}

# node_end: in teardown_file. What a failed test left of its leases goes, too.
node_end() {
	[[ ${BASE-} ]] || return 0
	leases_end
	lease container quit "$BASE" images || true
	stop_images || true
	read -ra node_servers <"$BASE/servers" || true
	node_down
	umount -l "$BASE/images/overlay" 2>/dev/null || true
	rm -rf "/run/${BASE##*/}"
	! grep -q "$BASE" /proc/self/mountinfo || {
		grep "$BASE" /proc/self/mountinfo
		return 1
	}
}
