# The market as a whole: a registry, a node's agent and a customer, each the real program, with real containers. They stand in a
# network namespace without a way out.
load ../helper
load registry
load containers
load sign
load market

setup_file() {
	need_podman
	need_sandbox
	load ../net/rig
	missing=$(rig_missing)
	[[ -z $missing ]] || skip "$missing"
	rig_namespace HOST
	export HOST
	rig_in "$HOST" ip link set lo up
	rig_in "$HOST" ip link add up0 type veth peer name down0
	rig_in "$HOST" ip addr add 192.168.7.10/24 dev up0
	rig_in "$HOST" ip link set up0 up
	rig_in "$HOST" ip link set down0 up
	rig_in "$HOST" ip route add default via 192.168.7.1
	# what a test starts by these names stands there, too
	mkdir "$BATS_FILE_TMPDIR/bin"
	for program in rnp-register curl skopeo docker-registry python3; do
		printf '#!/bin/sh\nexec nsenter -t %s -n %s "$@"\n' "$HOST" "$(command -v "$program")" \
			>"$BATS_FILE_TMPDIR/bin/$program"
	done
	chmod +x "$BATS_FILE_TMPDIR"/bin/*
	PATH=$BATS_FILE_TMPDIR/bin:$PATH
	start_images
	REAL_IMAGE=$(push_image plain)
	export REAL_IMAGE
}

teardown_file() {
	stop_images
	kill "$HOST" 2>/dev/null || true
}

setup() {
	PATH=$BATS_FILE_TMPDIR/bin:$PATH
	BOX=$(mktemp -d /var/tmp/rnp-booked-XXXXXX)
	RUN=/run/rb-$$
	IMAGE=$REAL_IMAGE
	mkdir -p "$RUN"
	cd "$BATS_TEST_TMPDIR" || return
	start_market
	make_key c
	pays c 50000000
	sells n 0 800000 '{cpu_cores: 1, memory_bytes: 536870912, disk_bytes: 134217728}'
}

teardown() {
	[[ -z ${agent:-} ]] || { kill "$agent" 2>/dev/null; ended "$agent" || true; }
	stop_registry
	end_leases "$BOX" "$RUN"
	rm -rf "$BOX" "$RUN"
}

start_agent() {
	rnp-register work --registry "$url" --key n.json --dir "$BOX/work" --run-dir "$RUN" --state-to "$BOX/state" \
		--memory 512MiB --disk 128MiB --cpu-cores 1 --grace 5s "$@" 2>>agent.err 3>&- &
	agent=$!
}

@test "booked: a job file is planned, booked, run in a container, and told in one record" {
	start_agent
	printf 'name: hello\nresources: {cpus: 1, memory: 0.125, disk_size: 0.0625}\nrun: |\n  echo hello from rank $SKYPILOT_NODE_RANK\n  exit 0\n' >job.yaml
	rnp-register launch --registry "$url" --key c.json job.yaml >out 2>err || { cat err agent.err; false; }
	cat err out >&3
}
