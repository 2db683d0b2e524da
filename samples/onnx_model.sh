#!/bin/sh
# An ONNX model from the shell: compiled, run, compared with ONNX Runtime, and its dispatches measured.
#
# sh samples/onnx_model.sh model.onnx
set -eu
model=$1
program=$(basename "$model" .onnx).vmfb

iree-winograd compile "$model" --iree-winograd-remarks -o "$program"
iree-winograd run "$program" --compare="$model" --profile --threads=1
