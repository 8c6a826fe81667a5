# rnp-register launch --check: what a job file says would run, and what is wrong with one.
load ../helper

jobs=$ROOT/tests/data/jobs

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

need_pyyaml() {
	python3 -c 'import yaml' || skip "python3-yaml is not there: scripts/bootstrap"
}

# checked TEXT [OPTION ...]: prints the record of a job file with this text
checked() {
	printf '%b' "$1" >j.yaml
	rnp-register launch --check -q j.yaml "${@:2}"
}

# mistaken TEXT SAYS [OPTION ...]: it is refused with one line, which begins with place and words
mistaken() {
	printf '%b' "$1" >j.yaml
	run_split rnp-register launch --check j.yaml "${@:3}"
	assert_equal "$status $output" "65 "
	assert_equal "$(wc -l <<<"$stderr")" 1
	[[ $stderr == "rnp-register: j.yaml:$2"* ]] || fail "stderr is '$stderr', not '$2'"
}

# wishes RESOURCES [NODES]: those of a job with these resources, in short
wishes() {
	checked "resources: $1\nnum_nodes: ${2:-1}\nrun: x\n" | jq -c '[.choose, (.wishes[] |
		[.gpu_count, (.gpu_models // [] | join("|")), .gpu_memory_bytes, .spot] | map(values))]'
}

@test "job: every field of rnp-job(5) is in the record of what would run" {
	run_split rnp-register launch --check "$jobs/whole.yaml" --env GIVEN=1 --secret HF_TOKEN=k7Qz0vXw
	assert_success
	assert_equal "$(jq -c '.wishes[]' <<<"$output")" '{"kind":"rnp.job","v":1,"job":"whole","nodes":2,"places":[{"country":"DE"},{"country":"AT","region":"Vienna","share_ppm":250000}],"cpu_cores":16,"memory_bytes":64000000000,"disk_bytes":512000000000,"max_uusd_per_hour":5000000,"image":"example.org/train@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","spot":true,"gpu_count":16,"gpu_models":["H100","H100 SXM","H100 PCIe","H100 NVL","A100 80GB","A100 80GB SXM","A100 80GB PCIe"]}'
	assert_equal "$(jq -c '.envs, .secrets, .mounts, .ports, .autostop, .recovery, .labels, .artifacts' <<<"$output")" \
'{"MODEL":"1.10","STEPS":"200","RATE":"0.004","SMALL":"1e-5","EMPTY":"","DATA":"data/shakespeare.txt","GIVEN":"1"}
["HF_TOKEN"]
[{"to":"~/data.txt","from":"data/shakespeare.txt"},{"to":"/config","from":"./configs"}]
["8080","9000-9010"]
{"idle_s":600,"down":true}
{"max_restarts_on_errors":3,"exit_codes":[33,34]}
{"team":"research"}
{"paths":["checkpoints","/tmp/log"],"every_s":600,"bytes_max":20000000000}'
	assert_equal "$(jq -c '[.name, .nodes, .choose, .workdir, .deadline_s, .budget_uusd, .on_node_failure, .parameters.properties.steps.default]' <<<"$output")" \
		'["whole",2,"cheapest",".",28800,40000000,"continue",200]'
	# the hashes are those of the scripts, byte by byte
	for script in setup run; do
		assert_equal "$(jq -r ".${script}_sha256" <<<"$output")" "$(jq -j ".$script" <<<"$output" | sha256sum | cut -d' ' -f1)"
	done
	[[ $stderr == *"line 30: disk_tier means nothing here"* && $stderr == *"./configs: No such file"* ]]
	# a secret's value is nowhere
	[[ $output$stderr != *k7Qz0vXw* ]]
}

@test "job: records are those of the schemas" {
	python3 -c 'import jsonschema' || skip "python3-jsonschema is not there: scripts/bootstrap"
	{
		rnp-register launch --check -q "$jobs/whole.yaml" --env GIVEN=1 --secret HF_TOKEN=1
		rnp-register launch --check -q "$jobs/fedml.yaml"
		rnp-register launch --check -q "$jobs/dstack.yaml" --env HF_TOKEN=1
		checked 'run: a\n'
	} >tasks
	python3 - tasks "$ROOT/common/json/schema" <<-'END'
		import json, sys, jsonschema
		schema = {kind: json.load(open(f"{sys.argv[2]}/rnp.{kind}.json")) for kind in ("task", "job")}
		n = 0
		for line in open(sys.argv[1]):
		    task = json.loads(line)
		    jsonschema.validate(task, schema["task"])
		    for wish in task["wishes"]:
		        jsonschema.validate(wish, schema["job"])
		        assert not wish.keys() - schema["job"]["properties"].keys(), wish
		        n += 1
		assert n == 4
	END
}

@test "job: SkyPilot's 276 task files: 79 run as they are, 119 without clouds, the others are refused by name" {
	need_pyyaml
	archive=$(data jobs/skypilot/skypilot-tasks.tgz) || skip_data
	mkdir files && tar -C files -xzf "$archive"
	run_split python3 "$ROOT/tests/tools/jobfile.py" tasks files
	assert_success
	# of the 80 that name nothing that is refused, one wants an Inferentia, which is no GPU
	assert_output $'files 276\nunchanged 79\nelsewhere 119\nservice 170\nstores 225'
}

@test "job: a word that is taken means the same to YAML 1.1, to 1.2 and to PyYAML" {
	need_pyyaml
	run_split python3 "$ROOT/tests/tools/jobfile.py" words
	assert_success
	[[ $output =~ ^words\ ([0-9]+)$ ]] && ((BASH_REMATCH[1] > 3000))
	run_split python3 "$ROOT/tests/tools/jobfile.py" same "$jobs/whole.yaml"
	assert_success
}

@test "job: what users do wrong gets one line with place and remedy" {
	mistaken 'run: a\n\tsetup: b\n' "2:1: a tab indents this line: YAML wants blanks"
	mistaken 'resources:\n  cpus: 2\n\tmemory: 3\n' "3:1: a tab indents this line"
	mistaken 'run: |\n\techo\n' "2:1: a tab indents this line"
	mistaken 'envs:\n  V: 1.10\n' "2:6: '1.10' is a number, which others spell differently: put it in quotes"
	mistaken 'envs: {V: yes}\n' "1:11: 'yes' is true or false to some readers of YAML and text to others: put it in quotes"
	mistaken 'envs: {V: 0644}\n' "1:11: '0644' is a number to some readers of YAML and another one, or text, to others: put it in quotes"
	mistaken 'envs: {V: 2026-11-29}\n' "1:11: '2026-11-29' is a date to some readers"
	mistaken 'envs: {V: true}\n' "1:11: V has to be a text, and 'true' is true or false: put it in quotes"
	mistaken 'resources: {use_spot: yes}\n' "1:23: use_spot has to be true or false, written so and without quotes"
	mistaken 'resources: {cpus: 8-16}\n' "1:19: cpus has to be a whole number, as 8 or 8+, not '8-16'"
	mistaken 'resources: {memory: 4x}\n' "1:21: memory has to be a size, as 32, 32+ or 512GB, not '4x'"
	mistaken 'resources: {ports: 22:22}\n' "1:20: '22:22' is a number"
	mistaken 'resources: {ports: 80-70}\n' "1:20: '80-70' is no port"
	mistaken 'run: a\n  setup: b\n' "2:8: a ':' stands where none can be: put a text that has ': ' in it in quotes, and indent"
	mistaken 'resources:\n  cpus: 2\n   memory: 3\n' "3:10: a ':' stands where none can be"
	mistaken 'run: |\n  echo a\necho b\n' "3:1: a field without its ':': write name: value, and indent the lines of a text below 'name: |'"
	mistaken 'run: echo "a": b\n' "1:14: a ':' stands where none can be"
	mistaken 'run: "abc\nsetup: x\n' "1:6: the quotes that begin on line 1 are not closed"
	mistaken 'resources: {cpus: 2\nrun: a\n' "2:4: the '{' of line 1 is not closed here"
	mistaken 'run: @x\n' "1:6: a text cannot begin with this character: put it in quotes"
	mistaken 'run: [a\n' "2:1: the '[' of line 1 is not closed here"
	mistaken 'run: 5\n' "1:6: run has to be a text, and '5' is a number: put it in quotes"
	mistaken 'run: [a]\n' "1:6: run has to be a text"
	mistaken 'num_nodes: two\n' "1:12: num_nodes has to be a whole number from 1 to 64"
	mistaken 'run: a\xff\n' "1:7: this is not UTF-8: save the file as UTF-8"
	mistaken '\xff\xfer\0u\0' " is UTF-16: save it as UTF-8"
	mistaken 'run: a\x01b\n' '1:7: a control character stands here: in a text in "" write it as \xNN'
	mistaken 'run: "a\\0b"\n' "1:6: a text holds a NUL"
	mistaken '' " is empty: it needs at least 'run: COMMAND'"
	mistaken '# nothing\n' " is empty"
	mistaken '- a\n' "1:1: a job file is fields, as in 'run: echo hello'; this is something else"
	mistaken 'echo hello\n' "1:1: a job file is fields"
	mistaken 'budget: ten\nrun: a\n' "1:9: budget: 'ten'"
	mistaken 'deadline: tomorrow\n' "1:11: deadline has to be a time, as 2026-12-24T18:00:00Z"
	mistaken 'artifacts: {paths: [../x]}\n' "1:21: '../x' is no path of an artifact"
	mistaken 'artifacts: {paths: [x], max: 20 apples}\n' "1:30: artifacts.max has to be a size, as 20GB"
	mistaken 'on_node_failure: retry\n' "1:18: on_node_failure is one of restart|continue|end, not 'retry'"
	mistaken 'places: [Germany]\n' "1:10: 'Germany' is no country: two capital letters, as DE or US"
}

@test "job: windows line ends, a byte order mark and a missing last line end change nothing" {
	checked 'run: |\n  a\n  b\nsetup: c\n' | jq -c '[.run, .setup]' >wanted
	checked 'run: |\r\n  a\r\n  b\r\nsetup: c\r\n' | jq -c '[.run, .setup]' | cmp - wanted
	mistaken '\xef\xbb\xbfrun: a\nrnu: b\n' "2:1: rnu is no field"
	mistaken '\xef\xbb\xbfrnu: a\n' "1:1: rnu is no field"
	checked '\xef\xbb\xbfrun: |\n  a\n  b\nsetup: c' | jq -c '[.run, .setup]' | cmp - wanted
}

@test "job: what makes a file mean more than it shows is refused" {
	mistaken 'run: &a x\nsetup: *a\n' "1:6: an anchor ('&'): write the value where it is needed"
	mistaken 'run: x\nsetup: *a\n' "2:8: an alias ('*'): write the value itself"
	mistaken 'envs: {<<: {A: b}}\n' "1:8: the name of a field is text, and '<<' is a word with a meaning of its own in YAML 1.1"
	mistaken 'run: !include x\n' "1:6: a tag ('!') that is not of YAML's core schema: leave it out"
	mistaken 'run: !!python/object:os.system x\n' "1:6: a tag ('!')"
	mistaken 'run: !!int abc\n' "1:6: the value is not what its tag says"
	mistaken 'run: x\nrun: y\n' "2:1: 'run' is there already, on line 1"
	mistaken 'resources: {cpus: 1, cpus: 2}\n' "1:22: 'cpus' is there already"
	mistaken 'run: x\n---\nrun: y\n' "2:1: a second document begins here: one file is one job, so write two files"
	mistaken 'envs: {8: x}\n' "1:8: the name of a field is text, and '8' is a number: put it in quotes"
	mistaken "run: x\nparameters: $(printf '[%.0s' {1..40})\n" "2:44: more than 32 levels deep"
	mistaken "run: x\nparameters: {a: [$(printf '1,%.0s' {1..9000})]}\n" "2:16394: more than 8192 values"
	{ echo 'run: |' && yes '  echo' | head -c 1100000; } >large.yaml
	refused 65 "large.yaml" rnp-register launch --check large.yaml
	# a tag of the core schema says what there is
	assert_equal "$(checked 'envs: {A: !!str 0644, B: !!str yes}\n' | jq -c .envs)" '{"A":"0644","B":"yes"}'
}

@test "job: an unknown field is named, with the nearest, or with where it belongs" {
	mistaken 'nme: x\n' "1:1: nme is no field of a job file, and --drop nme leaves it out; did you mean 'name'?"
	mistaken 'resources:\n  acelerators: A100\n' "2:3: resources.acelerators is no field of a job file, and --drop acelerators leaves it out; did you mean 'accelerators'?"
	mistaken 'accelerators: A100\n' "1:1: 'accelerators' belongs into resources: write it as resources.accelerators"
	mistaken 'resources: {run: x}\n' "1:13: 'run' belongs beside resources, not in it"
	mistaken 'resources: {any_of: [{ports: 80}]}\n' "1:23: ports is of the whole job: write it beside any_of, not in it"
	mistaken 'artifacts: {path: [a]}\n' "1:13: artifacts.path is no field of a job file, and --drop path leaves it out; did you mean 'paths'?"
	assert_equal "$(checked 'nme: x\nrun: a\n' --drop nme | jq -c .dropped)" '["nme"]'
	refused 64 "--drop infa: no field of a job file; did you mean 'infra'?" rnp-register launch --check "$jobs/whole.yaml" --drop infa
}

@test "job: what is refused by name says what to write instead, and --drop leaves it out" {
	for field in infra cloud region zone; do
		mistaken "resources: {$field: x}\nrun: a\n" "1:13: resources.$field: nodes belong to no cloud; write places for countries, or nothing; --drop $field leaves it out"
		assert_equal "$(checked "resources: {$field: x, any_of: [{$field: y}, {$field: z}]}\nrun: a\n" --drop "$field" | jq -c '[.dropped, (.wishes | length)]')" "[[\"$field\"],1]"
	done
	mistaken 'resources: {instance_type: p4d}\n' "1:13: resources.instance_type: write accelerators, cpus and memory"
	mistaken 'resources: {image_id: "skypilot:x"}\n' "1:23: image_id 'skypilot:x' is an image of a cloud: write docker:NAME"
	mistaken 'resources: {image_id: {us: ami}}\n' "1:23: image_id by region is an image of a cloud"
	mistaken 'workdir: {url: x}\n' "1:10: workdir is a path here: git clone in setup"
	for field in service config pool execution volumes inputs outputs; do
		mistaken "$field: {a: 1}\nrun: a\n" "1:1: $field: "
		assert_equal "$(checked "$field: {a: 1}\nrun: a\n" --drop $field | jq -r .run)" a
	done
	for store in 's3://b' '{name: $B, mode: MOUNT}' '$U'; do
		mistaken "envs: {U: gs://b}\nfile_mounts:\n  /a: $store\n  /b: ./b\nrun: a\n" "3:3: file_mounts /a is an object store: copy from it in setup; --drop stores leaves all of them out"
	done
	assert_equal "$(checked 'file_mounts: {/a: s3://b, /b: ./b, /c: {name: x}}\n' --drop stores | jq -c '[.mounts, .dropped]')" '[[{"to":"/b","from":"./b"}],["stores"]]'
}

@test "job: GPUs by all their names, sets, lists in order and alternatives are wishes" {
	assert_equal "$(wishes '{accelerators: L4}')" '["cheapest",[1,"L4"]]'
	assert_equal "$(wishes '{accelerators: "RTX4090:2"}' 3)" '["cheapest",[6,"RTX 4090"]]'
	assert_equal "$(wishes '{gpus: a10g:4}')" '["cheapest",[4,"A10G"]]'
	# a name that leaves form or memory open is all that it may mean: nodes name theirs
	assert_equal "$(wishes '{accelerators: A100-80GB:8}')" '["cheapest",[8,"A100 80GB|A100 80GB SXM|A100 80GB PCIe"]]'
	assert_equal "$(wishes '{accelerators: H100-80GB}')" '["cheapest",[1,"H100 80GB|H100 SXM|H100 PCIe"]]'
	assert_equal "$(wishes '{accelerators: {L4:8, T4:8, A10: 4}}')" '["cheapest",[8,"L4|T4"],[4,"A10"]]'
	assert_equal "$(wishes '{accelerators: [L4:8, T4, L4:8]}')" '["first",[8,"L4"],[1,"T4"]]'
	assert_equal "$(wishes '{accelerators: 24GB+}')" '["cheapest",[1,"",23192823393]]'
	assert_equal "$(wishes '{accelerators: any:2}')" '["cheapest",[2,""]]'
	assert_equal "$(wishes '{cpus: 8}')" '["cheapest",[0,""]]'
	assert_equal "$(wishes '{accelerators: L4, any_of: [{use_spot: true}, {use_spot: false}, {accelerators: T4:2}]}')" \
		'["cheapest",[1,"L4",true],[1,"L4"],[2,"T4"]]'
	assert_equal "$(wishes '{ordered: [{accelerators: L4}, {accelerators: {T4, A10}}]}')" '["first",[1,"L4"],[1,"T4|A10"]]'
	mistaken 'resources: {accelerators: H10O:8}\n' "1:27: 'H10O' is no GPU that is known here, and 24GB asks for any with so much memory; did you mean 'H100'?"
	mistaken 'resources: {accelerators: A100:0.5}\n' "1:27: '0.5': a part of a GPU is not to be had: write a whole number"
	mistaken 'resources: {accelerators: tpu-v5e-8}\n' "1:27: 'tpu-v5e-8' is a TPU, and there are none here: name a GPU"
	mistaken 'resources: {accelerators: A100:0}\n' "1:27: '0' is no number of GPUs"
	mistaken 'resources: {accelerators: A100, gpus: A100}\n' "1:33: gpus and accelerators are one field"
	mistaken 'resources: {any_of: [{accelerators: [L4, T4]}]}\n' "1:37: a list is tried in its order, and any_of in none: write ordered"
	# one that is not known does not spoil a set, and is said
	assert_equal "$(checked 'resources: {accelerators: {Inferentia:6, L4:1}}\nrun: x\n' | jq -c '[(.wishes | length), .warnings[0]]')" \
		"[1,\"line 1: 'Inferentia:6' is no GPU that is known here, and is left out\"]"
}

@test "job: variables without a value are given on the command line, from its environment or as text" {
	mistaken 'envs: {A: null}\nrun: a\n' "1:8: A has no value: give it by --env A=VALUE, or --env A where the environment has it"
	mistaken 'secrets:\n  S:\nrun: a\n' "2:3: S has no value: give it by --secret S=VALUE"
	mistaken 'secrets: [S]\n' "1:11: S has no value"
	assert_equal "$(checked 'envs: {A: null, B: x}\nrun: a\n' --env A=1=2 --env B=y --env C= | jq -c .envs)" '{"A":"1=2","B":"y","C":""}'
	assert_equal "$(A=here checked 'envs: {A: null}\n' --env A | jq -c .envs)" '{"A":"here"}'
	printf 'run: a\n' >j.yaml
	refused 64 "--env NOT_SET: the environment has no such variable" env -u NOT_SET rnp-register launch --check j.yaml --env NOT_SET
	refused 64 "--env 1A: no name that a variable can have here" rnp-register launch --check j.yaml --env 1A=x
	mistaken 'envs: {A-B: x}\n' "1:8: 'A-B' is no name of a variable"
	mistaken 'envs: {SKYPILOT_NODE_RANK: 1}\n' "1:8: SKYPILOT_NODE_RANK is set by the node"
	mistaken 'envs: {A: x}\nsecrets: {A: y}\n' "2:11: A is among envs, too"
	# $NAME in file_mounts and resources
	assert_equal "$(checked 'envs: {G: L4, N: 4, D: /x}\nresources: {accelerators: "$G:${N}"}\nfile_mounts: {"$D/a": "${D}_/b$"}\n' |
		jq -c '[.wishes[0].gpu_models, .wishes[0].gpu_count, .mounts]')" '[["L4"],4,[{"to":"/x/a","from":"/x_/b$"}]]'
	mistaken 'file_mounts: {/a: $D/b}\n' "1:19: \$D is not among envs: add it there, or give --env D=VALUE"
	mistaken 'secrets: {S: k}\nresources: {labels: {a: $S}}\n' "2:25: \$S is a secret, and others can read this"
}

@test "job: JSON is a job file, too, with a place where libyaml finds one" {
	assert_equal "$(checked '{"run": "echo \\ud83d\\ude00", "envs": {"A": 1, "B": "yes"}, "num_nodes": 2}' | jq -c '[.run, .envs, .nodes]')" \
		'["echo 😀",{"A":"1","B":"yes"},2]'
	mistaken '{\n\t"run": "a",\n\t"rnu": "b"\n}' "3:2: rnu is no field of a job file"
	mistaken '{"run": "\\ud83d\\ude00", "rnu": 1}' " rnu is no field of a job file"
	run_split rnp-register launch --check - <<<'{"run": "a"}'
	assert_success
	assert_equal "$(jq -r .name <<<"$output")" job
}

@test "job: a file of fedml launch is turned, and what is turned is said" {
	run_split rnp-register launch --check "$jobs/fedml.yaml"
	assert_success
	assert_equal "$(jq -c '[.format, .workdir, .run, .setup, .envs, (.wishes[0] | .gpu_count, .gpu_models[1], .max_uusd_per_hour, .image)]' <<<"$output")" \
		'["fedml","hello_world","echo \"Hello\"\npython3 hello_world.py\n","pip install -r requirements.txt\n",{"dataset_name":"mnist","dataset_path":"./dataset","input_dim":"784","learning_rate":"0.004"},2,"A100 80GB SXM",7000000,"fedml/fedml-default-launch:cu12.1-u22.04"]'
	[[ $stderr == *"line 20: data_args become variables of the same names"* ]]
	mistaken 'job: a\njob_type: federate\n' "2:11: job_type 'federate' is not to be had here: only train is"
	mistaken 'job: a\nserver_job: b\n' "2:1: server_job: a job has no second program"
	mistaken 'job: a\ncomputing: {resource_typ: A100}\n' "2:13: computing.resource_typ is no field of a job file, and --drop resource_typ leaves it out; did you mean 'resource_type'?"
	mistaken 'job: {run_on_windows: a}\n' "1:6: job has no run_on_posix, and nodes run Linux"
	assert_equal "$(checked 'job: a\ncomputing: {minimum_num_gpus: 0}\n' | jq -c '.wishes[0].gpu_count')" 0
	assert_equal "$(checked 'job: a\ncomputing: {minimum_num_gpus: 3}\n' | jq -c '.wishes[0].gpu_count')" 3
}

@test "job: a task of dstack is turned, with its variables" {
	run_split rnp-register launch --check -q "$jobs/dstack.yaml" --env HF_TOKEN=t
	assert_success
	assert_equal "$(jq -c '[.format, .name, .nodes, .envs, .ports, (.wishes[0] | .gpu_count, .gpu_models[1], .cpu_cores, .memory_bytes, .image)]' <<<"$output")" \
		'["dstack","trl-train",2,{"HF_TOKEN":"t","MODEL_ID":"meta-llama/Llama-3.1-8B"},["8000","80"],16,"H100 SXM",16,64000000000,"nvcr.io/nvidia/pytorch:25.01-py3"]'
	# its script runs, and ends at the first command that fails
	checked 'type: task\ncommands: [echo $DSTACK_NODE_RANK $DSTACK_GPUS_NUM $DSTACK_MASTER_NODE_IP, "false", echo never]\n' | jq -j .run >run.sh
	run env SKYPILOT_NODE_RANK=1 SKYPILOT_NUM_NODES=2 SKYPILOT_NUM_GPUS_PER_NODE=8 SKYPILOT_NODE_IPS=$'10.64.0.1\n10.64.0.2' bash run.sh
	assert_failure 1
	assert_output "1 16 10.64.0.1"
	for gpu in 24GB=1: 24GB..48GB=1: H100:8='8:H100' 2=2: 1..4=1: nvidia:L4:2=2:L4 '{name: [L4, T4], count: 2}=2:L4'; do
		assert_equal "$gpu $(checked "type: task\nresources: {gpu: ${gpu%=*}}\ncommands: [a]\n" | jq -r '.wishes[0] | "\(.gpu_count):\(.gpu_models // [""] | .[0])"')" "$gpu ${gpu##*=}"
	done
	mistaken 'type: service\ncommands: [a]\n' "1:7: type 'service' of dstack is not to be had here: only task is"
	mistaken 'type: task\nvolumes: [a]\n' "2:1: volumes: no volume outlives a job"
	mistaken 'type: task\nresources: {gpu: tpu-v5e-8}\n' "2:18: TPUs are not to be had here"
}

@test "job: a file that is not there is 66; without --check nothing is launched" {
	refused 66 "none.yaml" rnp-register launch --check none.yaml
	printf 'run: a\n' >j.yaml
	refused 64 "--check" rnp-register launch j.yaml
}
