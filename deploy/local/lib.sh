# SPDX-License-Identifier: Apache-2.0
# What the scripts of this folder share; sourced by them, with bash.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/reprise

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# A process is named by "PID STARTTIME", so that a pid that the system has given to somebody else
# meanwhile is never taken for ours.
process_name() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    set -- "$1" ${stat##*) }
    [ "$2" != Z ] && echo "$1 ${21}"
}

process_alive() { # "PID STARTTIME"
    [ -n "$1" ] && [ "$(process_name "${1%% *}")" = "$1" ]
}

# wait_gone SECONDS "PID STARTTIME"
wait_gone() {
    local left=$(($1 * 20))
    while process_alive "$2"; do
        [ $((left--)) -gt 0 ] || return 1
        sleep 0.05
    done
}

# A loopback port that nobody listens on, below the range that the system hands out to outgoing
# connections: a server that is started again finds its port free. Another one at each call, of
# whichever script: who was given one may not listen yet.
free_port() {
    local port
    mkdir -p "$cache"
    (
        flock 8
        port=$(cat "$cache/port" 2>/dev/null || true)
        [[ $port =~ ^[0-9]{5}$ ]] || port=$((15000 + (RANDOM * 32768 + RANDOM) % 17000))
        while :; do
            port=$((15000 + (port - 15000 + 1) % 17000))
            (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
        done
        echo "$port" | tee "$cache/port"
    ) 8>"$cache/.port.lock"
}

# watch_owner PID SCRIPT DIR: when PID is gone, ends the server that SCRIPT runs in DIR and removes
# DIR. In a session of its own, so that Ctrl-C does not end the watch with the owner.
watch_owner() {
    local owner
    owner=$(process_name "$1") || die "there is no process $1 to watch"
    setsid bash -c '
        . "$1/lib.sh"
        while process_alive "$2" && [ -d "$4" ]; do sleep 0.5; done
        [ -d "$4" ] || exit 0
        "$3" stop --dir "$4" --kill
        rm -rf "$4"
    ' watch-owner "$here" "$owner" "$2" "$3" </dev/null >/dev/null 2>&1 &
    process_name $! >"$3/watch"
}
