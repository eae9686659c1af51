#!/usr/bin/env bash
# Make .venv from the lock file. Called by `make setup`; safe to interrupt and to run twice at once.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$root"
venv=.venv
stamp=$venv/.holdfast-setup
lock=requirements/dev.txt

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
unset PYTHONHOME PYTHONPATH

die() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

is_new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
  local candidate
  if [[ -n ${PYTHON:-} ]]; then
    command -v "$PYTHON" >/dev/null || die "PYTHON=$PYTHON was not found."
    is_new_enough "$PYTHON" || die "Holdfast needs Python 3.11 or newer, and $PYTHON is older. Try: make setup PYTHON=python3.13"
    echo "$PYTHON"
    return
  fi
  for candidate in python3 python3.13 python3.12 python3.11; do
    if is_new_enough "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  die "Holdfast needs Python 3.11 or newer, and none was found. Install one, or name it: make setup PYTHON=/path/to/python"
}

is_current() {
  [[ -f $stamp && -x $venv/bin/python && $(<"$stamp") == "$root" && ! pyproject.toml -nt $stamp && ! $lock -nt $stamp ]]
}

# The stamp holds the path it was made for, because a moved or copied environment still points at the old one.
is_whole() {
  [[ -f $stamp && $(<"$stamp") == "$root" ]] && is_new_enough "$venv/bin/python"
}

# Run one step quietly; show what it printed only if it fails.
step() {
  "$@" >"$log" 2>&1 && return
  local code=$?
  tail -n 40 "$log" >&2
  return "$code"
}

make_venv() {
  local python
  python=$(find_python)
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    die "$python cannot make a virtual environment: ensurepip is missing. On Debian or Ubuntu: apt-get install $("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
  echo "setup: making $venv from $lock with $python (about a minute)"
  rm -rf "$venv"
  step "$python" -m venv "$venv" || die "$python -m venv failed; see above."
}

# Sandboxes need it, and only they: without it their tests say that they did not run.
install_bubblewrap() {
  command -v bwrap >/dev/null && return
  if [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
    echo "setup: installing bubblewrap"
    export DEBIAN_FRONTEND=noninteractive
    local install=(timeout 120 apt-get install --yes --quiet --no-install-recommends bubblewrap)
    "${install[@]}" >/dev/null 2>&1 && return
    timeout 120 apt-get update --quiet >/dev/null 2>&1 && "${install[@]}" >/dev/null 2>&1 && return
  fi
  echo "setup: bubblewrap is not installed, so nothing can be run in a sandbox, nor tested. As root: apt-get install bubblewrap" >&2
}

if command -v flock >/dev/null; then
  exec 9>.venv.lock
  flock 9
fi
install_bubblewrap
is_current && exit 0

log=$(mktemp)
trap 'rm -f "$log"' EXIT

if is_whole; then
  echo "setup: updating $venv from $lock"
else
  make_venv
fi
# From here until the last line there is no stamp, so an interruption means a fresh start.
rm -f "$stamp"
step "$venv/bin/python" -m pip install --require-hashes -r "$lock" || die "installing $lock failed; see above."
step "$venv/bin/python" -m pip install --no-deps --no-build-isolation --no-index -e . || die "installing holdfast failed; see above."
printf '%s\n' "$root" >"$stamp"
