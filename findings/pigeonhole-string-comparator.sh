#!/usr/bin/env bash
# Pigeonhole's test `string` compares with case unless a comparator is named; its other tests compare without.
#
# Version: Pigeonhole 0.5.19 (dovecot-sieve 2.3.19.1, Debian 12).
# Expected: RFC 5229 section 5 gives `string` the optional comparator of RFC 5228 section 2.7.3, whose default is
# "i;ascii-casemap", as for `header`.
# Seen: `header :is "subject" "ONE"` fits `Subject: one`. `string :is "one" "ONE"` does not, and neither does `:contains`;
# with `:comparator "i;ascii-casemap"` both do. A script that moves a test from a header to a variable changes its meaning.
#
# It needs root, mmdebstrap, and 500 MB in the temporary directory. The packages come from this machine's own mirror.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
VERSION=2.3.19.1

"$here/../.ci/mirror" bookworm >"$work/sources"
mmdebstrap --quiet --variant=minbase --include=dovecot-sieve \
    --essential-hook='printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d"; chmod 755 "$1/usr/sbin/policy-rc.d"' \
    bookworm "$work/root" "$work/sources" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 2; }
found=$(chroot "$work/root" dpkg-query -W -f '${Version}' dovecot-sieve)
case $found in *:$VERSION+*) ;; *) echo "another version: $found" >&2; exit 2 ;; esac

mkdir "$work/root/try"
printf 'From: ann@sender.example\nSubject: one\n\nhello\n' >"$work/root/try/message"
printf 'mail_uid = nobody\nmail_gid = nogroup\nmail_location = maildir:/try/Maildir\n' >"$work/root/try/dovecot.conf"
chown -R --reference="$work/root/var/mail" "$work/root/try"
chmod 777 "$work/root/try"

# Prints whether a test fits the message: then the script discards it.
fits() {
    printf 'require ["variables"]; set "word" "one"; if %s { discard; }\n' "$1" >"$work/root/try/script.sieve"
    chroot "$work/root" sieve-test -c /try/dovecot.conf /try/script.sieve /try/message >"$work/said" 2>&1
    grep -q 'final result: success' "$work/said" || { cat "$work/said" >&2; exit 2; }
    if grep -q '^ *\* discard' "$work/said"; then echo yes; else echo no; fi
}

seen=
for test in 'header :is "subject" "ONE"' 'string :is "${word}" "ONE"' 'string :contains "${word}" "ONE"' \
    'string :comparator "i;ascii-casemap" :is "${word}" "ONE"'; do
    answer=$(fits "$test")
    echo "$test: $answer"
    seen+="$answer "
done
[ "$seen" = "yes no no yes " ] || { echo "changed" >&2; exit 1; }
