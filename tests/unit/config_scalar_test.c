#include "config_internal.h"
#include <criterion/criterion.h>

Test(config_scalar, durations_as_go_reads_them)
{
	static const struct {
		const char *text;
		int code;
		int64_t ns;
	} rows[] = {{"0", 0, 0},
		    {"0s", 0, 0},
		    {"5ms", 0, 5000000},
		    {"1h30m", 0, INT64_C(5400000000000)},
		    {"1.5h", 0, INT64_C(5400000000000)},
		    {".5s", 0, 500000000},
		    {"1.s", 0, 1000000000},
		    {"100us", 0, 100000},
		    {"1\xC2\xB5s", 0, 1000},
		    {"1\xCE\xBCs", 0, 1000},
		    {"7ns", 0, 7},
		    {"2562047h47m16.854775807s", 0, INT64_MAX},
		    {"2562047h47m16.854775808s", -ERANGE, 0},
		    {"9999999h", -ERANGE, 0},
		    {"99999999999999999999s", -ERANGE, 0},
		    {"-1s", -ERANGE, 0},
		    {"", -EINVAL, 0},
		    {"1", -EINVAL, 0},
		    {"00", -EINVAL, 0},
		    {"s", -EINVAL, 0},
		    {".s", -EINVAL, 0},
		    {"1d", -EINVAL, 0},
		    {"1 s", -EINVAL, 0},
		    {" 1s", -EINVAL, 0},
		    {"1s ", -EINVAL, 0},
		    {"1M", -EINVAL, 0},
		    {"+1s", -EINVAL, 0}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int64_t ns = 0;
		cr_expect_eq(parse_duration(rows[i].text, &ns), rows[i].code, "%s", rows[i].text);
		cr_expect_eq(ns, rows[i].ns, "%s", rows[i].text);
	}
}

Test(config_scalar, quantities_as_kubernetes_reads_them)
{
	static const struct {
		const char *text;
		int code;
		uint64_t bytes;
	} rows[] = {{"0", 0, 0},	 {"1", 0, 1},		{"1k", 0, 1000},
		    {"1Ki", 0, 1024},	 {"1.5Ki", 0, 1536},	{"1E", 0, UINT64_C(1000000000000000000)},
		    {"1e3", 0, 1000},	 {"1E3", 0, 1000},	{"7Ei", 0, UINT64_C(7) << 60},
		    {"8Ei", -ERANGE, 0}, {"-1", -ERANGE, 0},	{"1K", -EINVAL, 0},
		    {"1mi", -EINVAL, 0}, {"1m", -EINVAL, 0},	{"1MB", -EINVAL, 0},
		    {"1.5", -EINVAL, 0}, {"1 Mi", -EINVAL, 0},	{"Mi", -EINVAL, 0},
		    {"1e", -EINVAL, 0},	 {"1e999", -EINVAL, 0}, {"", -EINVAL, 0}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t bytes = 0;
		cr_expect_eq(parse_quantity(rows[i].text, &bytes), rows[i].code, "%s", rows[i].text);
		cr_expect_eq(bytes, rows[i].bytes, "%s", rows[i].text);
	}
}

Test(config_scalar, durations_for_people)
{
	static const struct {
		int64_t ns;
		const char *text;
	} rows[] = {{0, "0s"},
		    {-5, "0s"},
		    {7, "7ns"},
		    {1500000, "1ms500us"},
		    {NS_PER_S * 90, "1m30s"},
		    {NS_PER_S * 3600, "1h"},
		    {NS_PER_S * 3601, "1h"},
		    {NS_PER_S * 1000, "16m40s"}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[32];
		cr_expect_str_eq(format_duration(rows[i].ns, text), rows[i].text);
	}
	char text[32];
	cr_expect_str_eq(format_quantity(256u << 20, text), "256Mi");
	cr_expect_str_eq(format_quantity(1000, text), "1000");
}

Test(config_scalar, guesses)
{
	static const char *const words[] = {"for", "owns", "watches", "workers", "metadataOnly", NULL};
	cr_expect_str_eq(config_did_you_mean("worker", words), "workers");
	cr_expect_str_eq(config_did_you_mean("own", words), "owns");
	cr_expect_str_eq(config_did_you_mean("METADATAONLY", words), "metadataOnly");
	cr_expect_str_eq(config_did_you_mean("wacthes", words), "watches");
	cr_expect_null(config_did_you_mean("x", words));
	cr_expect_null(config_did_you_mean("replicas", words));
	cr_expect_null(config_did_you_mean("a-very-long-word-that-nobody-would-write-here", words));
}
