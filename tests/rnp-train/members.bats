#!/usr/bin/env bats
# rnp-train coordinate: places, text and disk of members who register, take turns and fall silent, or leave, without
# having done anything. They are tests/tools/liar_worker.py, with good signatures.
load ../helper
load train_net

setup_file() {
	export DIR=$BATS_FILE_TMPDIR
	make_training
	gcc -shared -fPIC -O1 -D_GNU_SOURCE -o "$DIR/ahead.so" "$ROOT/tests/net/ahead.c" -ldl -lpthread
	gcc -shared -fPIC -O1 -D_GNU_SOURCE -o "$DIR/unsynced.so" "$ROOT/tests/attacks/unsynced.c" -ldl
}

setup() {
	coordinator='' worker=()
	cd "$BATS_TEST_TMPDIR" || return
	printf '\0\0\0\0\0\0\0\0' >ahead
}
teardown() { stop_training; }

# start_clocked [OPTION...]: a coordinator whose clock later runs ahead
start_clocked() {
	export AHEAD=$PWD/ahead
	LD_PRELOAD=$DIR/ahead.so start_coordinator "$@"
}

# play: a program on stdin, with `url`, `run`, Liar, ahead(SECONDS), until(TRUE_FUNCTION), container(SEED)
play() {
	cat - >program.py
	PYTHONPATH=$ROOT/tests/tools timeout 120 python3 - "$url" <<-'END'
		import json, os, random, sqlite3, struct, subprocess, sys, time
		from liar_worker import Liar
		url = sys.argv[1]
		run = json.loads(Liar(url).get("/v1/run", signed=False)[1])

		def ahead(seconds):
		    with open("ahead", "r+b") as f:
		        f.write(struct.pack("<q", seconds))

		def until(true):
		    end = time.monotonic() + 100
		    while not true():
		        assert time.monotonic() < end, "waited too long"
		        time.sleep(0.1)

		def metric(name):
		    lines = Liar.get(Liar(url), "/metrics", signed=False)[1].decode().splitlines()
		    return float([x.split()[1] for x in lines if x.startswith(f"rnp_train_{name} ")][0])

		def container(seed):
		    draw, n = random.Random(seed), run["parameters"]
		    some = b"".join(struct.pack("<f", draw.gauss(0, 1e-4)) for i in range(4096))
		    with open("floats", "wb") as f:
		        f.write((some * (n // 4096 + 1))[:4 * n])
		    return subprocess.run(["rnp-train", "compress", "--method", run["method"], "floats"], capture_output=True,
		                          check=True).stdout

		def turn(liar):
		    status, body = liar.work()
		    assert status == 200, (status, body)
		    return json.loads(body)

		def deliver(liar, t, body, **fields):
		    says = {"base": t["base"], "steps": t["steps"], "tokens": t["sequences"] * run["length"], **fields}
		    answer = liar.deliver(turn=t["turn"], body=body, piece_bytes=run["piece_bytes"], **says)
		    print(answer, file=sys.stderr)
		    return answer

		def rounds():
		    return [json.loads(x) for x in Liar(url).get("/v1/rounds", signed=False)[1].splitlines()]

		exec(open("program.py").read())
	END
}

@test "members: who registers and asks for nothing holds no place, and no number, for long" {
	start_clocked --workers 1 --workers-max 3 --inner-steps 5
	play <<-'END'
		for second in 0, 200, 400:
		    for i in range(3):
		        assert Liar(url).join()[0] == 200
		    other = Liar(url)
		    assert other.join()[0] == 503
		    ahead(second + 100)
		    until(lambda: metric("members") == 0)
		    ahead(second + 200)
		# of nine that were here
		members = sqlite3.connect("m/coordinate/state.db").execute("SELECT count(*), count(DISTINCT number) FROM members")
		assert members.fetchone() == (3, 3)
		# the fourth has a number of theirs, and works
		assert other.join()[0] == 200
		t = turn(other)
		assert deliver(other, t, container(1))[0] == 200
		until(lambda: len(rounds()) == 1)
		assert [x["state"] for x in rounds()[0]["members"]] == ["counted"]
	END
}

@test "members: who took a turn and fell silent makes room for another, so that the round can close" {
	start_clocked --workers 2 --workers-max 2 --inner-steps 5
	play <<-'END'
		import threading
		a, b, c = Liar(url), Liar(url), Liar(url)
		assert a.join()[0] == b.join()[0] == 200 and c.join()[0] == 503
		got = {}
		thread = threading.Thread(target=lambda: got.update(b=turn(b)))
		thread.start()
		t = turn(a)
		thread.join()
		assert deliver(a, t, container(1))[0] == 200
		# a has delivered and asks for nothing; an hour's silence at a first turn is none
		ahead(3500)
		until(lambda: metric("members") == 1)
		assert metric("working") == 1
		assert a.join()[0] == 200 and c.join()[0] == 503
		ahead(3700)
		until(lambda: metric("members") == 0)
		assert metric("working") == 0
		assert c.join()[0] == 200
		mine = turn(c)
		# what b did not do
		assert mine["first"] == got["b"]["first"]
		assert deliver(c, mine, container(2))[0] == 200
		until(lambda: len(rounds()) == 1)
		states = sorted((x["state"], x.get("reason", "")) for x in rounds()[0]["members"])
		assert states == [("absent", "silent"), ("counted", ""), ("counted", "")], states
		# b is back: its turn is over, and it may join when there is a place
		assert deliver(b, got["b"], container(3))[0] == 410
		assert b.work()[0] == 410
	END
}

@test "members: pieces of a turn that was given up take no disk, and none are taken" {
	start_coordinator --workers 1 --inner-steps 5 --late count
	play <<-'END'
		import glob
		a = Liar(url)
		for i in range(5):
		    assert a.join()[0] == 200
		    t = turn(a)
		    assert a.put(t["turn"], 0, os.urandom(run["piece_bytes"]))[0] == 201
		    assert a.leave()[0] == 200
		    assert a.put(t["turn"], 1, b"x")[0] == 410
		assert glob.glob("m/coordinate/delta-*") == []
	END
}

@test "members: a delta of a closed round, which anybody can fetch, is nobody's work in another turn" {
	start_coordinator --workers 1 --inner-steps 5 --late count --uusd-per-million-tokens 1000000
	play <<-'END'
		a, b = Liar(url), Liar(url)
		assert a.join()[0] == b.join()[0] == 200
		mine, other = turn(a), turn(b)
		assert deliver(a, mine, container(1))[0] == 200
		until(lambda: len(rounds()) == 1)
		sha256 = [x["sha256"] for x in rounds()[0]["members"] if x["state"] == "counted"][0]
		status, body, _ = b.get(f"/v1/delta/{sha256}", signed=False)
		assert status == 200
		status, answer = deliver(b, other, body)
		assert status == 422 and b"of a closed round" in answer, (status, answer)
		# the same of its own, late, is taken
		assert deliver(b, other, container(2))[0] == 200
	END
}

# With its momentum it is of two changes, and nearly a multiple of neither
@test "members: the update that a round published is nobody's work, nor is its negative" {
	start_coordinator --workers 1 --inner-steps 5
	play <<-'END'
		a = Liar(url)
		assert a.join()[0] == 200
		for i in 1, 2:
		    assert deliver(a, turn(a), container(i))[0] == 200
		    until(lambda: len(rounds()) == i)
		status, body, _ = a.get("/v1/update/" + rounds()[1]["base"], signed=False)
		assert status == 200
		open("update", "wb").write(body)
		subprocess.run(["rnp-train", "decompress", "--out", "floats", "update"], check=True)
		values = open("floats", "rb").read()
		with open("floats", "wb") as f:  # each sign turned
		    f.write(bytes(x ^ 0x80 if i % 4 == 3 else x for i, x in enumerate(values)))
		turned = subprocess.run(["rnp-train", "compress", "--method", run["method"], "floats"], capture_output=True,
		                        check=True).stdout
		t = turn(a)
		for sent in body, turned:
		    status, answer = deliver(a, t, sent)
		    assert status == 422 and b"nearly a multiple of an earlier one" in answer, (status, answer)
		assert deliver(a, t, container(3))[0] == 200
	END
}

@test "members: turns that are taken and given up, again and again, are in the record of the round once" {
	start_coordinator --workers 1 --inner-steps 5
	play <<-'END'
		a, firsts = Liar(url), set()
		for i in range(20):
		    assert a.join()[0] == 200
		    t = turn(a)
		    firsts.add(t["first"])
		    assert t["turn"] == 1
		    assert a.leave()[0] == 200
		# its text was handed out again
		assert len(firsts) == 1
		assert deliver(a, t, container(1))[0] == 410
		assert a.join()[0] == 200
		b = Liar(url)
		assert b.join()[0] == 200
		turn(b)
		assert b.leave()[0] == 200
		assert deliver(a, turn(a), container(1))[0] == 200
		until(lambda: len(rounds()) == 1)
		states = sorted((x["state"], x.get("reason", "")) for x in rounds()[0]["members"])
		assert states == [("absent", "left"), ("counted", "")], states
	END
}

# The first to deliver would close the round alone: its quorum is 1
@test "members: by default, who comes while a round is open is waited for, and who is late counts in the next" {
	start_coordinator --inner-steps 5
	play <<-'END'
		ones = [container(i) for i in range(1, 6)]
		a, b = Liar(url), Liar(url)
		assert a.join()[0] == 200
		first = turn(a)
		time.sleep(3) # or its deadline, which is three times the first arrival, is no time at all
		assert b.join()[0] == 200
		second = turn(b)
		assert first["round"] == second["round"] == 1
		assert deliver(a, first, ones[0])[0] == 200
		assert metric("delivered") == 1
		assert deliver(b, second, ones[1])[0] == 200
		until(lambda: len(rounds()) == 1)
		assert (rounds()[0]["workers"], rounds()[0]["dropped"]) == (2, 0), rounds()
		# b is silent until the second round is over
		first, second = turn(a), turn(b)
		assert deliver(a, first, ones[2])[0] == 200
		until(lambda: len(rounds()) == 2)
		assert deliver(b, second, ones[3])[0] == 200
		assert deliver(a, turn(a), ones[4])[0] == 200
		until(lambda: len(rounds()) == 3)
		assert sorted(x["state"] for x in rounds()[2]["members"]) == ["counted", "counted"], rounds()[2]
	END
}

# Keys are made in no time: places are an address's, and so are turns, and pieces on the disk
@test "members: strangers of one address take its share of places, and others still come and work" {
	start_coordinator --workers 1 --workers-max 32 --inner-steps 5
	play <<-'END'
		import glob
		got = []
		for i in range(20):
		    a = Liar(url)
		    status, body = a.join()
		    if status == 200:
		        t = turn(a)
		        assert a.put(t["turn"], 0, os.urandom(run["piece_bytes"]))[0] == 201
		        got.append(a)
		    else:
		        assert status == 503 and b"of your address are here, which is its share" in body, (status, body)
		assert len(got) == 8, len(got)
		assert len(glob.glob("m/coordinate/delta-*.pieces")) == 8
		assert got[0].join()[0] == 200 # who has a place keeps it
		# refused before its signature is looked at
		assert a.post("/v1/join", json.dumps({"node": a.node}).encode())[0] == 503
		other = Liar(url, source="127.0.0.2")
		assert other.join()[0] == 200
		t = turn(other)
		assert deliver(other, t, container(1))[0] == 200
		# a place that is given back is another's
		assert got[0].leave()[0] == 200 and a.join()[0] == 200
		assert Liar(url).join()[0] == 503
	END
}

@test "members: a place of its own has a key that is allowed, and an address as many as it is given" {
	local it allow=()
	for it in a b; do
		rnp-register keygen --out $it.json >/dev/null
		allow+=(--allow "$(rnp-register address --key $it.json)")
	done
	start_coordinator --workers 2 --rounds 1 --workers-per-address 1 --inner-steps 2
	play <<<'assert [Liar(url).join()[0] for i in range(2)] == [200, 503]'
	kill_hard "$coordinator"
	start_coordinator --workers-per-address 1 "${allow[@]}"
	play <<<'assert Liar(url).join()[0] == 403'
	for it in a b; do start_worker $it --key $it.json; done
	end_of coordinate "$coordinator"
}

@test "members: on a disk that is full no pieces are taken, and the round goes on when there is room" {
	start_clocked --workers 1 --inner-steps 5
	play <<-'END'
		a = Liar(url)
		assert a.join()[0] == 200
		t, body = turn(a), container(1)
		with open("ahead", "ab") as f:
		    f.write(b"full")
		status, answer = a.put(t["turn"], 0, body[:run["piece_bytes"]])
		assert status == 507 and b"no room" in answer, (status, answer)
		assert a.get("/health")[0] == 503
		os.truncate("ahead", 8)
		assert deliver(a, t, body)[0] == 200
		until(lambda: len(rounds()) == 1)
		assert a.get("/health")[0] == 200
	END
}

@test "members: nobody speaks for another, and nothing is taken twice" {
	start_coordinator --workers 2 --inner-steps 5
	play <<-'END'
		import threading
		a, b, got = Liar(url), Liar(url), {}
		assert a.join()[0] == b.join()[0] == 200
		thread = threading.Thread(target=lambda: got.update(t=turn(b)))
		thread.start()
		t = turn(a)
		thread.join()
		n, body = t["turn"], container(1)
		assert b.work(member=a.node)[0] == 403
		assert b.put(n, 0, b"x", member=a.node)[0] == 403
		assert b.get(f"/v1/delta/{a.node}/{n}")[0] == 403
		assert b.get(f"/v1/leave?member={a.node}", method="POST")[0] == 403
		assert b.get(f"/v1/base?member={a.node}&round=1")[0] == 403
		record = b.record("rnp.delta", turn=n, base=t["base"], sha256="0" * 64, root="0" * 64, bytes=1, tokens=t["sequences"]
		                  * run["length"], steps=t["steps"], loss_first_micronats=1, loss_last_micronats=1, seconds=1)
		assert b.post(f"/v1/delta/{a.node}/{n}", record)[0] == 403
		# nor of a turn that is not its own, in its own name
		assert b.put(n, 0, b"x")[0] == 404
		assert b.post(f"/v1/delta/{b.node}/{n}", record)[0] == 404
		assert b.post(f"/v1/delta/{b.node}/{got['t']['turn']}", record)[0] == 400
		target = f"/v1/delta/{a.node}/{n}"
		headers = a.headers("GET", target, None)
		assert [a.ask("GET", target, None, headers)[0] for i in range(2)] == [200, 401]
		# without a nonce it could come again
		assert a.ask("GET", target, None, a.headers("GET", target, None, nonce=False))[0] == 401
		assert metric("members") == 2
	END
}

@test "members: a delta of another base, with other steps or tokens, or whose bytes are not what it says, is refused" {
	start_coordinator --workers 1 --inner-steps 5
	play <<-'END'
		a = Liar(url)
		assert a.join()[0] == 200
		t, body = turn(a), container(1)
		tokens = t["sequences"] * run["length"]
		# what was refused has to be sent again
		def refused(text, **fields):
		    status, answer = deliver(a, t, body, **fields)
		    assert status == 422 and text in answer, (status, answer)
		refused(b"base: is not that of the turn", base="0" * 64)
		refused(b"steps, tokens: are not those of the turn", tokens=tokens + run["length"])
		refused(b"steps, tokens: are not those of the turn", tokens=tokens - run["length"])
		refused(b"steps, tokens: are not those of the turn", steps=t["steps"] - 1)
		refused(b"sha256: is not that of the pieces", sha256="0" * 64)
		refused(b"bytes: the pieces have", bytes=len(body) - 1)
		refused(b"bytes: more than any container of this run", bytes=1 << 40)
		assert deliver(a, t, body)[0] == 200
		until(lambda: len(rounds()) == 1)
	END
}

# On a disk that keeps only what was flushed (tests/attacks/unsynced.c)
@test "members: a delta that was taken is there after a power cut" {
	local inode name
	mkdir kept
	LD_PRELOAD=$DIR/unsynced.so UNSYNCED=$PWD/m/coordinate UNSYNCED_KEPT=$PWD/kept start_coordinator --workers 2 --inner-steps 5
	play <<-'END'
		import pickle, threading
		a, b, got = Liar(url), Liar(url), {}
		assert a.join()[0] == b.join()[0] == 200
		thread = threading.Thread(target=lambda: got.update(t=turn(b)))
		thread.start()
		assert deliver(a, turn(a), container(1))[0] == 200
		thread.join()
		with open("later", "w") as f:
		    json.dump([b.node, b.did, b.secret.raw.hex(), got["t"]], f)
	END
	kill_hard "$coordinator"
	rm -r m/coordinate
	mkdir m/coordinate
	while read -r inode name; do
		if [[ -f kept/i.$inode ]]; then cp "kept/i.$inode" "m/coordinate/$name"; else : >"m/coordinate/$name"; fi
	done <kept/names
	chmod 600 m/coordinate/key.json
	# whoever asked first has turn 1
	[[ -s m/coordinate/delta-1.rnpg || -s m/coordinate/delta-2.rnpg ]]
	start_coordinator
	play <<-'END'
		import ctypes
		b = Liar(url)
		b.node, b.did, secret, t = json.load(open("later"))
		b.secret = ctypes.create_string_buffer(bytes.fromhex(secret)[:64], 64)
		assert deliver(b, t, container(2))[0] == 200
		until(lambda: len(rounds()) == 1)
		assert rounds()[0]["workers"] == 2
	END
}
