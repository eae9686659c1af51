#!/usr/bin/env bash
# What the tests of the web page need besides .venv: Chromium, and the packages that build the page. Called by `make test`.
# What cannot be had is no mistake here: the tests that need it are not run, and say so at the end, in red.
set -euo pipefail
cd "$(dirname "$0")/.."

say() {
  printf 'test: %s\n' "$*" >&2
}

find_chromium() {
  [[ -n ${HOLDFAST_CHROMIUM:-} ]] && return
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" >/dev/null && return
  done
  return 1
}

install_chromium() {
  if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
    return
  fi
  say "installing chromium for the tests of the web page"
  export DEBIAN_FRONTEND=noninteractive
  local install=(timeout 300 apt-get install --yes --quiet --no-install-recommends chromium)
  "${install[@]}" >/dev/null 2>&1 && return
  { timeout 120 apt-get update --quiet && "${install[@]}"; } >/dev/null 2>&1 || say "chromium could not be installed"
}

install_packages() {
  local kept=web/node_modules/.package-lock.json
  if ! command -v npm >/dev/null || [[ $kept -nt web/package-lock.json ]]; then
    return
  fi
  say "installing the packages that build the web page"
  (cd web && timeout 300 npm ci --no-audit --no-fund --loglevel=error >/dev/null) || say "npm could not install them"
}

if command -v flock >/dev/null; then
  mkdir -p .cache
  exec 9>.cache/web_tools.lock
  flock 9
fi
find_chromium || install_chromium
install_packages
