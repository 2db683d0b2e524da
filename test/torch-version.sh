#!/bin/sh
# Tests importing and torch.compile with one version of torch, in a virtual environment in build/ that is kept.
set -eu

version=$1
cd -- "$(dirname -- "$0")/.."
environment=build/torch-$version
if [ ! -e "$environment/installed" ]; then
  python3 -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --editable '.[torch]' "torch==$version" \
    expecttest hypothesis ml_dtypes pytest pytest-xdist
  touch "$environment/installed"
fi
echo "torch $version"
exec "$environment/bin/python" -m pytest -q --numprocesses=auto --maxprocesses=8 --dist=loadgroup -m 'not wide' \
  test/python/test_importers.py test/python/test_torch_operators.py test/python/torch_compile
