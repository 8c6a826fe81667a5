#!/usr/bin/env bats
# Constrained answers: what the JSON Schema Test Suite says about the automata, and ajv about the texts.
load helper

@test "schema: texts of random walks through the masks of 200 schemas are accepted by ajv" {
	[ -d "$ROOT/build/node/node_modules/ajv" ] || skip "ajv is not there: scripts/bootstrap"
	node "$ROOT/tests/schema_ajv.mjs" "$RNP_BUILD/unit/lm/grammar" "$ROOT/build/node/node_modules/ajv" 1
}

@test "schema: the JSON Schema Test Suite passes with each schema that uses our words" {
	suite=${RNP_SCHEMA_SUITE:-$ROOT/build/json-schema-test-suite/tests/draft2020-12}
	[ -d "$suite" ] || skip "the suite is not there: set RNP_SCHEMA_SUITE to its tests/draft2020-12"
	python3 "$ROOT/tests/schema_suite.py" "$RNP_BUILD/unit/lm/grammar" "$suite"
}
