#include "json_machine.h"

enum state {
	EXPECT_VALUE,
	EXPECT_ELEMENT_OR_END,
	EXPECT_KEY_OR_END,
	EXPECT_KEY,
	EXPECT_COLON,
	EXPECT_COMMA_OR_END,
	IN_STRING,
	IN_ESCAPE,
	IN_HEX,
	IN_LITERAL,
	/* numbers, by what was read last */
	AFTER_MINUS,
	AFTER_ZERO,
	IN_INTEGER,
	AFTER_POINT,
	IN_FRACTION,
	AFTER_E,
	AFTER_E_SIGN,
	IN_EXPONENT,
	COMPLETE,
};

void json_machine_init(struct json_machine *m)
{
	m->state = EXPECT_VALUE;
	m->depth = 0;
	m->in_key = false;
	m->wrong = NULL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool refuse(struct json_machine *m, const char *why)
{
	m->wrong = why;
	return false;
}

static void end_value(struct json_machine *m)
{
	m->state = m->depth ? EXPECT_COMMA_OR_END : COMPLETE;
}

static bool in_object(const struct json_machine *m)
{
	unsigned level = m->depth - 1u;
	return m->is_object[level / 64] >> (level % 64) & 1;
}

static bool open_container(struct json_machine *m, bool object)
{
	if (m->depth == JSON_MAX_DEPTH)
		return refuse(m, "nested deeper than 10001 levels");
	uint64_t bit = UINT64_C(1) << (m->depth % 64), *word = &m->is_object[m->depth / 64];
	*word = object ? *word | bit : *word & ~bit;
	m->depth++;
	m->state = object ? EXPECT_KEY_OR_END : EXPECT_ELEMENT_OR_END;
	return true;
}

static bool close_container(struct json_machine *m)
{
	m->depth--;
	end_value(m);
	return true;
}

static bool begin(struct json_machine *m, enum state state, const char *literal)
{
	m->state = (uint8_t)state;
	m->literal = literal;
	return true;
}

static bool begin_value(struct json_machine *m, char c)
{
	m->in_key = false;
	switch (c) {
	case '{':
		return open_container(m, true);
	case '[':
		return open_container(m, false);
	case '"':
		return begin(m, IN_STRING, NULL);
	case 't':
		return begin(m, IN_LITERAL, "rue");
	case 'f':
		return begin(m, IN_LITERAL, "alse");
	case 'n':
		return begin(m, IN_LITERAL, "ull");
	case '-':
		return begin(m, AFTER_MINUS, NULL);
	case '0':
		return begin(m, AFTER_ZERO, NULL);
	default:
		return is_digit(c) ? begin(m, IN_INTEGER, NULL) : refuse(m, "a value was expected");
	}
}

/* A byte between values, not white space. */
static bool structure(struct json_machine *m, char c)
{
	switch (m->state) {
	case EXPECT_VALUE:
		return begin_value(m, c);
	case EXPECT_ELEMENT_OR_END:
		return c == ']' ? close_container(m) : begin_value(m, c);
	case EXPECT_KEY_OR_END:
		if (c == '}')
			return close_container(m);
		/* fall through */
	case EXPECT_KEY:
		m->in_key = true;
		return c == '"' ? begin(m, IN_STRING, NULL)
				: refuse(m, "a member's name in quotes was expected");
	case EXPECT_COLON:
		return c == ':' ? begin(m, EXPECT_VALUE, NULL) : refuse(m, "':' was expected");
	default: /* EXPECT_COMMA_OR_END */
		if (c == ',')
			return begin(m, in_object(m) ? EXPECT_KEY : EXPECT_VALUE, NULL);
		if (c == (in_object(m) ? '}' : ']'))
			return close_container(m);
		return refuse(m, in_object(m) ? "',' or '}' was expected" : "',' or ']' was expected");
	}
}

static void end_string(struct json_machine *m)
{
	if (m->in_key)
		m->state = EXPECT_COLON;
	else
		end_value(m);
}

/* A byte of a string that is neither a plain one nor the quote that ends it. */
static bool in_string(struct json_machine *m, char c)
{
	if (m->state == IN_STRING) {
		if (c != '\\')
			return refuse(m, "a control byte in a string must be escaped");
		m->state = IN_ESCAPE;
		return true;
	}
	if (m->state == IN_ESCAPE) {
		if (!c || !strchr("\"\\/bfnrtu", c))
			return refuse(m, "unknown escape in a string");
		m->hex_left = 4;
		m->state = c == 'u' ? IN_HEX : IN_STRING;
		return true;
	}
	if (!is_hex(c))
		return refuse(m, "four hexadecimal digits were expected after \\u");
	if (--m->hex_left == 0)
		m->state = IN_STRING;
	return true;
}

static bool number_may_end(const struct json_machine *m)
{
	return m->state == AFTER_ZERO || m->state == IN_INTEGER || m->state == IN_FRACTION ||
	       m->state == IN_EXPONENT;
}

/* The state after c within a number, or COMPLETE if c is no part of it. */
static enum state number_next(uint8_t state, char c)
{
	switch (state) {
	case AFTER_MINUS:
		return c == '0' ? AFTER_ZERO : is_digit(c) ? IN_INTEGER : COMPLETE;
	case IN_INTEGER:
		if (is_digit(c))
			return IN_INTEGER;
		/* fall through */
	case AFTER_ZERO:
		return c == '.' ? AFTER_POINT : c == 'e' || c == 'E' ? AFTER_E : COMPLETE;
	case AFTER_POINT:
		return is_digit(c) ? IN_FRACTION : COMPLETE;
	case IN_FRACTION:
		return is_digit(c) ? IN_FRACTION : c == 'e' || c == 'E' ? AFTER_E : COMPLETE;
	case AFTER_E:
		if (c == '+' || c == '-')
			return AFTER_E_SIGN;
		/* fall through */
	default: /* AFTER_E_SIGN, IN_EXPONENT */
		return is_digit(c) ? IN_EXPONENT : COMPLETE;
	}
}

static bool in_literal(struct json_machine *m, char c)
{
	if (c != *m->literal)
		return refuse(m, "a value is true, false, null, a number, a string, a list or an object");
	if (!*++m->literal)
		end_value(m);
	return true;
}

size_t json_machine_run(struct json_machine *m, const char *at, size_t n, bool *ret_complete)
{
	size_t i = 0;
	while (i < n && m->state != COMPLETE) {
		bool good = true;
		if (m->state >= AFTER_MINUS) {
			enum state next = number_next(m->state, at[i]);
			if (next != COMPLETE) {
				m->state = (uint8_t)next;
			} else if (number_may_end(m)) {
				end_value(m);
				continue; /* the byte belongs to what follows */
			} else {
				good = refuse(m, "a digit was expected");
			}
		} else if (m->state == IN_STRING) {
			i += json_plain_bytes(at + i, n - i);
			if (i == n)
				break;
			if (at[i] == '"')
				end_string(m);
			else
				good = in_string(m, at[i]);
		} else if (m->state == IN_ESCAPE || m->state == IN_HEX) {
			good = in_string(m, at[i]);
		} else if (m->state == IN_LITERAL) {
			good = in_literal(m, at[i]);
		} else if (!json_is_space(at[i])) {
			good = structure(m, at[i]);
		}
		if (!good)
			break;
		i++;
	}
	*ret_complete = m->state == COMPLETE;
	return i;
}

bool json_machine_may_end(const struct json_machine *m)
{
	return m->state == COMPLETE || (m->depth == 0 && number_may_end(m));
}
