# SPDX-License-Identifier: Apache-2.0
# For the scripts of tests/, sourced by them from the project's root, with bash.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/reprise

# Prints the Python of an environment that has just what requirements.txt names.
python_of_tests() {
    local wanted=tests/integration/requirements.txt venv
    venv=$cache/venv-$({ python3 -V && cat $wanted; } | sha256sum | cut -c1-12)
    mkdir -p "$cache"
    (
        flock 9
        [ -f "$venv/complete" ] || {
            rm -rf "$venv"
            python3 -m venv "$venv" && "$venv/bin/pip" install -q -r $wanted && touch "$venv/complete"
        }
    ) 9>"$cache/.venv.lock" >&2 && echo "$venv/bin/python"
}
