#!/usr/bin/env bats
# Constrained answers: what the JSON Schema Test Suite says about the automata, and ajv about the texts.
load ../helper

@test "schema: texts of random walks through the masks of 200 schemas are accepted by ajv" {
	[ -d "$ROOT/build/node/node_modules/ajv" ] || skip "ajv is not there: scripts/bootstrap"
	node "$ROOT/tests/tools/schema_ajv.mjs" "$RNP_BUILD/unit/lm/grammar/grammar" "$ROOT/build/node/node_modules/ajv" 1
}

@test "schema: the JSON Schema Test Suite passes with each schema that uses our words" {
	# Debian's copy ends at draft 7; RNP_SCHEMA_SUITE=.../tests/draft2020-12 takes that of a clone
	suite=${RNP_SCHEMA_SUITE:-/usr/share/json-schema-test-suite/tests/draft7}
	[ -d "$suite" ] || skip "the suite is not there: scripts/bootstrap, or set RNP_SCHEMA_SUITE"
	python3 "$ROOT/tests/tools/schema_suite.py" "$RNP_BUILD/unit/lm/grammar/grammar" "$suite"
}
