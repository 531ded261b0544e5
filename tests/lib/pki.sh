#!/bin/sh
# Certificates for tests, good for two days. usage: pki.sh FOLDER
#
#   ca         root                                other-ca  another root
#   both       for kube.example.test and 127.0.0.1 named     for kube.example.test only
#   address    for 127.0.0.1 only                  expired   for 127.0.0.1, no longer valid
#   client     O=ops, CN=jane                      stranger  the same, of the other root
#   six        for ::1                                deep      for 127.0.0.1, of `middle`, with it in its file
#   middle     an authority of ca's                   chain     O=ops, CN=jane, of `middle`, with it in its file
#   rsa        O=ops, CN=jane, with an RSA key; rsa-old.key and client-pkcs8.key: the same keys in other forms
#   two-ca     other-ca, then ca                      odd-ca    ca with text before it and CRLF
#   second     O=ops, CN=kim                       moved     for 127.0.0.1, of the other root
set -eu
cd "$1"
key() {
	case $1 in
	rsa) openssl genrsa -out "$1.key" 2048 ;;
	*) openssl ecparam -name prime256v1 -genkey -noout -out "$1.key" ;;
	esac
}
root() {
	key "$1"
	openssl req -x509 -new -key "$1.key" -subj "/CN=test $1" -days 2 -addext basicConstraints=critical,CA:TRUE -out "$1.crt"
}
sign() { # NAME ISSUER DAYS SUBJECT EXTENSIONS
	key "$1"
	openssl req -new -key "$1.key" -subj "$4" -out "$1.csr"
	echo "$5" > "$1.ext"
	openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.key" -CAcreateserial -days "$3" -extfile "$1.ext" -out "$1.crt"
	rm "$1.csr" "$1.ext"
}
{
	root ca
	root other-ca
	sign both ca 2 /CN=both subjectAltName=DNS:kube.example.test,IP:127.0.0.1
	sign named ca 2 /CN=named subjectAltName=DNS:kube.example.test
	sign address ca 2 /CN=address subjectAltName=IP:127.0.0.1
	sign expired ca -1 /CN=expired subjectAltName=IP:127.0.0.1
	sign client ca 2 /O=ops/CN=jane extendedKeyUsage=clientAuth
	sign six ca 2 /CN=six subjectAltName=IP:::1
	sign middle ca 2 /CN=middle basicConstraints=critical,CA:TRUE
	sign deep middle 2 /CN=deep subjectAltName=IP:127.0.0.1
	sign chain middle 2 /O=ops/CN=jane extendedKeyUsage=clientAuth
	for i in deep chain; do cat middle.crt >> $i.crt; done
	sign rsa ca 2 /O=ops/CN=jane extendedKeyUsage=clientAuth
	openssl rsa -in rsa.key -traditional -out rsa-old.key
	openssl pkcs8 -topk8 -nocrypt -in client.key -out client-pkcs8.key
	cat other-ca.crt ca.crt > two-ca.crt
	{ echo "Bag Attributes: none"; cat ca.crt; } | sed 's/$/\r/' > odd-ca.crt
	sign second ca 2 /O=ops/CN=kim extendedKeyUsage=clientAuth
	sign moved other-ca 2 /CN=moved subjectAltName=IP:127.0.0.1
	sign stranger other-ca 2 /O=ops/CN=jane extendedKeyUsage=clientAuth
} 2> pki.log || {
	cat pki.log >&2
	exit 1
}
