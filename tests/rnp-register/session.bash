# session.bash - leases with containers on the machine of gateway.bash, whose nodes are namespaces of network: `load session` after
# `load gateway`.

session_missing() {
	local tool
	gateway_missing
	for tool in podman runc conmon skopeo busybox; do
		command -v $tool >/dev/null || echo "no $tool: scripts/bootstrap"
	done
	[[ -c /dev/net/tun ]] || echo "no /dev/net/tun"
}

# An image of busybox, and of what it takes to be served by scp and rsync
make_image() {
	local programs=(--program /usr/bin/stty --program /usr/bin/tty --program /usr/lib/openssh/sftp-server --program /usr/bin/scp)
	[[ ! -x /usr/bin/rsync ]] || programs+=(--program /usr/bin/rsync)
	python3 "$ROOT/tests/tools/image.py" "$BATS_FILE_TMPDIR/oci" "${programs[@]}" >/dev/null
	skopeo copy -q "oci:$BATS_FILE_TMPDIR/oci:t" "docker-archive:$BATS_FILE_TMPDIR/image.tar:box:t"
}

# node_key NAME: a node's key file NAME.json; $NAME is its address
node_key() {
	rnp-register keygen --out "$1.json" >/dev/null
	printf -v "$1" '%s' "$(rnp-register address --key "$1.json")"
}

# ssh_public KEYFILE: the key of an rnp key file as SSH has it
ssh_public() {
	python3 -c '
import base64, json, struct, sys
public = bytes(json.load(open(sys.argv[1]))[32:])
print("ssh-ed25519", base64.b64encode(struct.pack(">I", 11) + b"ssh-ed25519" + struct.pack(">I", 32) + public).decode())' "$1"
}

# start_lease NAME NUMBER [JQ]: the program beside the lease's container; JQ changes its rnp.session
start_lease() {
	local name=$1 number=$2
	[[ -e host-$name.json ]] || rnp-register keygen --out "host-$name.json" >/dev/null
	lease_dir=/proc/$machine/root/mnt/lease-$name # sessions reach it, and nothing else of a test's
	mkdir -p "$lease_dir"
	chmod 711 "$lease_dir"
	jq -nc --slurpfile g gateway.json --arg a "$(cat a.pub)" --arg dir "$BATS_TEST_TMPDIR" --arg name "$name" --argjson number "$number" "{
		kind: \"rnp.session\", v: 1, cluster: \"00c0ffee00c0ffee00c0ffee00c0ffee\", ranks: 2, rank: (\$number - 1), number: \$number,
		gateway: \$g[0], keys: [\$a], user: \"rnp-session\", host_key_file: \"\(\$dir)/host-\(\$name).json\",
		podman: {root: \"/mnt/store-\(\$name)\", run: \"/mnt/run-\(\$name)\"}} | ${3:-.}" >"$lease_dir/session.json"
	on /mnt/bin/rnp-register session --serve --dir "/mnt/lease-$name" --key "$name.json" 2>>"session-$name.err" 3>&- &
	eval "lease_$name=$!"
	wait_until "the tunnel of $name" listens_at "127.1.0.$number"
	! grep -qx "Host $name" ssh_config 2>/dev/null || return 0
	cat >>ssh_config <<-END
		Host $name
		  HostName 127.1.0.$number
		  Port 2200
		  HostKeyAlias $name
		  ProxyJump gate
		  User rnp-session
	END
	echo "$name $(ssh_public "host-$name.json")" >>known_hosts
	[[ -e ssh_options ]] || {
		cat >ssh_options <<-END
			Host gate
			  HostName 127.0.0.1
			  Port 2222
			  User rnp-gateway
			Host *
			  BatchMode yes
			  StrictHostKeyChecking yes
			  UserKnownHostsFile $BATS_TEST_TMPDIR/known_hosts
			  IdentitiesOnly yes
			  IdentityFile $BATS_TEST_TMPDIR/a
		END
		cat ssh_options >>ssh_config
	}
}
not_listening() { ! listens_at "$1"; }
node_hosts() { for x in n m; do rnp-register keygen --out "host-$x.json" >/dev/null; done; }
listens_at() { on ss -Hltn "src $1:2200" | grep -q LISTEN; }

# podman_of NAME ARG...: the podman of a lease, as the engine starts it
podman_of() {
	on podman --root "/mnt/store-$1" --runroot "/mnt/run-$1/root" --tmpdir "/mnt/run-$1/tmp" --storage-driver overlay \
		--runtime runc --cgroup-manager cgroupfs --events-backend file "${@:2}"
}

# start_container NAME [OPTION...]: a container that waits; the lease knows it
start_container() {
	local name=$1 id
	shift
	on mkdir -p "/mnt/store-$name" "/mnt/run-$name"
	podman_of "$name" load -q -i "$BATS_FILE_TMPDIR/image.tar" >/dev/null
	id=$(podman_of "$name" run -d --hostname box --network "${NETWORK:-none}" "$@" box:t sleep 1000000)
	change_lease "$name" ".container = \"$id\""
	wait_until "a session in $name" to "$name" -- true
}

# change_lease NAME JQ...: another rnp.session
change_lease() {
	local file=/proc/$machine/root/mnt/lease-$1/session.json
	jq -c "${@:2}" "$file" >"$file.part"
	mv "$file.part" "$file"
}

# to [OPTION...] HOST [-- COMMAND]: ssh into a lease, as the customer a
to() { on ssh -F ssh_config "$@"; }
sessions_down() {
	[[ -z ${machine:-} ]] || on sh -c 'umount -l /mnt/store-*/overlay 2>/dev/null' || true
}
