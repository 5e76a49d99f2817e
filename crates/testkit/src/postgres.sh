# Runs a private PostgreSQL server in its own directory for as long as standard input is open.
#
# Arguments: directory of the server's programs, parent of the new directory, port, password of `mailapi`.
# Prints the directory once the server accepts connections. Answers the lines `stop` and `start` when done.
# When the test process ends, in whatever way, its end of the pipe closes and everything is removed.
set -eu
programs=$1 port=$3 password=$4
directory=$(mktemp -d "$2/mailapi-postgres.XXXXXX")
server=

stop() {
    [ -z "$server" ] || kill -INT "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" || true
    server=
}

start() {
    "$programs/postgres" -D "$directory/data" -k "$directory" -p "$port" -h 127.0.0.1 \
        -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c shared_buffers=32MB \
        -c max_connections=400 -c ssl=on -c ssl_cert_file="$directory/server.pem" \
        -c ssl_key_file="$directory/server.key" </dev/null >>"$directory/log" 2>&1 &
    server=$!
    until "$programs/pg_isready" -q -h "$directory" -p "$port"; do
        kill -0 "$server" 2>/dev/null || { cat "$directory/log" >&2; exit 1; }
        sleep 0.02
    done
}

trap 'stop; rm -rf "$directory"' EXIT
trap 'exit 1' HUP INT TERM

# English collation, so that no test relies on the sort order of the database.
printf %s "$password" >"$directory/password"
"$programs/initdb" -D "$directory/data" -U mailapi -E UTF8 --locale=C.UTF-8 --locale-provider=icu --icu-locale=en \
    --pwfile="$directory/password" --auth-local=trust --auth-host=scram-sha-256 --no-sync >"$directory/log" 2>&1 ||
    { cat "$directory/log" >&2; exit 1; }
# Issued for the host's name but not its address, so that tests can connect to the wrong host.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
    -keyout "$directory/server.key" -out "$directory/server.pem" 2>>"$directory/log" ||
    { cat "$directory/log" >&2; exit 1; }
chmod 600 "$directory/server.key"
chmod 755 "$directory"
start
echo "$directory"
while read -r command; do
    "$command"
    echo done
done
