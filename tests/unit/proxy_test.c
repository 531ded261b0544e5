#include "proxy.h"
#include <criterion/criterion.h>

/* Rows of Go's own documentation of NO_PROXY, and of what people write into it. */
Test(proxy, bypassed)
{
	static const struct {
		const char *no_proxy, *host, *port;
		bool want;
	} rows[] = {
	    {"", "a.test", "443", false},
	    {"*", "a.test", "443", true},
	    {" * ", "10.0.0.1", "443", true},
	    {"example.test", "example.test", "443", true},
	    {"example.test", "EXAMPLE.test", "443", true},
	    {"EXAMPLE.test", "kube.example.test", "443", true},
	    {"example.test", "badexample.test", "443", false},
	    {".example.test", "kube.example.test", "443", true},
	    {".example.test", "example.test", "443", false},
	    {"*.example.test", "kube.example.test", "443", true},
	    {"*.example.test", "example.test", "443", false},
	    {"example.test:6443", "example.test", "6443", true},
	    {"example.test:6443", "example.test", "443", false},
	    {"10.0.0.0/8", "10.1.2.3", "443", true},
	    {"10.0.0.0/8", "11.1.2.3", "443", false},
	    {"10.0.0.0/33", "10.1.2.3", "443", false},
	    {"10.128.0.0/9", "10.127.2.3", "443", false},
	    {"10.0.0.0/8", "a.test", "443", false},
	    {"10.0.0.1", "10.0.0.1", "443", true},
	    {"10.0.0.1:80", "10.0.0.1", "443", false},
	    {"10.0.0.1:443", "10.0.0.1", "443", true},
	    {"10.0.0", "10.0.0.1", "443", false},
	    {"fd00::/8", "fd00::1", "443", true},
	    {"fd00::1", "fd00:0::1", "443", true},
	    {"[fd00::1]:6443", "fd00::1", "6443", true},
	    {"[fd00::1]:6443", "fd00::1", "443", false},
	    {"::ffff:10.0.0.1", "10.0.0.1", "443", true},
	    {"other.test, ,10.0.0.0/8 ,\texample.test", "example.test", "443", true},
	    {",,", "example.test", "443", false},
	    {":6443", "example.test", "6443", false},
	    {".", "example.test", "443", false},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		cr_assert_eq(proxy_is_bypassed(rows[i].no_proxy, rows[i].host, rows[i].port), rows[i].want,
			     "NO_PROXY=\"%s\" for %s:%s", rows[i].no_proxy, rows[i].host, rows[i].port);
}

static void assert_proxy(bool tls, const char *host, const char *want)
{
	_cleanup_(free_ptr) char *got = proxy_from_environment(tls, host, "6443");
	cr_assert(want ? got && !strcmp(got, want) : !got, "%s: \"%s\", \"%s\" is wanted", host,
		  got ? got : "(none)", want ? want : "(none)");
}

Test(proxy, environment)
{
	static const char *const all[] = {"HTTPS_PROXY", "https_proxy", "HTTP_PROXY",	 "http_proxy",
					  "NO_PROXY",	 "no_proxy",	"REQUEST_METHOD"};
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		unsetenv(all[i]);
	setenv("ALL_PROXY", "http://all:1", 1);
	assert_proxy(true, "a.test", NULL);
	setenv("https_proxy", "https://lower:2", 1);
	setenv("http_proxy", "socks5://plain:3", 1);
	assert_proxy(true, "a.test", "https://lower:2");
	assert_proxy(false, "a.test", "socks5://plain:3");
	setenv("HTTPS_PROXY", "upper:4", 1);
	assert_proxy(true, "a.test", "http://upper:4");
	assert_proxy(true, "localhost", NULL);
	assert_proxy(true, "127.3.4.5", NULL);
	assert_proxy(true, "::1", NULL);
	assert_proxy(true, "::ffff:127.0.0.1", NULL);
	assert_proxy(true, "localhost.test", "http://upper:4");
	setenv("REQUEST_METHOD", "GET", 1);
	assert_proxy(false, "a.test", NULL);
	assert_proxy(true, "a.test", "http://upper:4");
	setenv("no_proxy", "a.test", 1);
	assert_proxy(true, "a.test", NULL);
	setenv("NO_PROXY", "b.test", 1);
	assert_proxy(true, "a.test", "http://upper:4");
	setenv("HTTPS_PROXY", "", 1);
	assert_proxy(true, "a.test", "https://lower:2");
}
