#!/bin/sh
# Kernels that were measured to be the fastest: tuned for some seconds, compiled with what was found, and run.
#
# sh samples/tuning.sh samples/convolution.mlir 20s       # needs `pip install '.[tune]'`
set -eu
program=$1
budget=$2

iree-winograd tune "$program" --device=local-sync --budget="$budget" --database=tuning.db
iree-winograd compile "$program" --iree-winograd-threads=1 --iree-winograd-tuning-database=tuning.db \
  --iree-winograd-report=tuned.json -o tuned.vmfb
iree-winograd run tuned.vmfb --threads=1
