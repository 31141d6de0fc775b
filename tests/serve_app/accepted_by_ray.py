"""Run by the serving environment: validates Serve configs with Ray's own models, prints the bundles of each engine."""

# ruff: noqa: T201 - its stdout is its answer
# mypy: disable-error-code="import-not-found,import-untyped"

import json
import sys
from pathlib import Path

import yaml
from ray.llm._internal.serve.core.ingress.builder import LLMServingArgs
from ray.llm._internal.serve.serving_patterns.prefill_decode.builder import PDServingArgs
from ray.serve.schema import ServeDeploySchema

bundles = {}
for path in map(Path, sys.argv[1:]):
    config = yaml.safe_load(path.read_text())
    ServeDeploySchema.model_validate(config)
    application = config["applications"][0]
    if application["import_path"].endswith("build_pd_openai_app"):
        args = PDServingArgs.model_validate(application["args"])
        engines = [args.prefill_config, args.decode_config]
    else:
        engines = LLMServingArgs.model_validate(application["args"]).llm_configs
    bundles[path.stem] = [engine.get_engine_config().placement_bundles for engine in engines]
print(json.dumps(bundles))
