#!/bin/sh
# Puts Debian's newest Mesa and its stand-in for AMD's GPUs into a folder, 340 MB: install-mesa.sh FOLDER.
# Nothing of the system changes. Needs apt and dpkg-deb; the packages come from where the system's own do.
set -eu
mkdir -p "$1/apt/lists/partial" "$1/apt/archives/partial" "$1/packages"
root=$(readlink -f "$1")
site=$(apt-get indextargets --format '$(SITE)' 'Label: Debian' | sort -u | head -n 1)
if [ -z "$site" ]; then
  echo "no Debian's packages are known to apt here" >&2
  exit 1
fi
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site ${SUITE:-sid} main" >"$root/apt/sources.list"
cat >"$root/apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$root/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "$root/apt/lists";
Dir::State::status "/dev/null";
Dir::Cache "$root/apt";
CONF
export APT_CONFIG="$root/apt/apt.conf"
apt-get -qq update
cd "$root/packages"
# With all libraries that they need: the C library, too.
needed=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
  --no-enhances mesa-vulkan-drivers mesa-drm-shim libvulkan1 | grep '^[a-z]' | sort -u)
# shellcheck disable=SC2086
apt-get -qq download $needed
for package in *.deb; do dpkg-deb -x "$package" "$root"; done
# Beside this file, so that the folder can be moved.
driver=./usr/lib/x86_64-linux-gnu/libvulkan_radeon.so
echo "{\"file_format_version\": \"1.0.0\", \"ICD\": {\"api_version\": \"1.3.0\", \"library_path\": \"$driver\"}}" \
  >"$root/radeon.json"
rm -r "$root/packages" "$root/apt"
