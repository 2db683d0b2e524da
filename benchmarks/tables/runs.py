"""When, where and by which command the files of `benchmarks/results` were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.tables.markdown import table

ZEN4, ZEN5 = "Zen 4 (AMD EPYC, AVX-512)", "Zen 5 (AMD EPYC, AVX-512)"
ZEN3 = "Zen 3 (AMD EPYC, AVX2)"
SERVER = "Emerald Rapids server, 16 virtual processors"
SERVER_64 = "a server of 64 virtual processors with AVX-512"
H200 = "NVIDIA H200, torch 2.11, cuDNN 9.19"
H200_BESIDE_WORK = "NVIDIA H200, torch 2.11, other work on its host"


@dataclass(frozen=True)
class Run:
    """A run of a benchmark: `command` follows `python -m benchmarks.`."""

    date: str
    machine: str
    command: str


RUNS: Mapping[str, Run] = {
    "accuracy.json": Run("2026-11-21", "a CPU with AVX-512", "accuracy"),
    "amd.json": Run(
        "2026-11-28",
        "no GPU: Mesa 26.2.6, LLVM of IREE 3.13",
        "amd --output benchmarks/results/amd.json` of all layers and targets, and of seven with `--stock",
    ),
    "amd-between.json": Run(
        "2026-11-27",
        "no GPU: Mesa 26.2.6, LLVM of IREE 3.13",
        "amd.between --output benchmarks/results/amd-between.json`; on 2026-11-28 concatenations, and "
        "`--operations "
        "'attention of eight heads' 'attention of one head' "
        "--targets gfx90a gfx942 gfx950 gfx1100 radv:navi31 radv:gfx1201`, then the latter for all of `radv:",
    ),
    "amd-blocks.json": Run(
        "2026-11-28",
        "no GPU: predictions",
        "amd.blocks --layers layers.txt --output benchmarks/results/amd-blocks.json",
    ),
    "amd-chosen.json": Run(
        "2026-11-27",
        "no GPU: Mesa 26.2.6, LLVM of IREE 3.13",
        "amd.chosen --layers layers.txt --jobs 64 --output chosen.json` until nothing is left to compile, "
        "then `amd.chosen --summarize chosen.json --output benchmarks/results/amd-chosen.json",
    ),
    "amd-on-nvidia.json": Run(
        "2026-11-28",
        "NVIDIA H200 by Vulkan",
        "amd.on_nvidia run build/amd-on-nvidia --output benchmarks/results/amd-on-nvidia.json",
    ),
    "amd-rdna4-before.json": Run(
        "2026-11-28",
        "no GPU: Mesa 26.2.6",
        "amd --targets radv:gfx1201` of 6e84c06's kernels, by today's `bounds.py",
    ),
    "amd-zoo.json": Run(
        "2026-11-28", "no GPU: predictions", "amd.zoo --output benchmarks/results/amd-zoo.json"
    ),
    "compile-time.json": Run("2026-11-23", ZEN4, "compile_time --rounds 2"),
    "exhaustive-1-thread.json": Run(
        "2026-11-21", ZEN4, "exhaustive --layers resnet18 --threads 1 --promising 64 --sampled 32"
    ),
    "gpu-attention.json": Run(
        "2026-11-27", "NVIDIA H200, torch 2.11", "gpu_attention run build/gpu-attention"
    ),
    "gpu-bf16-h200.json": Run(
        "2026-11-28",
        "NVIDIA H200, torch 2.11",
        "gpu_networks --networks timm_resnet18 timm_resnet50 vgg16 timm_mobilenetv2_100 --types bf16 "
        "--tools winograd inductor-graphs --jobs 16 --rounds 5 --limit 110",
    ),
    "gpu-between-h200.json": Run(
        "2026-11-29", H200_BESIDE_WORK, "gpu_between --jobs 12 --rounds 20 --layers ...` at `0182ce46"
    ),
    "gpu-between-inductor-h200.json": Run(
        "2026-11-29",
        "NVIDIA H200, torch 2.11",
        "gpu_between --inductor --jobs 16 --rounds 20 --layers ...` at `8d8f4f97",
    ),
    "gpu-between-reciprocals-h200.json": Run(
        "2026-11-29",
        H200_BESIDE_WORK,
        "gpu_between --inductor --jobs 5 --rounds 20 --layers 'group norm, SiLU' ... "
        "'squeeze and excitation' 'gated GELU'` at `fabc87c5",
    ),
    "gpu-call-routes-h200.json": Run(
        "2026-11-29",
        "NVIDIA H200, torch 2.11",
        "gpu_networks --networks timm_resnet18 timm_mobilenetv3_large_100 timm_efficientnet_b0 "
        "timm_convnext_tiny --batches 1 --tools winograd winograd-fewer-guards winograd-loaded --jobs 12 "
        "--rounds 4 --limit 60",
    ),
    "gpu-calls-32-images-f16-h200.json": Run(
        "2026-11-28",
        "NVIDIA H200, torch 2.11",
        "gpu_networks --batches 32 --types f16 f32 --tools winograd inductor-graphs --gpus 4 --jobs 58 "
        "--rounds 4 --limit 430",
    ),
    "gpu-calls-32-images-h200.json": Run(
        "2026-11-29",
        H200_BESIDE_WORK,
        "gpu_networks --batches 32 --tools winograd inductor-graphs --gpus 2 --jobs 15 --rounds 4 --burst "
        "0.02 --limit 250` at `0182ce46",
    ),
    "gpu-calls-layers-h200.json": Run(
        "2026-11-30",
        H200_BESIDE_WORK,
        "gpu_networks --networks shufflenetv2_w1 timm_regnety_002 timm_mobilenetv3_large_100 "
        "timm_efficientnet_b0 timm_convnext_tiny --batches 32 --types f32 f16 --tools winograd "
        "inductor-graphs --jobs 8 --rounds 5 --limit 130 --budget 110` at `697a5477",
    ),
    "gpu-calls-layers-f16-h200.json": Run(
        "2026-11-30",
        H200_BESIDE_WORK,
        "gpu_networks --networks shufflenetv2_w1 timm_regnety_002 timm_mobilenetv3_large_100 "
        "timm_efficientnet_b0 timm_convnext_tiny --batches 32 --types f16 --tools winograd inductor-graphs "
        "--jobs 11 --rounds 5 --limit 110 --budget 90` at `60658428",
    ),
    "gpu-calls-one-image-h200.json": Run(
        "2026-11-28",
        "NVIDIA H200, torch 2.11",
        "gpu_networks --types f16 f32 --tools winograd inductor-graphs --gpus 4 --jobs 58 --rounds 4 "
        "--limit 350",
    ),
    "gpu-calls-yolo-h200.json": Run(
        "2026-11-29",
        "NVIDIA H200, torch 2.11",
        "gpu_networks --networks yolo darknet53` and `gpu_networks --networks yolo timm_resnet18 "
        "--batches 32 --types f16 f32 --tools winograd inductor-graphs --rounds 7",
    ),
    "gpu-diffusion-h200.json": Run(
        "2026-11-28",
        "NVIDIA H200, torch 2.11",
        "gpu_networks --networks diffusion_normalized_between ... --types f16 f32 "
        "--tools winograd inductor-graphs --gpus 4 --jobs 58 --rounds 4",
    ),
    "gpu-f32-pointwise-layers-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_layers --type f32`, of pointwise layers of 32 images, at `0d0478db",
    ),
    "gpu-calls-half-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_networks --networks shufflenetv2_w1 timm_regnety_002 timm_mobilenetv3_large_100 "
        "timm_efficientnet_b0 timm_convnext_tiny timm_resnet50 --batches 1 32 --types f16 --tools winograd "
        "inductor-graphs --jobs 12 --rounds 5 --limit 105 --budget 105` at `73457410",
    ),
    "gpu-calls-pairs-f16-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_networks --networks timm_convnext_tiny timm_swin_tiny_patch4_window7_224 --batches 32 --types "
        "f16 f32 --tools winograd inductor-graphs --jobs 4 --rounds 5 --limit 120 --budget 125` at `73457410",
    ),
    "gpu-calls-pairs-f32-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_networks --networks timm_convnext_tiny timm_swin_tiny_patch4_window7_224 --batches 32 --types "
        "f16 f32 --tools winograd inductor-graphs --jobs 4 --rounds 5 --limit 120 --budget 125` at `73457410",
    ),
    "gpu-calls-wide-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_networks --networks timm_convnext_tiny timm_resnet50 --batches 32 --types f32 --tools winograd "
        "inductor-graphs --jobs 6 --rounds 5 --limit 110 --budget 90` at `0d0478db",
    ),
    "gpu-f32-layers.json": Run("2026-11-29", H200, "gpu_layers --type f32 --jobs 16"),
    "gpu-gradients.json": Run("2026-11-23", H200, "gpu_gradients measure build/gpu-gradients"),
    "gpu-half-layers-bf16.json": Run("2026-11-28", H200, "gpu_layers --type bf16 --jobs 15"),
    "gpu-half-layers.json": Run("2026-11-28", H200, "gpu_layers --type f16 --jobs 15"),
    "gpu-layer-counters-h200.json": Run(
        "2026-11-30", H200_BESIDE_WORK, "gpu_layer_counters rows.json --jobs 5` at `bb7ae415"
    ),
    "gpu-layer-floors-f16-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_layer_floors --type f16`, compiled before, at `1934751c",
    ),
    "gpu-layer-floors-f32-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_layer_floors --type f32 --jobs 16` at `717ecaae",
    ),
    "gpu-layer-limits-early-f16-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_layers --type f16 --batches 32`, of rings and pixels that stream, compiled before, at `717ecaae",
    ),
    "gpu-layer-limits-early-f32-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_layers --type f32 --batches 32`, of rings and pixels that stream, compiled before, at `717ecaae",
    ),
    "gpu-layer-limits-one-image-f16-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_layers --type f16 --batches 1 --ours-alone --jobs 14 --rounds 10 --budget 100 --networks "
        "shufflenetv2_w1 timm_regnety_002 timm_mobilenetv3_large_100 timm_efficientnet_b0 "
        "timm_convnext_tiny` at `73457410",
    ),
    "gpu-layer-limits-one-image-f32-h200.json": Run(
        "2026-11-30",
        H200_BESIDE_WORK,
        "gpu_layers --type f32 --batches 1 --ours-alone --jobs 12 --rounds 10 --networks "
        "timm_efficientnet_b0 timm_convnext_tiny timm_mobilenetv3_large_100 timm_regnety_002 "
        "shufflenetv2_w1` at `f88d04c0",
    ),
    "gpu-layer-limits-f32-h200.json": Run(
        "2026-11-29",
        H200_BESIDE_WORK,
        "gpu_layers --type f32 --batches 32 --ours-alone --jobs 7 --rounds 10 --networks "
        "timm_efficientnet_b0 timm_convnext_tiny timm_mobilenetv3_large_100 timm_regnety_002 "
        "shufflenetv2_w1` at `fabc87c5",
    ),
    "gpu-layer-limits-large-f32-h200.json": Run(
        "2026-11-30",
        H200_BESIDE_WORK,
        "gpu_layers --type f32 --batches 32 --least-limit 5 --jobs 8 --rounds 10 --networks "
        "shufflenetv2_w1 timm_regnety_002 timm_mobilenetv3_large_100 timm_efficientnet_b0 "
        "timm_convnext_tiny` at `697a5477",
    ),
    "gpu-layer-limits-large-f16-h200.json": Run(
        "2026-11-30",
        H200_BESIDE_WORK,
        "gpu_layers --type f16 --batches 32 --least-limit 2.5 --jobs 9 --rounds 10 --budget 170 --networks "
        "timm_convnext_tiny shufflenetv2_w1 timm_regnety_002 timm_mobilenetv3_large_100 "
        "timm_efficientnet_b0` at `60658428",
    ),
    "gpu-layer-limits-wide-f16-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_layers --type f16 --batches 32`, of wide pointwise layers, compiled before, at `c59950a4",
    ),
    "gpu-layer-limits-wide-f32-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_layers --type f32 --batches 32`, of wide pointwise layers, at `0d0478db",
    ),
    "gpu-layer-limits-narrow-f16-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_layers --type f16 --batches 32`, of layers whose kernels changed, compiled before, at `c59950a4",
    ),
    "gpu-layer-limits-narrow-f32-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_layers --type f32 --batches 32`, the same, at `c59950a4",
    ),
    "gpu-layer-limits-rings-f16-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_layers --type f16 --batches 32`, of depthwise and grouped layers, compiled before, at `4b72be2e",
    ),
    "gpu-layer-limits-rings-f32-h200.json": Run(
        "2026-12-01",
        H200_BESIDE_WORK,
        "gpu_layers --type f32 --batches 32`, the same, at `4b72be2e",
    ),
    "gpu-layer-limits-h200.json": Run(
        "2026-11-29",
        "NVIDIA H200, torch 2.11",
        "gpu_layers --networks ... --ours-alone --jobs 16 --rounds 10` at `8d8f4f97",
    ),
    "gpu-models-h200-128-sums.json": Run("2026-11-23", H200, "gpu_models measure build/gpu-models"),
    "gpu-models-h200-assembled.json": Run(
        "2026-11-23", H200, "gpu_models measure build/gpu-models --rounds 5"
    ),
    "gpu-open-sizes-bf16-h200.json": Run(
        "2026-12-01",
        "NVIDIA H200, torch 2.11",
        "gpu_open_sizes --type bf16 --tools static open --jobs 12 --limit 130 --rounds 5` at `78b38fab",
    ),
    "gpu-open-sizes-f16-h200.json": Run(
        "2026-12-01",
        "NVIDIA H200, torch 2.11",
        "gpu_open_sizes --type f16 --tools static open --jobs 12 --limit 130 --rounds 5` at `78b38fab",
    ),
    "gpu-open-sizes-f32-h200.json": Run(
        "2026-12-01",
        "NVIDIA H200, torch 2.11",
        "gpu_open_sizes --type f32 --tools static open --jobs 12 --limit 130 --rounds 5` at `78b38fab",
    ),
    "gpu-open-sizes-one-program-h200.json": Run(
        "2026-11-30",
        "NVIDIA H200, torch 2.11",
        "gpu_open_sizes --tools static open inductor --jobs 9 --limit 150 --rounds 7` at `2049f7a4",
    ),
    "gpu-reductions-h200.json": Run("2026-11-26", H200, "gpu_reductions run build/gpu-reductions --rounds 5"),
    "gpu-split-chosen.json": Run("2026-11-23", H200, "gpu_split run build/gpu-split"),
    "gpu-sums-h200.json": Run("2026-11-26", "NVIDIA H200", "gpu_reductions run build/gpu-reductions"),
    "gpu-then-and-now-h200.json": Run(
        "2026-11-28",
        "NVIDIA H200, by Vulkan and CUDA",
        "gpu_programs build/... --layers resnet --batches 32 1 --output-tiles` of 6e84c06 and f1da94f, "
        "`gpu build/before build/now --rounds 9",
    ),
    "gpu-training.json": Run("2026-11-23", H200, "gpu_training --layouts nhwc"),
    "gpu-unet-h200.json": Run(
        "2026-11-28",
        "NVIDIA H200, torch 2.11",
        "gpu_networks --networks denoising_unet --types f16 f32 --tools winograd inductor-graphs --rounds 5",
    ),
    "gpu-unet-bf16-h200.json": Run(
        "2026-11-29",
        "NVIDIA H200, torch 2.11",
        "gpu_networks --networks denoising_unet --types bf16 --tools winograd inductor-graphs --rounds 7",
    ),
    "gpu-vae-decoder-searched-h200.json": Run(
        "2026-11-29",
        H200,
        "gpu_networks --networks vae_decoder --types f16 --jobs 1 --rounds 9 --limit 383 "
        "--tools winograd inductor-graphs inductor-max-autotune",
    ),
    "gradients-depthwise.json": Run(
        "2026-11-23", "two machines", "gradients --layers mobilenet --gradient weight --rounds 5 --burst 0.02"
    ),
    "gradients-server-batch-8-1-thread.json": Run("2026-11-23", SERVER, "gradients --batch 8 --rounds 5"),
    "gradients-server-batch-8-2-threads.json": Run(
        "2026-11-23", SERVER, "gradients --batch 8 --threads 2 --rounds 5"
    ),
    "gradients-server-batch-32-1-thread.json": Run("2026-11-23", SERVER, "gradients --batch 32 --rounds 3"),
    "gradients-server-batch-32-2-threads.json": Run(
        "2026-11-23", SERVER, "gradients --batch 32 --threads 2 --rounds 3"
    ),
    "half-one-core.json": Run(
        "2026-11-28",
        "Emerald Rapids, one virtual processor beside other work",
        "half_precision --clock processor --rounds 7`, EfficientNet-B0 in f16 with `--rounds 9",
    ),
    "half-one-thread.json": Run(
        "2026-11-30",
        "a server of 32 virtual processors with AMX (Emerald Rapids), one of them, beside other work",
        "half_precision --type bf16 --batch 1 8 --threads 1 --tools ours openvino --rounds 9 --burst 0.15 "
        "--jobs 8 --network vae_decoder diffusion_block mobilenetv2 resnet18 resnet50 efficientnet_b0 "
        "convnext_tiny vgg16",
    ),
    "half-filters.json": Run(
        "2026-11-29",
        "Emerald Rapids, one virtual processor beside other work",
        "half_precision --network vgg16 --type f16 --tools ours ours-f32 openvino --clock processor "
        "--rounds 7",
    ),
    "half-avx512.json": Run(
        "2026-11-29",
        "Emerald Rapids without bf16 and AMX, beside other work",
        "half_precision --tools ours ours-f32 --clock processor --rounds 21 --burst 0.1 "
        "--network efficientnet_b0 mobilenetv2 resnet18",
    ),
    "half-zen4.json": Run(
        "2026-11-30",
        "Zen 4 (AMD EPYC), two virtual processors, most rows by real-time priority beside other work",
        "half_precision --burst 0.15 --rounds 9`, 3 to 7 in long rows",
    ),
    "half-zen4-znver3.json": Run(
        "2026-11-30",
        "Zen 4, one virtual processor beside other work on the other, code for Zen 3 (AVX2)",
        "half_precision --target cpu:znver3 --tools ours ours-f32 --rounds 11 --burst 0.15`, the VAE "
        "decoder with `--rounds 3`, ResNet-18 and ConvNeXt-T with `--clock processor",
    ),
    "half-zen4-icelake-server.json": Run(
        "2026-11-30",
        "the same, code for Ice Lake (AVX-512 without bf16)",
        "half_precision --target cpu:icelake-server --tools ours ours-f32 --rounds 11 --burst 0.15`, "
        "MobileNetV2 in bf16 with `--rounds 15`, the VAE decoder with `--rounds 3`, ResNet-18 and "
        "ConvNeXt-T with `--clock processor",
    ),
    "half-zen3.json": Run(
        "2026-11-29",
        ZEN3,
        "half_precision --network efficientnet_b0 mobilenetv2 diffusion_block --tools ours ours-f32 "
        "--clock processor --rounds 9",
    ),
    "networks-half.json": Run(
        "2026-11-28 to 30",
        "Emerald Rapids, one virtual processor each, of large ones up to four; eleven networks on Zen 4",
        "half_zoo`, networks that segment images with `--images 4",
    ),
    "half-server-bf16.json": Run(
        "2026-11-30",
        "Emerald Rapids server, 16 of 32 virtual processors",
        "half_precision --type bf16 --batch 1 8 --threads 16 --tools ours openvino --rounds 7 --burst 0.1 "
        "--jobs 8 --network vae_decoder diffusion_block mobilenetv2 resnet18 resnet50 efficientnet_b0 "
        "convnext_tiny vgg16",
    ),
    "large-kernels.json": Run("2026-11-22", "a CPU with AVX-512", "large_kernels --batch 1"),
    "layers-server-layouts-1.json": Run(
        "2026-11-25", SERVER, "layers --layout nhwc nchw --compilers ours --peers"
    ),
    "layers-server-layouts-8.json": Run(
        "2026-11-25", SERVER, "layers --layout nhwc nchw --compilers ours --peers"
    ),
    "layers-server-layouts-16.json": Run(
        "2026-11-25", SERVER, "layers --layout nhwc nchw --compilers ours --peers"
    ),
    "layers-zen4-registers.json": Run(
        "2026-11-25", ZEN4, "layers --network resnet --batch 1 8 --threads 1 --compilers ours"
    ),
    "layers-zen4-without-avx512-1.json": Run(
        "2026-11-25", "Zen 4 with AVX-512 hidden", "layers --network resnet --batch 1 8 --compilers ours iree"
    ),
    "layers-zen5-1-thread.json": Run(
        "2026-11-22", ZEN5, "layers --network resnet --batch 1 --layout nhwc --compilers ours --rounds 7"
    ),
    "layers.json": Run("2026-11-21", ZEN5, "layers --network resnet vgg --batch 1 8 32 --threads 1"),
    "loss-curves.json": Run("2026-11-22", "a CPU with AVX-512", "loss_curves"),
    "main-loops.json": Run("2026-11-27", "LLVM 19's models of processors", "main_loops"),
    "models-batch-1.json": Run("2026-11-21", ZEN5, "models --batch 1 --threads 1 --rounds 7"),
    "models-batch-8.json": Run("2026-11-21", ZEN5, "models --batch 8 --threads 1 2 --rounds 5"),
    "models-of-people-2-threads.json": Run(
        "2026-11-28",
        f"{SERVER}, torch 2.11",
        "models_of_people --tools ours ours-torch-compile torch onnxruntime openvino "
        "--threads 2 --jobs 7 --seconds 4",
    ),
    "models-of-people-again.json": Run(
        "2026-11-29",
        "two cores of Emerald Rapids, torch 2.13",
        "models_of_people --tools ours onnxruntime openvino --threads 2 --seconds 20",
    ),
    "models-of-people-onnx.json": Run(
        "2026-11-29",
        "a core of Emerald Rapids beside other work, torch 2.13",
        "models_of_people --processor-time --tools ours ours-onnx ours-onnx-dynamo --threads 1 --seconds 15",
    ),
    "models-of-people-processor-time.json": Run(
        "2026-11-29",
        "a core of Emerald Rapids beside other work, torch 2.13",
        "models_of_people --processor-time --tools ours onnxruntime openvino --threads 1 --seconds 4",
    ),
    "models-of-people.json": Run(
        "2026-11-28",
        f"{SERVER}, torch 2.11",
        "models_of_people --threads 1 --jobs 14 --seconds 4 --budget 235",
    ),
    "models-zen4.json": Run("2026-11-21", ZEN4, "models --batch 1 8 --threads 1 2 --rounds 5"),
    "models-zen4-1-thread.json": Run("2026-11-22", ZEN4, "models --batch 1 --threads 1 --rounds 5"),
    "models-zen5-1-thread.json": Run("2026-11-22", ZEN5, "models --batch 1 --threads 1 --rounds 5"),
    "open-sizes-server-16-threads.json": Run(
        "2026-12-01",
        "Emerald Rapids server, all 16 virtual processors, torch 2.11",
        "open_sizes --threads 16 --programs build/open-sizes --tools torch onnxruntime openvino --rounds 5 "
        "--burst 0.02 --network ...` at `fa1bfa57`, `mobilenetv2` with `--rounds 15` at `73457410`, "
        "`deeplab`, `efficientnet` and `wave-u-net` at "
        "`6fb4ec0f`, `dncnn`, `esrgan block` and two U-Nets at `95f1627e",
    ),
    "open-sizes-server-bf16.json": Run(
        "2026-12-01",
        "Emerald Rapids server with AMX, up to five networks side by side on a processor each, torch 2.11",
        "open_sizes --type bf16 --programs build/open-sizes --tools torch openvino --rounds 5 --burst 0.02 "
        "--network ...` at `95f1627e`, `film` and `mobilenetv2` with `--rounds 7 --burst 0.03` at `fa1bfa57",
    ),
    "open-sizes-emerald-rapids-2-threads.json": Run(
        "2026-12-01",
        "Emerald Rapids, two virtual processors beside other work",
        "open_sizes --threads 2 --programs build/open-sizes --tools torch onnxruntime openvino --rounds 7 "
        "--burst 0.03 --network ...` by `chrt -f 1` at `fa9af9bc",
    ),
    "open-sizes-server-8-threads.json": Run(
        "2026-12-01",
        "Emerald Rapids server, 8 of 16 virtual processors, torch 2.11",
        "open_sizes --threads 8 --programs build/open-sizes --tools torch onnxruntime openvino --rounds 5 "
        "--burst 0.02` at `fa1bfa57",
    ),
    "open-sizes-server.json": Run(
        "2026-11-28", SERVER, "open_sizes --rounds 4 --output build/open-sizes.json"
    ),
    "open-sizes-zen3.json": Run(
        "2026-11-29",
        f"{ZEN3}, beside other work",
        "open_sizes --rounds 3 --burst 0.03 --programs build/open-sizes --tools torch onnxruntime openvino",
    ),
    "open-sizes-zen3-inductor.json": Run(
        "2026-11-29",
        f"{ZEN3}, beside other work",
        "open_sizes --rounds 3 --burst 0.03 --programs build/open-sizes --tools inductor --network film",
    ),
    "open-sizes-zen4.json": Run(
        "2026-11-30",
        f"{ZEN4}, beside other work on its other core",
        "open_sizes --programs build/open-sizes --tools torch onnxruntime openvino --burst 0.06` "
        "at `5608465d",
    ),
    "open-sizes-zen4-2-threads.json": Run(
        "2026-11-30",
        f"{ZEN4}, processors near each other",
        "open_sizes --threads 2 --programs build/open-sizes --tools torch onnxruntime openvino --rounds 5 "
        "--burst 0.04 --network ...` by `chrt -f 1` at `bb75e828",
    ),
    "open-sizes-zen4-without-avx512.json": Run(
        "2026-12-01",
        "Zen 4 with AVX-512 hidden, beside other work",
        "open_sizes --programs build/open-sizes --rounds 5 --burst 0.03 --network ...` by `chrt -f 1` at "
        "`a4be0a8d",
    ),
    "open-sizes-zen4-without-avx512-fetched-rows.json": Run(
        "2026-12-01",
        "Zen 4 with AVX-512 hidden, beside other work",
        "open_sizes --programs build/open-sizes --tools torch onnxruntime openvino --rounds 5 --burst 0.03 "
        "--network mobilenetv2` and `... efficientnet` by `chrt -f 1` at `9780e775",
    ),
    "open-sizes-zen4-without-avx512-bf16.json": Run(
        "2026-12-01",
        "Zen 4 with AVX-512 hidden, beside other work",
        "open_sizes --type bf16 --programs build/open-sizes --tools torch openvino --rounds 5 --burst 0.03 "
        "--network ...` by `chrt -f 1` at `95f1627e`, `deeplab` and `unet, nearest` with `--burst 0.05` at "
        "`ecaa8fb6",
    ),
    "open-sizes-zen4-without-avx512-f16.json": Run(
        "2026-12-01",
        "Zen 4 with AVX-512 hidden, beside other work",
        "open_sizes --type f16 --programs build/open-sizes --tools torch openvino --rounds 5 --burst 0.03 "
        "--network mobilenetv2` and `... --rounds 9 --burst 0.05 --network film` by `chrt -f 1` at `ecaa8fb6",
    ),
    "open-sizes-zen4-without-avx512-2-threads.json": Run(
        "2026-12-01",
        "Zen 4 with AVX-512 hidden, beside other work",
        "open_sizes --threads 2 --programs build/open-sizes --rounds 5 --burst 0.03 --network ...` by "
        "`chrt -f 1` at `a4be0a8d`, `wave-u-net` and `efficientnet` at `2b0241a8`, `unet, transposed` at "
        "`7be442ae`, the other U-Nets with `--rounds 7` at `ecaa8fb6",
    ),
    "open-sizes.json": Run(
        "2026-12-01",
        "Emerald Rapids, one virtual processor beside other work",
        "open_sizes --programs build/open-sizes --tools torch onnxruntime openvino --rounds 7 --burst 0.03 "
        "--network ...` at `fa9af9bc",
    ),
    "other-threads-server.json": Run(
        "2026-11-23", SERVER, "other_threads --compiled 16 8 4 --threads 16 8 4 1"
    ),
    "quantized.json": Run(
        "2026-11-28", ZEN3, "quantized --rounds 25 --output benchmarks/results/quantized.json"
    ),
    "quantized-avx512.json": Run(
        "2026-11-29", "Emerald Rapids without bf16 and AMX, beside other work", "quantized --rounds 25"
    ),
    "quantized-zen4.json": Run(
        "2026-11-30", "Zen 4 (AMD EPYC), one virtual processor beside other work", "quantized --rounds 25"
    ),
    "server-conditions.json": Run(
        "2026-11-27", "two processors of Zen 3, on which other work goes on", "server_conditions"
    ),
    "threads-server-1-to-16.json": Run(
        "2026-11-24", SERVER, "threads --ahead --batch 1 8 --threads 16 8 2 1"
    ),
    "threads-server-image-prefetch.json": Run(
        "2026-11-24", SERVER, "threads --ahead --batch 1 8 --threads 16 8 2 1"
    ),
    "threads-server-strides.json": Run(
        "2026-11-24", SERVER, "threads --ahead --batch 1 8 --threads 16 8 2 1"
    ),
    "threads-server-limits.json": Run("2026-11-24", SERVER, "threads --ahead --batch 1 8 --threads 16 8 2 1"),
    "threads-server-registers.json": Run(
        "2026-11-25", SERVER, "threads --batch 1 8 --threads 16 8 2 1 --rounds 3"
    ),
    "threads-zen4-registers.json": Run("2026-11-25", ZEN4, "threads --batch 1 --threads 1 2"),
    "torch-compile-1-2-threads.json": Run(
        "2026-11-22", "Granite Rapids server, 2 virtual processors, torch 2.13", "torch_compile --threads 1 2"
    ),
    "torch-compile-h200-sm_90a.json": Run("2026-11-22", H200, "torch_compile --device cuda --layouts nchw"),
    "torch-compile-sweep.json": Run(
        "2026-11-27", f"{SERVER_64}, torch 2.11", "torch_compile_sweep --jobs 36 --budget 400 --limit 300"
    ),
    "torch-compile-zoo.json": Run("2026-11-22", "one thread", "torch_compile_zoo"),
    "torch-guards.json": Run(
        "2026-11-29", "a core of Emerald Rapids, torch 2.13, other work beside it", "torch_guards"
    ),
    "torch-guards-h200-host.json": Run(
        "2026-11-29",
        "the host of an H200, torch 2.11, while networks compiled beside it, ended after 60 s",
        "torch_guards --jobs 4",
    ),
    "training-server.json": Run("2026-11-23", SERVER, "training"),
    "tuning-1-thread.json": Run("2026-11-21", ZEN4, "tuning --threads 1 --seconds 2"),
    "tuning-1-thread-short.json": Run("2026-11-21", ZEN4, "tuning --threads 1 --seconds 2"),
    "tuning-2-threads.json": Run("2026-11-21", ZEN4, "tuning --threads 2"),
    "zoo-timm.json": Run("2026-11-24", SERVER, "zoo --jobs 12 --seconds 3"),
    "zoo-zen4.json": Run("2026-11-24", ZEN4, "zoo --jobs 2 --seconds 4"),
    "zoo.json": Run("2026-11-24", SERVER, "zoo --jobs 16 --seconds 10"),
}


def caption(files: Sequence[str]) -> list[str]:
    """The lines of a table with the date, machine and command of each file.

    Raises `ValueError` for a file that isn't in `RUNS`.
    """
    unknown = [file for file in files if file not in RUNS]
    if unknown:
        raise ValueError(f"benchmarks/tables/runs.py doesn't say when and where {unknown[0]} was measured")
    heads = ("measured", "on", "by `python -m benchmarks.`", "`benchmarks/results/`")
    runs = ((file, RUNS[file]) for file in files)
    return table(heads, ((run.date, run.machine, f"`{run.command}`", f"`{file}`") for file, run in runs))
