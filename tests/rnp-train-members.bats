#!/usr/bin/env bats
# rnp-train coordinate: places, text and disk of members who register, take turns and fall silent, or leave, without
# having done anything. They are tests/liar_worker.py, with good signatures.
load helper
load train_net

setup_file() {
	export DIR=$BATS_FILE_TMPDIR
	make_training
	gcc -shared -fPIC -O1 -D_GNU_SOURCE -o "$DIR/ahead.so" "$ROOT/tests/net/ahead.c" -ldl -lpthread
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
	PYTHONPATH=$ROOT/tests timeout 120 python3 - "$url" <<-'END'
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
		    answer = liar.deliver(t["turn"], t["base"], body, t["steps"], t["sequences"] * run["length"],
		                          run["piece_bytes"], **fields)
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
