#include "proxy.h"
#include <arpa/inet.h>
#include <stdio.h>

/* ---- addresses: all as IPv6, IPv4 mapped into it ---- */

static bool read_address(const char *text, unsigned char ret[16])
{
	static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
	memcpy(ret, mapped, sizeof mapped);
	return inet_pton(AF_INET, text, ret + sizeof mapped) == 1 || inet_pton(AF_INET6, text, ret) == 1;
}

static bool is_loopback(const unsigned char a[16])
{
	static const unsigned char v6[16] = {[15] = 1}, v4[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
	return memcmp(a, v6, sizeof v6) == 0 || memcmp(a, v4, sizeof v4) == 0;
}

/* "10.0.0.0/8" */
static bool read_network(const char *text, unsigned char ret[16], unsigned *ret_bits)
{
	char address[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	if (!slash || (size_t)(slash - text) >= sizeof address || slash[1] < '0' || slash[1] > '9')
		return false;
	snprintf(address, sizeof address, "%.*s", (int)(slash - text), text);
	char *end;
	unsigned long bits = strtoul(slash + 1, &end, 10);
	bool v4 = !strchr(address, ':');
	if (*end || bits > (v4 ? 32 : 128) || !read_address(address, ret))
		return false;
	*ret_bits = (unsigned)bits + (v4 ? 96 : 0);
	return true;
}

static bool in_network(const unsigned char a[16], const unsigned char net[16], unsigned bits)
{
	unsigned bytes = bits / 8, rest = bits % 8;
	return memcmp(a, net, bytes) == 0 && (!rest || (a[bytes] ^ net[bytes]) >> (8 - rest) == 0);
}

/* ---- NO_PROXY ---- */

/* Splits "host:port" and "[v6]:port" in place; a host without a port (an IPv6 address is full of colons) stays
 * whole. */
static char *split_port(char **host)
{
	char *text = *host, *colon = strchr(text, ':'), *close = strchr(text, ']');
	if (*text == '[' && close && (!close[1] || close[1] == ':')) {
		*close = 0;
		*host = text + 1;
		return close[1] ? close + 2 : NULL;
	}
	if (!colon || strchr(colon + 1, ':'))
		return NULL;
	*colon = 0;
	return colon + 1;
}

static bool in_domain(const char *host, const char *domain)
{
	size_t h = strlen(host), d = strlen(domain);
	bool below_only = *domain == '.';
	if (!below_only && strcmp(host, domain) == 0)
		return true;
	return h > d && strcmp(host + h - d, domain) == 0 && (below_only || host[h - d - 1] == '.');
}

/* item is written to. */
static bool item_fits(char *item, const char *host, const char *port)
{
	unsigned char address[16], its[16];
	unsigned bits;
	bool is_address = read_address(host, address);
	if (strcmp(item, "*") == 0)
		return true;
	if (read_network(item, its, &bits))
		return is_address && in_network(address, its, bits);
	const char *its_port = split_port(&item);
	if (its_port && *its_port && strcmp(its_port, port) != 0)
		return false;
	if (read_address(item, its))
		return is_address && memcmp(address, its, sizeof its) == 0;
	if (strncmp(item, "*.", 2) == 0)
		item++;
	return *item && in_domain(host, item);
}

static char *lower(struct span text)
{
	char *copy = span_dup(text);
	for (char *p = copy; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p + ('a' - 'A'));
	return copy;
}

bool proxy_is_bypassed(const char *no_proxy, const char *host, const char *port)
{
	_cleanup_(free_ptr) char *name = lower(span_of(host));
	for (const char *at = no_proxy; at && *at;) {
		size_t len = strcspn(at, ","), next = len + (at[len] == ',');
		struct span trimmed = {at, len};
		at += next;
		while (trimmed.len && strchr(" \t", *trimmed.at))
			trimmed.at++, trimmed.len--;
		while (trimmed.len && strchr(" \t", trimmed.at[trimmed.len - 1]))
			trimmed.len--;
		_cleanup_(free_ptr) char *item = lower(trimmed);
		if (*item && item_fits(item, name, port))
			return true;
	}
	return false;
}

/* ---- which ---- */

static const char *variable(const char *upper_case, const char *lower_case)
{
	const char *value = getenv(upper_case);
	if (!value || !*value)
		value = getenv(lower_case);
	return value && *value ? value : NULL;
}

bool proxy_scheme_known(const char *url)
{
	static const char *const known[] = {"http://", "https://", "socks5://", "socks5h://"};
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strncasecmp(url, known[i], strlen(known[i])) == 0)
			return true;
	return false;
}

char *proxy_from_environment(bool tls, const char *host, const char *port)
{
	unsigned char address[16];
	const char *proxy =
	    tls ? variable("HTTPS_PROXY", "https_proxy") : variable("HTTP_PROXY", "http_proxy");
	if (!proxy || (!tls && getenv("REQUEST_METHOD")) || strcasecmp(host, "localhost") == 0 ||
	    (read_address(host, address) && is_loopback(address)) ||
	    proxy_is_bypassed(variable("NO_PROXY", "no_proxy"), host, port))
		return NULL;
	return xasprintf("%s%s", proxy_scheme_known(proxy) ? "" : "http://", proxy);
}
