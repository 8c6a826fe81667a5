/* suggest.c - finds the known name that is nearest to an unknown one: names of options,
 * subcommands, values and keys. */
#include "common/base/suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LETTERS_MAX (sizeof((struct suggest *)0)->best - 1)

static char fold(char c)
{
	return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Optimal string alignment distance of two short names. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t rows[3][LETTERS_MAX + 1], *before = rows[0], *above = rows[1],
					 *row = rows[2];

	for (size_t j = 0; j <= nb; j++)
		above[j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t *spare = before;

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			size_t change = fold(a[i - 1]) != fold(b[j - 1]);

			row[j] = least(above[j - 1] + change,
				least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) &&
				fold(a[i - 2]) == fold(b[j - 1]))
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = above, above = row, row = spare;
	}
	return above[nb];
}

void suggest_offer(struct suggest *s, const char *candidate, size_t len)
{
	size_t n = strlen(s->wanted), away, near = least((len + 2) / 3, 3);

	if (!len || len > LETTERS_MAX || !n || n > LETTERS_MAX)
		return;
	away = 2 * distance(s->wanted, n, candidate, len);
	near *= 2;
	/* a prefix is a better guess than three wrong letters, a worse one than a single one */
	if (n >= 2 && n < len && strncmp(s->wanted, candidate, n) == 0)
		away = least(away, 3), near = 3;
	if (away > near || (s->best[0] && away >= s->distance))
		return;
	s->distance = away;
	memcpy(s->best, candidate, len);
	s->best[len] = '\0';
}

void suggest_choices(struct suggest *s, const char *choices)
{
	while (choices && *choices) {
		size_t n = strcspn(choices, "|");

		suggest_offer(s, choices, n);
		choices += n + (choices[n] == '|');
	}
}

const char *suggest_text(struct suggest *s, char *out, size_t size)
{
	if (!s->best[0])
		return "";
	snprintf(out, size, "; did you mean '%s'?", s->best);
	return out;
}
