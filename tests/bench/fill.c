/* bench_fill KUBECONFIG COUNT: COUNT pods and COUNT databases (objects.h) on the API server; what is there already stays. Prints the
 * seconds that it took. */
#include "api.h"
#include "bench.h"

static void prepare(uint32_t self _unused_, const void *count)
{
	for (int k = 0; k < API_KINDS; k++)
		api_prepare((enum api_kind)k, *(const uint32_t *)count);
}

static void fill(uint32_t self, const void *count)
{
	for (uint32_t i = self; i < *(const uint32_t *)count; i += API_WRITERS)
		for (int k = 0; k < API_KINDS; k++)
			api_create((enum api_kind)k, i);
}

int main(int argc, char **argv)
{
	bench_begin();
	if (argc != 3)
		bench_fail("usage: bench_fill KUBECONFIG COUNT");
	uint32_t count = bench_number(argv[2]);
	int64_t begin = bench_now();
	api_in_processes(argv[1], 1, prepare, &count);
	api_in_processes(argv[1], API_WRITERS, fill, &count);
	bench_print("seconds", (double)(bench_now() - begin) / 1e9);
	bench_end();
}
