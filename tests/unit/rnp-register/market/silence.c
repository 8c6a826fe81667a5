/* silence.c - a node that has a lease is lost when its heartbeats stop, or its agent alone. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/market/supply.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"

#define MINUTE INT64_C(60000)

static const char node[] = "7Nd7vq5NnQdT2oZfJ5bYQYf5rRj7xJ2ZzVw3cK8mP1aH";
static struct supply *s;

/* Whether it is silent, and for whose sake. */
static bool says(const char *word, int64_t since_ms, int64_t now_ms)
{
	const char *why = supply_silence(s, node, since_ms, now_ms);

	return word ? why && strstr(why, word) : !why;
}

int main(void)
{
	s = supply_new();
	CHECK(says("heartbeats", 0, 1)); /* whoever is not known */
	/* an agent that nobody knows makes no entry */
	supply_asked(s, node, MINUTE);
	CHECK(says("heartbeats", 0, MINUTE));
	for (int64_t m = 0; m < 30; m++)
		supply_beat(s, node, m * MINUTE, MINUTE, true);
	supply_asked(s, node, 25 * MINUTE);
	CHECK(says(NULL, 0, 30 * MINUTE));
	CHECK(says("agent", 0, 30 * MINUTE + 1));
	supply_asked(s, node, 30 * MINUTE);
	CHECK(says(NULL, 0, 31 * MINUTE));
	CHECK(says("heartbeats", 0, 32 * MINUTE));
	/* a registry that has just started gives both as long */
	CHECK(says(NULL, 60 * MINUTE, 61 * MINUTE));
	supply_beat(s, node, 64 * MINUTE, MINUTE, true);
	CHECK(says(NULL, 60 * MINUTE, 65 * MINUTE));
	CHECK(says("agent", 60 * MINUTE, 65 * MINUTE + 1));
	supply_free(s);
	TEST_END();
}
