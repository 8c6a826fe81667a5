/* cuda_emu_wgmma.c - see cuda_emu_wgmma.h; long because a block's barriers, copies and products
 * hold each other up, and are one state. */
#include "tests/kernels/cuda_emu_wgmma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dev/half.h"
#include "tests/kernels/cuda_emu.h"

#define MAGIC        0x6d617020666f7220u
#define BARRIER_MARK 0x6d62617272696572u
#define BARRIERS_MAX 32
#define COPIES_MAX   256
#define PRODUCTS_MAX 32 /* of a thread under way */
#define RESULTS_MAX  4  /* of these */
#define FIBERS_MAX   1024
#define LOG_MAX      64
#define GROUP        128
#define TX_MAX       ((1 << 20) - 1) /* of an mbarrier's bytes */
#define WINDOW       0x3ffffu        /* 18 bits of an address in a descriptor */

struct mbarrier {
	uint64_t *at;
	unsigned count, pending, phase, owner;
	/* that have not come; less than 0 where they came before they were expected */
	int64_t bytes;
	bool visible;
	/* what those see who wait: what was written before arrivals of this phase, and of the one
	 * before */
	uint32_t arriving[FIBERS_MAX], arrived[FIBERS_MAX];
};

struct copy {
	struct emu_tensor_map map;
	unsigned to;
	int x, y, z;
	struct mbarrier *barrier;
	unsigned char *at; /* the host's address of `to` */
	unsigned bytes;
};

/* An operand in shared memory; of rows of m or n. */
struct operand {
	unsigned start, leading, stride;
	bool turned;
	unsigned low, high;     /* addresses that it reads */
	const unsigned char *p; /* the host's address of low */
};

/* left: a is in registers of the four lanes that have its rows, which are read when it is
 * computed. */
struct product {
	struct operand a, b;
	const unsigned *left[4];
	struct result *result;
	bool add, done;
	uint32_t group;
};

/* A D that products under way write. */
struct result {
	float *d;
	unsigned columns, under_way;
	float sum[128];
};

struct thread {
	struct result results[RESULTS_MAX];
	struct product queue[PRODUCTS_MAX];
	unsigned first, end;
	uint32_t group, started; /* products so far */
	bool fenced, late;
};

/* What the warps of a warpgroup have started, which is the same for all. */
struct logged {
	uint32_t number;
	uint64_t a, b;
	bool add;
};

struct state {
	struct mbarrier barriers[BARRIERS_MAX];
	unsigned barrier_count;
	struct copy copies[COPIES_MAX];
	unsigned copy_count;
	struct thread *threads[FIBERS_MAX];
	struct logged log[FIBERS_MAX / GROUP][LOG_MAX];
	uint32_t newest[FIBERS_MAX / GROUP];
	/* of each thread of a warp, 0: as at the beginning; of a warpgroup, what its last warp
	 * said */
	unsigned registers[FIBERS_MAX / 32], group_registers[FIBERS_MAX / GROUP];
	struct state *next; /* all that are alive */
};

static struct state *all;

static struct state *own(void)
{
	void **slot = emu_block_own();

	if (!*slot) {
		struct state *s = calloc(1, sizeof *s);

		if (!s)
			emu_die("no memory");
		s->next = all;
		all = s;
		*slot = s;
	}
	return *slot;
}

static float noise(void)
{
	uint32_t bits = 0x7fc00000u | emu_below(1 << 20);
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

/* --- mbarriers ------------------------------------------------------------------------------ */

static struct mbarrier *barrier_of(struct state *s, const uint64_t *b)
{
	for (unsigned i = 0; i < s->barrier_count; i++)
		if (s->barriers[i].at == b) {
			if (*b != BARRIER_MARK)
				emu_die("an mbarrier was overwritten");
			return &s->barriers[i];
		}
	emu_die("an mbarrier is used that was not initialised");
	return NULL;
}

void emu_mbarrier_init(uint64_t *b, unsigned count)
{
	struct state *s = own();
	struct mbarrier *m = &s->barriers[s->barrier_count++];

	if (s->barrier_count > BARRIERS_MAX || !count ||
		!emu_shared_at(emu_shared_address(b), 8) || (uintptr_t)b % 8)
		emu_die("an mbarrier is wrong: its place, its count, or there are too many");
	*b = BARRIER_MARK;
	*m = (struct mbarrier){ .at = b,
		.count = count,
		.pending = count,
		.owner = emu_index() };
}

void emu_mbarrier_fence(void)
{
	struct state *s = own();

	for (unsigned i = 0; i < s->barrier_count; i++)
		if (s->barriers[i].owner == emu_index())
			s->barriers[i].visible = true;
}

static void advance(struct mbarrier *m)
{
	if (m->bytes > TX_MAX || m->bytes < -TX_MAX)
		emu_die("more bytes than an mbarrier counts");
	if (m->pending || m->bytes)
		return;
	m->phase++;
	m->pending = m->count;
	memcpy(m->arrived, m->arriving, sizeof m->arrived);
	emu_wake(m->at);
}

void emu_mbarrier_arrive(uint64_t *b, unsigned expect_bytes)
{
	struct mbarrier *m = barrier_of(own(), b);

	if (!m->pending)
		emu_die("more arrive at an mbarrier than its count");
	emu_release(m->arriving);
	m->bytes += expect_bytes;
	m->pending--;
	advance(m);
}

void emu_mbarrier_wait(uint64_t *b, unsigned parity)
{
	struct mbarrier *m = barrier_of(own(), b);

	if (parity > 1)
		emu_die("a parity is 0 or 1");
	while (m->phase % 2 == parity)
		emu_sleep(b);
	emu_acquire(m->arrived);
}

/* All of these are .sync.aligned: the lanes of a warp meet there. */
static void meet(uint64_t what)
{
	const uint64_t *lanes = emu_warp_exchange(0xffffffff, what);

	for (int l = 0; l < 32; l++)
		if (lanes[l] != what)
			emu_die("lanes of a warp differ in a warpgroup's operation");
}

/* --- registers ------------------------------------------------------------------------------ */

#define QUARTER_REGISTERS 16384

/* Registers of a thread when the block begins. */
static unsigned registers_before(void)
{
	unsigned warps = (emu_block_dim.x + 31) / 32, each = (warps + 3) / 4;

	return QUARTER_REGISTERS / (32 * each) / 8 * 8;
}

/* How many for each lane are left of those that the block's warps on a quarter of the SM began
 * with. */
static int registers_left(const struct state *s, unsigned quarter)
{
	int left = 0;

	for (unsigned w = quarter; w < (emu_block_dim.x + 31) / 32; w += 4)
		left += (int)registers_before() -
			(int)(s->registers[w] ? s->registers[w] : registers_before());
	return left;
}

void emu_registers(bool more, unsigned n)
{
	struct state *s = own();
	unsigned warp = emu_index() / 32, group = emu_index() / GROUP;
	unsigned has = s->registers[warp] ? s->registers[warp] : registers_before();

	meet(n);
	if (s->group_registers[group] && s->group_registers[group] != n)
		emu_die("warps of a warpgroup ask for different numbers of registers");
	if (emu_block_dim.x % GROUP || (more ? n < has : n > has))
		emu_die("registers of no whole warpgroup, or fewer where more are asked for");
	s->group_registers[group] = n;
	while (more && s->registers[warp] != n &&
		(int)(n - has) > registers_left(s, warp % 4))
		emu_sleep(s->registers);
	s->registers[warp] = n;
	emu_wake(s->registers);
}

/* --- copies --------------------------------------------------------------------------------- */

int emu_tensor_map(struct emu_tensor_map *map, const void *at, uint64_t rows,
	uint64_t columns, uint64_t row_bytes, uint32_t box_rows, uint32_t box_columns)
{
	/* a driver that makes maps of so many columns at most */
	const char *most = getenv("CUDA_EMU_MAP_MOST");

	*map = (struct emu_tensor_map){ MAGIC, at, rows, columns, row_bytes, 0, 0,
		box_rows, box_columns, { 0 } };
	if (most && columns > strtoull(most, NULL, 0))
		return 1;
	return (uintptr_t)at % 16 || !rows || !columns || rows > UINT32_MAX ||
		columns > UINT32_MAX || row_bytes % 16 || row_bytes >> 40 || !box_rows ||
		box_rows > 256 || !box_columns || box_columns * 2 > 128 ||
		box_columns * 2 % 16;
}

int emu_tensor_map_sheets(struct emu_tensor_map *map, uint64_t sheets,
	uint64_t sheet_bytes)
{
	map->sheets = sheets;
	map->sheet_bytes = sheet_bytes;
	return !sheets || sheets > UINT32_MAX || sheet_bytes % 16 || sheet_bytes >> 40;
}

static void finish_copy(struct copy *c)
{
	const struct emu_tensor_map *m = &c->map;

	for (unsigned r = 0; r < m->box_rows; r++)
		for (unsigned i = 0; i < m->box_columns; i++) {
			int64_t y = (int64_t)c->y + r, x = (int64_t)c->x + i;
			unsigned address = c->to + r * m->box_columns * 2 + i * 2;
			uint16_t v = 0;

			if (y >= 0 && x >= 0 && c->z >= 0 && y < (int64_t)m->rows &&
				x < (int64_t)m->columns &&
				(!m->sheets || c->z < (int64_t)m->sheets))
				memcpy(&v,
					(const char *)m->at +
						(uint64_t)c->z * m->sheet_bytes +
						(uint64_t)y * m->row_bytes +
						(uint64_t)x * 2,
					2);
			address ^= (address >> 7 & 7) << 4;
			memcpy(c->at + (address - c->to), &v, 2);
		}
	c->barrier->bytes -= c->bytes;
	advance(c->barrier);
}

static void finish_one(struct state *s, unsigned which)
{
	struct copy c = s->copies[which];

	s->copies[which] = s->copies[--s->copy_count];
	finish_copy(&c);
}

/* Whether a product of any thread that nobody has waited for reads these addresses. */
static bool is_read(const struct state *s, unsigned from, unsigned end)
{
	for (unsigned f = 0; f < FIBERS_MAX; f++)
		for (unsigned i = s->threads[f] ? s->threads[f]->first : 0;
			s->threads[f] && i != s->threads[f]->end; i++) {
			const struct product *p = &s->threads[f]->queue[i % PRODUCTS_MAX];

			if ((p->a.p && p->a.low < end && from < p->a.high) ||
				(p->b.low < end && from < p->b.high))
				return true;
		}
	return false;
}

static void load(void *to, const struct emu_tensor_map *map, int x, int y, int z,
	uint64_t *barrier)
{
	struct state *s = own();
	struct copy *c = &s->copies[s->copy_count++];

	if (s->copy_count > COPIES_MAX || map->magic != MAGIC)
		emu_die("too many copies of boxes, or no map");
	*c = (struct copy){ .map = *map,
		.to = emu_shared_address(to),
		.x = x,
		.y = y,
		.z = z,
		.barrier = barrier_of(s, barrier),
		.bytes = map->box_rows * map->box_columns * 2 };
	c->at = emu_shared_at(c->to, c->bytes);
	if (!c->at || c->to % 128 || map->box_columns * 2 != 128)
		emu_die("a box that is not in one array of shared memory, or not aligned");
	if (!c->barrier->visible)
		emu_die("an mbarrier is used by a copy before it is made visible");
	if (is_read(s, c->to, c->to + c->bytes))
		emu_die("a copy goes where a product still reads");
	memset(c->at, 0xff, c->bytes); /* NaN */
	if (emu_habit() == 1 || (emu_habit() != 2 && emu_below(3) == 0))
		finish_one(s, s->copy_count - 1);
}

void emu_tensor_load(void *to, const struct emu_tensor_map *map, int x, int y,
	uint64_t *barrier)
{
	if (map->sheets)
		emu_die("a copy of two coordinates by a map of three");
	load(to, map, x, y, 0, barrier);
}

void emu_tensor_load_sheet(void *to, const struct emu_tensor_map *map, int x, int y,
	int z, uint64_t *barrier)
{
	if (!map->sheets)
		emu_die("a copy of three coordinates by a map of two");
	load(to, map, x, y, z, barrier);
}

bool emu_wgmma_step(bool must)
{
	for (struct state *s = all; s; s = s->next)
		if (s->copy_count && (must || (emu_habit() != 2 && emu_below(4) == 0))) {
			finish_one(s, emu_below(s->copy_count));
			return true;
		}
	return false;
}

/* --- products ------------------------------------------------------------------------------- */

/* The address of a number before the swizzle: the canonical layouts of the 128-byte swizzle. */
static unsigned plain_address(const struct operand *o, unsigned row, unsigned k)
{
	if (o->turned)
		return o->start + row / 64 * o->leading + row % 64 * 2 +
			k / 8 * o->stride + k % 8 * 128;
	return o->start + row / 8 * o->stride + row % 8 * 128 + k * 2;
}

static float number_of(const struct operand *o, unsigned row, unsigned k)
{
	unsigned address = plain_address(o, row, k);
	uint16_t v;

	address ^= (address >> 7 & 7) << 4;
	memcpy(&v, o->p + (address - o->low), 2);
	return bf16_to_f32(v);
}

/* Decodes a descriptor of an operand of so many rows of m or n. */
static struct operand decode(uint64_t bits, bool turned, unsigned rows)
{
	struct operand o = { .start = (unsigned)(bits & 0x3fff) << 4,
		.leading = (unsigned)(bits >> 16 & 0x3fff) << 4,
		.stride = (unsigned)(bits >> 32 & 0x3fff) << 4,
		.turned = turned };
	unsigned last;

	if (bits >> 62 != 1)
		emu_die("a descriptor whose swizzle is not of 128 bytes");
	if (bits >> 14 & 3 || bits >> 30 & 3 || bits >> 46 & 7 || bits >> 52 & 0x3ff)
		emu_die("a descriptor with bits that mean nothing");
	if ((bits >> 49 & 7) != (o.start >> 7 & 7))
		emu_die("a descriptor whose base offset is not its address's");
	last = plain_address(&o, rows - 1, 15);
	/* all of the atoms' rows, as the swizzle stays in them */
	o.low = o.start & ~127u;
	o.high = (last | 127) + 1;
	if (o.high > WINDOW + 1)
		emu_die("a descriptor that goes beyond shared memory");
	o.p = emu_shared_at(o.low, o.high - o.low);
	if (!o.p)
		emu_die("a descriptor that goes beyond an array of shared memory");
	return o;
}

/* As A of mma.m16n8k16 (kernels/dev/cuda/tensor.cuh): a lane of four has two numbers of every eight
 * along k. */
static float left_number(const struct product *p, unsigned half, unsigned k)
{
	unsigned two = p->left[k % 8 / 2][half + k / 8 * 2];

	return bf16_to_f32((uint16_t)(two >> 16 * (k % 2)));
}

/* How a chip's wgmma adds, of CUDA_EMU_WGMMA: 0 as emu_mma, where the sum of all terms is rounded
 * once; 1 eight terms at a time; 2 none of the last eight, as a fault would have it. */
static unsigned way_of_adding(void)
{
	const char *text = getenv("CUDA_EMU_WGMMA");

	return text ? (unsigned)atoi(text) : 0;
}

static void compute(struct product *p)
{
	unsigned way = way_of_adding();
	unsigned lane = emu_index() % 32, warp = emu_index() / 32 % 4;
	struct result *r = p->result;
	float a[2][16];

	for (unsigned h = 0; h < 2; h++)
		for (unsigned k = 0; k < 16; k++)
			a[h][k] = p->left[0] ?
				left_number(p, h, k) :
				number_of(&p->a, 16 * warp + lane / 4 + 8 * h, k);
	for (unsigned i = 0; i < r->columns / 2; i += 4)
		for (unsigned c = 0; c < 2; c++) {
			float *sum = r->sum + i + c;
			double s[2] = { p->add ? sum[0] : 0, p->add ? sum[2] : 0 };

			for (unsigned k = 0; k < (way == 2 ? 8 : 16); k++) {
				float b = number_of(&p->b, 2 * i + lane % 4 * 2 + c, k);

				if (way == 1 && k == 8)
					s[0] = (float)s[0], s[1] = (float)s[1];
				s[0] += (double)a[0][k] * b;
				s[1] += (double)a[1][k] * b;
			}
			sum[0] = (float)s[0];
			sum[2] = (float)s[1];
		}
	p->done = true;
}

static struct thread *own_thread(void)
{
	struct state *s = own();
	struct thread **t = &s->threads[emu_index()];

	if (!*t) {
		*t = calloc(1, sizeof **t);
		if (!*t)
			emu_die("no memory");
	}
	return *t;
}

void emu_wgmma_fence(void)
{
	meet(0);
	own_thread()->fenced = true;
}

/* All warps of a warpgroup make the same products: the first says which, the others are held
 * against it. */
static void same_for_all(struct thread *t, uint64_t a, uint64_t b, bool add)
{
	struct state *s = own();
	unsigned group = emu_index() / GROUP;
	struct logged *l = &s->log[group][t->started % LOG_MAX];

	t->started++;
	if (t->started > s->newest[group]) {
		s->newest[group] = t->started;
		*l = (struct logged){ t->started, a, b, add };
	} else if (l->number == t->started && (l->a != a || l->b != b || l->add != add)) {
		emu_die("threads of a warpgroup make different products");
	}
}

/* The D of a product that begins, which others under way may have. */
static struct result *result_of(struct thread *t, float *d, unsigned columns)
{
	struct result *free_one = NULL;

	for (unsigned i = 0; i < RESULTS_MAX; i++) {
		struct result *r = &t->results[i];

		if (!r->under_way)
			free_one = r;
		else if (r->d == d && r->columns == columns)
			return r;
		else if (r->d < d + columns / 2 && d < r->d + r->columns / 2)
			emu_die("results of two products under way overlap");
	}
	if (!free_one)
		emu_die("products of five results are under way: not emulated");
	free_one->d = d;
	free_one->columns = columns;
	memcpy(free_one->sum, d, columns / 2 * sizeof *d);
	return free_one;
}

/* lanes: of a warp, where each has A; NULL: it is in shared memory. */
static void start_product(float *d, unsigned columns, uint64_t a, uint64_t b, bool add,
	bool a_turned, bool b_turned, const uint64_t *lanes)
{
	struct thread *t = own_thread();
	struct product *p = &t->queue[t->end % PRODUCTS_MAX];

	if (!t->fenced)
		emu_die("a product without wgmma.fence before it");
	if (t->end - t->first == PRODUCTS_MAX || columns > 256)
		emu_die("too many products under way");
	if (t->first == t->end)
		t->late = emu_habit() == 2 || (emu_habit() != 1 && emu_below(2));
	*p = (struct product){ .b = decode(b, b_turned, columns),
		.result = result_of(t, d, columns),
		.add = add,
		.group = t->group };
	for (unsigned i = 0; i < 4 && lanes; i++)
		p->left[i] = (const unsigned *)(uintptr_t)
			lanes[emu_index() % 32 / 4 * 4 + i];
	if (!lanes)
		p->a = decode(a, a_turned, 64);
	same_for_all(t, a, b, add);
	p->result->under_way++;
	t->end++;
	if (!t->late)
		compute(p);
	for (unsigned i = 0; i < columns / 2; i++)
		d[i] = noise();
}

void emu_wgmma(float *d, unsigned columns, uint64_t a, uint64_t b, bool add,
	bool a_turned, bool b_turned)
{
	start_product(d, columns, a, b, add, a_turned, b_turned, NULL);
}

/* A stays in its registers until the product is computed: who changes it before the wait changes
 * the product of all lanes that need it. */
void emu_wgmma_left(float *d, unsigned columns, const unsigned *a, uint64_t b, bool add,
	bool b_turned)
{
	uint64_t lanes[32];

	memcpy(lanes, emu_warp_exchange(0xffffffff, (uint64_t)(uintptr_t)a),
		sizeof lanes);
	start_product(d, columns, 0, b, add, false, b_turned, lanes);
}

void emu_wgmma_commit(void)
{
	own_thread()->group++;
}

/* Computes what a wait for all but so many groups waits for. */
static void finish_products(struct thread *t, unsigned groups)
{
	while (t->first != t->end) {
		struct product *p = &t->queue[t->first % PRODUCTS_MAX];

		/* a product of a group that is not committed is waited for by nobody */
		if (p->group + groups >= t->group)
			return;
		if (!p->done)
			compute(p);
		t->first++;
		if (--p->result->under_way == 0)
			memcpy(p->result->d, p->result->sum,
				p->result->columns / 2 * sizeof(float));
	}
}

/* A warp goes on when the products of all its lanes are done. */
void emu_wgmma_wait(unsigned groups)
{
	struct thread *t = own_thread();

	t->fenced = false;
	finish_products(t, groups);
	meet(groups);
}

void emu_wgmma_fiber_end(void)
{
	struct state *s = *emu_block_own();
	struct thread *t = s ? s->threads[emu_index()] : NULL;

	if (!t)
		return;
	if (t->first != t->end)
		emu_die("a thread ends before its products");
	if (t->started != s->newest[emu_index() / GROUP])
		emu_die("warps of a warpgroup make different numbers of products");
}

void emu_wgmma_waiting(const void *state)
{
	const struct state *s = state;

	for (unsigned i = 0; s && i < s->barrier_count; i++)
		if (s->barriers[i].pending < s->barriers[i].count || s->barriers[i].bytes)
			fprintf(stderr,
				"cuda emulation: mbarrier %u, phase %u, lacks %u of %u arrivals and %lld bytes\n",
				i, s->barriers[i].phase, s->barriers[i].pending,
				s->barriers[i].count, (long long)s->barriers[i].bytes);
}

void emu_wgmma_block_end(void *state)
{
	struct state *s = state, **at = &all;

	if (!s)
		return;
	if (s->copy_count)
		emu_die("a block ends before its copies");
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	for (unsigned i = 0; i < FIBERS_MAX; i++)
		free(s->threads[i]);
	free(s);
}
