/* money.c - rounding against Python's whole numbers, and splits that add up and are fair. */
#include "common/base/money.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"

/* made with Python 3.11, whole numbers of any size: a * b / c rounded down, up, half up, half
 * to even */
static void check_muldiv(void)
{
	static const struct {
		int64_t a, b, c, expected[4];
	} rows[] = {
		{ INT64_C(0), INT64_C(5), INT64_C(3),
			{ INT64_C(0), INT64_C(0), INT64_C(0), INT64_C(0) } },
		{ INT64_C(1), INT64_C(1), INT64_C(2),
			{ INT64_C(0), INT64_C(1), INT64_C(1), INT64_C(0) } },
		{ INT64_C(3), INT64_C(1), INT64_C(2),
			{ INT64_C(1), INT64_C(2), INT64_C(2), INT64_C(2) } },
		{ INT64_C(5), INT64_C(1), INT64_C(2),
			{ INT64_C(2), INT64_C(3), INT64_C(3), INT64_C(2) } },
		{ INT64_C(9223372036854775807), INT64_C(9223372036854775807),
			INT64_C(9223372036854775807),
			{ INT64_C(9223372036854775807), INT64_C(9223372036854775807),
				INT64_C(9223372036854775807),
				INT64_C(9223372036854775807) } },
		{ INT64_C(9223372036854775807), INT64_C(1), INT64_C(1),
			{ INT64_C(9223372036854775807), INT64_C(9223372036854775807),
				INT64_C(9223372036854775807),
				INT64_C(9223372036854775807) } },
		{ INT64_C(9223372036854775807), INT64_C(9223372036854775806),
			INT64_C(9223372036854775807),
			{ INT64_C(9223372036854775806), INT64_C(9223372036854775806),
				INT64_C(9223372036854775806),
				INT64_C(9223372036854775806) } },
		{ INT64_C(7), INT64_C(3), INT64_C(2),
			{ INT64_C(10), INT64_C(11), INT64_C(11), INT64_C(10) } },
		{ INT64_C(1), INT64_C(1), INT64_C(3),
			{ INT64_C(0), INT64_C(1), INT64_C(0), INT64_C(0) } },
		{ INT64_C(2), INT64_C(1), INT64_C(3),
			{ INT64_C(0), INT64_C(1), INT64_C(1), INT64_C(1) } },
		{ INT64_C(9223372036854775807), INT64_C(2), INT64_C(3),
			{ INT64_C(6148914691236517204), INT64_C(6148914691236517205),
				INT64_C(6148914691236517205),
				INT64_C(6148914691236517205) } },
		{ INT64_C(100000000), INT64_C(999999), INT64_C(1000000),
			{ INT64_C(99999900), INT64_C(99999900), INT64_C(99999900),
				INT64_C(99999900) } },
		{ INT64_C(4335396123184015), INT64_C(217), INT64_C(1),
			{ INT64_C(940780958730931255), INT64_C(940780958730931255),
				INT64_C(940780958730931255),
				INT64_C(940780958730931255) } },
		{ INT64_C(265695473), INT64_C(839155954798992),
			INT64_C(2456641775679608523),
			{ INT64_C(90758), INT64_C(90759), INT64_C(90758),
				INT64_C(90758) } },
		{ INT64_C(1800188482), INT64_C(1901042282212365707), INT64_C(1599435267),
			{ INT64_C(2139651720105340295), INT64_C(2139651720105340296),
				INT64_C(2139651720105340296),
				INT64_C(2139651720105340296) } },
		{ INT64_C(32), INT64_C(0), INT64_C(4294419225162543855),
			{ INT64_C(0), INT64_C(0), INT64_C(0), INT64_C(0) } },
		{ INT64_C(2764862546695465304), INT64_C(772092314), INT64_C(351564607),
			{ INT64_C(6072081998771949361), INT64_C(6072081998771949362),
				INT64_C(6072081998771949361),
				INT64_C(6072081998771949361) } },
		{ INT64_C(2255701793), INT64_C(986680454432), INT64_C(314395342),
			{ INT64_C(7079166173461), INT64_C(7079166173462),
				INT64_C(7079166173462), INT64_C(7079166173462) } },
		{ INT64_C(6274150083463332300), INT64_C(1093474492365),
			INT64_C(4372785318514572673),
			{ INT64_C(1568936633703), INT64_C(1568936633704),
				INT64_C(1568936633703), INT64_C(1568936633703) } },
		{ INT64_C(31), INT64_C(3530140069), INT64_C(3077892946),
			{ INT64_C(35), INT64_C(36), INT64_C(36), INT64_C(36) } },
		{ INT64_C(779372046738), INT64_C(245567), INT64_C(2012611491791348480),
			{ INT64_C(0), INT64_C(1), INT64_C(0), INT64_C(0) } },
		{ INT64_C(1063497603), INT64_C(1451623769116732), INT64_C(942014),
			{ INT64_C(1638827447270921567), INT64_C(1638827447270921568),
				INT64_C(1638827447270921567),
				INT64_C(1638827447270921567) } },
		{ INT64_C(5005103843514385), INT64_C(902869),
			INT64_C(7017903211715130885),
			{ INT64_C(643), INT64_C(644), INT64_C(644), INT64_C(644) } },
		{ INT64_C(648200381), INT64_C(90), INT64_C(486448),
			{ INT64_C(119926), INT64_C(119927), INT64_C(119927),
				INT64_C(119927) } },
		{ INT64_C(51810462), INT64_C(2423409811215222223), INT64_C(17581913),
			{ INT64_C(7141315164873893119), INT64_C(7141315164873893120),
				INT64_C(7141315164873893120),
				INT64_C(7141315164873893120) } },
		{ INT64_C(6651880140370945), INT64_C(278971431360),
			INT64_C(995993044989937793),
			{ INT64_C(1863150082), INT64_C(1863150083), INT64_C(1863150083),
				INT64_C(1863150083) } },
		{ INT64_C(3671544277750706595), INT64_C(1865159960497325),
			INT64_C(3693431372000578827),
			{ INT64_C(1854107113500906), INT64_C(1854107113500907),
				INT64_C(1854107113500907), INT64_C(1854107113500907) } },
		{ INT64_C(0), INT64_C(106), INT64_C(1013909683268531109),
			{ INT64_C(0), INT64_C(0), INT64_C(0), INT64_C(0) } },
		{ INT64_C(114249253641), INT64_C(0), INT64_C(212786),
			{ INT64_C(0), INT64_C(0), INT64_C(0), INT64_C(0) } },
		{ INT64_C(58470556320), INT64_C(106), INT64_C(8541553349480616),
			{ INT64_C(0), INT64_C(1), INT64_C(0), INT64_C(0) } },
		{ INT64_C(59), INT64_C(4430862760486311383), INT64_C(792146241652100542),
			{ INT64_C(330), INT64_C(331), INT64_C(330), INT64_C(330) } },
		{ INT64_C(214302), INT64_C(583000369253), INT64_C(1892774336346561011),
			{ INT64_C(0), INT64_C(1), INT64_C(0), INT64_C(0) } },
		{ INT64_C(2704339469583765301), INT64_C(498845873942656323),
			INT64_C(4816725183789220086),
			{ INT64_C(280075888631218081), INT64_C(280075888631218082),
				INT64_C(280075888631218081),
				INT64_C(280075888631218081) } },
		{ INT64_C(1720926262), INT64_C(858641201), INT64_C(6558971201243771754),
			{ INT64_C(0), INT64_C(1), INT64_C(0), INT64_C(0) } },
		{ INT64_C(0), INT64_C(2028255629), INT64_C(1478675319),
			{ INT64_C(0), INT64_C(0), INT64_C(0), INT64_C(0) } },
		{ INT64_C(3363172435921326154), INT64_C(112), INT64_C(116),
			{ INT64_C(3247200972613694217), INT64_C(3247200972613694218),
				INT64_C(3247200972613694218),
				INT64_C(3247200972613694218) } },
		{ INT64_C(264830198841), INT64_C(3590621651088530),
			INT64_C(1646572263309719998),
			{ INT64_C(577505808), INT64_C(577505809), INT64_C(577505808),
				INT64_C(577505808) } },
		{ INT64_C(266418), INT64_C(0), INT64_C(4375170445754061974),
			{ INT64_C(0), INT64_C(0), INT64_C(0), INT64_C(0) } },
		{ INT64_C(290117677407), INT64_C(0), INT64_C(71),
			{ INT64_C(0), INT64_C(0), INT64_C(0), INT64_C(0) } },
		{ INT64_C(3801801429638157), INT64_C(1), INT64_C(1258282193),
			{ INT64_C(3021421), INT64_C(3021422), INT64_C(3021422),
				INT64_C(3021422) } },
	};
	int64_t v;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (int round = MONEY_FLOOR; round <= MONEY_HALF_EVEN; round++) {
			v = -1;
			CHECK(money_muldiv(rows[i].a, rows[i].b, rows[i].c, round, &v) ==
				0);
			CHECK_I64(rows[i].expected[round], v);
		}
	CHECK_FAILS(EX_DATAERR, money_muldiv(INT64_MAX, 2, 1, MONEY_FLOOR, &v));
	CHECK_FAILS(EX_DATAERR, money_muldiv(INT64_MAX, 3, 2, MONEY_FLOOR, &v));
	CHECK_I64(3, muldiv_floor(7, 1, 2));
	CHECK_I64(4, muldiv_ceil(7, 1, 2));
	CHECK_I64(4, muldiv_half_up(7, 1, 2));
}

static uint64_t random_state = 1;

/* splitmix64: any generator does, as long as it is the same everywhere */
static uint64_t random_bits(void)
{
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* The promises of the header: parts add up; each is its exact share rounded down or up; those
 * rounded up have the larger remainders, and of equal ones the lower indices. */
static void check_one_split(int64_t total, const int64_t *weights, size_t n)
{
	unsigned __int128 sum = 0, added = 0, least_up = 0, most_down = 0;
	size_t last_up = 0, first_down = n;
	int64_t parts[64], in_place[64];
	int wrong = 0, ups = 0;

	for (size_t i = 0; i < n; i++)
		sum += (unsigned __int128)weights[i];
	if (money_split(total, weights, n, parts) < 0) {
		CHECK(sum == 0 && total > 0);
		return;
	}
	memcpy(in_place, weights, n * sizeof *weights);
	CHECK(money_split(total, in_place, n, in_place) == 0);
	CHECK(memcmp(in_place, parts, n * sizeof *parts) == 0);
	for (size_t i = 0; i < n; i++) {
		unsigned __int128 product = (unsigned __int128)total *
			(unsigned __int128)weights[i];
		unsigned __int128 rest = sum ? product % sum : 0;
		int64_t share = sum ? (int64_t)(product / sum) : 0;

		added += (unsigned __int128)parts[i];
		if (parts[i] == share + 1) {
			/* the one that deserved its unit least: smallest rest, highest index */
			if (!ups++ || rest <= least_up)
				last_up = i, least_up = rest;
			wrong += rest == 0;
		} else {
			/* the one that deserved one most: largest rest, lowest index */
			if (first_down == n || rest > most_down)
				first_down = i, most_down = rest;
			wrong += parts[i] != share;
		}
	}
	wrong += added != (unsigned __int128)total;
	if (ups && first_down < n)
		wrong += least_up < most_down ||
			(least_up == most_down && last_up > first_down);
	CHECK_I64(0, wrong);
}

struct ranked {
	unsigned __int128 rest;
	size_t index;
};

static int by_larger_rest(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->rest != y->rest)
		return x->rest < y->rest ? 1 : -1;
	return x->index < y->index ? -1 : 1;
}

/* The units go where sorting would put them, for rests of any width and with any number of ties. */
static void check_rests(void)
{
	unsigned __int128 rests[2 * 64];
	struct ranked ranked[64];

	for (int round = 0; round < 20000; round++) {
		size_t n = 1 + random_bits() % 64, step = 1 + random_bits() % 2;
		int64_t parts[64] = { 0 }, left = (int64_t)(random_bits() % n);
		unsigned narrow = (unsigned)(random_bits() % 128), kinds = 1 + round % 70;
		long wrong = 0;

		for (size_t i = 0; i < n; i++) {
			unsigned __int128 v = random_bits() % kinds;

			v = v * 0x9e3779b97f4a7c15 * ((unsigned __int128)1 << 64 | 12345);
			rests[i * step] = v >> narrow;
			ranked[i] = (struct ranked){ v >> narrow, i };
		}
		money_give_rests(left, rests, step, n, parts);
		qsort(ranked, n, sizeof *ranked, by_larger_rest);
		for (size_t i = 0; i < n; i++)
			wrong += parts[ranked[i].index] != ((int64_t)i < left);
		CHECK_I64(0, wrong);
	}
}

static void check_split(void)
{
	static const int64_t thirds[] = { 1, 1, 1 }, none[] = { 0, 0 },
			     huge[] = { INT64_MAX, INT64_MAX, INT64_MAX - 1 };
	int64_t parts[3], weights[64];

	CHECK(money_split(100, thirds, 3, parts) == 0);
	CHECK(parts[0] == 34 && parts[1] == 33 && parts[2] == 33);
	CHECK(money_split(INT64_MAX, huge, 3, parts) == 0);
	CHECK((unsigned __int128)parts[0] + (unsigned __int128)parts[1] +
			(unsigned __int128)parts[2] ==
		INT64_MAX);
	CHECK(money_split(0, none, 2, parts) == 0 && parts[0] == 0 && parts[1] == 0);
	CHECK(money_split(0, none, 0, parts) == 0);
	CHECK_FAILS(EX_DATAERR, money_split(1, none, 2, parts));
	CHECK(parts[0] == 0 && parts[1] == 0);
	CHECK_FAILS(EX_DATAERR, money_split(1, none, 0, parts));
	for (int round = 0; round < 20000; round++) {
		size_t n = 1 + random_bits() % 64;
		/* few distinct small weights make ties, large ones use all bits */
		int shift = (int)(random_bits() % 63) + 1;

		for (size_t i = 0; i < n; i++)
			weights[i] = random_bits() % 8 ?
				(int64_t)(random_bits() >> shift) :
				0;
		check_one_split((int64_t)(random_bits() >> (1 + random_bits() % 63)),
			weights, n);
	}
}

static void check_format(void)
{
	static const struct {
		int64_t amount;
		int decimals;
		const char *text;
	} rows[] = {
		{ 0, 0, "0" },
		{ 0, 6, "0.000000" },
		{ 1900000, 6, "1.900000" },
		{ -1, 8, "-0.00000001" },
		{ -123, 0, "-123" },
		{ INT64_MAX, 8, "92233720368.54775807" },
		{ INT64_MIN, 2, "-92233720368547758.08" },
		{ INT64_MAX, 18, "9.223372036854775807" },
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct buf text = BUF_INIT;

		money_format(&text, rows[i].amount, rows[i].decimals);
		CHECK_TEXT(rows[i].text, text.data);
		buf_release(&text);
	}
}

int main(void)
{
	check_muldiv();
	check_split();
	check_rests();
	check_format();
	TEST_END();
}
