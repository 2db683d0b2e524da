#!/bin/sh
# Installs what the tests need beside Python packages, where apt can; says in one line what to install where it can't.
set -eu

has_vulkan_driver() {
  for manifest in ${VK_DRIVER_FILES:-} /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json; do
    if [ -e "$manifest" ]; then return 0; fi
  done
  return 1
}

has_arm_emulator() {
  command -v qemu-aarch64-static >/dev/null && [ -e /usr/share/keyrings/debian-archive-keyring.gpg ]
}

missing=""
command -v make >/dev/null || missing="$missing make"
python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
has_vulkan_driver || missing="$missing mesa-vulkan-drivers"
# Tests that need these are skipped without them.
emulator=""
has_arm_emulator || emulator="qemu-user-static debian-archive-keyring"
if [ "$(uname -m)" = aarch64 ]; then emulator=""; fi
if [ -z "$missing$emulator" ]; then exit 0; fi

as_root=""
if [ "$(id -u)" -ne 0 ]; then as_root="sudo -n"; fi
install() {
  # shellcheck disable=SC2086
  $as_root apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends $1
}
if [ -n "$emulator" ] && ! install "$emulator" >/dev/null 2>&1; then
  echo "tests of AArch64 need these Debian packages, or what your system has for them: $emulator" >&2
fi
if [ -z "$missing" ]; then exit 0; fi
if ! log=$(install "$missing" 2>&1); then
  if command -v apt-get >/dev/null; then echo "$log" | tail -n 3 >&2; fi
  echo "the tests need these Debian packages, or what your system has for them:$missing" >&2
  exit 1
fi
