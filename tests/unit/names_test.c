#include "names.h"
#include <criterion/criterion.h>

static char *repeated(char c, size_t n)
{
	char *s = xcalloc(n + 1, 1);
	memset(s, c, n);
	return s;
}

Test(names, dns_labels)
{
	static const char *const good[] = {"a", "7", "a-b", "1e3", "007", "2024-01-02"};
	static const char *const bad[] = {"", "-a", "a-", "A", "a.b", "a_b", "1_0", "a b", "\xC3\xA4"};
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		cr_expect(kube_is_dns_label(span_of(good[i])), "%s", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect(!kube_is_dns_label(span_of(bad[i])), "%s", bad[i]);
	char *s = repeated('a', 64);
	cr_expect(!kube_is_dns_label(span_of(s)));
	cr_expect(kube_is_dns_label((struct span){s, 63}));
	free(s);
}

Test(names, dns_subdomains)
{
	cr_expect(kube_is_dns_subdomain(span_of("a.b-c.d")));
	cr_expect(!kube_is_dns_subdomain(span_of("a..b")));
	cr_expect(!kube_is_dns_subdomain(span_of(".a")));
	cr_expect(!kube_is_dns_subdomain(span_of("a.")));
	cr_expect(!kube_is_dns_subdomain(span_of("a.-b")));
	char *s = repeated('a', 254);
	cr_expect(!kube_is_dns_subdomain(span_of(s)));
	cr_expect(kube_is_dns_subdomain((struct span){s, 253}));
	free(s);
}

Test(names, qualified_names_and_label_values)
{
	static const char *const good[] = {"a", "A_b.c", "example.com/website", "example.com/A"};
	static const char *const bad[] = {"", "/a", "example.com/", "Example.com/a", "a/b/c", "-a", "a b"};
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		cr_expect(kube_is_qualified_name(span_of(good[i])), "%s", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect(!kube_is_qualified_name(span_of(bad[i])), "%s", bad[i]);
	cr_expect(kube_is_label_value(span_of("")));
	cr_expect(kube_is_label_value(span_of("v1.2_3")));
	cr_expect(!kube_is_label_value(span_of("a/b")));
	cr_expect(!kube_is_label_value(span_of("a.")));
}

Test(names, path_segments)
{
	static const char *const good[] = {"a",	  "system:node-proxier", "A_b.C", "..a",
					   "...", "caf\xc3\xa9",	 "a b"};
	static const char *const bad[] = {"",	   ".",	       "..",	       "a/b",
					  "50%",   "a\nb",     "a\x7f",	       "\xff\xfe",
					  "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xc2\x85"};
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		cr_expect(kube_is_path_segment(span_of(good[i])), "%s", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect(!kube_is_path_segment(span_of(bad[i])), "%s", bad[i]);
	cr_expect(!kube_is_path_segment((struct span){"a\0b", 3}));
}
