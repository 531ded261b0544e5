/* Random operations on the workqueue and on a model of it, compared after each one: what was answered, the state
 * of every key, who is next, times, counts.
 *
 *   QUEUE_SEED=N    one run with this seed instead of the usual ones
 *   QUEUE_STEPS=N   operations of each run
 *
 * An operation is a number from which everything random in it is drawn, so any part of a run is a run, too: one
 * that fails is made shorter as long as it fails, and what is left is printed. */
#include "queue_random.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
enum { STEPS = 100000 };
#else
enum { STEPS = 500000 };
#endif
enum { SHRINK_SECONDS = 15, THIN = 2 /* exit status: all agreed, but not everything happened */ };

static bool same(struct run *r, bool all, int touched)
{
	if (!all)
		return touched < 0 || run_same_key(r, touched);
	for (int i = 0; i < r->m.n_keys; i++)
		if (!run_same_key(r, i))
			return false;
	for (int c = 0; c < MODEL_CONTROLLERS; c++)
		if (!run_same_controller(r, c))
			return false;
	int64_t next = workqueue_next(&r->l.wq, r->now), want = model_next_time(&r->m, r->now);
	if (next != want)
		return FAIL(r, "the next time is %lld, the model has %lld", (long long)next, (long long)want);
	return run_same_watch(r);
}

static bool step(struct run *r, uint64_t number)
{
	static const struct {
		run_operation *run;
		unsigned weight;
	} table[] = {{run_add, 380},	  {run_batch, 4},    {run_grant, 240},	 {run_done, 220},
		     {run_stale, 20},	  {run_tick, 90},    {run_progress, 90}, {run_await, 20},
		     {run_controller, 6}, {run_operator, 8}, {run_restart, 4}};
	unsigned all = 0;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		all += table[i].weight;
	r->random = run_mix(r->seed ^ run_mix(number));
	unsigned at = (unsigned)run_draw(r, all);
	r->filling = r->tight && number / 8192 % 2 == 0;
	r->crashing = run_mix(r->seed ^ number / 512) % 8 == 0;
	size_t i = 0;
	while (at >= table[i].weight)
		at -= table[i++].weight;
	int touched = -1;
	r->now++;
	bool good = table[i].run(r, &touched);
	if (touched >= 0) {
		r->seen[r->m.keys[touched].state]++;
		r->paused[r->m.controllers[model_controller_of(&r->m, touched)].pause]++;
	}
	bool every = !r->tight || number % 256 == 0 || touched < 0;
	return good && same(r, every && !(r->tight && number % 16), touched);
}

/* ---- a run, and a shorter one ---- */

struct sequence {
	uint32_t *at;
	size_t len;
};

/* A long run comes to everything there is; one that does not tests less than it says. */
static bool saw_everything(struct run *r)
{
	const struct {
		const char *what;
		bool seen;
	} rows[] = {
	    {"a refusal for want of room, and only where there is little", r->tight == (r->refused > 0)},
	    {"a restart", r->restarts || r->tight},
	    {"a batch", r->batches},
	    {"a key that was held until the watch showed what it wrote", r->shown},
	    {"a key that was held in vain", r->in_vain},
	    {"own events that were forgotten", r->forgotten},
	    {"a watcher that was asked", r->told},
	    {"an operator's pause", r->held},
	    {"the cap", r->capped || !r->cap},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!rows[i].seen)
			return FAIL(r, "never seen: %s", rows[i].what);
	for (size_t i = 0; i < ARRAY_SIZE(r->seen); i++)
		if (!r->seen[i])
			return FAIL(r, "no key was ever in state %zu", i);
	for (size_t i = 0; i < ARRAY_SIZE(r->paused); i++)
		if (!r->paused[i])
			return FAIL(r, "no controller was ever in pause %zu", i);
	return true;
}

static size_t *went_well; /* of the sequence that is played: shared, so that it outlives the player */

/* How many of them went well. */
static size_t play(uint64_t seed, const struct sequence *s, bool verbose, bool *ret_thin, char *why,
		   size_t room)
{
	static struct run r;
	size_t i = 0;
	if (run_begin(&r, seed, verbose))
		while (i < s->len && step(&r, s->at[i]))
			*went_well = ++i;
	*ret_thin = i == s->len && i >= STEPS && !saw_everything(&r);
	snprintf(why, room, "%s", r.why);
	run_end(&r);
	return i;
}

/* In a process of its own, which a broken invariant may end. */
static bool fails(uint64_t seed, const struct sequence *s, bool verbose)
{
	fflush(NULL);
	*went_well = 0;
	pid_t pid = fork();
	cr_assert(pid >= 0);
	if (pid == 0) {
		char why[512];
		int terminal = dup(STDERR_FILENO);
		if (!verbose && !freopen("/dev/null", "w", stderr))
			_exit(3);
		bool thin, bad = play(seed, s, verbose, &thin, why, sizeof(why)) < s->len;
		if (bad || thin)
			dprintf(thin ? terminal : STDERR_FILENO, "%s\n", why);
		fflush(NULL);
		_exit(bad ? 1 : thin ? THIN : 0);
	}
	int status;
	cr_assert(waitpid(pid, &status, 0) == pid);
	cr_assert(!WIFEXITED(status) || WEXITSTATUS(status) != THIN, "seed %llu tests too little",
		  (unsigned long long)seed);
	return status != 0;
}

static void shrink(uint64_t seed, struct sequence *s)
{
	int64_t until = clock_boottime_ns() + SHRINK_SECONDS * S;
	struct sequence t = {xmalloc(s->len * sizeof(*s->at)), 0};
	for (size_t part = s->len / 2; part > 0; part /= 2)
		for (size_t from = 0; from < s->len && clock_boottime_ns() < until;) {
			size_t n = MIN(part, s->len - from);
			memcpy(t.at, s->at, from * sizeof(*t.at));
			memcpy(t.at + from, s->at + from + n, (s->len - from - n) * sizeof(*t.at));
			t.len = s->len - n;
			if (fails(seed, &t, false)) {
				s->len = *went_well + 1;
				memcpy(s->at, t.at, s->len * sizeof(*t.at));
			} else {
				from += n;
			}
		}
	free(t.at);
}

static void check_seed(uint64_t seed, size_t steps)
{
	struct sequence s = {xmalloc(steps * sizeof(*s.at)), steps};
	for (size_t i = 0; i < steps; i++)
		s.at[i] = (uint32_t)i;
	if (fails(seed, &s, false)) {
		s.len = *went_well + 1;
		size_t at = s.len;
		shrink(seed, &s);
		fprintf(stderr, "QUEUE_SEED=%llu fails at operation %zu; shortest that fails has %zu:\n",
			(unsigned long long)seed, at, s.len);
		fails(seed, &s, true);
		cr_assert_fail("QUEUE_SEED=%llu", (unsigned long long)seed);
	}
	free(s.at);
}

static uint64_t number(const char *variable, uint64_t otherwise)
{
	const char *text = getenv(variable);
	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void check_seeds(uint64_t first)
{
	size_t steps = (size_t)number("QUEUE_STEPS", STEPS);
	went_well = mmap(NULL, sizeof(*went_well), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(went_well != MAP_FAILED);
	uint64_t one = number("QUEUE_SEED", UINT64_MAX);
	if (one != UINT64_MAX) {
		check_seed(one, steps);
		return;
	}
	for (uint64_t seed = first; seed < first + 4; seed++) {
		fprintf(stderr, "QUEUE_SEED=%llu, %zu operations\n", (unsigned long long)seed, steps);
		check_seed(seed, steps);
	}
}

Test(random, the_workqueue_and_its_model_agree)
{
	check_seeds(1);
}
