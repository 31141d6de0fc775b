"""What travels to a machine without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu.pack import Plan, prune
from kvrelay.data.versions import versions


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan.read()


def test_what_is_there_what_is_left_out_and_torchs_cuda_stay_behind(plan: Plan) -> None:
    resolved = [
        "vllm==0.26.0",
        "Torch==2.11.0",
        "nvidia-cublas==13.1",
        "tilelang==0.1.9",
        "typing_inspection==0.4.5",
    ]
    assert plan.carried(resolved) == ["vllm==0.26.0", "typing_inspection==0.4.5"]


def test_the_versions_are_those_of_the_container_that_we_test(plan: Plan) -> None:
    held = versions().container
    assert f"ray[serve]=={held.ray}" in plan.requirements
    assert f"vllm=={held.vllm}" in plan.requirements
    assert f"nixl=={held.nixl}" in plan.requirements
    assert plan.torch == held.pytorch


def test_pruning_keeps_hoppers_attention_kernels_and_ucx(plan: Plan, tmp_path: Path) -> None:
    kept = [
        "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so",
        "vllm/_C_stable_libtorch.abi3.so",
        ".nixl_cu13.mesonpy.libs/plugins/libplugin_UCX.so",
        "nixl_cu13.libs/nixl/libplugin_UCX.so",
        "nixl_cu13.libs/ucx/libuct_cuda.so",
        # xgrammar finds its library by it.
        "xgrammar-0.2.7.dist-info/RECORD",
    ]
    dropped = [
        "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so",
        "ray/jars/ray_dist.jar",
        "nixl_cu13.libs/nixl/libplugin_OBJ.so",
        "vllm/__pycache__/envs.cpython-312.pyc",
    ]
    for name in (*kept, *dropped):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    assert prune(tmp_path, plan.drop) == 5 * len(kept)
    assert all((tmp_path / name).exists() for name in kept)
